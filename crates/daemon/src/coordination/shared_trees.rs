//! Detects conflicting changes in directory trees: trees that several panes work in, and trees that
//! a pane has locked.
//!
//! A tree is watched while two or more live panes work in it, or while it is locked. The last
//! writer of each file is remembered as far as the system reports it. A change by another pane soon
//! after is recorded as a conflict, because that pane may not have seen the first change. In a
//! locked tree every change by another pane is a conflict. Files that are locked one by one are
//! left to [`super::held_files`].

mod history;
mod tree_watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::fingerprint::{self, Fingerprint};
use host::{clock, open_files};
use model::conflict::{Attribution, LastChange, common_trees};
use model::health::{Finding, Severity};
use model::isolation::USER_HOME;
use model::{LaunchRecord, PaneId};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use self::history::{History, Observation, PendingChange};
use self::tree_watch::{MAX_DIRS, TreeWatch};
use super::conflicts::ForeignWrite;
use super::held_files::HeldIndex;
use super::{Coordination, SETTLE_TIME, resolve};
use crate::file_watch::{Change, FileWatch, Writers};
use crate::panes::Life;
use crate::runtime::run_blocking;

/// Size of the largest file that is read. Every write to a larger file counts as a change.
const MAX_FILE_SIZE: u64 = 4 << 20;

/// The trees that panes share or have locked.
pub(crate) struct SharedTrees {
    history: Arc<Mutex<History>>,
    /// Locked while directories are watched, so the sink does not take it.
    watch: Mutex<TreeWatch>,
    held: HeldIndex,
    state_root: PathBuf,
    refresh: Notify,
    changes: Mutex<Option<mpsc::UnboundedReceiver<PathBuf>>>,
}

impl SharedTrees {
    pub(super) fn new(file_watch: &FileWatch, held: HeldIndex, state_root: &Path) -> Self {
        let (sender, changes) = mpsc::unbounded_channel();
        let history: Arc<Mutex<History>> = Arc::default();
        let subscription = file_watch.subscribe(Writers::Tracked, {
            let (history, held) = (Arc::clone(&history), held.clone());
            move |change| {
                if note_change(&history, &held, change) {
                    // Closed only when the daemon ends.
                    let _closed = sender.send(change.path.to_owned());
                }
            }
        });
        let state_root = fs::canonicalize(state_root).unwrap_or_else(|_| state_root.to_owned());
        Self {
            history,
            watch: Mutex::new(TreeWatch::new(subscription, state_root.clone())),
            held,
            state_root,
            refresh: Notify::new(),
            changes: Mutex::new(Some(changes)),
        }
    }

    /// Sets the locked trees.
    pub(super) fn set_locked(&self, locked: impl Iterator<Item = (PathBuf, PaneId)>) {
        let locked: BTreeMap<PathBuf, PaneId> = locked.collect();
        let mut history = self.history.lock();
        if history.locked_trees != locked {
            history.locked_trees = locked;
            self.refresh();
        }
    }

    /// Requests that the set of watched trees is computed again, because panes started or ended.
    pub(super) fn refresh(&self) {
        self.refresh.notify_one();
    }

    /// Records an edit that a pane has announced and made under a lock, which is no conflict.
    pub(crate) async fn edit_finished(&self, pane: PaneId, path: &str) {
        if self.history.lock().trees.is_empty() {
            return;
        }
        let path = PathBuf::from(path);
        let (path, content) = run_blocking(move || {
            let path = resolve(&path);
            let content = fingerprint::of_file_up_to(&path, MAX_FILE_SIZE);
            (path, content)
        })
        .await;
        let last = LastChange { writer: Some(pane), at: clock::now() };
        self.history.lock().announced(path, content, last);
    }

