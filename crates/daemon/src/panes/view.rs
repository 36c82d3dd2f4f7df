//! Panes and sessions as they are shown to clients.

use std::sync::Arc;

use host::store::{PaneRow, SessionRow, StoreError};
use model::{EndingReason, LaunchRecord, PaneId, PaneState};
use protocol::control::{ListedSession, PaneAnswer, PaneView, SessionAnswer};
use protocol::session::SessionView;

use super::Panes;
use super::error::NotLive;
use super::pane::{Pane, PaneStatus};
use crate::registry::Rows;

impl Panes {
    /// Returns a live pane and its status.
    ///
    /// # Errors
    ///
    /// [`NotLive`], with the ending of the pane.
    pub(crate) fn live_pane(&self, row: &PaneRow) -> Result<(Arc<Pane>, PaneStatus), NotLive> {
        let pane = self.get(row.id).ok_or_else(|| NotLive::Gone(row.name.clone()))?;
        let status = pane.status();
        if status.state.is_live() {
            return Ok((pane, status));
        }
        Err(NotLive::Ended { pane: row.id, name: row.name.clone(), ending: status.ending })
    }

    /// Returns a session with its panes, for listings.
    pub(crate) fn listed(&self, session: &SessionRow, rows: &Rows) -> ListedSession {
        let (session, panes) = self.session_with_panes(session, rows);
        ListedSession { session, panes }
    }

    /// Reads a pane and its session from the registry.
    pub(crate) async fn pane_answer(&self, id: PaneId) -> Result<PaneAnswer, StoreError> {
        let read = self.registry.read(move |change| {
            let pane = change.pane(id)?;
            let (session, panes) = (change.session(pane.session)?, change.panes_of(pane.session)?);
            Ok::<_, StoreError>((pane, Rows { sessions: vec![session], panes }))
        });
        let (pane, rows) = read.await?;
        self.answer(&pane, &rows)
    }

    pub(crate) fn answer(&self, pane: &PaneRow, rows: &Rows) -> Result<PaneAnswer, StoreError> {
        // Rows are read in one transaction, so a pane without a session was removed meanwhile.
        let session = rows.session(pane.session).ok_or(StoreError::Gone)?;
        let (session, panes) = self.session_with_panes(session, rows);
        let found = panes.into_iter().find(|view| view.id == pane.id);
        let pane = found.unwrap_or_else(|| self.pane_view(pane));
        let (warnings, absent) = (Vec::new(), Vec::new());
        let (uncommitted, changes) = (None, None);
        let repeated = false;
        Ok(PaneAnswer { session, pane, warnings, uncommitted, absent, changes, repeated })
    }

    pub(crate) fn session_answer(&self, session: &SessionRow, rows: &Rows) -> SessionAnswer {
        let (session, panes) = self.session_with_panes(session, rows);
        SessionAnswer { session, panes }
    }

    fn session_with_panes(
        &self,
        session: &SessionRow,
        rows: &Rows,
    ) -> (SessionView, Vec<PaneView>) {
        let own = rows.panes_of(session.record.id);
        let panes: Vec<PaneView> = own.map(|pane| self.pane_view(pane)).collect();
        let view = self.sessions.view(session, panes.iter().map(|pane| pane.state));
        (view, panes)
    }

    fn pane_view(&self, row: &PaneRow) -> PaneView {
        let pane = self.get(row.id);
        let status = pane.as_ref().map_or_else(|| recorded_status(row), |pane| pane.status());
        let launch = pane.as_ref().and_then(|pane| pane.launch());
        let launch = launch.as_deref();
        let dir = self.runtime.root.pane(row.session, row.id);
        let part = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let cwd = launch.map(|launch| launch.cwd.clone()).unwrap_or_default();
        let workspace = launch.and_then(|launch| launch.workspace.as_ref());
        let child = status.keeper.as_ref().map(|keeper| keeper.record.child.pid);
        let is_restored_soon = pane.as_ref().is_some_and(|pane| pane.is_restored_soon());
        let interrupted = status.state.was_interrupted(status.ending.as_ref(), row.closing);
        let incompatible = status.keeper.as_ref().and_then(|keeper| keeper.incompatible());
        PaneView {
            id: row.id,
            name: row.name.clone(),
            agent: launch.map_or_else(String::new, |launch| launch.agent.clone()),
            role: launch.and_then(|launch| launch.role.clone()),
            unit: launch.and_then(|launch| launch.unit.clone()),
            pid: child.filter(|_| status.state.is_live()),
            state: status.state,
            ending: status.ending,
            config_dir: launch.and_then(config_dir),
            isolation: launch.map(|launch| launch.isolation.clone()),
            login_note: None,
            shared_note: None,
            workspace: workspace.map_or_else(|| cwd.clone(), |workspace| workspace.path.clone()),
            workspace_kind: workspace.map(|workspace| workspace.kind),
            branch: workspace.and_then(|workspace| workspace.branch.clone()),
            temp: part("temp"),
            output: part("output"),
            ports: launch.and_then(|launch| launch.ports),
            conversation: launch.and_then(|launch| launch.conversation.clone()),
            asked: launch.map(|launch| launch.asked().to_vec()).unwrap_or_default(),
            command: launch.map(|launch| launch.argv.clone()).unwrap_or_default(),
            cwd,
            created: row.created,
            dir: dir.to_string_lossy().into_owned(),
            frozen: status.frozen,
            over_limit: status.over_limit,
            live: None,
            locks: Vec::new(),
            conflicts: Vec::new(),
            interrupted: interrupted && !is_restored_soon,
            problem: pane.as_ref().and_then(|pane| pane.problem()).or(incompatible),
        }
    }
}

/// Returns the configuration directory of the pane's agent; for a shell, that of the first agent that
/// the user can start in it.
fn config_dir(launch: &LaunchRecord) -> Option<String> {
    let own = launch.isolation.dir_of(&launch.agent).map(str::to_owned);
    own.or_else(|| launch.isolation.dirs.first().map(|dir| dir.path.clone()))
}

/// Returns the status of a pane that is in the registry but not known to the daemon.
fn recorded_status(row: &PaneRow) -> PaneStatus {
    let state = match &row.ended {
        Some(ending) if ending.reason != EndingReason::Lost => PaneState::Exited,
        _ => PaneState::Lost,
    };
    PaneStatus { state, keeper: None, ending: row.ended.clone(), frozen: None, over_limit: None }
}
