//! The last change of each file in the watched trees, and the conflicts that follow from it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use host::fingerprint::Fingerprint;
use model::conflict::{ConflictOutcome, LastChange};
use model::{PaneId, Timestamp};

/// Maximum number of remembered files; the file with the oldest change is dropped beyond it.
const MAX_FILES: usize = 4096;

/// Maximum number of changes that wait for inspection. More at once are not edits by hand.
const MAX_PENDING: usize = 4096;

/// Maximum number of lookups of the processes that have a file open, per round of inspections.
const MAX_LOOKUPS: u32 = 32;

/// How long a repeated conflict of the same two panes about one file is not recorded again, in
/// milliseconds.
const REPEAT_INTERVAL: i64 = 60_000;

/// The state of the watched trees.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) trees: BTreeSet<PathBuf>,
    /// Trees that are locked, and the panes that hold them.
    pub(super) locked_trees: BTreeMap<PathBuf, PaneId>,
    /// Trees and directories that are not watched, or only in part.
    pub(super) incomplete: BTreeSet<PathBuf>,
    files: HashMap<PathBuf, FileHistory>,
    pending: HashMap<PathBuf, PendingChange>,
    lookups: u32,
    last_revision: u64,
}

#[derive(Clone, Copy, Debug)]
struct FileHistory {
    content: Fingerprint,
    last: LastChange,
    /// The panes of the last recorded conflict, sorted, and its time.
    reported: Option<([PaneId; 2], Timestamp)>,
    /// Grows with each announced edit. An observation made under an earlier revision is void.
    revision: u64,
}

/// A change that was not inspected yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PendingChange {
    pub(super) writer: Option<PaneId>,
    /// The file was locked by itself when it changed.
    pub(super) held: bool,
}

/// A file as it was after a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub(super) content: Fingerprint,
    pub(super) change: LastChange,
    /// The file is locked by itself.
    pub(super) held: bool,
    /// The revision of the file before it was read.
    pub(super) revision: u64,
}

/// A change of a file that another pane had just changed, or in a tree that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Collision {
    pub(super) writer: PaneId,
    pub(super) other: PaneId,
    pub(super) outcome: ConflictOutcome,
}

impl History {
    /// Sets the watched trees and drops the files outside of them. Returns false if the trees are
    /// the same as before.
    pub(super) fn set_trees(&mut self, trees: &BTreeSet<PathBuf>) -> bool {
        if self.trees == *trees {
            return false;
        }
        self.files.retain(|path, _| trees.iter().any(|tree| path.starts_with(tree)));
        self.trees.clone_from(trees);
        true
    }

    /// Returns whether to look up the processes that have a changed file open, which reads the
    /// descriptors of every process. Counts the lookup.
    pub(super) fn start_lookup(&mut self, path: &Path) -> bool {
        let is_known = self.pending.get(path).is_some_and(|pending| pending.writer.is_some());
        let allowed = !is_known && self.lookups < MAX_LOOKUPS;
        self.lookups += u32::from(allowed);
        allowed
    }

    /// Starts a new round of inspections, which has its own number of lookups.
    pub(super) fn start_round(&mut self) {
        self.lookups = 0;
    }

    /// Adds a change. Returns true if its file has to be inspected and is not queued yet.
    pub(super) fn add_pending(&mut self, path: &Path, change: PendingChange) -> bool {
        if let Some(pending) = self.pending.get_mut(path) {
            pending.writer = pending.writer.or(change.writer);
            pending.held |= change.held;
            return false;
        }
        let has_room = self.pending.len() < MAX_PENDING;
        if has_room {
            self.pending.insert(path.to_owned(), change);
        }
        has_room
    }

    /// Removes a pending change and returns it with the current revision of its file.
    pub(super) fn take_pending(&mut self, path: &Path) -> Option<(PendingChange, u64)> {
        let pending = self.pending.remove(path)?;
        Some((pending, self.files.get(path).map_or(0, |file| file.revision)))
    }

    /// Records an edit that a pane has announced and made under a lock.
    pub(super) fn announced(&mut self, path: PathBuf, content: Fingerprint, last: LastChange) {
        if self.trees.iter().any(|tree| path.starts_with(tree)) {
            self.last_revision += 1;
            let revision = self.last_revision;
            self.remember(path, FileHistory { content, last, reported: None, revision });
        }
    }

    /// Takes in the new content of a file. Returns the conflict that it causes, unless the file is
    /// locked by itself or the conflict was recorded recently.
    pub(super) fn observe(&mut self, path: &Path, seen: Observation) -> Option<Collision> {
        let Observation { content, change, held, revision } = seen;
        let known = self.files.get(path).copied();
        if known.is_some_and(|known| known.content == content || known.revision != revision) {
            return None;
        }
        if !content.exists() {
            // The remover is unknown. The pane that creates the file again collides with the pane
            // that wrote it before.
            if let Some(known) = known {
                self.files.insert(path.to_owned(), FileHistory { content, ..known });
            }
            return None;
        }
        let overwritten = || {
            let (other, writer) = (known?.last.crossed_by(change)?, change.writer?);
            Some(Collision { writer, other, outcome: ConflictOutcome::ChangedToo })
        };
        let collision = self.write_in_locked_tree(path, change.writer).or_else(overwritten);
        let collision = collision.filter(|_| !held);
        let panes = collision.map(Collision::panes);
        let mut reported = known.and_then(|known| known.reported);
        let is_repeated = reported.is_some_and(|(before, at)| {
            Some(before) == panes && change.at.0.saturating_sub(at.0) < REPEAT_INTERVAL
        });
        if let Some(panes) = panes.filter(|_| !is_repeated) {
            reported = Some((panes, change.at));
        }
        self.remember(path.to_owned(), FileHistory { content, last: change, reported, revision });
        collision.filter(|_| !is_repeated)
    }

