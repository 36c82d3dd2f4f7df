//! A pane, as the daemon sees it: what it was started as, and who keeps it.
//!
//! ```text
//!  Starting ---> Live(keeper) ---> Ended(ending) ---> Gone
//!    | ^                             ^   |
//!    | +------- restored ------------|---+
//!    +---> Orphaned -----------------+     (found without a keeper; its processes are being ended)
//! ```
//!
//! This is what the daemon is *busy with*, not the pane's state: the state is derived by
//! [`Pane::look`] from the keeper's process and the record of the ending, each time somebody asks.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::file::{FileError, Survive};
use host::record::{self, RecordError};
use model::lifecycle::Evidence;
use model::limits::Frozen;
use model::{Ending, LaunchRecord, PaneId, PaneState, SessionId};
use protocol::greeting::SPOKEN;
use protocol::pane::{FROZEN, KeeperRecord};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// The launch record in a pane's directory.
pub(crate) const LAUNCH_RECORD: &str = "pane.json";
/// The keeper's record of itself.
pub(crate) const KEEPER_RECORD: &str = "keeper.json";
/// The record of the ending.
pub(crate) const EXIT_RECORD: &str = "exit.json";

/// A pane. Shared by everybody who works on it.
#[derive(Debug)]
pub(crate) struct Pane {
    pub(crate) id: PaneId,
    pub(crate) session: SessionId,
    pub(crate) dir: PathBuf,
    launch: Mutex<Option<Arc<LaunchRecord>>>,
    problem: Mutex<Option<String>>,
    /// What is wrong with its saved state: of another life of the pane, too.
    state_problem: Mutex<Option<String>>,
    stop_asked: AtomicBool,
    followed: AtomicBool,
    life: watch::Sender<Life>,
    /// Held by whoever removes the pane. It guards no data: a second one waits for its turn and
    /// then finds the pane gone, or tries again what the first one could not do.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Held by whoever looks at the saved state in order to replace it or to set it aside.
    pub(crate) saving: tokio::sync::Mutex<()>,
}

/// What the daemon is busy with. See the module documentation for the diagram.
#[derive(Clone, Debug)]
pub(crate) enum Life {
    /// Its keeper is being started, or has not yet said who it is.
    Starting,
    /// Its keeper is watched.
    Live(Arc<Keeper>),
    /// It has no keeper and no record of an ending; what is left of it is being ended.
    Orphaned,
    /// Its ending is recorded.
    Ended(Ending),
    /// It is no longer in the registry.
    Gone(Option<Ending>),
}

/// The keeper of a live pane.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) record: KeeperRecord,
    pub(crate) pidfd: OwnedFd,
}

