//! Looking: lists, single things, where to find a keeper, the daemon itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::mounts;
use host::store::{PaneRow, SessionRow};
use model::health::{login, process};
use model::{Ending, EndingReason, LaunchRecord, Name, PaneId, PaneState};
use protocol::control::{
    DaemonStatus, ListedSession, Listing, PaneAnswer, PaneView, Response, SessionAnswer,
};
use protocol::pane::{Request as KeeperRequest, Response as KeeperResponse};
use protocol::session::SessionView;
use protocol::{ErrorBody, ErrorCode};

use super::Failure;
use super::resolution::{Meant, Rows, ambiguous};
use crate::conversation::Seen;
use crate::keeper;
use crate::pane::{Pane, Sight};
use crate::supervisor::{Supervisor, run_blocking};

/// How long a keeper may take to say how its pane is.
const PATIENCE: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Every session with its panes.
    pub(super) async fn list(self: &Arc<Self>) -> Result<Response, Failure> {
        let rows = self.rows().await?;
        let this = Arc::clone(self);
        // Every pane is looked at, which is a few system calls each.
        let sessions = run_blocking(move || {
            let shown = rows.shown();
            shown.map(|session| this.listed(session, &rows)).collect()
        });
        let sessions = sessions.await;
        Ok(Response::Sessions(Listing { sessions, problems: self.problems() }))
    }

    pub(super) fn listed(&self, session: &SessionRow, rows: &Rows) -> ListedSession {
        let (session, panes) = self.session_with_panes(session, rows);
        ListedSession { session, panes }
    }

    /// One pane or session.
    pub(super) async fn show(self: &Arc<Self>, target: &str) -> Result<Response, Failure> {
        let rows = self.rows().await?;
        match rows.find(target)? {
            Meant::Session(session) => Ok(self.session_answer(&session, &rows)),
            Meant::Pane(pane) => {
                if let Some(known) = self.pane(pane.id) {
                    self.refresh_conversation(&known, Seen::Watched).await;
                }
                let mut answer = self.answer(&pane, &rows)?;
                self.ask_keeper(&mut answer.pane).await;
                answer.pane.locks = self.locks_of(answer.pane.id).await;
                answer.pane.conflicts = self.conflicts_of(answer.pane.id).await;
                answer.pane.login_note = self.login_note(&answer.pane).await;
                answer.pane.shared_note = shared_note(answer.pane.pid, &self.root.shared());
                Ok(Response::Pane(Box::new(answer)))
            }
        }
    }

    /// How a check of the login that panes share came out, where this pane depends on it.
    async fn login_note(&self, view: &PaneView) -> Option<String> {
        let (pane, isolation) = (self.pane(view.id)?, view.isolation.as_ref()?);
        let program = match self.candidate(&pane).await {
            Some(candidate) => self.known_program(&candidate.identity).await,
            None => None,
        };
        login::note(&isolation.login, program.as_ref())
    }

    /// Adds what only the keeper knows. A keeper that does not say is no error.
    async fn ask_keeper(&self, view: &mut PaneView) {
        let Some(pane) = self.pane(view.id) else { return };
        let usable = pane.look().keeper.is_some_and(|keeper| keeper.incompatible().is_none());
        if !view.state.is_live() || !usable {
            return;
        }
        match keeper::ask(&pane.dir, &KeeperRequest::Status, PATIENCE).await {
            Ok(KeeperResponse::Status(live)) => view.live = Some(live),
            Ok(_) => view.problem = Some("its keeper answered something else".to_owned()),
            // It may have ended since it was looked at.
            Err(_) if !pane.look().state.is_live() => *view = self.refreshed(view, &pane),
            Err(silent) => view.problem = Some(silent.to_string()),
        }
    }

    fn refreshed(&self, view: &PaneView, pane: &Pane) -> PaneView {
        let Sight { state, ending, .. } = pane.look();
        PaneView { state, ending, pid: None, frozen: None, ..view.clone() }
    }

    /// Where the keeper of one live pane listens.
    pub(super) async fn locate(&self, target: Option<&str>) -> Result<Response, Failure> {
        let rows = self.rows().await?;
        let is_live = |row: &&PaneRow| self.is_live(row.id);
        let found = match target.map(|text| rows.find(text).map(|meant| (text, meant))) {
            None => rows.panes.iter().rev().find(is_live).cloned().ok_or_else(|| {
                ErrorBody::new(ErrorCode::NotFound, "no pane is running")
                    .hint("start one with `ccmux new`")
            })?,
            Some(meant) => match meant? {
                (_, Meant::Pane(pane)) => pane,
                (text, Meant::Session(session)) => {
                    let live: Vec<&PaneRow> =
                        rows.panes_of(session.record.id).filter(is_live).collect();
                    the_only(text, &live, &rows)?
                }
            },
        };
        let (pane, _) = self.live_pane(&found)?;
        let dir = pane.dir.to_string_lossy().into_owned();
        Ok(Response::Located { pane: found.id, name: found.name, dir })
    }

    fn is_live(&self, id: PaneId) -> bool {
        self.pane(id).is_some_and(|pane| pane.look().state.is_live())
    }

    /// The pane, if it lives; otherwise an error that says how it is.
    pub(super) fn live_pane(&self, row: &PaneRow) -> Result<(Arc<Pane>, Sight), ErrorBody> {
        let gone = || {
            ErrorBody::new(ErrorCode::NotFound, format!("pane {} is gone", row.name))
                .hint("see what there is with `ccmux ls`")
        };
        let pane = self.pane(row.id).ok_or_else(gone)?;
        let sight = pane.look();
        if sight.state.is_live() {
            return Ok((pane, sight));
        }
        Err(ErrorBody::new(ErrorCode::Conflict, how_it_is(&row.name, sight.ending.as_ref()))
            .hint(format!("its output is kept: `ccmux read {} --lines 50`", row.id.short())))
    }

    /// About the daemon itself.
    pub(super) async fn status(self: &Arc<Self>) -> Result<Response, Failure> {
        let last_event = self.registry.read(|change| change.last_event()).await?;
        let this = Arc::clone(self);
        let panes = run_blocking(move || this.count_live()).await;
        Ok(Response::Status(DaemonStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            home: self.root.path().to_string_lossy().into_owned(),
            panes,
            http: self.http.url(),
            last_event,
            problems: self.problems(),
        }))
    }

    /// A pane with its session, as the registry has them now.
    pub(crate) async fn pane_answer(&self, id: PaneId) -> Result<PaneAnswer, ErrorBody> {
        let read = self.registry.read(move |change| {
            let pane = change.pane(id)?;
            let (session, panes) = (change.session(pane.session)?, change.panes_of(pane.session)?);
            Ok::<_, Failure>((pane, Rows { sessions: vec![session], panes }))
        });
        let (pane, rows) = read.await.map_err(Failure::into_body)?;
        self.answer(&pane, &rows)
    }

    pub(super) fn answer(&self, pane: &PaneRow, rows: &Rows) -> Result<PaneAnswer, ErrorBody> {
        let session = rows.session(pane.session).ok_or_else(|| {
            ErrorBody::new(ErrorCode::Failed, format!("pane {} has no session", pane.name))
        })?;
        let (session, panes) = self.session_with_panes(session, rows);
        let found = panes.into_iter().find(|view| view.id == pane.id);
        let pane = found.unwrap_or_else(|| self.pane_view(pane));
        Ok(PaneAnswer { session, pane, warnings: Vec::new(), repeated: false })
    }

    pub(super) fn session_answer(&self, session: &SessionRow, rows: &Rows) -> Response {
        let (session, panes) = self.session_with_panes(session, rows);
        Response::Session(SessionAnswer { session, panes })
    }

    fn session_with_panes(
        &self,
        session: &SessionRow,
        rows: &Rows,
    ) -> (SessionView, Vec<PaneView>) {
        let own = rows.panes_of(session.record.id);
        let panes: Vec<PaneView> = own.map(|pane| self.pane_view(pane)).collect();
        let view = self.session_view(session, panes.iter().map(|pane| pane.state));
        (view, panes)
    }

    fn pane_view(&self, row: &PaneRow) -> PaneView {
        let pane = self.pane(row.id);
        let sight = pane.as_ref().map_or_else(|| without_process(row), |pane| pane.look());
        let launch = pane.as_ref().and_then(|pane| pane.launch());
        let launch = launch.as_deref();
        let dir = self.root.pane(row.session, row.id);
        let part = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let cwd = launch.map(|launch| launch.cwd.clone()).unwrap_or_default();
        let workspace = launch.and_then(|launch| launch.workspace.as_ref());
        let child = sight.keeper.as_ref().map(|keeper| keeper.record.child.pid);
        let incompatible = sight.keeper.as_ref().and_then(|keeper| keeper.incompatible());
        PaneView {
            id: row.id,
            name: row.name.clone(),
            agent: launch.map_or_else(String::new, |launch| launch.agent.clone()),
            role: launch.and_then(|launch| launch.role.clone()),
            unit: launch.and_then(|launch| launch.unit.clone()),
            pid: child.filter(|_| sight.state.is_live()),
            state: sight.state,
            ending: sight.ending,
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
            frozen: sight.frozen,
            live: None,
            locks: Vec::new(),
            conflicts: Vec::new(),
            problem: pane.as_ref().and_then(|pane| pane.problem()).or(incompatible),
        }
    }
}

