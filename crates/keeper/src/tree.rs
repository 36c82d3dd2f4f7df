//! The processes of the pane, and their end.
//!
//! ```text
//!           stop asked, or head ended         grace over
//!  Living -----------------------------> Leaving -------> Killed --+
//!    |                                      |               |      | 20 ms, some left
//!    |                                      |               ^------+
//!    +----------------- none left ----------+---------------+--> empty
//! ```
//!
//! The keeper is the subreaper: a process whose parent ends becomes the keeper's child. So the
//! pane is empty when the keeper has no child left, and the kernel is the one who says so. Only if
//! a daemon was started from within the pane do we have to look for ourselves: it stays our child,
//! and is none of the pane's.

use std::collections::HashSet;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use host::household::Household;
use host::process::{self, Stat};
use rustix::process::{Signal, WaitOptions, WaitStatus, wait};

/// How long to wait before looking again for processes that should be dead.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How often to look for processes that were started while others were being stopped.
const FREEZE_ROUNDS: usize = 50;

/// The process at the head of the pane and everything below it.
#[derive(Debug)]
pub(crate) struct Tree {
    head: u32,
    household: Household,
    ended: Option<WaitStatus>,
    empty: bool,
    /// A child of ours is none of the pane's.
    has_guests: bool,
    stage: Stage,
}

/// How far the end has come. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Living,
    /// Hung up; those that are left at this time are killed.
    Leaving(Instant),
    /// Killed; those that are left at this time are killed again.
    Killed(Instant),
}

impl Tree {
    pub(crate) fn new(head: u32, household: Household) -> Self {
        Self { head, household, ended: None, empty: false, has_guests: false, stage: Stage::Living }
    }

    /// How the head of the pane ended, once it has.
    pub(crate) fn head_ended(&self) -> Option<WaitStatus> {
        self.ended
    }

    /// Whether no process of the pane is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }

    /// Takes leave of every child that has ended.
    pub(crate) fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid.as_raw_nonzero().get().unsigned_abs() == self.head {
                        self.ended = Some(status);
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

    /// Asks every process to leave within `grace`. A second call can only shorten it.
    pub(crate) fn hang_up(&mut self, grace: Duration, now: Instant) {
        let until = now + grace;
        match self.stage {
            Stage::Living => {
                let all = self.look();
                process::signal_all(&all, Signal::HUP);
                // A stopped process takes no hangup until it goes on.
                process::signal_all(&all, Signal::CONT);
                self.stage = Stage::Leaving(until);
            }
            Stage::Leaving(before) => self.stage = Stage::Leaving(before.min(until)),
            Stage::Killed(_) => {}
        }
    }

    /// When [`Tree::insist`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Living => None,
            _ if self.empty => None,
            Stage::Leaving(at) | Stage::Killed(at) => Some(at),
        }
    }

    /// Kills what is left when its time is up.
    pub(crate) fn insist(&mut self, now: Instant) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        let all = self.look();
        // Stopped first, none of them can start another one while we go through the list.
        process::signal_all(&all, Signal::STOP);
        process::signal_all(&all, Signal::KILL);
        self.stage = Stage::Killed(now + LOOK_AGAIN);
    }

    /// Looks whether those that are left are ours to wait for, once the head has ended.
    pub(crate) fn recount(&mut self) {
        if self.stage != Stage::Living && self.has_guests && !self.empty {
            self.look();
        }
    }

    /// Every process of the pane, parents before their children.
    pub(crate) fn members(&mut self) -> Vec<Stat> {
        self.look()
    }

    /// Makes every process stand still. Parents first: none sees its children stop.
    pub(crate) fn freeze(&mut self) {
        let mut stopped = HashSet::new();
        for _ in 0..FREEZE_ROUNDS {
            let mut all = self.look();
            all.retain(|process| stopped.insert((process.pid, process.start)));
            if all.is_empty() {
                return;
            }
            process::signal_all(&all, Signal::STOP);
        }
    }

    /// Lets every process go on. Children first: by the time a parent looks, none stands still.
    pub(crate) fn thaw(&mut self) {
        let mut all = self.look();
        all.reverse();
        process::signal_all(&all, Signal::CONT);
    }

    /// Every process of the pane that is left.
    fn look(&mut self) -> Vec<Stat> {
        let below = process::descendants(std::process::id(), &self.household);
        self.has_guests = below.spared;
        self.empty |= below.found.is_empty() && self.ended.is_some();
        below.found
    }
}

/// Exit code and signal of a status.
pub(crate) fn code_and_signal(status: WaitStatus) -> (Option<i32>, Option<i32>) {
    use std::os::unix::process::ExitStatusExt as _;
    let status = ExitStatus::from_raw(status.as_raw());
    (status.code(), status.signal())
}
