//! Seeing panes end.
//!
//! One task per live pane waits for the end of its keeper. A keeper that leaves in good order has
//! written how its pane ended. One that was killed has not: then what is left of the pane is ended
//! too, and that is put on record in its stead. Either way the ending becomes an event exactly
//! once, because the registry remembers that it was told.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::file::{self, Survive};
use host::household::Household;
use host::record::{self, RecordError};
use host::{clock, process};
use model::{Ending, EndingReason, PaneId, ProcessIdentity};
use protocol::pane::KeeperRecord;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tracing::{info, warn};

use crate::command::limits;
use crate::conversation::Seen;
use crate::pane::{EXIT_RECORD, Keeper, Life, Pane};
use crate::supervisor::{Supervisor, run_blocking};

/// How long processes may take to be gone after they were killed.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked whether they are.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

impl Supervisor {
    /// Waits, in a task of its own, for the end of a pane's keeper.
    pub(crate) fn watch(self: &Arc<Self>, pane: &Arc<Pane>, keeper: Arc<Keeper>) {
        let (this, pane) = (Arc::clone(self), Arc::clone(pane));
        self.tasks.spawn(async move {
            let ended = tokio::select! {
                ended = keeper.ended() => ended,
                () = this.ending.cancelled() => return,
            };
            if let Err(error) = ended {
                // Without a descriptor to wait on, its end is seen when somebody next asks.
                pane.set_problem(format!("it cannot be watched: {error}"));
                return warn!(pane = %pane.id, %error, "cannot be watched");
            }
            reap(&keeper);
            // What its agent said last is still there if it was killed, and known otherwise.
            this.refresh_conversation(&pane, Seen::Watched).await;
            pane.set_followed();
            this.settle(&pane, Some(keeper.record.clone())).await;
        });
    }

    /// Puts on record how a pane without a keeper ended, and ends what is left of it if nobody
    /// else did.
    pub(crate) async fn settle(self: &Arc<Self>, pane: &Arc<Pane>, keeper: Option<KeeperRecord>) {
        let (this, looked_at) = (Arc::clone(self), Arc::clone(pane));
        let (ending, killed) = run_blocking(move || {
            let found = this.find_ending(&looked_at, keeper.as_ref());
            limits::remove_groups(&looked_at.dir);
            found
        })
        .await;
        self.tell_limit_news(pane).await;
        info!(pane = %pane.id, %ending, killed, "ended");
        let (id, told) = (pane.id, ending.clone());
        let recorded = self.registry.change(move |change| change.end(id, &told, killed)).await;
        if let Err(error) = recorded {
            // The next daemon will tell of it.
            warn!(pane = %id, %error, "the ending is not in the registry");
        }
        self.locks.pane_ended(id).await;
        self.unfollow(id);
        self.watchman.leave(id);
        self.claims.release(id);
        pane.publish(Life::Ended(ending));
        self.note_step(id);
    }

    /// Ends a keeper and everything of its pane, of which nobody knows.
    pub(crate) async fn end_unknown(self: &Arc<Self>, pane: &Pane, keeper: Keeper) {
        kill(&keeper);
        // Its end is certain; a descriptor that cannot be waited on changes nothing.
        let _ended = keeper.ended().await;
        reap(&keeper);
        let (this, id) = (Arc::clone(self), pane.id);
        let dir = pane.dir.clone();
        run_blocking(move || {
            this.end_processes(id, Some(&keeper.record.child));
            limits::remove_groups(&dir);
        })
        .await;
    }

    /// How the pane ended, and how many of its processes had to be killed.
    fn find_ending(&self, pane: &Pane, keeper: Option<&KeeperRecord>) -> (Ending, usize) {
        let mut lost = lost(pane);
        let child = keeper.map(|keeper| &keeper.child);
        match pane.recorded_ending() {
            Ok(ending) => return (ending, 0),
            Err(RecordError::Missing(_)) => {}
            Err(RecordError::Damaged { path, why }) => {
                warn!(path = %path.display(), %why, "set aside");
                if let Err(error) = file::set_aside(&path, &pane.dir, "exit.json.damaged") {
                    warn!(%error, "cannot be set aside");
                }
            }
            Err(error) => {
                // What cannot be read must not be replaced either.
                lost.detail = Some(error.to_string());
                return (lost, self.end_processes(pane.id, child));
            }
        }
        let killed = self.end_processes(pane.id, child);
        if let Err(error) = record_ending(&pane.dir, &lost) {
            warn!(pane = %pane.id, %error, "the ending is not on record");
        }
        (lost, killed)
    }

    /// Ends what is left of a pane whose keeper is gone; how many processes it were. Blocks.
    fn end_processes(&self, pane: PaneId, child: Option<&ProcessIdentity>) -> usize {
        if child.is_some_and(|child| child.boot != self.boot) {
            return 0;
        }
        let head = child.filter(|child| may_lead(child)).map(|child| child.pid);
        end_all(pane, head, &self.household)
    }
}

/// Kills a keeper; what is left of its pane is ended by who watches it.
pub(crate) fn kill(keeper: &Keeper) {
    // It may have ended by itself, which is as good.
    let _ended = pidfd_send_signal(&keeper.pidfd, Signal::KILL);
}

/// Takes the ended keeper out of the process table, if it is our child.
fn reap(keeper: &Keeper) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    // A keeper that an earlier daemon started is somebody else's child.
    let _others = waitid(WaitId::PidFd(keeper.pidfd.as_fd()), options);
}

/// The ending that nobody saw.
fn lost(pane: &Pane) -> Ending {
    if pane.was_asked_to_stop() {
        let mut ending = Ending::of(None, None, EndingReason::Stopped, clock::now());
        ending.detail = Some("its keeper did not answer and was killed".to_owned());
        return ending;
    }
    Ending::of(None, None, EndingReason::Lost, clock::now())
}

fn record_ending(dir: &Path, ending: &Ending) -> Result<(), file::FileError> {
    if !dir.is_dir() {
        return Ok(());
    }
    record::write(&dir.join(EXIT_RECORD), ending, Survive::PowerLoss)
}

/// Kills every process of a pane until none is left; how many it were.
fn end_all(pane: PaneId, head: Option<u32>, household: &Household) -> usize {
    let begun = Instant::now();
    let mut killed = HashSet::new();
    loop {
        let left = process::of_pane(pane, head, household);
        if left.is_empty() {
            return killed.len();
        }
        if begun.elapsed() > KILL_PATIENCE {
            warn!(%pane, left = left.len(), "processes do not go away");
            return killed.len();
        }
        process::signal_all(&left, Signal::KILL);
        killed.extend(left.iter().map(|process| (process.pid, process.start)));
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Whether the terminal session with this number can still be the pane's: its leader lives, or the
/// number is not in use by another process. A number that was given away leads strangers.
fn may_lead(child: &ProcessIdentity) -> bool {
    process::stat(child.pid).is_none_or(|now| now.start == child.start)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_carries_the_mark_of_a_pane_is_ended_and_nothing_else() {
        let (ours, other) = (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]));
        let sleeper = |pane: PaneId| {
            // Double-forked, so that it is nobody's child.
            Command::new("sh")
                .args(["-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"])
                .env("CCMUX_PANE_ID", pane.to_string())
                .stdin(Stdio::null())
                .output()
                .unwrap()
        };
        sleeper(ours);
        sleeper(other);

        let killed = end_all(ours, None, &Household::nobody());

        let left = process::of_pane(other, None, &Household::nobody()).len();
        assert_eq!((killed, left), (1, 1));
        assert_eq!(end_all(other, None, &Household::nobody()), 1);
    }
}