    /// Returns a finding for each tree that is not watched completely.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let finding = |tree: &PathBuf| Finding {
            severity: Severity::Info,
            subject: "daemon".to_owned(),
            what: "a shared directory is not watched completely".to_owned(),
            evidence: format!(
                "`{}`; the limit is {MAX_DIRS} directories, or less if the system allows fewer \
                 inotify watches",
                tree.display()
            ),
            remedy: "none needed; panes with their own workspaces cannot change each other's files"
                .to_owned(),
        };
        self.history.lock().incomplete.iter().map(finding).collect()
    }

    /// Watches the trees that two or more of `places` are in, and the locked trees. Blocks.
    fn update(&self, places: &[WorkPlace]) {
        let places = places.iter().filter_map(|place| place.tree(&self.state_root));
        let places: Vec<PathBuf> = places.collect();
        let places: Vec<&str> = places.iter().filter_map(|place| place.to_str()).collect();
        let mut trees: BTreeSet<PathBuf> =
            common_trees(&places).into_iter().map(PathBuf::from).collect();
        let has_changed = {
            let mut history = self.history.lock();
            trees.extend(history.locked_trees.keys().cloned());
            history.set_trees(&trees)
        };
        if has_changed {
            let mut watch = self.watch.lock();
            watch.set_trees(&trees);
            self.history.lock().incomplete.clone_from(watch.incomplete());
        }
    }

    /// Returns the content of a changed file and its writer as reported by the kernel; none for
    /// anything but a file. Watches a new directory. Blocks.
    fn read(&self, path: &Path) -> Option<(Fingerprint, Option<PaneId>)> {
        let found = fs::symlink_metadata(path);
        if found.as_ref().is_ok_and(fs::Metadata::is_dir) {
            let trees = self.history.lock().trees.clone();
            let mut watch = self.watch.lock();
            watch.directory_added(path, &trees);
            self.history.lock().incomplete.clone_from(watch.incomplete());
            return None;
        }
        if found.as_ref().is_ok_and(|found| !found.is_file()) {
            return None;
        }
        // Read first: the kernel has then reported every write that is in the content.
        let content = fingerprint::of_file_up_to(path, MAX_FILE_SIZE);
        let mut watch = self.watch.lock();
        if found.is_err() {
            watch.removed(path);
        }
        Some((content, watch.subscription().writer_of(path)))
    }
}

/// Notes a change in a tree. Returns true if it has to be inspected and is not queued yet.
fn note_change(history: &Mutex<History>, held: &HeldIndex, change: Change<'_>) -> bool {
    if change.metadata_only {
        return false;
    }
    let held = held.contains(change.path);
    let look_up = !change.writer_tracked && history.lock().start_lookup(change.path);
    // Looked up now, because the writer may close the file at any moment.
    let writer = if look_up { open_files::pane_writing(change.path) } else { None };
    history.lock().add_pending(change.path, PendingChange { writer, held })
}

/// The directory that a pane works in.
struct WorkPlace {
    path: String,
    home: Option<String>,
}

impl WorkPlace {
    /// Returns the directory of a pane that has no workspace to itself.
    fn of(launch: &LaunchRecord) -> Option<Self> {
        let path = match &launch.workspace {
            Some(workspace) if workspace.is_own() => return None,
            Some(workspace) => &workspace.path,
            None => &launch.cwd,
        };
        let home = launch.env.get(USER_HOME).or_else(|| launch.env.get("HOME"));
        Some(Self { path: path.clone(), home: home.map(str::to_owned) })
    }

    /// Returns the tree to watch; none for the state root, the root directory and directories that
    /// contain the user's home, which are too general. Blocks.
    fn tree(&self, state_root: &Path) -> Option<PathBuf> {
        let tree = fs::canonicalize(&self.path).ok()?;
        let home = self.home.as_ref().and_then(|home| fs::canonicalize(home).ok());
        let contains_home = home.is_some_and(|home| home.starts_with(&tree));
        let is_excluded = contains_home || tree.parent().is_none() || tree.starts_with(state_root);
        (!is_excluded).then_some(tree)
    }
}

