//! Inherited file descriptors.
#![expect(unsafe_code, reason = "closing descriptors by number has no safe form")]

use std::io;

/// Closes all inherited descriptors except the standard three.
///
/// The daemon outlives the client that starts it. An inherited pipe or lock would block other
/// processes for as long as the daemon runs.
///
/// # Errors
///
/// Any error of the operating system.
pub fn close_inherited() -> io::Result<()> {
    // SAFETY: called first in a new process, before it opens descriptors in this range, so no owned
    // descriptor is closed.
    let closed = unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
