//! What every part of the daemon shares.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::furnish::Digests;
use host::household::Household;
use host::{StateRoot, hooks};
use model::PaneId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::commons::Commons;
use crate::conversation::Claims;
use crate::follow::Follower;
use crate::http::Http;
use crate::locks::Locks;
use crate::messages::Messages;
use crate::once::Turns;
use crate::pane::Pane;
use crate::ports::Ports;
use crate::probe::Probes;
use crate::registry::Registry;
use crate::session::Conditions;
use crate::state::States;
use crate::watchman::Watchman;

/// The daemon, once it runs.
pub(crate) struct Supervisor {
    pub(crate) root: StateRoot,
    /// The program that is started as keeper.
    pub(crate) exe: PathBuf,
    /// The daemon and the keepers, which go with no pane.
    pub(crate) household: Household,
    /// The boot we are in: processes of another one are dead.
    pub(crate) boot: String,
    pub(crate) registry: Registry,
    /// Who has locked what.
    pub(crate) locks: Locks,
    /// What panes have to say to each other.
    pub(crate) messages: Messages,
    /// Which live pane has which conversation.
    pub(crate) claims: Claims,
    /// Who is at work on what nobody else may begin.
    pub(crate) turns: Turns,
    /// Which pane has which ports.
    pub(crate) ports: Ports,
    /// Whose directories were found whole.
    pub(crate) conditions: Conditions,
    /// Whose saved state is out of date.
    pub(crate) states: States,
    pub(crate) follower: Follower,
    /// Watches over files that panes hold.
    pub(crate) watchman: Watchman,
    /// Watches over trees that panes share.
    pub(crate) commons: Commons,
    /// What was read of the user's own files.
    pub(crate) digests: Arc<Digests>,
    /// What is known of the agents' programs.
    pub(crate) probes: Probes,
    /// The HTTP API, where it listens.
    pub(crate) http: Http,
    pub(crate) tasks: TaskTracker,
    /// No new work is taken on.
    pub(crate) stopping: CancellationToken,
    /// Everything that was asked for is answered; what only watches may end.
    pub(crate) ending: CancellationToken,
    /// Held by whoever moves or deletes what nobody needs: one at a time.
    pub(crate) tidying: tokio::sync::Mutex<()>,
    /// Held by whoever tells what keepers found about limits: everything once.
    pub(crate) limit_news: tokio::sync::Mutex<()>,
    /// What could not be moved or deleted, and was told of.
    pub(crate) complained: Mutex<HashSet<PathBuf>>,
    /// Recovery is complete.
    pub(crate) recovered: watch::Sender<bool>,
    panes: Mutex<HashMap<PaneId, Arc<Pane>>>,
    problems: Mutex<Vec<String>>,
}

impl Supervisor {
    pub(crate) fn new(
        root: StateRoot,
        exe: PathBuf,
        boot: String,
        registry: Registry,
        locks: Locks,
        follower: Follower,
        (tasks, ending): (TaskTracker, CancellationToken),
    ) -> Self {
        // As it is spelt in the environment of every keeper.
        let household = Household::of(&root.path().to_string_lossy());
        let watchman = Watchman::new(household.clone());
        let commons = Commons::new(watchman.held(), household.clone());
        let messages = Messages::new(root.clone());
        Self {
            http: Http::new(&root),
            root,
            household,
            exe,
            boot,
            registry,
            locks,
            messages,
            claims: Claims::default(),
            turns: Turns::default(),
            ports: Ports::default(),
            conditions: Conditions::default(),
            states: States::default(),
            follower,
            watchman,
            commons,
            digests: Arc::default(),
            probes: Probes::default(),
            tasks,
            stopping: CancellationToken::new(),
            ending,
            tidying: tokio::sync::Mutex::default(),
            limit_news: tokio::sync::Mutex::default(),
            complained: Mutex::default(),
            recovered: watch::channel(false).0,
            panes: Mutex::default(),
            problems: Mutex::default(),
        }
    }

    /// One that is alone with an empty registry, for tests of what needs no pane.
    #[cfg(test)]
    pub(crate) fn without_panes(home: &std::path::Path) -> Self {
        let root = StateRoot::open(home).unwrap();
        let registry = Registry::start(host::store::Store::open(&root).unwrap().store).unwrap();
        let (locks, (follower, _news)) = (Locks::closed(), Follower::new());
        let (exe, boot) = (PathBuf::new(), String::new());
        Self::new(root, exe, boot, registry, locks, follower, Default::default())
    }

    fn panes(&self) -> MutexGuard<'_, HashMap<PaneId, Arc<Pane>>> {
        self.panes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pane with this id, if the daemon is busy with it.
    pub(crate) fn pane(&self, id: PaneId) -> Option<Arc<Pane>> {
        self.panes().get(&id).cloned()
    }

    pub(crate) fn add(&self, pane: Arc<Pane>) {
        self.panes().insert(pane.id, pane);
    }

    /// A pane is gone, and what was only its own with it.
    pub(crate) fn forget(&self, id: PaneId) {
        self.panes().remove(&id);
        self.ports.release(id);
    }

    /// Every pane that the daemon is busy with, alive or not.
    pub(crate) fn every_pane(&self) -> Vec<Arc<Pane>> {
        self.panes().values().cloned().collect()
    }

    /// How many panes are alive.
    pub(crate) fn count_live(&self) -> usize {
        let panes: Vec<Arc<Pane>> = self.panes().values().cloned().collect();
        panes.iter().filter(|pane| pane.look().state.is_live()).count()
    }

    /// What could not be read at the start, for people.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add_problem(&self, problem: String) {
        tracing::warn!("{problem}");
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
    }
}

/// A point that a test may hold us at, without holding anybody else.
pub(crate) async fn point(name: &'static str) {
    if hooks::dir().is_some() {
        run_blocking(move || hooks::point(name)).await;
    }
}

/// Runs what blocks beside the workers of the runtime. A panic in it goes on in the caller.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only at the end of the runtime, when nobody is left to see it.
            Err(_) => std::future::pending().await,
        },
    }
}
