//! The daemon's view of one pane: its launch record and its keeper.
//!
//! ```text
//!  Starting ---> Live(keeper) ---> Ended(ending) ---> Gone
//!    | ^                             ^   |
//!    | +------- restored ------------|---+
//!    +---> Orphaned -----------------+     (found without a keeper; its processes are being killed)
//! ```
//!
//! [`Life`] says what the daemon does for a pane. The state that clients see is different: each time,
//! [`Pane::status`] derives it from the keeper's process and the exit record.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use host::file::{Durability, FileError};
use host::process::PaneProcesses;
use host::record::{self, RecordError};
use model::authority::Caller;
use model::lifecycle::PaneEvidence;
use model::limits::{Frozen, OverLimit};
use model::{Ending, LaunchRecord, PaneId, PaneState, SessionId};
use parking_lot::{Mutex, MutexGuard};
use protocol::greeting::SUPPORTED;
use protocol::pane::{FROZEN, KeeperRecord, OVER_LIMIT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// File name of the launch record in a pane's directory.
pub(crate) const LAUNCH_RECORD: &str = "pane.json";
/// File name of the record that the keeper writes about itself.
pub(crate) const KEEPER_RECORD: &str = "keeper.json";
/// File name of the exit record.
pub(crate) const EXIT_RECORD: &str = "exit.json";

/// A known pane, shared by all tasks that work on it.
#[derive(Debug)]
pub(crate) struct Pane {
    pub(crate) id: PaneId,
    pub(crate) session: SessionId,
    pub(crate) dir: PathBuf,
    launch: Mutex<Option<Arc<LaunchRecord>>>,
    problem: Mutex<Option<String>>,
    /// A problem with its saved state. In contrast to `problem`, a restart does not clear it.
    state_problem: Mutex<Option<String>>,
    /// The caller that asked for the pane to be stopped.
    stopped_by: Mutex<Option<Caller>>,
    followed: AtomicBool,
    /// Whether the daemon restores it because it was interrupted.
    restored_soon: AtomicBool,
    life: watch::Sender<Life>,
    /// Serialises restoring, migrating and removing the pane. It guards no data: the second of two
    /// removals finds the pane gone, or retries a step that failed.
    pub(crate) lifecycle_lock: tokio::sync::Mutex<()>,
    /// Serialises replacing the saved state and setting it aside.
    pub(crate) state_lock: tokio::sync::Mutex<()>,
}

/// The stage of a pane's life, as far as the daemon is concerned. The module documentation has a
/// diagram.
#[derive(Clone, Debug)]
pub(crate) enum Life {
    /// Its keeper is starting and has not written its record yet.
    Starting,
    /// Its keeper is watched.
    Live(Arc<Keeper>),
    /// It has neither a keeper nor an exit record; its remaining processes are being killed.
    Orphaned,
    /// Its ending is recorded.
    Ended(Ending),
    /// It was removed from the registry.
    Gone(Option<Ending>),
}

/// The keeper of a live pane.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) record: KeeperRecord,
    pub(crate) pidfd: OwnedFd,
}

/// The status of a pane at one moment.
#[derive(Clone, Debug)]
pub(crate) struct PaneStatus {
    pub(crate) state: PaneState,
    pub(crate) keeper: Option<Arc<Keeper>>,
    pub(crate) ending: Option<Ending>,
    pub(crate) frozen: Option<Frozen>,
    pub(crate) over_limit: Option<OverLimit>,
}

impl Pane {
    pub(crate) fn new(id: PaneId, session: SessionId, dir: PathBuf, life: Life) -> Self {
        let (life, _) = watch::channel(life);
        Self {
            id,
            session,
            dir,
            launch: Mutex::new(None),
            problem: Mutex::new(None),
            state_problem: Mutex::new(None),
            stopped_by: Mutex::default(),
            followed: AtomicBool::new(false),
            restored_soon: AtomicBool::new(false),
            life,
            lifecycle_lock: tokio::sync::Mutex::new(()),
            state_lock: tokio::sync::Mutex::new(()),
        }
    }

    /// Returns the launch record, unless it is lost.
    pub(crate) fn launch(&self) -> Option<Arc<LaunchRecord>> {
        self.record().clone()
    }

    pub(crate) fn set_launch(&self, record: LaunchRecord) {
        *self.record() = Some(Arc::new(record));
    }

