//! The changes that recovery makes to the registry, in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use host::clock;
use host::root_identity::ExaminedRoot;
use host::store::{Change, NewPane, SetAside, StoreError};
use model::event::EventBody;
use model::{
    ConversationId, Ending, Name, PaneId, SessionId, SessionMode, SessionRecord, Timestamp,
};

use super::decide::Decision;
use super::scan::{Scan, ScannedPane};

/// The changes to make.
pub(super) struct Changes {
    panes: Vec<PaneChange>,
    sessions: BTreeMap<SessionId, Option<SessionRecord>>,
    set_aside: Vec<SetAside>,
    /// The registry is empty and is rebuilt from the directories.
    rebuilding: bool,
    /// The previous and the current path of a state root that was moved or copied.
    paths: Option<(String, String)>,
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

/// The registry after the changes.
pub(super) struct Applied {
    /// The sessions in the registry.
    pub(super) sessions: BTreeMap<SessionId, SessionRecord>,
    /// The number of live panes.
    pub(super) adopted: usize,
}

impl Changes {
    pub(super) fn new(decided: &[(ScannedPane, Decision)], scan: &Scan, rebuilding: bool) -> Self {
        let mut panes: Vec<PaneChange> =
            decided.iter().map(|(pane, decision)| PaneChange::new(pane, *decision)).collect();
        // Panes without a row are added in the order of their creation.
        panes.sort_by_key(|pane| (pane.created, pane.id));
        let (sessions, set_aside) = (scan.sessions.clone(), scan.set_aside.clone());
        Self { panes, sessions, set_aside, rebuilding, paths: None }
    }

    /// Adds the replacement of the previous path of the state root.
    pub(super) fn rebased(self, root: &ExaminedRoot) -> Self {
        let paths = root.previous_path().map(|from| (from.to_owned(), root.identity.path.clone()));
        Self { paths, ..self }
    }

    /// Applies the changes.
    pub(super) fn apply(self, change: &mut Change<'_>) -> Result<Applied, StoreError> {
        for SetAside { path, kept_as, why } in &self.set_aside {
            change.emit(EventBody::Quarantined {
                path: path.to_string_lossy().into_owned(),
                kept_as: kept_as.to_string_lossy().into_owned(),
                why: why.clone(),
            })?;
        }
        if let Some((from, to)) = &self.paths {
            change.rebase_sessions(from, to)?;
        }
        self.add_sessions(change)?;
        for pane in &self.panes {
            pane.apply(change)?;
        }
        for session in change.sessions()? {
            change.remove_session_if_unused(session.record.id)?;
        }
        let adopted = self.panes.iter().filter(|pane| pane.decision == Decision::Adopt).count();
        change.emit(EventBody::DaemonStarted { pid: std::process::id(), adopted })?;
        let sessions =
            change.sessions()?.into_iter().map(|row| (row.record.id, row.record)).collect();
        Ok(Applied { sessions, adopted })
    }

    /// Adds the sessions that have a directory and a pane, but no row. When rebuilding, explicitly
    /// created sessions without a pane are added too.
    fn add_sessions(&self, change: &mut Change<'_>) -> Result<(), StoreError> {
        let known: BTreeSet<SessionId> =
            change.sessions()?.into_iter().map(|row| row.record.id).collect();
        let used: BTreeSet<SessionId> =
            self.panes.iter().filter(|pane| pane.is_kept()).map(|pane| pane.session).collect();
        let mut missing: Vec<SessionRecord> = self
            .sessions
            .iter()
            .filter(|(id, _)| !known.contains(id))
            .filter(|(id, record)| {
                let is_explicit = record.as_ref().is_some_and(|record| !record.implicit);
                used.contains(id) || (self.rebuilding && is_explicit)
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

/// Returns default values for a session whose record is lost.
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
    fn new(pane: &ScannedPane, decision: Decision) -> Self {
        let launch = pane.launch.as_ref();
        let unknown = || Name::near(&format!("pane-{}", pane.id.short()));
        Self {
            id: pane.id,
            session: pane.session,
            has_row: pane.row.is_some(),
            name: launch.map_or_else(unknown, |launch| launch.name.clone()),
            created: launch.map_or_else(clock::now, |launch| launch.created),
            decision,
            ending: pane.observed.ending.clone(),
            conversation: launch.and_then(|launch| launch.conversation.clone()),
        }
    }

    /// Returns whether the pane is kept.
    fn is_kept(&self) -> bool {
        !matches!(self.decision, Decision::RollBack | Decision::FinishClosing)
    }

    fn apply(&self, change: &mut Change<'_>) -> Result<(), StoreError> {
        if !self.is_kept() {
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
            (Decision::Adopt, _) => change.record_running(self.id, self.conversation.as_ref()),
            (Decision::Lost | Decision::RecordEnding, _) => change.announce(self.id),
            (Decision::AwaitKeeper | Decision::RollBack | Decision::FinishClosing, _) => Ok(()),
        }
    }
}
