//! The directories of watched trees.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::file_watch::{Subscription, WatchError};

/// Maximum number of watched directories.
pub(super) const MAX_DIRS: usize = 2000;

/// Maximum number of entries that are read of one directory.
const MAX_ENTRIES: usize = 20_000;

/// Names of directories with generated files.
const EXCLUDED: [&str; 5] = [".git", "node_modules", "target", "__pycache__", ".venv"];

/// Watches trees, directory by directory. All methods block.
pub(super) struct TreeWatch {
    subscription: Subscription,
    dirs: HashSet<PathBuf>,
    /// The state root, to which all panes write.
    state_root: PathBuf,
    /// Trees and directories that are not watched, or only in part.
    incomplete: BTreeSet<PathBuf>,
}

impl TreeWatch {
    pub(super) fn new(subscription: Subscription, state_root: PathBuf) -> Self {
        Self { subscription, dirs: HashSet::new(), state_root, incomplete: BTreeSet::new() }
    }

    /// Returns the trees and directories that are not watched, or only in part.
    pub(super) fn incomplete(&self) -> &BTreeSet<PathBuf> {
        &self.incomplete
    }

    pub(super) fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Watches these trees instead of the previous ones.
    pub(super) fn set_trees(&mut self, trees: &BTreeSet<PathBuf>) {
        self.incomplete.clear();
        let mut wanted = HashSet::new();
        for tree in trees {
            let limit = MAX_DIRS - wanted.len();
            wanted.extend(self.walk(tree, limit, tree));
        }
        let obsolete: Vec<PathBuf> = self.dirs.difference(&wanted).cloned().collect();
        obsolete.iter().for_each(|dir| self.unwatch(dir));
        self.watch_all(wanted);
    }

    /// Watches a directory that was created, or moved here.
    pub(super) fn directory_added(&mut self, dir: &Path, trees: &BTreeSet<PathBuf>) {
        // It may have replaced another directory.
        self.removed(dir);
        let Some(tree) = trees.iter().find(|tree| dir.starts_with(tree)) else { return };
        if dir != tree && is_excluded(dir) {
            return;
        }
        let limit = MAX_DIRS.saturating_sub(self.dirs.len());
        let added = self.walk(dir, limit, tree);
        self.watch_all(added);
    }

    /// Unwatches a path that no longer exists and the directories in it.
    pub(super) fn removed(&mut self, path: &Path) {
        if self.dirs.contains(path) {
            let below = self.dirs.iter().filter(|dir| dir.starts_with(path));
            let below: Vec<PathBuf> = below.cloned().collect();
            below.iter().for_each(|dir| self.unwatch(dir));
        }
    }

    fn watch_all(&mut self, dirs: impl IntoIterator<Item = PathBuf>) {
        for dir in dirs {
            if self.dirs.contains(&dir) {
                continue;
            }
            let Err(error) = self.subscription.watch(&dir) else {
                self.dirs.insert(dir);
                continue;
            };
            self.subscription.unwatch(&dir);
            // The directory may have been removed since it was found.
            if dir.is_dir() {
                warn!(dir = %dir.display(), %error, "directory in shared tree not watched");
                self.incomplete.insert(dir);
            }
            if matches!(error, WatchError::Unavailable(_)) {
                return;
            }
        }
    }

    fn unwatch(&mut self, dir: &Path) {
        self.dirs.remove(dir);
        self.subscription.unwatch(dir);
    }

    /// Returns `start` and the directories below it that are on the file system of `tree`,
    /// breadth-first, at most `limit`.
    fn walk(&mut self, start: &Path, limit: usize, tree: &Path) -> Vec<PathBuf> {
        let Ok(top) = fs::metadata(tree) else { return Vec::new() };
        let mut found = Vec::new();
        let mut queue = VecDeque::from([start.to_owned()]);
        while let Some(dir) = queue.pop_front() {
            let is_foreign =
                fs::symlink_metadata(&dir).map_or(true, |found| found.dev() != top.dev());
            if is_foreign || dir.starts_with(&self.state_root) {
                continue;
            }
            if found.len() >= limit {
                if self.incomplete.insert(tree.to_owned()) {
                    warn!(tree = %tree.display(), limit = MAX_DIRS, "shared tree too large to watch");
                }
                break;
            }
            queue.extend(subdirectories(&dir));
            found.push(dir);
        }
        found
    }
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let dirs = entries
        .flatten()
        .take(MAX_ENTRIES)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| entry.path()).filter(|path| !is_excluded(path)).collect()
}

fn is_excluded(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| EXCLUDED.iter().any(|excluded| name == *excluded))
}

#[cfg(test)]
mod tests {
    use host::own_processes::OwnProcesses;

    use super::*;
    use crate::file_watch::{FileWatch, Writers};

    fn tree_watch(state_root: &Path) -> (FileWatch, TreeWatch) {
        let file_watch = FileWatch::new(OwnProcesses::none());
        let subscription = file_watch.subscribe(Writers::Tracked, |_| {});
        (file_watch, TreeWatch::new(subscription, state_root.to_owned()))
    }

    fn temp_tree(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().canonicalize().unwrap();
        names.iter().for_each(|name| fs::create_dir_all(tree.join(name)).unwrap());
        (temp, tree)
    }

    #[test]
    fn tree_watch_follows_directories_and_skips_excluded_ones() {
        let (_temp, tree) = temp_tree(&[
            "src/deep",
            ".git/objects",
            "node_modules/a",
            "state/panes",
            "sub/target/x",
        ]);
        std::os::unix::fs::symlink("/", tree.join("link")).unwrap();
        let paths = |names: &[&str]| -> HashSet<PathBuf> {
            names.iter().map(|name| tree.join(name)).collect()
        };
        let with_tree = |names: &[&str]| {
            let mut paths = paths(names);
            paths.insert(tree.clone());
            paths
        };
        let trees = BTreeSet::from([tree.clone()]);
        let (file_watch, mut watch) = tree_watch(&tree.join("state"));

        watch.set_trees(&trees);
        assert_eq!(watch.dirs, with_tree(&["src", "src/deep", "sub"]));
        fs::create_dir_all(tree.join("new/deep/target")).unwrap();
        watch.directory_added(&tree.join("new"), &trees);
        fs::create_dir_all(tree.join("target/y")).unwrap();
        watch.directory_added(&tree.join("target"), &trees);
        assert_eq!(watch.dirs, with_tree(&["src", "src/deep", "sub", "new", "new/deep"]));
        fs::rename(tree.join("src"), tree.join("lib")).unwrap();
        watch.removed(&tree.join("src"));
        watch.directory_added(&tree.join("lib"), &trees);
        assert_eq!(watch.dirs, with_tree(&["lib", "lib/deep", "sub", "new", "new/deep"]));
        assert!(watch.incomplete().is_empty());

        watch.set_trees(&BTreeSet::from([tree.join("new")]));
        assert_eq!(watch.dirs, paths(&["new", "new/deep"]));
        watch.set_trees(&BTreeSet::new());
        assert!(watch.dirs.is_empty());
        assert_eq!(file_watch.is_running(), (false, false));
    }

    #[test]
    fn walk_stops_at_the_limit_and_reports_the_tree_as_incomplete() {
        let (_temp, tree) = temp_tree(&["a/b", "c", "d"]);
        let (_file_watch, mut watch) = tree_watch(Path::new("/nonexistent"));

        let found = watch.walk(&tree, 3, &tree);

        assert_eq!(found.len(), 3);
        assert!(!found.contains(&tree.join("a/b")), "outer directories come first");
        assert_eq!(*watch.incomplete(), BTreeSet::from([tree]));
    }
}
