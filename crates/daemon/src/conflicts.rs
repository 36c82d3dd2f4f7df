//! Conflicts on record: who wanted or changed what another one held.

use std::path::Path;
use std::sync::Arc;

use host::file::Survive;
use host::transcript;
use model::agent::Agent;
use model::event::Happening;
use model::{Name, PaneId, Timestamp};

use crate::command::Failure;
use crate::conversation::speaker;
use crate::supervisor::{Supervisor, run_blocking};

impl Supervisor {
    /// Puts a conflict on record.
    pub(crate) async fn tell_conflict(&self, told: Happening) -> Result<(), Failure> {
        let recorded = self.registry.apply(Survive::Kill, move |change| change.emit(told)).await;
        recorded.map_err(Failure::from)
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
