//! Detection of ended panes.
//!
//! One task per live pane waits for its keeper to exit. A keeper that exits normally has written the
//! exit record of its pane. If it was killed, the daemon kills the remaining processes of the pane
//! and writes the record instead. Either way the ending becomes an event exactly once, because the
//! registry stores whether it was recorded.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::file::{self, Durability};
use host::own_processes::OwnProcesses;
use host::record::{self, RecordError};
use host::{clock, process};
use model::{Ending, EndingReason, PaneId, ProcessIdentity};
use protocol::pane::KeeperRecord;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tracing::{info, warn};

use super::conversation::Tracking;
use super::pane::{EXIT_RECORD, Keeper, Life, Pane};
use super::{Panes, limits};
use crate::registry::as_caller;
use crate::runtime::{Runtime, run_blocking};

/// Timeout for processes to disappear after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which the remaining processes are listed.
const KILL_INTERVAL: Duration = Duration::from_millis(2);

impl Panes {
    /// Waits in a background task for the keeper of a pane to exit, and records the ending.
    pub(crate) fn watch(self: &Arc<Self>, pane: &Arc<Pane>, keeper: Arc<Keeper>) {
        let (this, pane) = (Arc::clone(self), Arc::clone(pane));
        self.runtime.tasks.spawn(async move {
            let ended = tokio::select! {
                ended = keeper.ended() => ended,
                () = this.runtime.ending.cancelled() => return,
            };
            if let Err(error) = ended {
                // Its status is then derived on request only.
                pane.set_problem(format!("its keeper cannot be watched: {error}"));
                return warn!(pane = %pane.id, %error, "keeper not watched");
            }
            reap(&keeper);
            // A killed agent leaves its session file; one that exited was read before.
            this.conversations.refresh(&pane, Tracking::Continuous).await;
            pane.set_followed();
            this.record_ending(&pane, Some(keeper.record.clone())).await;
        });
    }

    /// Records how a pane without a keeper ended. Kills its remaining processes if it has no exit
    /// record.
    pub(crate) async fn record_ending(
        self: &Arc<Self>,
        pane: &Arc<Pane>,
        keeper: Option<KeeperRecord>,
    ) {
        let (this, ended) = (Arc::clone(self), Arc::clone(pane));
        let (ending, killed) = run_blocking(move || {
            let found = find_ending(&this.runtime, &ended, keeper.as_ref());
            limits::remove_groups(&ended.dir);
            found
        })
        .await;
        self.report_limits(pane).await;
        info!(pane = %pane.id, session = %pane.session, %ending, killed, "pane ended");
        let (id, recorded) = (pane.id, ending.clone());
        let change = self.registry.change(move |change| change.end(id, &recorded, killed));
        let changed = as_caller(pane.ended_by(), change).await;
        if let Err(error) = changed {
            // The next start of the daemon records it.
            warn!(pane = %id, %error, "pane ending not in the registry");
        }
        self.lifecycle.pane_ended(id).await;
        self.keepers.ended(id);
        self.conversations.unfollow(id);
        self.conversations.claims.release(id);
        pane.publish(Life::Ended(ending));
        self.lifecycle.pane_transitioned(id);
    }

    /// Kills the keeper and all processes of a pane that was not announced.
    pub(crate) async fn kill_unannounced(self: &Arc<Self>, pane: &Pane, keeper: Keeper) {
        kill(&keeper);
        // It exits even if its descriptor cannot be waited on.
        let _exited = keeper.ended().await;
        reap(&keeper);
        let (this, id) = (Arc::clone(self), pane.id);
        let dir = pane.dir.clone();
        run_blocking(move || {
            kill_processes(&this.runtime, id, Some(&keeper.record.child));
            limits::remove_groups(&dir);
        })
        .await;
    }
}

/// Kills a keeper. The task that watches it kills the remaining processes of its pane.
pub(crate) fn kill(keeper: &Keeper) {
    // It may have exited by itself.
    let _killed = pidfd_send_signal(&keeper.pidfd, Signal::KILL);
}

