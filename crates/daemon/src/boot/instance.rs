//! The running daemon of a state root, found by its lock when its socket cannot be used.

use std::path::Path;
use std::time::Duration;

use host::{lock, process};
use model::ProcessIdentity;
use protocol::control::SOCKET;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};

/// The lock file that a daemon holds while it runs.
pub(super) const LOCK: &str = "daemon.lock";

/// The process that holds the instance lock of a state root.
#[derive(Clone, Debug)]
pub struct RunningDaemon(ProcessIdentity);

impl RunningDaemon {
    /// Finds the daemon of the state root `home`.
    #[must_use]
    pub fn find(home: &Path) -> Option<Self> {
        let pid = lock::holder(&home.join("run").join(LOCK))?;
        process::identify(pid).ok().map(Self)
    }

    /// Returns its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Returns whether it is stopped by a signal, so that it answers no request.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        process::is_stopped(&self.0)
    }

    /// Asks it to end, without its socket. Returns whether it has ended in time. Panes continue.
    #[must_use]
    pub fn terminate(&self, timeout: Duration) -> bool {
        let Some(pidfd) = process::open(&self.0) else { return true };
        // It may have ended by itself.
        let _ended = pidfd_send_signal(&pidfd, Signal::TERM);
        let timeout = Timespec::try_from(timeout).ok();
        matches!(poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], timeout.as_ref()), Ok(1..))
    }

    /// Asks it to create its control socket again if that is missing in `home`.
    pub(super) fn restore_socket(&self, home: &Path) {
        if home.join("run").join(SOCKET).symlink_metadata().is_err() {
            process::signal(&self.0, Signal::HUP);
        }
    }
}
