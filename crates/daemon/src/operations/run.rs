//! Creates a session with all its panes, or nothing if any step fails (R29, R33).
//!
//! ```text
//!  request --> pending session --> panes, each after its dependencies are ready --> complete
//!                  \________________________ any step fails _________________________/
//!                                                  |
//!                    rollback: processes ended, directories in the trash
//! ```
//!
//! A session is recorded as pending until its last pane is ready. If the daemon is killed before
//! that, the next daemon rolls the session back before it accepts requests.

pub(crate) mod ready;
pub(super) mod rollback;
mod start;
pub(super) mod up;

use std::sync::Arc;

use host::config::ConfigError;
use host::store::{Created, StoreError};
use model::authority::Caller;
use model::team::{TeamFault, WantedPane, expand};
use model::{LaunchRequest, Name, SessionId, SessionMode};
use protocol::control::SessionAnswer;
use protocol::run::{RunAnswer, RunRequest};
use regex::Regex;
use serde_json::json;
use tracing::info;

use self::ready::ReadyError;
use self::rollback::roll_back_session;
use self::start::{PaneStart, StartAction, start_all};
use super::Services;
use super::access::{AccessDenied, authorize_new_session};
use super::launch::LaunchError;
use super::once::{self, RepeatError};
use crate::fault::{Description, Fault, FaultKind, TaskFailed, any_of};
use crate::panes::error::{PlanError, RestoreError};
use crate::runtime::point;
use crate::sessions::error::CreateError;
use crate::sessions::{self as session, NewSession};

any_of! {
    /// Why a session was not created with all its panes.
    pub(crate) enum RunError {
        Denied(AccessDenied),
        Config(ConfigError),
        Store(StoreError),
        Repeat(RepeatError),
        Team(InvalidTeam),
        Session(CreateError),
        Pane(InPane),
        Task(TaskFailed),
    }
}

/// All errors in the description of a team.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct InvalidTeam(Vec<String>);

impl Fault for InvalidTeam {
    fn describe(&self) -> Description {
        FaultKind::Invalid.plain()
    }
}

/// The failure of one pane of a team.
#[derive(Debug, thiserror::Error)]
#[error("pane {pane}: {why}")]
pub(crate) struct InPane {
    pub(crate) pane: Name,
    pub(crate) why: PaneFailure,
}

impl Fault for InPane {
    fn describe(&self) -> Description {
        self.why.describe()
    }
}

any_of! {
    /// Why one pane of a team was not started.
    pub(crate) enum PaneFailure {
        Plan(PlanError),
        Pattern(InvalidPattern),
        Launch(Box<LaunchError>),
        Restore(Box<RestoreError>),
        Ready(ReadyError),
        Task(TaskFailed),
    }
}

/// A readiness pattern that is not a regular expression.
#[derive(Debug, thiserror::Error)]
#[error("`ready.text` is not a regular expression: {0}")]
pub(crate) struct InvalidPattern(regex::Error);

impl Fault for InvalidPattern {
    fn describe(&self) -> Description {
        FaultKind::Invalid.plain()
    }
}

/// Creates a session with all its panes. Returns the existing session if the request repeats an
/// idempotency key.
pub(crate) async fn run(
    services: &Arc<Services>,
    caller: &Caller,
    request: RunRequest,
) -> Result<RunAnswer, RunError> {
    authorize_new_session(services, caller).await?;
    let Some(key) = request.key.clone() else { return create_run(services, request).await };
    let _guard = services.request_locks.lock(once::lock_name(&key)).await;
    match once::find_created(services, &key, once::run_digest(&request)).await? {
        Some(Created::Session(id)) => {
            let wanted = wanted_panes(&request)?;
            let answer = current_session(services, id, &wanted).await?;
            Ok(RunAnswer { repeated: true, ..run_answer(answer, Vec::new()) })
        }
        // The digests of launch and run requests differ, so a pane cannot be returned here.
        Some(Created::Pane(_)) | None => create_run(services, request).await,
    }
}

async fn create_run(services: &Arc<Services>, request: RunRequest) -> Result<RunAnswer, RunError> {
    let wanted = wanted_panes(&request)?;
    check_panes(services, &request, &wanted).await?;
    let session = services.sessions.create(new_session(&request)).await?;
    let id = session.id;
    // Panes can only join an announced session.
    let announced = services.registry.change(move |change| change.announce_session(id)).await;
    if let Err(error) = announced {
        roll_back_session(services, id).await;
        return Err(error.into());
    }
    point("run.entered").await;
    let start = |pane: &WantedPane| {
        let action = StartAction::Create(launch_request(&request, id, pane));
        PaneStart { action, pane: pane.clone() }
    };
    let starts = wanted.iter().map(start).collect();
    let started = match start_all(services, starts).await {
        Ok(warnings) => {
            complete(services, session.id).await.map(|()| warnings).map_err(RunError::from)
        }
        Err(failed) => Err(failed.why),
    };
    match started {
        Ok(warnings) => {
            info!(session = %session.id, "run complete");
            point("run.done").await;
            Ok(run_answer(current_session(services, id, &wanted).await?, warnings))
        }
        Err(error) => {
            roll_back_session(services, session.id).await;
            Err(error)
        }
    }
}

