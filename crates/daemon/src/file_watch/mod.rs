//! The file watcher of the daemon.
//!
//! ```text
//!  held files    shared trees    agents' session files     subscribers: a sink, and directories
//!        \             |             /
//!         +------- FileWatch -------+                      counts the watches of each directory
//!             |                 |
//!       notify (inotify)   WriteTracker (fanotify)         exist while a directory is watched
//! ```
//!
//! A change is dispatched to the subscribers of its parent directory, and a change of a watched
//! directory itself also to the subscribers of that directory. Directories are watched without
//! their subdirectories, and are named by canonical paths: the kernel knows one watch per inode,
//! which has one path.
//!
//! # Locks
//!
//! `watch` and `unwatch` wait for notify's thread, and that thread calls the sinks. A caller must
//! therefore not hold a lock that any sink takes. For the same reason `routes`, which the thread
//! locks, is never held while notify is called; `backend`, which is, is never locked by the thread.

mod routes;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use host::own_processes::OwnProcesses;
use host::write_tracker::WriteTracker;
use model::PaneId;
use notify::event::{ModifyKind, RenameMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tracing::info;

use self::routes::{DirectoryState, Inode, Routes, SubscriberId};

/// A change in a watched directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// The file or directory that was created, changed, renamed or removed.
    pub(crate) path: &'a Path,
    /// Only metadata, such as the mode, has changed.
    pub(crate) metadata_only: bool,
    /// [`Subscription::writer_of`] can name the writer.
    pub(crate) writer_tracked: bool,
}

/// Whether a subscriber asks for the writers of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// The kernel reports writers where it allows that.
    Tracked,
    Ignored,
}

/// Why a directory is not watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// No directory can be watched.
    #[error("cannot create a file watcher: {0}")]
    Unavailable(notify::Error),
    /// This directory cannot be watched, for example because it does not exist.
    #[error("cannot watch the directory: {0}")]
    Directory(notify::Error),
}

/// A handle on the file watcher. Clones share one watcher.
#[derive(Clone)]
pub(crate) struct FileWatch(Arc<Shared>);

struct Shared {
    own_processes: OwnProcesses,
    routes: Arc<Mutex<Routes>>,
    backend: Mutex<Backend>,
    /// Separate from `backend`, so that a query for a writer does not wait for notify.
    tracker: Mutex<Option<Arc<WriteTracker>>>,
}

#[derive(Default)]
struct Backend {
    watcher: Option<RecommendedWatcher>,
    /// The kernel refused to report writers; not tried again while a directory is tracked.
    tracker_refused: bool,
}

impl FileWatch {
    /// Makes a watcher that watches nothing yet. Writes by `own_processes` are attributed to no
    /// pane.
    pub(crate) fn new(own_processes: OwnProcesses) -> Self {
        Self(Arc::new(Shared {
            own_processes,
            routes: Arc::default(),
            backend: Mutex::default(),
            tracker: Mutex::default(),
        }))
    }

    /// Registers a sink for the changes in directories that the subscription will watch. It is
    /// called on the thread of the watcher and should return soon.
    pub(crate) fn subscribe(
        &self,
        writers: Writers,
        sink: impl Fn(Change<'_>) + Send + Sync + 'static,
    ) -> Subscription {
        let id = self.0.routes.lock().add_subscriber(Arc::new(sink), writers);
        Subscription { shared: Arc::clone(&self.0), id }
    }
}

/// The directories that one subscriber watches. Dropping it unwatches them.
pub(crate) struct Subscription {
    shared: Arc<Shared>,
    id: SubscriberId,
}

impl Subscription {
    /// Watches a directory. Every call has to be paired with [`Subscription::unwatch`], even if it
    /// fails: a directory that does not exist yet can be tried again with
    /// [`Subscription::retry`]. Blocks.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub(crate) fn watch(&self, dir: &Path) -> Result<(), WatchError> {
        let mut backend = self.shared.backend.lock();
        let count = self.shared.routes.lock().add_watch(self.id, dir);
        // The first watch of a subscriber repeats the system call: the directory may have been
        // replaced without notice.
        if count == 1 { self.shared.activate(&mut backend, dir) } else { Ok(()) }
    }

    /// Watches a directory again if its last attempt failed or it was removed since. Does nothing
    /// for a directory that this subscription does not watch. Blocks.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub(crate) fn retry(&self, dir: &Path) -> Result<(), WatchError> {
        let mut backend = self.shared.backend.lock();
        let is_inactive = self.shared.routes.lock().is_inactive(self.id, dir);
        if is_inactive { self.shared.activate(&mut backend, dir) } else { Ok(()) }
    }

    /// Takes one watch of a directory back. Blocks.
    pub(crate) fn unwatch(&self, dir: &Path) {
        let mut backend = self.shared.backend.lock();
        self.shared.routes.lock().remove_watch(self.id, dir);
        self.shared.deactivate(&mut backend, dir);
    }

    /// Returns the pane that last wrote to a file, as reported by the kernel.
    pub(crate) fn writer_of(&self, path: &Path) -> Option<PaneId> {
        let tracker = self.shared.tracker.lock().clone();
        tracker?.writer_of(path)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut backend = self.shared.backend.lock();
        let dirs = self.shared.routes.lock().remove_subscriber(self.id);
        for dir in dirs {
            self.shared.deactivate(&mut backend, &dir);
        }
    }
}