/// That nothing keeps a pane from writing to what panes share, if so.
fn shared_note(head: Option<u32>, shared: &Path) -> Option<String> {
    let is_open = head.is_some_and(|pid| mounts::is_open_for(pid, shared));
    is_open.then(|| process::SHARED_IS_OPEN.to_owned())
}

/// The directory of the pane's agent; of a shell, that of the first agent that may be typed in it.
fn config_dir(launch: &LaunchRecord) -> Option<String> {
    let own = launch.isolation.dir_of(&launch.agent).map(str::to_owned);
    own.or_else(|| launch.isolation.dirs.first().map(|dir| dir.path.clone()))
}

/// What can be seen of a pane that the daemon is not busy with: what was recorded.
fn without_process(row: &PaneRow) -> Sight {
    let state = match &row.ended {
        Some(ending) if ending.reason != EndingReason::Lost => PaneState::Exited,
        _ => PaneState::Lost,
    };
    Sight { state, keeper: None, ending: row.ended.clone(), frozen: None }
}

/// Why something cannot be done with a pane that has ended.
pub(super) fn how_it_is(name: &Name, ending: Option<&Ending>) -> String {
    match ending {
        None => format!("pane {name} is lost"),
        Some(ending) => match ending.reason {
            EndingReason::Lost => format!("pane {name} is lost"),
            EndingReason::NotStarted => format!("pane {name} was {ending}"),
            EndingReason::Exited | EndingReason::Stopped => format!("pane {name} has {ending}"),
        },
    }
}

fn the_only(text: &str, live: &[&PaneRow], rows: &Rows) -> Result<PaneRow, ErrorBody> {
    match live {
        [pane] => Ok((*pane).clone()),
        [] => Err(ErrorBody::new(
            ErrorCode::NotFound,
            format!("no pane of the session {text} is running"),
        )
        .hint(format!("start one with `ccmux new --session {text}`"))),
        several => {
            let several: Vec<_> = several.iter().map(|pane| rows.pane_candidate(pane)).collect();
            Err(ambiguous("pane", text, &several))
        }
    }
}
