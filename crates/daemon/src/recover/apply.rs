//! What recovery changes in the registry: one transaction.

use std::collections::{BTreeMap, BTreeSet};

use host::clock;
use host::store::{Change, NewPane, SetAside, StoreError};
use model::event::Happening;
use model::{
    ConversationId, Ending, Name, PaneId, SessionId, SessionMode, SessionRecord, Timestamp,
};

use super::decide::Decision;
use super::scan::{FoundPane, Scan};

/// What is to be changed.
pub(super) struct Changes {
    panes: Vec<PaneChange>,
    sessions: BTreeMap<SessionId, Option<SessionRecord>>,
    set_aside: Vec<SetAside>,
    /// The registry is empty, so the directories are all there is.
    rebuilding: bool,
}

struct PaneChange {
    id: PaneId,
    session: SessionId,
    has_row: bool,
    name: Name,
    created: Timestamp,
    decision: Decision,
    ending: Option<Ending>,
    conversation: Option<ConversationId>,
}

/// What came of it.
pub(super) struct Applied {
    /// The sessions that there are now.
    pub(super) kept: BTreeMap<SessionId, SessionRecord>,
    /// How many panes live.
    pub(super) adopted: usize,
}

impl Changes {
    pub(super) fn new(judged: &[(FoundPane, Decision)], scan: &Scan, rebuilding: bool) -> Self {
        let mut panes: Vec<PaneChange> =
            judged.iter().map(|(pane, decision)| PaneChange::new(pane, *decision)).collect();
        // Panes without a row are entered in the order in which they were made.
        panes.sort_by_key(|pane| (pane.created, pane.id));
        let (sessions, set_aside) = (scan.sessions.clone(), scan.set_aside.clone());
        Self { panes, sessions, set_aside, rebuilding }
    }

    pub(super) fn make(self, change: &mut Change<'_>) -> Result<Applied, StoreError> {
        for SetAside { path, kept_as, why } in &self.set_aside {
            change.emit(Happening::Quarantined {
                path: path.to_string_lossy().into_owned(),
                kept_as: kept_as.to_string_lossy().into_owned(),
                why: why.clone(),
            })?;
        }
        self.enter_sessions(change)?;
        for pane in &self.panes {
            pane.make(change)?;
        }
        for session in change.sessions()? {
            change.remove_session_if_over(session.record.id)?;
        }
        let adopted = self.panes.iter().filter(|pane| pane.decision == Decision::Adopt).count();
        change.emit(Happening::DaemonStarted { pid: std::process::id(), adopted })?;
        let kept = change.sessions()?.into_iter().map(|row| (row.record.id, row.record)).collect();
        Ok(Applied { kept, adopted })
    }

    /// Enters the sessions that have a directory and no row, and something in them.
    fn enter_sessions(&self, change: &mut Change<'_>) -> Result<(), StoreError> {
        let known: BTreeSet<SessionId> =
            change.sessions()?.into_iter().map(|row| row.record.id).collect();
        let used: BTreeSet<SessionId> =
            self.panes.iter().filter(|pane| pane.stays()).map(|pane| pane.session).collect();
        let mut missing: Vec<SessionRecord> = self
            .sessions
            .iter()
            .filter(|(id, _)| !known.contains(id))
            .filter(|(id, record)| {
                let is_real = record.as_ref().is_some_and(|record| !record.implicit);
                used.contains(id) || (self.rebuilding && is_real)
            })
            .map(|(id, record)| record.clone().unwrap_or_else(|| unknown_session(*id)))
            .collect();
        missing.sort_by_key(|record| (record.created, record.id));
        for mut record in missing {
            let taken: Vec<Name> =
                change.sessions()?.into_iter().map(|row| row.record.name).collect();
            record.name = record.name.free(|name| taken.contains(name));
            change.add_session(&record)?;
            change.announce_session(record.id)?;
        }
        Ok(())
    }
}

/// A session whose record is lost.
fn unknown_session(id: SessionId) -> SessionRecord {
    SessionRecord {
        id,
        name: SessionRecord::default_name(&id),
        mode: SessionMode::default(),
        created: clock::now(),
        implicit: false,
        isolation: None,
        env: std::collections::BTreeMap::new(),
        template: None,
        project: None,
    }
}

impl PaneChange {
    fn new(pane: &FoundPane, decision: Decision) -> Self {
        let launch = pane.launch.as_ref();
        let unknown = || Name::near(&format!("pane-{}", pane.id.short()));
        Self {
            id: pane.id,
            session: pane.session,
            has_row: pane.row.is_some(),
            name: launch.map_or_else(unknown, |launch| launch.name.clone()),
            created: launch.map_or_else(clock::now, |launch| launch.created),
            decision,
            ending: pane.look.ending.clone(),
            conversation: launch.and_then(|launch| launch.conversation.clone()),
        }
    }

    /// Whether there will be a pane.
    fn stays(&self) -> bool {
        !matches!(self.decision, Decision::RollBack | Decision::FinishClosing)
    }

    fn make(&self, change: &mut Change<'_>) -> Result<(), StoreError> {
        if !self.stays() {
            return if self.has_row { change.remove_pane(self.id).map(drop) } else { Ok(()) };
        }
        if !self.has_row {
            let taken = change.pane_names(self.session)?;
            let name = self.name.free(|name| taken.contains(name));
            let Self { id, session, created, .. } = *self;
            change.add_pane(&NewPane { id, session, name, created })?;
        }
        match (self.decision, &self.ending) {
            (Decision::RecordEnding, Some(ending)) => change.end(self.id, ending, 0).map(drop),
            (Decision::Adopt, _) => change.tell_alive(self.id, self.conversation.as_ref()),
            (Decision::Lost | Decision::RecordEnding, _) => change.announce(self.id),
            (Decision::AwaitKeeper | Decision::RollBack | Decision::FinishClosing, _) => Ok(()),
        }
    }
}