/// Reaps an exited keeper, if it is a child of this daemon.
fn reap(keeper: &Keeper) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    // Fails for a keeper that an earlier daemon started.
    let _not_a_child = waitid(WaitId::PidFd(keeper.pidfd.as_fd()), options);
}

/// Returns the ending of a pane whose keeper left no exit record.
fn lost(pane: &Pane) -> Ending {
    if pane.is_stop_requested() {
        let mut ending = Ending::of(None, None, EndingReason::Stopped, clock::now());
        ending.detail = Some("its keeper did not stop it in time and was killed".to_owned());
        return ending;
    }
    Ending::of(None, None, EndingReason::Lost, clock::now())
}

fn write_exit_record(dir: &Path, ending: &Ending) -> Result<(), file::FileError> {
    if !dir.is_dir() {
        return Ok(());
    }
    record::write(&dir.join(EXIT_RECORD), ending, Durability::PowerLoss)
}

/// Kills all processes of a pane, repeatedly until none is left. Returns their number.
fn kill_all(pane: PaneId, head: Option<u32>, own_processes: &OwnProcesses) -> usize {
    let started = Instant::now();
    let mut killed = HashSet::new();
    loop {
        let left = process::of_pane(pane, head, own_processes);
        if left.is_empty() {
            return killed.len();
        }
        if started.elapsed() > KILL_TIMEOUT {
            warn!(%pane, left = left.len(), "processes survive SIGKILL");
            return killed.len();
        }
        process::signal_all(&left, Signal::KILL);
        killed.extend(left.iter().map(|process| (process.pid, process.start)));
        std::thread::sleep(KILL_INTERVAL);
    }
}

/// Returns whether a terminal session with this id can still belong to the pane: its leader is alive,
/// or the process id was not reused.
fn may_lead(child: &ProcessIdentity) -> bool {
    process::stat(child.pid).is_none_or(|now| now.start == child.start)
}

/// Returns how the pane ended, and the number of processes that were killed.
fn find_ending(runtime: &Runtime, pane: &Pane, keeper: Option<&KeeperRecord>) -> (Ending, usize) {
    let mut lost = lost(pane);
    let child = keeper.map(|keeper| &keeper.child);
    match pane.recorded_ending() {
        Ok(ending) => return (ending, 0),
        Err(RecordError::Missing(_)) => {}
        Err(RecordError::Damaged { path, why }) => {
            warn!(path = %path.display(), %why, "damaged exit record set aside");
            if let Err(error) = file::set_aside(&path, &pane.dir, "exit.json.damaged") {
                warn!(pane = %pane.id, %error, "damaged exit record not set aside");
            }
        }
        Err(error) => {
            // A record that cannot be read must not be replaced.
            lost.detail = Some(error.to_string());
            return (lost, kill_processes(runtime, pane.id, child));
        }
    }
    let killed = kill_processes(runtime, pane.id, child);
    if let Err(error) = write_exit_record(&pane.dir, &lost) {
        warn!(pane = %pane.id, %error, "exit record not written");
    }
    (lost, killed)
}

/// Kills the remaining processes of a pane whose keeper has exited. Returns their number. Blocks.
fn kill_processes(runtime: &Runtime, pane: PaneId, child: Option<&ProcessIdentity>) -> usize {
    if child.is_some_and(|child| child.boot != runtime.boot) {
        return 0;
    }
    let head = child.filter(|child| may_lead(child)).map(|child| child.pid);
    kill_all(pane, head, &runtime.own_processes)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn kill_all_kills_only_processes_of_the_pane() {
        let (ours, other) = (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]));
        let sleeper = |pane: PaneId| {
            // Double-forked, so that it is not a child of this process.
            Command::new("sh")
                .args(["-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"])
                .env("CCMUX_PANE_ID", pane.to_string())
                .stdin(Stdio::null())
                .output()
                .unwrap()
        };
        sleeper(ours);
        sleeper(other);

        let killed = kill_all(ours, None, &OwnProcesses::none());

        let left = process::of_pane(other, None, &OwnProcesses::none()).len();
        assert_eq!((killed, left), (1, 1));
        assert_eq!(kill_all(other, None, &OwnProcesses::none()), 1);
    }
}
