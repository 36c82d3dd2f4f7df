//! Coordination between panes: locks, the watched files and trees, and conflicts.
//!
//! ```text
//!  locks          the owner of each locked path
//!  held_files     changes of files that are locked one by one
//!  shared_trees   changes in trees that several panes work in, or that one pane has locked
//!  conflicts      the record of refused edits and conflicting changes
//! ```

mod conflicts;
mod held_files;
pub(crate) mod lock_views;
pub(crate) mod locks;
mod shared_trees;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use model::PaneId;
use model::lock::LockMode;
use protocol::locks::LockView;

use self::held_files::HeldFiles;
use self::locks::{Locks, TURN_TAG};
use self::shared_trees::SharedTrees;
use crate::lifecycle::Observer;
use crate::panes::Panes;
use crate::registry::Registry;
use crate::runtime::Runtime;

/// Time that a change is given to complete before it is inspected; also the interval between two
/// inspections.
const SETTLE_TIME: Duration = Duration::from_millis(150);

/// Prevents and detects conflicting changes of files by panes.
pub(crate) struct Coordination {
    runtime: Arc<Runtime>,
    registry: Registry,
    panes: Arc<Panes>,
    pub(crate) locks: Locks,
    pub(crate) held_files: HeldFiles,
    pub(crate) shared_trees: SharedTrees,
}

impl Coordination {
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        registry: Registry,
        panes: Arc<Panes>,
        locks: Locks,
    ) -> Self {
        let held_files = HeldFiles::new(&runtime.file_watch);
        let held = held_files.index();
        let shared_trees = SharedTrees::new(&runtime.file_watch, held, runtime.root.path());
        Self { runtime, registry, panes, locks, held_files, shared_trees }
    }

    /// Watches the files and trees that these locks protect. Locks that hooks have taken are left
    /// out: their files are watched from the request on.
    async fn watch_locked_paths(&self, locks: &[LockView]) {
        let manual = locks
            .iter()
            .filter(|lock| lock.mode != LockMode::Read && lock.tag.as_deref() != Some(TURN_TAG));
        let (trees, files): (Vec<&LockView>, Vec<&LockView>) = manual.partition(|lock| lock.tree);
        let files = files.into_iter().filter_map(|lock| Some((lock.pane?, lock.path.clone())));
        self.held_files.set_locked(&files.collect::<Vec<_>>()).await;
        let tree = |lock: &LockView| Some((PathBuf::from(&lock.path), lock.pane?));
        self.shared_trees.set_locked(trees.into_iter().filter_map(tree));
    }
}

impl Observer for Coordination {
    fn pane_transitioned(&self, _pane: PaneId) {
        self.shared_trees.refresh();
    }

    fn pane_ended(&self, pane: PaneId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.locks.pane_ended(pane).await;
            self.held_files.release(pane);
        })
    }
}

/// Returns the canonical path of a file that may not exist yet. Blocks.
fn resolve(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        match (path.parent().and_then(|dir| dir.canonicalize().ok()), path.file_name()) {
            (Some(dir), Some(name)) => dir.join(name),
            _ => path.to_owned(),
        }
    })
}