/// What can be seen of a pane now.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    pub(crate) state: PaneState,
    pub(crate) keeper: Option<Arc<Keeper>>,
    pub(crate) ending: Option<Ending>,
    pub(crate) frozen: Option<Frozen>,
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
            stop_asked: AtomicBool::new(false),
            followed: AtomicBool::new(false),
            life,
            turn: tokio::sync::Mutex::new(()),
            saving: tokio::sync::Mutex::new(()),
        }
    }

    /// What it was started as, unless that record is damaged.
    pub(crate) fn launch(&self) -> Option<Arc<LaunchRecord>> {
        self.record().clone()
    }

    pub(crate) fn set_launch(&self, record: LaunchRecord) {
        *self.record() = Some(Arc::new(record));
    }

    /// Changes the launch record, here and on disk; whether there is one. Blocks.
    ///
    /// # Errors
    ///
    /// [`FileError`]; it is then as it was in both places.
    pub(crate) fn change_launch(
        &self,
        change: impl FnOnce(&mut LaunchRecord),
    ) -> Result<bool, FileError> {
        // Held while the file is written: the last change is the last one there too.
        let mut held = self.record();
        let Some(launch) = &*held else { return Ok(false) };
        let mut changed = LaunchRecord::clone(launch);
        change(&mut changed);
        if changed != **launch {
            record::write(&self.dir.join(LAUNCH_RECORD), &changed, Survive::PowerLoss)?;
            *held = Some(Arc::new(changed));
        }
        Ok(true)
    }

    fn record(&self) -> MutexGuard<'_, Option<Arc<LaunchRecord>>> {
        self.launch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with it, for people.
    pub(crate) fn problem(&self) -> Option<String> {
        let own = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        own.or_else(|| self.state_problem.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    pub(crate) fn set_state_problem(&self, problem: String) {
        *self.state_problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
    }

    pub(crate) fn set_problem(&self, problem: String) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
    }

    pub(crate) fn ask_to_stop(&self) {
        self.stop_asked.store(true, Ordering::Relaxed);
    }

    /// It is being started again: nobody has asked for this life to end.
    pub(crate) fn begin_again(&self) {
        for flag in [&self.stop_asked, &self.followed] {
            flag.store(false, Ordering::Relaxed);
        }
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.publish(Life::Starting);
    }

    pub(crate) fn was_asked_to_stop(&self) -> bool {
        self.stop_asked.load(Ordering::Relaxed)
    }

    /// What its agent says was read to the end of its last life.
    pub(crate) fn was_followed(&self) -> bool {
        self.followed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_followed(&self) {
        self.followed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn life(&self) -> Life {
        self.life.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Life> {
        self.life.subscribe()
    }

    pub(crate) fn publish(&self, life: Life) {
        self.life.send_replace(life);
    }

    /// The state, from what can be seen at this moment.
    pub(crate) fn look(&self) -> Sight {
        let (alive, keeper, ending) = match self.life() {
            Life::Starting => (true, None, None),
            Life::Orphaned => (false, None, None),
            Life::Ended(ending) | Life::Gone(Some(ending)) => (false, None, Some(ending)),
            Life::Gone(None) => (false, None, None),
            // Asked for before the ending is looked for: the keeper writes it before it leaves.
            Life::Live(keeper) => (keeper.is_alive(), Some(keeper), self.recorded_ending().ok()),
        };
        let frozen = keeper.as_ref().and_then(|_| record::read(&self.dir.join(FROZEN)).ok());
        let state = PaneState::derive(Evidence {
            keeper_alive: alive,
            keeper_recorded: keeper.is_some(),
            stop_asked: self.was_asked_to_stop(),
            frozen: frozen.is_some(),
            ending: ending.as_ref(),
        });
        let frozen = frozen.filter(|_| state == PaneState::Frozen);
        Sight { state, keeper, ending, frozen }
    }

    /// The ending that the pane's directory records.
    pub(crate) fn recorded_ending(&self) -> Result<Ending, RecordError> {
        record::read(&self.dir.join(EXIT_RECORD))
    }

    /// Waits until the pane has ended and that is recorded.
    pub(crate) async fn ended(&self) -> Option<Ending> {
        let mut life = self.watch();
        let over = life
            .wait_for(|life| matches!(life, Life::Ended(_) | Life::Gone(_)))
            .await
            .expect("the pane holds the sender");
        match &*over {
            Life::Ended(ending) | Life::Gone(Some(ending)) => Some(ending.clone()),
            Life::Starting | Life::Live(_) | Life::Orphaned | Life::Gone(None) => None,
        }
    }
}

impl Keeper {
    /// The keeper that recorded itself, if it still lives.
    pub(crate) fn find(record: KeeperRecord) -> Option<Self> {
        let pidfd = host::process::open(&record.keeper)?;
        Some(Self { record, pidfd })
    }

    /// Whether its process has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
        // The descriptor becomes readable when the process ends.
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }

    /// Waits for the end of its process.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        process_ended(self.pidfd.as_fd()).await
    }

    /// Why this daemon cannot talk to it, if it cannot.
    pub(crate) fn incompatible(&self) -> Option<String> {
        let KeeperRecord { protocol, version, .. } = &self.record;
        SPOKEN.common(*protocol).is_none().then(|| {
            format!(
                "its keeper is ccmux {version} and speaks protocol {protocol}, this daemon speaks \
                 {SPOKEN}; it can be stopped, not used"
            )
        })
    }
}

/// Waits for the end of a process.
pub(crate) async fn process_ended(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    let descriptor = pidfd.try_clone_to_owned()?;
    #[expect(
        deprecated,
        reason = "its unsafe successor asks for what an owned descriptor promises by itself"
    )]
    let watched = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    drop(watched.readable().await?);
    Ok(())
}

/// The log of a pane.
pub(crate) fn log_dir(dir: &Path) -> PathBuf {
    dir.join("log")
}
