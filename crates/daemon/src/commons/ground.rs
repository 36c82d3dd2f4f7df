//! The directories that are watched because panes share them.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use host::household::Household;
use host::witness::Witness;
use model::PaneId;
use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tracing::{info, warn};

/// How many directories are watched at most.
pub(super) const MOST_DIRS: usize = 2000;

/// How many entries of one directory are looked at.
const MOST_ENTRIES: usize = 20_000;

/// Where nobody writes by hand.
const LEFT_OUT: [&str; 5] = [".git", "node_modules", "target", "__pycache__", ".venv"];

/// What is watched. While nothing is, there is none of this, and no thread.
pub(super) struct Ground {
    watcher: RecommendedWatcher,
    /// Who writes, where the system tells.
    witness: Option<Witness>,
    dirs: HashSet<PathBuf>,
    /// The state root, in which everybody writes.
    state: PathBuf,
    /// Trees that were too large.
    pub(super) cut: BTreeSet<PathBuf>,
}

impl Ground {
    /// Watches nothing yet. `notice` is called for everything that changes, with whether it is
    /// worth looking who has it open, because nobody else will tell.
    pub(super) fn new(
        state: PathBuf,
        household: Household,
        notice: impl Fn(PathBuf, bool) + Send + 'static,
    ) -> Option<Self> {
        let witness = Witness::new(household)
            .inspect_err(|error| info!(%error, "the kernel does not tell who writes"))
            .ok();
        let nobody_tells = witness.is_none();
        let made = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if matches!(
                event.kind,
                EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_))
            ) {
                return;
            }
            event.paths.into_iter().for_each(|path| notice(path, nobody_tells));
        });
        let watcher = made
            .map_err(|error| warn!(%error, "changes in shared directories will not be noticed"))
            .ok()?;
        let (dirs, cut) = (HashSet::new(), BTreeSet::new());
        Some(Self { watcher, witness, dirs, state, cut })
    }

    /// Watches these trees, and nothing else. Blocks.
    pub(super) fn cover(&mut self, trees: &BTreeSet<PathBuf>) {
        self.cut.clear();
        let mut wanted = HashSet::new();
        for tree in trees {
            let room = MOST_DIRS - wanted.len();
            wanted.extend(self.walk(tree, room, tree));
        }
        let over: Vec<PathBuf> = self.dirs.difference(&wanted).cloned().collect();
        over.iter().for_each(|dir| self.unwatch(dir));
        for dir in wanted {
            self.watch(dir);
        }
    }

    /// A directory has appeared, or another one in its place. Blocks.
    pub(super) fn appeared(&mut self, dir: &Path, trees: &BTreeSet<PathBuf>) {
        self.gone(dir);
        let Some(tree) = trees.iter().find(|tree| dir.starts_with(tree)) else { return };
        if dir != tree && is_left_out(dir) {
            return;
        }
        let room = MOST_DIRS.saturating_sub(self.dirs.len());
        for dir in self.walk(dir, room, tree) {
            self.watch(dir);
        }
    }

    /// Something is no longer there.
    pub(super) fn gone(&mut self, path: &Path) {
        if self.dirs.contains(path) {
            let below = self.dirs.iter().filter(|dir| dir.starts_with(path));
            let below: Vec<PathBuf> = below.cloned().collect();
            below.iter().for_each(|dir| self.unwatch(dir));
        }
    }

    /// The pane that wrote last to a file, by the word of the kernel.
    pub(super) fn writer_of(&self, path: &Path) -> Option<PaneId> {
        self.witness.as_ref()?.writer_of(path)
    }

    fn watch(&mut self, dir: PathBuf) {
        if self.dirs.contains(&dir) {
            return;
        }
        if let Err(error) = self.watcher.watch(&dir, RecursiveMode::NonRecursive) {
            // One that has just gone is no loss.
            if dir.is_dir() {
                warn!(dir = %dir.display(), %error, "changes in here are not noticed");
                self.cut.insert(dir);
            }
            return;
        }
        if let Some(Err(error)) = self.witness.as_ref().map(|witness| witness.watch(&dir)) {
            info!(dir = %dir.display(), %error, "the kernel does not tell who writes in here");
        }
        self.dirs.insert(dir);
    }

    fn unwatch(&mut self, dir: &Path) {
        self.dirs.remove(dir);
        // It went with its directory, if that is gone.
        let _gone = self.watcher.unwatch(dir);
        if let Some(witness) = &self.witness {
            witness.unwatch(dir);
        }
    }

    /// The directories of a tree, the outer ones first: those of its file system, as many as there
    /// is room for.
    fn walk(&mut self, start: &Path, room: usize, tree: &Path) -> Vec<PathBuf> {
        let Ok(top) = fs::metadata(tree) else { return Vec::new() };
        let mut found = Vec::new();
        let mut next = VecDeque::from([start.to_owned()]);
        while let Some(dir) = next.pop_front() {
            if dir.starts_with(&self.state)
                || fs::symlink_metadata(&dir).map_or(true, |now| now.dev() != top.dev())
            {
                continue;
            }
            if found.len() >= room {
                if self.cut.insert(tree.to_owned()) {
                    warn!(tree = %tree.display(), "too large to be watched as a whole");
                }
                break;
            }
            if let Ok(entries) = fs::read_dir(&dir) {
                let dirs = entries
                    .flatten()
                    .take(MOST_ENTRIES)
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
                next.extend(dirs.map(|entry| entry.path()).filter(|path| !is_left_out(path)));
            }
            found.push(dir);
        }
        found
    }
}