    /// Changes the launch record in memory and on disk. Returns whether there is one. Blocks.
    ///
    /// # Errors
    ///
    /// [`FileError`]; the record is unchanged in both places.
    pub(crate) fn change_launch(
        &self,
        change: impl FnOnce(&mut LaunchRecord),
    ) -> Result<bool, FileError> {
        // Held while the file is written, so that memory and disk agree on the last change.
        let mut current = self.record();
        let Some(launch) = &*current else { return Ok(false) };
        let mut changed = LaunchRecord::clone(launch);
        change(&mut changed);
        if changed != **launch {
            record::write(&self.dir.join(LAUNCH_RECORD), &changed, Durability::PowerLoss)?;
            *current = Some(Arc::new(changed));
        }
        Ok(true)
    }

    fn record(&self) -> MutexGuard<'_, Option<Arc<LaunchRecord>>> {
        self.launch.lock()
    }

    /// Returns the problem to show to users, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        let own = self.problem.lock().clone();
        own.or_else(|| self.state_problem.lock().clone())
    }

    pub(crate) fn set_state_problem(&self, problem: String) {
        *self.state_problem.lock() = Some(problem);
    }

    pub(crate) fn set_problem(&self, problem: String) {
        *self.problem.lock() = Some(problem);
    }

    pub(crate) fn set_stop_requested(&self, caller: Caller) {
        *self.stopped_by.lock() = Some(caller);
    }

    /// Resets the state of the previous run before the pane is started again.
    pub(crate) fn reset_for_restart(&self) {
        *self.stopped_by.lock() = None;
        self.followed.store(false, Ordering::Relaxed);
        *self.problem.lock() = None;
        self.publish(Life::Starting);
    }

    /// Returns the caller on whose behalf the pane ends: the one that stopped it, or the daemon.
    pub(crate) fn ended_by(&self) -> Caller {
        self.stopped_by.lock().unwrap_or(Caller::Daemon)
    }

    pub(crate) fn is_stop_requested(&self) -> bool {
        self.stopped_by.lock().is_some()
    }

    /// Returns whether its agent was followed until the last run ended.
    pub(crate) fn was_followed(&self) -> bool {
        self.followed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_followed(&self) {
        self.followed.store(true, Ordering::Relaxed);
    }

    /// Returns whether the daemon is about to restore the pane, without a request.
    pub(crate) fn is_restored_soon(&self) -> bool {
        self.restored_soon.load(Ordering::Relaxed)
    }

    pub(crate) fn set_restored_soon(&self, soon: bool) {
        self.restored_soon.store(soon, Ordering::Relaxed);
    }

    pub(crate) fn life(&self) -> Life {
        self.life.borrow().clone()
    }

    /// Returns whether the pane is being started or was not seen to end. Makes no system call.
    pub(crate) fn is_starting_or_live(&self) -> bool {
        matches!(*self.life.borrow(), Life::Starting | Life::Live(_))
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Life> {
        self.life.subscribe()
    }

    pub(crate) fn publish(&self, life: Life) {
        self.life.send_replace(life);
    }

    /// Derives the status from the keeper process and the exit record. Blocks.
    pub(crate) fn status(&self) -> PaneStatus {
        let (alive, keeper, ending) = match self.life() {
            Life::Starting => (true, None, None),
            Life::Orphaned => (false, None, None),
            Life::Ended(ending) | Life::Gone(Some(ending)) => (false, None, Some(ending)),
            Life::Gone(None) => (false, None, None),
            // Checked before the exit record is read, which the keeper writes before it exits.
            Life::Live(keeper) => (keeper.is_alive(), Some(keeper), self.recorded_ending().ok()),
        };
        let frozen = keeper.as_ref().and_then(|_| record::read(&self.dir.join(FROZEN)).ok());
        let state = PaneState::derive(PaneEvidence {
            keeper_alive: alive,
            keeper_recorded: keeper.is_some(),
            stop_asked: self.is_stop_requested(),
            frozen: frozen.is_some(),
            ending: ending.as_ref(),
        });
        let frozen = frozen.filter(|_| state == PaneState::Frozen);
        let over_limit = keeper.as_ref().filter(|_| state.is_live());
        let over_limit = over_limit.and_then(|_| record::read(&self.dir.join(OVER_LIMIT)).ok());
        PaneStatus { state, keeper, ending, frozen, over_limit }
    }

    /// Returns the processes that end with the pane, if it is live.
    pub(crate) fn processes(&self) -> Option<PaneProcesses> {
        let Life::Live(keeper) = self.life() else { return None };
        let KeeperRecord { keeper, child, .. } = &keeper.record;
        Some(PaneProcesses { pane: self.id, keeper: keeper.pid, head: child.pid })
    }

    /// Reads the exit record.
    pub(crate) fn recorded_ending(&self) -> Result<Ending, RecordError> {
        record::read(&self.dir.join(EXIT_RECORD))
    }

    /// Waits until the pane has ended and its ending is recorded.
    pub(crate) async fn ended(&self) -> Option<Ending> {
        let mut life = self.watch();
        let ended = life
            .wait_for(|life| matches!(life, Life::Ended(_) | Life::Gone(_)))
            .await
            .expect("the pane holds the sender");
        match &*ended {
            Life::Ended(ending) | Life::Gone(Some(ending)) => Some(ending.clone()),
            Life::Starting | Life::Live(_) | Life::Orphaned | Life::Gone(None) => None,
        }
    }
}

impl Keeper {
    /// Opens the process of a keeper by its record. Returns `None` if it has exited.
    pub(crate) fn find(record: KeeperRecord) -> Option<Self> {
        let pidfd = host::process::open(&record.keeper)?;
        Some(Self { record, pidfd })
    }

    /// Returns whether its process is alive.
    pub(crate) fn is_alive(&self) -> bool {
        let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
        // The descriptor becomes readable when the process ends.
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }

    /// Waits until its process has exited.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        process_ended(self.pidfd.as_fd()).await
    }

    /// Returns why this daemon cannot communicate with it, if the protocol versions do not match.
    pub(crate) fn incompatible(&self) -> Option<String> {
        let KeeperRecord { protocol, version, .. } = &self.record;
        SUPPORTED.common(*protocol).is_none().then(|| {
            format!(
                "its keeper (ccmux {version}) uses protocol {protocol}, but this daemon supports \
                 {SUPPORTED}; the pane can only be stopped"
            )
        })
    }
}

