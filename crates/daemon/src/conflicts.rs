//! Conflicts on record: who wanted or changed what another one held.

use std::path::{Path, PathBuf};

use host::file::Survive;
use host::store::StoreError;
use host::transcript;
use model::agent::Agent;
use model::conflict::Outcome;
use model::event::{Event, Happening};
use model::health::{Finding, Severity};
use model::lock::LockMode;
use model::{Name, PaneId, Timestamp};
use protocol::locks::LockView;

use crate::command::Failure;
use crate::conversation::speaker;
use crate::supervisor::{Supervisor, run_blocking};

/// What hooks take locks for: everything of a turn is given back at once.
pub(crate) const TURN: &str = "turn";

/// How many events back a conflict is recent.
const RECENT: u32 = 2000;

/// How many are told of at once.
const TOLD: usize = 5;

impl Supervisor {
    /// What happened lately between a pane and others, oldest first.
    pub(crate) async fn conflicts_of(&self, id: PaneId) -> Vec<Event> {
        let concerns = move |what: &Happening| {
            matches!(what, Happening::Conflict { pane, holder, .. }
                if *pane == Some(id) || *holder == Some(id))
        };
        self.recent_conflicts(concerns).await
    }

    /// Files that were lately changed without their lock, as findings.
    pub(crate) async fn trespasses(&self) -> Vec<Finding> {
        let changed = |what: &Happening| {
            matches!(
                what,
                Happening::Conflict { outcome: Outcome::Changed | Outcome::ChangedToo, .. }
            )
        };
        let found = self.recent_conflicts(changed).await;
        found.iter().filter_map(|event| finding(&event.what)).collect()
    }

    async fn recent_conflicts(
        &self,
        wanted: impl Fn(&Happening) -> bool + Send + 'static,
    ) -> Vec<Event> {
        let read = self.registry.read(move |change| {
            let last = change.last_event()?;
            let mut recent = change.events(last.saturating_sub(RECENT.into()), RECENT)?;
            recent.retain(|event| wanted(&event.what));
            Ok::<_, StoreError>(recent.split_off(recent.len().saturating_sub(TOLD)))
        });
        read.await.unwrap_or_default()
    }

    /// Puts a conflict on record.
    pub(crate) async fn tell_conflict(&self, told: Happening) -> Result<(), Failure> {
        let recorded = self.registry.apply(Survive::Kill, move |change| change.emit(told)).await;
        recorded.map_err(Failure::from)
    }

    /// Watches over the files that panes hold; what hooks took is watched from the moment of asking.
    pub(crate) async fn watch_held(&self, locks: &[LockView]) {
        let by_hand = locks
            .iter()
            .filter(|lock| lock.mode != LockMode::Read && lock.tag.as_deref() != Some(TURN));
        let (trees, files): (Vec<&LockView>, Vec<&LockView>) = by_hand.partition(|lock| lock.tree);
        let files = files.into_iter().filter_map(|lock| Some((lock.pane?, lock.path.clone())));
        self.watchman.hold(&files.collect::<Vec<_>>()).await;
        let tree = |lock: &LockView| Some((PathBuf::from(&lock.path), lock.pane?));
        self.commons.claim(trees.into_iter().filter_map(tree));
    }

    /// What a pane is called now.
    pub(crate) async fn name_of(&self, pane: PaneId) -> Option<Name> {
        let row = self.registry.read(move |change| change.pane(pane)).await;
        row.ok().map(|row| row.name)
    }

    /// Since when the agent of a pane has been idle, by its own word.
    pub(crate) async fn idle_since(&self, pane: PaneId) -> Option<Timestamp> {
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

fn finding(what: &Happening) -> Option<Finding> {
    let Happening::Conflict { path, name, held_by, outcome, .. } = what else { return None };
    let whose = match outcome {
        Outcome::Refused | Outcome::Changed => "a file that it held was changed by another",
        Outcome::ChangedToo => "a file that it had just changed was changed by another",
    };
    let who = name.as_ref().map_or_else(|| "somebody".to_owned(), |name| format!("pane {name}"));
    Some(Finding {
        severity: Severity::Info,
        subject: held_by.clone(),
        what: whose.to_owned(),
        evidence: format!("{who} changed `{path}`"),
        remedy:
            "look at the file; panes that work in trees of their own cannot do this to each other"
                .to_owned(),
    })
}