    fn write_in_locked_tree(&self, path: &Path, writer: Option<PaneId>) -> Option<Collision> {
        let (writer, mut trees) = (writer?, self.locked_trees.iter());
        let (_, holder) = trees.find(|(tree, _)| path.starts_with(tree))?;
        let outcome = ConflictOutcome::Changed;
        (*holder != writer).then_some(Collision { writer, other: *holder, outcome })
    }

    fn remember(&mut self, path: PathBuf, file: FileHistory) {
        if self.files.len() >= MAX_FILES && !self.files.contains_key(&path) {
            let oldest = self.files.iter().min_by_key(|(_, file)| file.last.at);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                self.files.remove(&oldest);
            }
        }
        self.files.insert(path, file);
    }
}

impl Collision {
    fn panes(self) -> [PaneId; 2] {
        [self.other.min(self.writer), self.other.max(self.writer)]
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files in place")]
mod tests {
    use std::fs;

    use host::fingerprint;

    use super::*;

    fn panes() -> (PaneId, PaneId) {
        (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]))
    }

    #[test]
    fn collision_is_reported_once_and_not_for_held_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (one, two) = panes();
        let mut history = History::default();
        let time = std::cell::Cell::new(0);
        let mut change = |text: Option<&str>, writer: Option<PaneId>, held: bool| {
            match text {
                Some(text) => fs::write(&path, text).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            time.set(time.get() + 1000);
            let change = LastChange { writer, at: Timestamp(time.get()) };
            let content = fingerprint::of_file(&path);
            history.observe(&path, Observation { content, change, held, revision: 0 })
        };
        let collision =
            |writer, other| Some(Collision { writer, other, outcome: ConflictOutcome::ChangedToo });

        assert_eq!(change(Some("a"), Some(one), false), None, "first change");
        assert_eq!(change(Some("a"), Some(two), false), None, "same content");
        assert_eq!(change(Some("b"), Some(two), true), None, "held by the writer");
        assert_eq!(change(Some("c"), Some(one), false), collision(one, two));
        assert_eq!(change(Some("d"), Some(two), false), None, "already reported");
        assert_eq!(change(Some("e"), None, false), None, "unknown writer");
        assert_eq!(change(Some("f"), Some(one), false), None, "unknown previous writer");
        time.set(time.get() + REPEAT_INTERVAL);
        assert_eq!(change(None, None, false), None, "removed");
        assert_eq!(change(Some("g"), Some(two), false), collision(two, one), "created again");
    }

    #[test]
    fn write_in_tree_locked_by_another_pane_is_a_collision() {
        let (one, two) = panes();
        let content = fingerprint::of_file(Path::new("/proc/self/stat"));
        let mut history = History::default();
        history.locked_trees.insert(PathBuf::from("/tree"), one);
        let mut change = |path: &str, writer| {
            let change = LastChange { writer, at: Timestamp(0) };
            let seen = Observation { content, change, held: false, revision: 0 };
            history.observe(Path::new(path), seen)
        };

        let outcome = ConflictOutcome::Changed;
        assert_eq!(change("/tree/a", Some(one)), None, "the holder");
        assert_eq!(change("/tree/b", None), None, "unknown writer");
        assert_eq!(change("/other", Some(two)), None, "not in the tree");
        assert_eq!(
            change("/tree/c", Some(two)),
            Some(Collision { writer: two, other: one, outcome })
        );
    }

    #[test]
    fn observation_made_before_an_announced_edit_is_discarded() {
        let announced = fingerprint::of_file(Path::new("/nonexistent"));
        let observed = fingerprint::of_file(Path::new("/proc/self/stat"));
        let (pane, _) = panes();
        let last = LastChange { writer: Some(pane), at: Timestamp(0) };
        let mut history = History::default();
        history.set_trees(&BTreeSet::from([PathBuf::from("/")]));
        let path = PathBuf::from("/file");
        assert!(history.add_pending(&path, PendingChange::default()));
        let (_, revision) = history.take_pending(&path).unwrap();

        history.announced(path.clone(), announced, last);
        let seen = Observation { content: observed, change: last, held: false, revision };
        history.observe(&path, seen);

        assert_eq!(history.files[&path].content, announced);
    }

    #[test]
    fn pending_change_is_queued_once_and_keeps_the_first_writer() {
        let (one, two) = panes();
        let path = Path::new("/file");
        let mut history = History::default();
        let change = |writer, held| PendingChange { writer, held };

        assert!(history.add_pending(path, change(None, false)));
        assert!(history.start_lookup(path));
        assert!(!history.add_pending(path, change(Some(one), true)));
        assert!(!history.add_pending(path, change(Some(two), false)));

        assert!(!history.start_lookup(path), "the writer is known");
        let (pending, _) = history.take_pending(path).unwrap();
        assert_eq!((pending.writer, pending.held), (Some(one), true));
        assert!(history.take_pending(path).is_none());
    }
}