/// Waits until a process has exited.
pub(crate) async fn process_ended(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    let descriptor = pidfd.try_clone_to_owned()?;
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for a guarantee that an owned descriptor gives already"
    )]
    let watched = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    drop(watched.readable().await?);
    Ok(())
}

/// Returns the directory of a pane's output log.
pub(crate) fn log_dir(dir: &Path) -> PathBuf {
    dir.join("log")
}

#[cfg(test)]
mod tests {
    use model::EndingReason;

    use super::*;

    fn pane(dir: &Path, life: Life) -> Pane {
        let (id, session) = (PaneId::from_random([1; 16]), SessionId::from_random([2; 16]));
        Pane::new(id, session, dir.to_owned(), life)
    }

    #[test]
    fn status_without_keeper_is_derived_from_ending() {
        let exited = Ending::of(Some(0), None, EndingReason::Exited, host::clock::now());
        let lost = Ending::of(None, None, EndingReason::Lost, host::clock::now());
        let cases = [
            (Life::Starting, PaneState::Starting),
            (Life::Orphaned, PaneState::Lost),
            (Life::Ended(exited.clone()), PaneState::Exited),
            (Life::Ended(lost), PaneState::Lost),
            (Life::Gone(Some(exited)), PaneState::Exited),
        ];
        for (life, expected) in cases {
            let text = format!("{life:?}");

            let status = pane(Path::new("/nonexistent"), life).status();

            assert_eq!(status.state, expected, "{text}");
            assert!(status.keeper.is_none() && status.frozen.is_none());
        }
    }

    #[test]
    fn reset_for_restart_keeps_only_the_state_problem() {
        let pane = pane(Path::new("/nonexistent"), Life::Orphaned);
        pane.set_stop_requested(Caller::LocalUser);
        pane.set_followed();
        pane.set_problem("of this run".to_owned());
        pane.set_state_problem("of the saved state".to_owned());
        assert_eq!(pane.problem().as_deref(), Some("of this run"));

        pane.reset_for_restart();

        assert!(!pane.is_stop_requested() && !pane.was_followed());
        assert!(matches!(pane.life(), Life::Starting));
        assert_eq!(pane.problem().as_deref(), Some("of the saved state"));
    }

    #[tokio::test]
    async fn ended_returns_ending_once_it_is_published() {
        let pane = pane(Path::new("/nonexistent"), Life::Orphaned);
        let ending = Ending::of(Some(3), None, EndingReason::Exited, host::clock::now());

        let (ended, ()) = tokio::join!(pane.ended(), async {
            pane.publish(Life::Ended(ending.clone()));
        });

        assert_eq!(ended, Some(ending));
    }
}
