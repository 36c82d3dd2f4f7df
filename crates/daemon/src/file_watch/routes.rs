//! The routing table: subscribers, the directories that they watch, and the sinks of a change.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Change, Writers};

pub(super) type Sink = Arc<dyn Fn(Change<'_>) + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SubscriberId(u64);

/// The identity of a directory on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inode {
    pub(super) device: u64,
    pub(super) number: u64,
}

/// Whether the system reports the changes in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DirectoryState {
    /// No attempt was made to watch it.
    #[default]
    New,
    /// It is watched.
    Active(Inode),
    /// It could not be watched, or it was removed.
    Lost,
}

#[derive(Default)]
pub(super) struct Routes {
    last_id: u64,
    subscribers: HashMap<SubscriberId, Subscriber>,
    dirs: HashMap<PathBuf, Directory>,
}

struct Subscriber {
    sink: Sink,
    writers: Writers,
}

#[derive(Default)]
struct Directory {
    /// The number of watches of each subscriber, never zero.
    counts: HashMap<SubscriberId, usize>,
    state: DirectoryState,
    writers_tracked: bool,
}

impl Routes {
    pub(super) fn add_subscriber(&mut self, sink: Sink, writers: Writers) -> SubscriberId {
        self.last_id += 1;
        let id = SubscriberId(self.last_id);
        self.subscribers.insert(id, Subscriber { sink, writers });
        id
    }

    /// Removes a subscriber with all its watches, and returns the directories it watched.
    pub(super) fn remove_subscriber(&mut self, id: SubscriberId) -> Vec<PathBuf> {
        self.subscribers.remove(&id);
        let watched = self.dirs.iter_mut();
        let watched = watched.filter_map(|(dir, found)| found.counts.remove(&id).map(|_| dir));
        let watched = watched.cloned().collect();
        self.dirs.retain(|_, found| !found.counts.is_empty());
        watched
    }

    /// Adds a watch, and returns how many the subscriber has of this directory.
    pub(super) fn add_watch(&mut self, id: SubscriberId, dir: &Path) -> usize {
        let count = self.dirs.entry(dir.to_owned()).or_default().counts.entry(id).or_default();
        *count += 1;
        *count
    }

    pub(super) fn remove_watch(&mut self, id: SubscriberId, dir: &Path) {
        let Some(found) = self.dirs.get_mut(dir) else { return };
        let Some(count) = found.counts.get_mut(&id) else { return };
        *count -= 1;
        if *count == 0 {
            found.counts.remove(&id);
        }
        if found.counts.is_empty() {
            self.dirs.remove(dir);
        }
    }

    pub(super) fn state(&self, dir: &Path) -> DirectoryState {
        self.dirs.get(dir).map(|found| found.state).unwrap_or_default()
    }

    pub(super) fn set_state(&mut self, dir: &Path, state: DirectoryState, writers_tracked: bool) {
        if let Some(found) = self.dirs.get_mut(dir) {
            found.state = state;
            found.writers_tracked = writers_tracked;
        }
    }

    /// Marks a directory that was removed or moved, and those in it, as no longer watched.
    pub(super) fn directory_removed(&mut self, path: &Path) {
        if !self.dirs.contains_key(path) {
            return;
        }
        for (_, found) in self.dirs.iter_mut().filter(|(dir, _)| dir.starts_with(path)) {
            found.state = DirectoryState::Lost;
        }
    }

    /// Returns whether a subscriber watches a directory that is not active.
    pub(super) fn is_inactive(&self, id: SubscriberId, dir: &Path) -> bool {
        self.dirs.get(dir).is_some_and(|found| {
            found.counts.contains_key(&id) && !matches!(found.state, DirectoryState::Active(_))
        })
    }

    pub(super) fn is_watched(&self, dir: &Path) -> bool {
        self.dirs.contains_key(dir)
    }

    pub(super) fn watches_any(&self) -> bool {
        !self.dirs.is_empty()
    }

    /// Returns whether a subscriber of this directory asks for writers.
    pub(super) fn wants_writers(&self, dir: &Path) -> bool {
        self.dirs.get(dir).is_some_and(|found| self.has_tracking_subscriber(found))
    }

