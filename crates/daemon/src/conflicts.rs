//! Conflicts on record: who wanted or changed what another one held.

use std::path::Path;
use std::sync::Arc;

use host::file::Survive;
use host::transcript;
use model::agent::Agent;
use model::event::Happening;
use model::lock::LockMode;
use model::{Name, PaneId, Timestamp};
use protocol::locks::LockView;

use crate::command::Failure;
use crate::conversation::speaker;
use crate::supervisor::{Supervisor, run_blocking};

/// What hooks take locks for: everything of a turn is given back at once.
pub(crate) const TURN: &str = "turn";

impl Supervisor {
    /// Puts a conflict on record.
    pub(crate) async fn tell_conflict(&self, told: Happening) -> Result<(), Failure> {
        let recorded = self.registry.apply(Survive::Kill, move |change| change.emit(told)).await;
        recorded.map_err(Failure::from)
    }

    /// Watches over the files that panes hold; what hooks took is watched from the moment of asking.
    pub(crate) async fn watch_held(&self, locks: &[LockView]) {
        let is_whole = |lock: &&LockView| lock.mode != LockMode::Read && !lock.tree;
        let by_hand =
            locks.iter().filter(is_whole).filter(|lock| lock.tag.as_deref() != Some(TURN));
        let held: Vec<(PaneId, String)> =
            by_hand.filter_map(|lock| Some((lock.pane?, lock.path.clone()))).collect();
        self.watchman.hold(&held).await;
    }

    /// What a pane is called now.
    pub(crate) async fn name_of(&self, pane: PaneId) -> Option<Name> {
        let row = self.registry.read(move |change| change.pane(pane)).await;
        row.ok().map(|row| row.name)
    }

    /// Since when the agent of a pane has been idle, by its own word.
    pub(crate) async fn idle_since(self: &Arc<Self>, pane: PaneId) -> Option<Timestamp> {
        let pane = self.pane(pane)?;
        let launch = pane.launch()?;
        let config = self.config().await.ok()?;
        let agent = Agent::named(&launch.agent, &config.agents).ok()?;
        let dir = launch.isolation.dir_of(&agent.name)?.to_owned();
        let head = pane.look().keeper.map(|keeper| keeper.record.child.clone())?;
        run_blocking(move || {
            let all = transcript::live(&agent, Path::new(&dir));
            speaker(all, Some(&head)).filter(|said| said.pid == head.pid)?.idle_since
        })
        .await
    }
}