impl Shared {
    fn activate(&self, backend: &mut Backend, dir: &Path) -> Result<(), WatchError> {
        let (state, track) = {
            let routes = self.routes.lock();
            (routes.state(dir), routes.wants_writers(dir))
        };
        let watcher = match &mut backend.watcher {
            Some(watcher) => watcher,
            none => none.insert(start_watcher(&self.routes).map_err(WatchError::Unavailable)?),
        };
        let inode = inode(dir);
        let is_same = matches!(state, DirectoryState::Active(before) if Some(before) == inode);
        if !is_same && state != DirectoryState::New {
            // The old directory was moved away or removed.
            let _not_watched = watcher.unwatch(dir);
        }
        let watched = watcher.watch(dir, RecursiveMode::NonRecursive);
        let state = match (&watched, inode) {
            (Ok(()), Some(inode)) => DirectoryState::Active(inode),
            (Ok(()), None) | (Err(_), _) => DirectoryState::Lost,
        };
        let tracked = watched.is_ok() && track && self.track(backend, dir);
        self.routes.lock().set_state(dir, state, tracked);
        watched.map_err(WatchError::Directory)
    }

    /// Ends what is no longer needed after a watch of `dir` was removed.
    fn deactivate(&self, backend: &mut Backend, dir: &Path) {
        let (is_watched, is_tracked, watches_any, tracks_any) = {
            let routes = self.routes.lock();
            (
                routes.is_watched(dir),
                routes.wants_writers(dir),
                routes.watches_any(),
                routes.tracks_any(),
            )
        };
        if !watches_any {
            // Its thread ends with it.
            backend.watcher = None;
        } else if let Some(watcher) = backend.watcher.as_mut().filter(|_| !is_watched) {
            // A removed directory is no longer watched by itself.
            let _not_watched = watcher.unwatch(dir);
        }
        if !tracks_any {
            backend.tracker_refused = false;
            *self.tracker.lock() = None;
        } else if !is_tracked && let Some(tracker) = self.tracker.lock().as_ref() {
            tracker.unwatch(dir);
        }
    }

    /// Has the kernel report the writers in a directory; false if it does not.
    fn track(&self, backend: &mut Backend, dir: &Path) -> bool {
        let mut tracker = self.tracker.lock();
        if tracker.is_none() && !backend.tracker_refused {
            *tracker = WriteTracker::new(self.own_processes.clone())
                .inspect_err(|error| info!(%error, "write tracker unavailable"))
                .ok()
                .map(Arc::new);
            backend.tracker_refused = tracker.is_none();
        }
        let Some(tracker) = tracker.as_ref() else { return false };
        let marked = tracker.watch(dir);
        if let Err(error) = &marked {
            info!(dir = %dir.display(), %error, "writers in directory not tracked");
        }
        marked.is_ok()
    }
}

fn start_watcher(routes: &Arc<Mutex<Routes>>) -> notify::Result<RecommendedWatcher> {
    let routes = Arc::clone(routes);
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if let Ok(event) = event {
            dispatch(&routes, &event);
        }
    })
}

fn dispatch(routes: &Mutex<Routes>, event: &notify::Event) {
    if matches!(event.kind, EventKind::Access(_)) {
        return;
    }
    let metadata_only = matches!(event.kind, EventKind::Modify(ModifyKind::Metadata(_)));
    let is_removal = matches!(
        event.kind,
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From))
    );
    for path in &event.paths {
        let (sinks, writer_tracked) = {
            let mut routes = routes.lock();
            let found = routes.sinks_for(path);
            if is_removal {
                routes.directory_removed(path);
            }
            found
        };
        for sink in sinks {
            sink(Change { path, metadata_only, writer_tracked });
        }
    }
}

fn inode(dir: &Path) -> Option<Inode> {
    fs::metadata(dir).ok().map(|found| Inode { device: found.dev(), number: found.ino() })
}

#[cfg(test)]
impl FileWatch {
    /// Returns whether a watcher exists, and whether a write tracker does.
    pub(crate) fn is_running(&self) -> (bool, bool) {
        (self.0.backend.lock().watcher.is_some(), self.0.tracker.lock().is_some())
    }
}

#[cfg(test)]
mod tests;