    /// Returns whether a subscriber of any directory asks for writers.
    pub(super) fn tracks_any(&self) -> bool {
        self.dirs.values().any(|found| self.has_tracking_subscriber(found))
    }

    /// Returns the sinks for a change at `path`, and whether its writer is tracked.
    pub(super) fn sinks_for(&self, path: &Path) -> (Vec<Sink>, bool) {
        let parent = path.parent().and_then(|parent| self.dirs.get(parent));
        let itself = self.dirs.get(path);
        let mut ids: Vec<SubscriberId> = [parent, itself]
            .into_iter()
            .flatten()
            .flat_map(|found| found.counts.keys().copied())
            .collect();
        ids.sort_by_key(|id| id.0);
        ids.dedup();
        let sinks = ids.iter().filter_map(|id| Some(Arc::clone(&self.subscribers.get(id)?.sink)));
        let tracked =
            |found: &Directory| found.writers_tracked && self.has_tracking_subscriber(found);
        (sinks.collect(), parent.is_some_and(tracked))
    }

    fn has_tracking_subscriber(&self, dir: &Directory) -> bool {
        let mut writers =
            dir.counts.keys().filter_map(|id| Some(self.subscribers.get(id)?.writers));
        writers.any(|writers| writers == Writers::Tracked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> (Routes, SubscriberId, SubscriberId) {
        let mut routes = Routes::default();
        let one = routes.add_subscriber(Arc::new(|_| {}), Writers::Ignored);
        let two = routes.add_subscriber(Arc::new(|_| {}), Writers::Tracked);
        (routes, one, two)
    }

    #[test]
    fn directory_is_watched_until_every_watch_is_removed() {
        let (mut routes, one, two) = routes();
        let dir = Path::new("/a");

        assert_eq!(routes.add_watch(one, dir), 1);
        assert_eq!(routes.add_watch(one, dir), 2);
        assert_eq!(routes.add_watch(two, dir), 1);
        assert!(routes.tracks_any());
        routes.remove_watch(two, dir);
        routes.remove_watch(two, dir);
        assert!(!routes.tracks_any());
        routes.remove_watch(one, dir);

        assert!(routes.is_watched(dir));
        routes.remove_watch(one, dir);
        assert!(!routes.watches_any());
    }

    #[test]
    fn change_has_the_sinks_of_its_parent_and_of_itself_once() {
        let (mut routes, one, two) = routes();
        routes.add_watch(one, Path::new("/a"));
        routes.add_watch(one, Path::new("/a/b"));
        routes.add_watch(two, Path::new("/a/b"));
        #[rustfmt::skip]
        let table = [
            ("/a/file", 1), ("/a/b", 2), ("/a/b/file", 2), ("/a/b/c/file", 0), ("/a", 1), ("/", 0),
        ];

        for (path, sinks) in table {
            assert_eq!(routes.sinks_for(Path::new(path)).0.len(), sinks, "{path}");
        }
    }

    #[test]
    fn removed_directory_deactivates_the_directories_in_it() {
        let (mut routes, one, two) = routes();
        let active = DirectoryState::Active(Inode { device: 1, number: 2 });
        for dir in ["/a", "/a/b", "/ab"].map(Path::new) {
            routes.add_watch(one, dir);
            routes.set_state(dir, active, false);
        }

        routes.directory_removed(Path::new("/a"));
        routes.directory_removed(Path::new("/ab/file"));

        assert!(routes.is_inactive(one, Path::new("/a")));
        assert!(routes.is_inactive(one, Path::new("/a/b")));
        assert!(!routes.is_inactive(one, Path::new("/ab")));
        assert!(!routes.is_inactive(two, Path::new("/a")), "it does not watch this directory");
    }

    #[test]
    fn removed_subscriber_leaves_the_watches_of_others() {
        let (mut routes, one, two) = routes();
        routes.add_watch(one, Path::new("/a"));
        routes.add_watch(two, Path::new("/a"));
        routes.add_watch(one, Path::new("/b"));

        let mut dirs = routes.remove_subscriber(one);
        dirs.sort();

        assert_eq!(dirs, [Path::new("/a"), Path::new("/b")]);
        assert!(routes.is_watched(Path::new("/a")) && !routes.is_watched(Path::new("/b")));
    }
}
