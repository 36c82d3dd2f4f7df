//! Following live agents: what they say about themselves is read when they say something new.
//!
//! One watcher for all panes, on the directory in which an agent keeps its own word. It wakes one
//! task, which reads the files of the pane concerned. Where the system has no watcher left to give,
//! the conversation is read when it is asked for.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::PaneId;
use model::agent::Agent;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tracing::warn;

use crate::conversation::Seen;
use crate::pane::Pane;
use crate::supervisor::Supervisor;

/// The outside of the watcher.
pub(crate) struct Follower {
    watcher: Mutex<Option<RecommendedWatcher>>,
    panes: Arc<Mutex<HashMap<PathBuf, PaneId>>>,
    wake: mpsc::UnboundedSender<PaneId>,
}

/// The panes whose agents have said something.
pub(crate) type News = mpsc::UnboundedReceiver<PaneId>;

impl Follower {
    pub(crate) fn new() -> (Self, News) {
        let (wake, news) = mpsc::unbounded_channel();
        let panes: Arc<Mutex<HashMap<PathBuf, PaneId>>> = Arc::default();
        let watcher = notify::recommended_watcher({
            let (panes, wake) = (Arc::clone(&panes), wake.clone());
            move |event: notify::Result<notify::Event>| {
                let Ok(event) = event else { return };
                if matches!(event.kind, EventKind::Access(_)) {
                    return;
                }
                let panes = lock(&panes);
                let dirs = event.paths.iter().filter_map(|path| path.parent());
                for pane in dirs.filter_map(|dir| panes.get(dir)) {
                    // The daemon is ending if nobody listens.
                    let _unheard = wake.send(*pane);
                }
            }
        });
        let watcher = watcher.map_err(|error| warn!(%error, "agents cannot be followed")).ok();
        (Self { watcher: Mutex::new(watcher), panes, wake }, news)
    }

    fn watch(&self, dir: &Path, pane: PaneId) {
        lock(&self.panes).insert(dir.to_owned(), pane);
        let mut watcher = lock(&self.watcher);
        let Some(watcher) = watcher.as_mut() else { return };
        if let Err(error) = watcher.watch(dir, RecursiveMode::NonRecursive) {
            warn!(%pane, %error, "cannot be followed");
        }
    }

    fn unwatch(&self, pane: PaneId) {
        // Let go of before the watcher is asked for anything: it may be waiting to look in here.
        let dirs: Vec<PathBuf> =
            lock(&self.panes).extract_if(|_, of| *of == pane).map(|(dir, _)| dir).collect();
        for dir in dirs {
            if let Some(watcher) = lock(&self.watcher).as_mut() {
                // It goes with its directory as well.
                let _gone = watcher.unwatch(&dir);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Supervisor {
    /// Follows the agent of a live pane, if it says something about itself.
    pub(crate) fn follow(self: &Arc<Self>, pane: &Arc<Pane>) {
        let (this, pane) = (Arc::clone(self), Arc::clone(pane));
        self.tasks.spawn(async move {
            let Some(launch) = pane.launch() else { return };
            let Ok(config) = this.config().await else { return };
            let Ok(agent) = Agent::named(&launch.agent, &config.agents) else { return };
            let dir = launch.isolation.dir_of(&agent.name).map(PathBuf::from);
            if let (Some(dir), Some(live)) = (dir, agent.conversations.live) {
                this.follower.watch(&dir.join(live.dir), pane.id);
                // It may have spoken before we listened.
                let _unheard = this.follower.wake.send(pane.id);
            }
        });
    }

    /// No longer follows the agent of a pane that has ended.
    pub(crate) fn unfollow(&self, pane: PaneId) {
        self.follower.unwatch(pane);
    }

    /// Reads what agents say, as soon as they say it.
    pub(crate) async fn keep_following(self: Arc<Self>, mut news: News) {
        loop {
            let pane = tokio::select! {
                pane = news.recv() => pane,
                () = self.ending.cancelled() => return,
            };
            let Some(first) = pane else { return };
            // One word of an agent is several events; and several agents may have spoken.
            let mut spoken = BTreeSet::from([first]);
            while let Ok(also) = news.try_recv() {
                spoken.insert(also);
            }
            for pane in spoken.into_iter().filter_map(|id| self.pane(id)) {
                self.refresh_conversation(&pane, Seen::Watched).await;
                self.note_change(pane.id);
            }
        }
    }
}