fn is_left_out(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| LEFT_OUT.iter().any(|out| name == *out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(state: &Path) -> Ground {
        Ground::new(state.to_owned(), Household::nobody(), |_, _| {}).unwrap()
    }

    fn watched(ground: &Ground) -> BTreeSet<PathBuf> {
        ground.dirs.iter().cloned().collect()
    }

    #[test]
    fn directories_come_and_go_and_some_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().canonicalize().unwrap();
        for name in ["src/deep", ".git/objects", "node_modules/a", "state/panes", "sub/target/x"] {
            fs::create_dir_all(tree.join(name)).unwrap();
        }
        std::os::unix::fs::symlink("/", tree.join("link")).unwrap();
        let all = |names: &[&str]| names.iter().map(|name| tree.join(name)).collect();
        let expect = |names: &[&str]| -> BTreeSet<PathBuf> {
            let mut set: BTreeSet<PathBuf> = all(names);
            set.insert(tree.clone());
            set
        };
        let trees = BTreeSet::from([tree.clone()]);
        let mut ground = ground(&tree.join("state"));

        ground.cover(&trees);
        assert_eq!(watched(&ground), expect(&["src", "src/deep", "sub"]));
        fs::create_dir_all(tree.join("new/deep/target")).unwrap();
        ground.appeared(&tree.join("new"), &trees);
        fs::create_dir_all(tree.join("target/y")).unwrap();
        ground.appeared(&tree.join("target"), &trees);
        assert_eq!(watched(&ground), expect(&["src", "src/deep", "sub", "new", "new/deep"]));
        fs::rename(tree.join("src"), tree.join("lib")).unwrap();
        ground.gone(&tree.join("src"));
        ground.appeared(&tree.join("lib"), &trees);
        assert_eq!(watched(&ground), expect(&["lib", "lib/deep", "sub", "new", "new/deep"]));
        assert!(ground.cut.is_empty());

        ground.cover(&BTreeSet::from([tree.join("new")]));
        assert_eq!(watched(&ground), all(&["new", "new/deep"]));
        ground.cover(&BTreeSet::new());
        assert!(ground.dirs.is_empty());
    }

    #[test]
    fn a_tree_that_is_too_large_is_watched_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().canonicalize().unwrap();
        for name in ["a/b", "c", "d"] {
            fs::create_dir_all(tree.join(name)).unwrap();
        }
        let mut ground = ground(Path::new("/nowhere"));

        let found = ground.walk(&tree, 3, &tree);

        assert_eq!(found.len(), 3);
        assert!(!found.contains(&tree.join("a/b")), "the outer ones come first");
        assert_eq!(ground.cut, BTreeSet::from([tree]));
    }
}
