//! Signals, as something that can be waited for together with sockets.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::{flag, low_level};

/// Signals that end a client. A key that would send one of them is passed on to the pane instead,
/// so these come from outside.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// The signals that an attached client looks out for, as long as this lives.
#[derive(Debug)]
pub(super) struct Signals {
    wake: UnixStream,
    resized: Arc<AtomicBool>,
    ended: Arc<AtomicUsize>,
    registered: Vec<SigId>,
}

impl Signals {
    /// Begins to look out.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(super) fn new() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let mut signals =
            Self { wake, resized: Arc::default(), ended: Arc::default(), registered: Vec::new() };
        // The flag before the wake-up: whoever wakes must find it set.
        signals.keep(flag::register(SIGWINCH, Arc::clone(&signals.resized))?);
        for signal in ENDING {
            let number = usize::try_from(signal).expect("signal numbers are positive");
            signals.keep(flag::register_usize(signal, Arc::clone(&signals.ended), number)?);
        }
        for signal in ENDING.into_iter().chain([SIGWINCH]) {
            signals.keep(low_level::pipe::register(signal, waker.try_clone()?)?);
        }
        Ok(signals)
    }

    fn keep(&mut self, id: SigId) {
        self.registered.push(id);
    }

    /// Whether the terminal changed its size since the last time somebody asked.
    pub(super) fn take_resized(&self) -> bool {
        self.resized.swap(false, Ordering::SeqCst)
    }

    /// The last signal that wants us to end, since the last time somebody asked.
    pub(super) fn take_ended(&self) -> Option<i32> {
        let signal = self.ended.swap(0, Ordering::SeqCst);
        i32::try_from(signal).ok().filter(|&signal| signal != 0)
    }

    /// Makes the next wait wait again. Comes before the questions, or a signal could be missed.
    pub(super) fn calm(&self) {
        let mut rest = [0; 64];
        while (&self.wake).read(&mut rest).is_ok_and(|read| read > 0) {}
    }
}

impl AsFd for Signals {
    /// Readable when there is something to ask for.
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
