//! Descriptors that a process was born with.
#![expect(unsafe_code, reason = "closing descriptors by number is beyond what types can promise")]

use std::io;

/// Closes everything beyond the standard three that whoever started us left open.
///
/// A daemon lives on when its client is gone. A pipe or a lock of the client's that it held open
/// would keep others waiting for ever.
///
/// # Errors
///
/// The system's.
pub fn close_inherited() -> io::Result<()> {
    // SAFETY: called first thing in a process of its own, before anything here has opened a
    // descriptor that could be in the range; no owned descriptor is closed behind its owner.
    let closed = unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
