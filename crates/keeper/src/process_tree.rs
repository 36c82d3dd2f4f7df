//! The processes of the pane, and their termination.
//!
//! ```text
//!            stop requested, or head exited       grace period over
//!  Running --------------------------------> HungUp -------> Killed --+
//!    |                                         |               |      | 20 ms, some left
//!    |                                         |               ^------+
//!    +----------------- none left -------------+---------------+--> empty
//! ```
//!
//! The keeper is the subreaper: a process whose parent exits becomes a child of the keeper. The pane
//! is therefore empty when the kernel reports that the keeper has no children. A daemon started from
//! within the pane is an exception: it stays a child of the keeper but does not belong to the pane,
//! so the processes must then be listed.

use std::collections::HashSet;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use host::own_processes::OwnProcesses;
use host::process::{self, Stat};
use rustix::process::{Signal, WaitOptions, WaitStatus, wait};

/// Interval between attempts to kill the remaining processes.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum time to wait for processes to stop during a freeze. One that waits for a disk may take
/// longer.
const MAX_STOP_WAIT: Duration = Duration::from_millis(200);

/// Interval between checks whether a process has stopped.
const STOP_POLL_INTERVAL: Duration = Duration::from_micros(100);

/// Maximum number of passes over the tree while processes keep forking during a freeze.
const MAX_FREEZE_PASSES: usize = 50;

/// The head process of the pane and its descendants.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    head: u32,
    own_processes: OwnProcesses,
    head_status: Option<WaitStatus>,
    empty: bool,
    /// The keeper has children that do not belong to the pane.
    has_foreign_children: bool,
    stage: Stage,
}

/// Stage of termination. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// SIGHUP was sent; the remaining processes are killed at this time.
    HungUp(Instant),
    /// SIGKILL was sent; the remaining processes are killed again at this time.
    Killed(Instant),
}

impl ProcessTree {
    /// Creates a tree with the head process `head`, without the processes of ccmux itself.
    pub(crate) fn new(head: u32, own_processes: OwnProcesses) -> Self {
        Self {
            head,
            own_processes,
            head_status: None,
            empty: false,
            has_foreign_children: false,
            stage: Stage::Running,
        }
    }

    /// Returns the exit status of the head process, once it has exited.
    pub(crate) fn head_status(&self) -> Option<WaitStatus> {
        self.head_status
    }

    /// Returns whether no process of the pane is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }

    /// Reaps all children that have exited.
    pub(crate) fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid.as_raw_nonzero().get().unsigned_abs() == self.head {
                        self.head_status = Some(status);
                    }
                }
                Ok(None) => return,
                Err(_no_child) => {
                    self.empty = true;
                    return;
                }
            }
        }
    }

    /// Hangs up every process and gives it `grace` to exit. A second call can only shorten that.
    pub(crate) fn hang_up(&mut self, grace: Duration, now: Instant) {
        let until = now + grace;
        match self.stage {
            Stage::Running => {
                let all = self.members();
                process::signal_all(&all, Signal::HUP);
                // A stopped process does not receive SIGHUP until it is continued.
                process::signal_all(&all, Signal::CONT);
                self.stage = Stage::HungUp(until);
            }
            Stage::HungUp(before) => self.stage = Stage::HungUp(before.min(until)),
            Stage::Killed(_) => {}
        }
    }

    /// Returns the time at which [`ProcessTree::kill_overdue`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Running => None,
            _ if self.empty => None,
            Stage::HungUp(at) | Stage::Killed(at) => Some(at),
        }
    }

    /// Kills the remaining processes after the grace period.
    pub(crate) fn kill_overdue(&mut self, now: Instant) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        let all = self.members();
        // Stop all of them first, so that none can fork while the others are killed.
        process::signal_all(&all, Signal::STOP);
        process::signal_all(&all, Signal::KILL);
        self.stage = Stage::Killed(now + KILL_INTERVAL);
    }

    /// Checks during termination whether the remaining children belong to the pane.
    pub(crate) fn recount(&mut self) {
        if self.stage != Stage::Running && self.has_foreign_children && !self.empty {
            self.members();
        }
    }

    /// Stops every process, parents first, so that no parent observes its children stop: a shell
    /// would take its foreground job to the background.
    pub(crate) fn freeze(&mut self) {
        let mut stopped = HashSet::new();
        let deadline = Instant::now() + MAX_STOP_WAIT;
        for _ in 0..MAX_FREEZE_PASSES {
            let mut all = self.members();
            all.retain(|process| stopped.insert((process.pid, process.start)));
            if all.is_empty() {
                return;
            }
            for process in all {
                process::signal_all(&[process], Signal::STOP);
                wait_until_stopped(process, deadline);
            }
        }
    }

    /// Continues every process, children first, so that no parent observes a stopped child.
    pub(crate) fn thaw(&mut self) {
        let mut all = self.members();
        all.reverse();
        process::signal_all(&all, Signal::CONT);
    }

    /// Returns every process of the pane, parents before their children.
    pub(crate) fn members(&mut self) -> Vec<Stat> {
        let below = process::descendants(std::process::id(), &self.own_processes);
        self.has_foreign_children = below.skipped;
        self.empty |= below.found.is_empty() && self.head_status.is_some();
        below.found
    }
}

/// Waits until a process that got a stop signal is stopped. A process that was just waiting for its
/// children may otherwise still be told about them.
fn wait_until_stopped(process: Stat, deadline: Instant) {
    // Nothing announces that a process other than a child has stopped.
    let is_running = |now: &Stat| now.start == process.start && !now.stopped && !now.zombie;
    while Instant::now() < deadline && process::stat(process.pid).as_ref().is_some_and(is_running) {
        std::thread::sleep(STOP_POLL_INTERVAL);
    }
}

/// Returns the exit code and the signal of a wait status.
pub(crate) fn code_and_signal(status: WaitStatus) -> (Option<i32>, Option<i32>) {
    use std::os::unix::process::ExitStatusExt as _;
    let status = ExitStatus::from_raw(status.as_raw());
    (status.code(), status.signal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_hang_up_can_only_shorten_the_grace_period() {
        let mut tree = ProcessTree::new(u32::MAX, OwnProcesses::none());
        let now = Instant::now();
        let grace = Duration::from_secs(5);

        assert_eq!(tree.deadline(), None);
        tree.hang_up(grace, now);
        tree.hang_up(grace * 2, now);
        assert_eq!(tree.deadline(), Some(now + grace));
        tree.hang_up(Duration::ZERO, now);
        assert_eq!(tree.deadline(), Some(now));

        tree.kill_overdue(now);
        tree.hang_up(grace, now);
        assert_eq!(tree.deadline(), Some(now + KILL_INTERVAL), "killed again, not hung up");
    }
}
