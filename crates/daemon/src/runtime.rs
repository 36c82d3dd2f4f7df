//! The context that all services share: the state root, the task tracker, the shutdown tokens and
//! the configuration. It holds no state of panes or sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::ancestry::AncestorCache;
use host::config::ConfigError;
use host::own_processes::OwnProcesses;
use host::root_identity::ExaminedRoot;
use host::{StateRoot, hooks};
use model::agent::BUILT_IN;
use model::config::Config;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::file_watch::FileWatch;

/// The environment that the daemon's services run in.
pub(crate) struct Runtime {
    pub(crate) root: StateRoot,
    /// The identity of the state root, and whether it was moved or copied.
    pub(crate) examined_root: ExaminedRoot,
    /// The `ccmux` executable; keepers are started as `exe keeper`.
    pub(crate) exe: PathBuf,
    /// The boot id of the machine. Processes recorded under another boot id no longer exist.
    pub(crate) boot: String,
    /// Identifies the daemon and the keepers, which belong to no pane.
    pub(crate) own_processes: OwnProcesses,
    /// What is known about the ancestors of earlier clients.
    pub(crate) ancestors: AncestorCache,
    /// The file watcher that all services share.
    pub(crate) file_watch: FileWatch,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the daemon stops accepting work.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when all requests are answered and background tasks may end.
    pub(crate) ending: CancellationToken,
    /// Problems found at startup, as text for the user.
    problems: Mutex<Vec<String>>,
    /// The current step of recovery, as text for clients that wait for it.
    recovery_step: Mutex<&'static str>,
}

impl Runtime {
    pub(crate) fn new(
        root: StateRoot,
        examined_root: ExaminedRoot,
        exe: PathBuf,
        boot: String,
    ) -> Self {
        let mut former = examined_root.identity.former.clone();
        // A directory that is there now is another root.
        former.retain(|path| !Path::new(path).exists());
        // Must be spelled as in the environment of the keepers.
        let own_processes =
            OwnProcesses::of_root(&root.path().to_string_lossy()).and_former(&former);
        Self {
            file_watch: FileWatch::new(own_processes.clone()),
            own_processes,
            ancestors: AncestorCache::default(),
            root,
            examined_root,
            exe,
            boot,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            ending: CancellationToken::new(),
            problems: Mutex::default(),
            recovery_step: Mutex::new("opening the registry"),
        }
    }

    /// Reads the user's configuration. The file is read on every call, so that a change applies to
    /// the next pane without a reload command.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with line and column.
    pub(crate) async fn config(&self) -> Result<Arc<Config>, ConfigError> {
        let root = self.root.clone();
        let loaded = run_blocking(move || host::config::load(&root, &BUILT_IN)).await;
        loaded.map(|loaded| Arc::new(loaded.config))
    }

    /// Returns whether the state root is still where it was when the daemon started. Everything
    /// that the daemon does by path would otherwise affect another directory.
    pub(crate) fn is_root_in_place(&self) -> bool {
        self.examined_root.identity.is_at(self.root.path())
    }

    /// Returns the problems found at startup.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.problems.lock().clone()
    }

    /// Records the current step of recovery.
    pub(crate) fn enter_recovery_step(&self, step: &'static str) {
        *self.recovery_step.lock() = step;
    }

    /// Returns the current step of recovery.
    pub(crate) fn recovery_step(&self) -> &'static str {
        *self.recovery_step.lock()
    }

    /// Logs a problem and keeps it for `ls`, `daemon status` and `doctor`.
    pub(crate) fn add_problem(&self, problem: String) {
        tracing::warn!(%problem, "startup problem");
        self.problems.lock().push(problem);
    }
}

/// Pauses at a named point for as long as a test blocks it.
pub(crate) async fn point(name: &'static str) {
    if hooks::dir().is_some() {
        run_blocking(move || hooks::point(name)).await;
    }
}

/// Runs blocking work on the blocking thread pool. A panic propagates to the caller.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Cancelled only when the runtime shuts down and no caller is left.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Services on an empty state root, for unit tests.

    use super::{Arc, ExaminedRoot, PathBuf, Runtime, StateRoot};
    use crate::registry::Registry;

    /// Opens `home` as a state root with an empty registry.
    pub(crate) fn empty(home: &std::path::Path) -> (Arc<Runtime>, Registry) {
        let root = StateRoot::open(home).unwrap();
        let registry = Registry::start(host::store::Store::open(&root).unwrap().store).unwrap();
        let examined = ExaminedRoot::of(&root).unwrap();
        (Arc::new(Runtime::new(root, examined, PathBuf::new(), String::new())), registry)
    }
}