async fn complete(services: &Services, session: SessionId) -> Result<(), StoreError> {
    services.registry.change(move |change| change.complete(session)).await
}

/// Checks everything that can be checked before the session is created.
pub(crate) async fn check_panes(
    services: &Services,
    request: &RunRequest,
    wanted: &[WantedPane],
) -> Result<(), RunError> {
    let config = services.runtime.config().await?;
    // A placeholder id: nothing is started.
    let session = SessionId::from_random([0; 16]);
    for pane in wanted {
        let in_pane = |why: PaneFailure| InPane { pane: pane.name.clone(), why };
        let launch = Arc::from(launch_request(request, session, pane));
        crate::panes::launch::check(&launch, &config)
            .await
            .map_err(|error| in_pane(error.into()))?;
        let pattern = pane.ready.as_ref().and_then(|ready| ready.text.as_ref());
        if let Some(Err(error)) = pattern.map(|pattern| Regex::new(pattern)) {
            return Err(in_pane(InvalidPattern(error).into()).into());
        }
    }
    Ok(())
}

/// Returns the current state of a session: the panes of the team in their order, then other panes.
pub(crate) async fn current_session(
    services: &Services,
    id: SessionId,
    wanted: &[WantedPane],
) -> Result<SessionAnswer, StoreError> {
    let rows = services.panes.rows().await?;
    let session = rows.session(id).ok_or(StoreError::Gone)?;
    let mut answer = services.panes.session_answer(session, &rows);
    let position = |name: &Name| wanted.iter().position(|pane| pane.name == *name);
    answer.panes.sort_by_key(|pane| position(&pane.name).unwrap_or(usize::MAX));
    Ok(answer)
}

fn run_answer(answer: SessionAnswer, warnings: Vec<String>) -> RunAnswer {
    let SessionAnswer { session, panes } = answer;
    RunAnswer { session, panes, repeated: false, warnings }
}

/// Expands the requested panes, or returns all errors in them.
fn wanted_panes(request: &RunRequest) -> Result<Vec<WantedPane>, InvalidTeam> {
    expand(&request.panes, &request.cwd).map_err(|faults| {
        let line = |fault: &TeamFault| match fault.pane {
            Some(index) => format!("pane {}: {}", index + 1, fault.why),
            None => fault.why.clone(),
        };
        InvalidTeam(faults.iter().map(line).collect())
    })
}

/// Builds the session of a run, which is inserted as pending.
fn new_session(request: &RunRequest) -> NewSession {
    let mut origin =
        request.source.clone().unwrap_or_else(|| json!({ "kind": "run", "request": request }));
    session::mask_secrets(&mut origin);
    let keyed = request.key.clone().map(|key| (key, once::run_digest(request)));
    let mode = request.mode.or(request.default_mode).unwrap_or_default();
    NewSession {
        name: request.name.clone(),
        mode,
        template: request.template.clone(),
        project: (mode == SessionMode::Legacy).then(|| request.cwd.clone()),
        isolation: None,
        env: request.env.clone(),
        implicit: false,
        origin: Some(origin),
        also_insert: Some(Box::new(move |change, session| {
            change.mark_pending(session.id)?;
            if let Some((key, digest)) = keyed {
                change.add_key(&key, Created::Session(session.id), &digest)?;
            }
            Ok(())
        })),
    }
}

/// Builds the launch request of a pane of a run.
fn launch_request(
    request: &RunRequest,
    session: SessionId,
    pane: &WantedPane,
) -> Box<LaunchRequest> {
    Box::new(LaunchRequest {
        name: Some(pane.name.clone()),
        session: Some(session.to_string()),
        agent: pane.agent.clone(),
        isolation: pane.isolation,
        workspace: pane.workspace,
        carry: pane.carry,
        command: pane.command.clone(),
        cwd: pane.cwd.clone(),
        env: pane.env.clone(),
        role: pane.role.clone(),
        client_env: request.client_env.clone(),
        limits: pane.limits.clone(),
        unit: pane.unit.clone(),
        prompt: pane.prompt.clone(),
        wanted: Some(Box::new(pane.clone())),
        run: Some(session),
        ..LaunchRequest::default()
    })
}