impl Coordination {
    /// Watches shared and locked trees and records conflicts, until the daemon ends.
    pub(crate) async fn watch_shared_trees(self: Arc<Self>) {
        let changes = self.shared_trees.changes.lock().take();
        let Some(mut changes) = changes else { return };
        loop {
            let first = tokio::select! {
                first = changes.recv() => first,
                () = self.shared_trees.refresh.notified() => {
                    self.update_shared_trees().await;
                    continue;
                }
                () = self.runtime.ending.cancelled() => return,
            };
            let Some(first) = first else { return };
            tokio::time::sleep(SETTLE_TIME).await;
            self.shared_trees.history.lock().start_round();
            let mut paths = vec![first];
            while let Ok(path) = changes.try_recv() {
                paths.push(path);
            }
            for path in paths {
                if let Some(write) = self.inspect_change(path).await {
                    self.record_foreign_write(write).await;
                }
            }
        }
    }

    async fn update_shared_trees(self: &Arc<Self>) {
        let live = self.panes.all().into_iter().filter(|pane| matches!(pane.life(), Life::Live(_)));
        let places: Vec<WorkPlace> =
            live.filter_map(|pane| WorkPlace::of(pane.launch().as_deref()?)).collect();
        let this = Arc::clone(self);
        run_blocking(move || this.shared_trees.update(&places)).await;
    }

    /// Returns the conflict that a change in a tree causes.
    async fn inspect_change(self: &Arc<Self>, path: PathBuf) -> Option<ForeignWrite> {
        let trees = &self.shared_trees;
        let (pending, revision) = trees.history.lock().take_pending(&path)?;
        let (this, changed) = (Arc::clone(self), path.clone());
        let (content, by_kernel) = run_blocking(move || this.shared_trees.read(&changed)).await?;
        let evidence =
            if by_kernel.is_some() { Attribution::Kernel } else { Attribution::OpenFile };
        let writer = by_kernel.or(pending.writer).filter(|pane| self.panes.get(*pane).is_some());
        let held = pending.held || trees.held.contains(&path);
        let change = LastChange { writer, at: clock::now() };
        let seen = Observation { content, change, held, revision };
        let collision = trees.history.lock().observe(&path, seen)?;
        Some(ForeignWrite {
            path,
            writer: Some(collision.writer),
            holder: collision.other,
            outcome: collision.outcome,
            evidence,
        })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files in place")]
mod tests {
    use std::time::Duration;

    use host::own_processes::OwnProcesses;

    use super::*;
    use crate::coordination::held_files::HeldFiles;

    const DEADLINE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn change_in_a_directory_created_in_a_locked_tree_is_noticed() {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().canonicalize().unwrap();
        let file_watch = FileWatch::new(OwnProcesses::none());
        let held = HeldFiles::new(&file_watch).index();
        let trees = SharedTrees::new(&file_watch, held, Path::new("/nonexistent"));
        let mut changes = trees.changes.lock().take().unwrap();
        trees.set_locked([(tree.clone(), PaneId::from_random([1; 16]))].into_iter());
        trees.update(&[]);
        let mut wait_for = async |path: &Path| {
            while tokio::time::timeout(DEADLINE, changes.recv()).await.unwrap().unwrap() != *path {}
        };

        fs::create_dir(tree.join("new")).unwrap();
        wait_for(&tree.join("new")).await;
        assert!(trees.read(&tree.join("new")).is_none());
        fs::write(tree.join("new/file"), "text").unwrap();
        wait_for(&tree.join("new/file")).await;

        assert!(trees.read(&tree.join("new/file")).unwrap().0.exists());
        trees.set_locked([].into_iter());
        trees.update(&[]);
        assert!(!file_watch.is_running().0);
    }

    #[test]
    fn work_place_excludes_home_and_state_root() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        for name in ["project", "state/pane"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        let tree = |path: &Path| {
            let place = WorkPlace {
                path: path.display().to_string(),
                home: Some(home.display().to_string()),
            };
            place.tree(&home.join("state"))
        };

        assert_eq!(tree(&home.join("project")), Some(home.join("project")));
        assert_eq!(tree(&home.join("state/pane")), None);
        assert_eq!(tree(&home.join("missing")), None);
        assert_eq!(tree(&home), None);
        assert_eq!(tree(Path::new("/")), None);
    }
}
