//! Signals as a pollable descriptor.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::{flag, low_level};

/// Signals that end a client. Keys such as ctrl-c are passed to the pane, so these signals come from
/// other processes.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Handlers for the signals of an attached client, removed on drop.
#[derive(Debug)]
pub(super) struct Signals {
    wake: UnixStream,
    resized: Arc<AtomicBool>,
    ended: Arc<AtomicUsize>,
    registered: Vec<SigId>,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub(super) fn new() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let mut signals =
            Self { wake, resized: Arc::default(), ended: Arc::default(), registered: Vec::new() };
        // Register flags before wake-ups: handlers run in this order, and the flag must be set
        // when the descriptor becomes readable.
        signals.track(flag::register(SIGWINCH, Arc::clone(&signals.resized))?);
        for signal in ENDING {
            let number = usize::try_from(signal).expect("signal numbers are positive");
            signals.track(flag::register_usize(signal, Arc::clone(&signals.ended), number)?);
        }
        for signal in ENDING.into_iter().chain([SIGWINCH]) {
            signals.track(low_level::pipe::register(signal, waker.try_clone()?)?);
        }
        Ok(signals)
    }

    fn track(&mut self, id: SigId) {
        self.registered.push(id);
    }

    /// Returns whether the terminal was resized since the last call.
    pub(super) fn take_resized(&self) -> bool {
        self.resized.swap(false, Ordering::SeqCst)
    }

    /// Returns the last ending signal since the last call.
    pub(super) fn take_ending(&self) -> Option<i32> {
        let signal = self.ended.swap(0, Ordering::SeqCst);
        i32::try_from(signal).ok().filter(|&signal| signal != 0)
    }

    /// Discards all signals so far, except a change of the size.
    pub(super) fn discard(&self) {
        self.drain();
        self.ended.store(0, Ordering::SeqCst);
    }

    /// Drains the descriptor. Call this before the `take_` functions so that no signal is missed.
    pub(super) fn drain(&self) {
        let mut rest = [0; 64];
        while (&self.wake).read(&mut rest).is_ok_and(|read| read > 0) {}
    }
}

impl AsFd for Signals {
    /// Readable when a signal has arrived.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for &id in &self.registered {
            low_level::unregister(id);
        }
    }
}
