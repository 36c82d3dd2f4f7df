//! Follows live agents through the session files that they write about themselves.
//!
//! The directory of each live agent's session files is watched. A change wakes one task, which
//! reads the files of that pane. Where the directory cannot be watched, the conversation is read on
//! demand.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::PaneId;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::warn;

use crate::file_watch::{FileWatch, Subscription, Writers};

/// The directories of live agents' session files.
pub(crate) struct Follower {
    subscription: Subscription,
    dirs: Arc<Mutex<HashMap<PaneId, PathBuf>>>,
    sender: mpsc::UnboundedSender<PaneId>,
}

/// The panes whose agents have changed their session files.
pub(crate) type AgentUpdates = mpsc::UnboundedReceiver<PaneId>;

impl Follower {
    pub(crate) fn new(file_watch: &FileWatch) -> (Self, AgentUpdates) {
        let (sender, updates) = mpsc::unbounded_channel();
        let dirs: Arc<Mutex<HashMap<PaneId, PathBuf>>> = Arc::default();
        let subscription = file_watch.subscribe(Writers::Ignored, {
            let (dirs, sender) = (Arc::clone(&dirs), sender.clone());
            move |change| {
                let parent = change.path.parent();
                let dirs = dirs.lock();
                for (pane, _) in dirs.iter().filter(|(_, dir)| Some(dir.as_path()) == parent) {
                    // Closed only when the daemon ends.
                    let _closed = sender.send(*pane);
                }
            }
        });
        (Self { subscription, dirs, sender }, updates)
    }

    /// Watches a directory for a pane, in place of the pane's previous one. Blocks.
    pub(super) fn watch(&self, dir: &Path, pane: PaneId) {
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        if let Err(error) = self.subscription.watch(&dir) {
            warn!(%pane, dir = %dir.display(), %error, "agent session files not watched");
        }
        let previous = self.dirs.lock().insert(pane, dir);
        if let Some(previous) = previous {
            self.subscription.unwatch(&previous);
        }
    }

    pub(super) fn unwatch(&self, pane: PaneId) {
        // The lock is released before the watcher is called, whose thread takes it.
        let dir = self.dirs.lock().remove(&pane);
        if let Some(dir) = dir {
            self.subscription.unwatch(&dir);
        }
    }

    /// Has the session files of a pane read.
    pub(super) fn wake(&self, pane: PaneId) {
        // Closed only when the daemon ends.
        let _closed = self.sender.send(pane);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files in place")]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use host::own_processes::OwnProcesses;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn change_of_session_file_wakes_every_pane_of_its_directory() {
        let temp = tempfile::tempdir().unwrap();
        let file_watch = FileWatch::new(OwnProcesses::none());
        let (follower, mut updates) = Follower::new(&file_watch);
        let panes = BTreeSet::from([1, 2].map(|byte| PaneId::from_random([byte; 16])));
        panes.iter().for_each(|pane| follower.watch(temp.path(), *pane));

        std::fs::write(temp.path().join("session.json"), "{}").unwrap();

        let mut woken = BTreeSet::new();
        while woken != panes {
            let next = tokio::time::timeout(DEADLINE, updates.recv());
            woken.insert(next.await.unwrap().unwrap());
        }
        panes.iter().for_each(|pane| follower.unwatch(*pane));
        assert!(!file_watch.is_running().0);
    }
}
