//! Runs over HTTP: a session and all its panes, created by one request.

use axum::extract::State;
use axum::response::Response;
use model::team::TeamPane;
use model::{SessionMode, WorkspaceKind};
use protocol::http::{AgentBody, RunBody, RunMade};
use protocol::run::{RunAnswer, RunRequest};
use protocol::{ErrorBody, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::{IdempotencyKey, Json, created};
use super::problem::ApiError;
use crate::operations;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(create))
}

/// Create a session and all its panes atomically
#[utoipa::path(post, path = "/v1/runs", tag = "sessions", request_body = RunBody,
    params(("idempotency-key" = Option<String>, Header,
        description = "Unique key of this request; a retry with the same key returns the session already created")),
    responses(
        (status = 201, description = "The session was created", body = RunMade),
        (status = 200, description = "An earlier request with this key created the session", body = RunMade,
            headers(("idempotency-replayed" = bool, description = "Always true"))),
    ))]
async fn create(
    State(api): State<Api>,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<RunBody>,
) -> Result<Response, ApiError> {
    let request = RunRequest { key, client_env: api.client_env.clone(), ..request(&api, body)? };
    let run = |services, caller| async move {
        Box::pin(operations::run(&services, &caller, request)).await
    };
    let answer = api.perform(run).await?;
    let repeated = answer.repeated;
    Ok(created(&made(answer), repeated))
}

/// Converts the body to the request of the operation.
fn request(api: &Api, body: RunBody) -> Result<RunRequest, ApiError> {
    let source = serde_json::to_value(&body).ok();
    let RunBody { session_mode, name, template, cwd, mut env, agents, team } = body;
    let panes: Vec<TeamPane> = agents.into_iter().map(pane).collect();
    let (name, template, mode, panes) = match team {
        None => (name, template, session_mode, panes),
        Some(_) if !panes.is_empty() => {
            return Err(usage("agents and team are mutually exclusive").into());
        }
        Some(team) => {
            env.extend(team.env);
            let (name, template) = (name.or(team.session), template.or(team.template));
            (name, template, session_mode.or(team.mode), team.panes)
        }
    };
    if mode == Some(SessionMode::Legacy) && cwd.is_none() {
        return Err(usage("cwd is required if sessionMode is legacy").into());
    }
    let panes = panes.into_iter().map(|pane| with_workspace(pane, cwd.as_deref())).collect();
    let cwd = cwd.unwrap_or_else(|| api.users_home());
    Ok(RunRequest { name, mode, template, env, panes, cwd, source, ..RunRequest::default() })
}

fn pane(body: AgentBody) -> TeamPane {
    TeamPane {
        name: body.name,
        role: body.role,
        agent: body.agent,
        unit: body.unit,
        workspace: body.workspace,
        carry: body.carry,
        isolation: body.isolation,
        cwd: body.cwd,
        env: body.env,
        command: body.command,
        args: body.args,
        prompt: body.prompt,
        ..TeamPane::default()
    }
}

/// Selects an empty workspace for a pane without a directory.
fn with_workspace(pane: TeamPane, cwd: Option<&str>) -> TeamPane {
    let no_directory = pane.cwd.is_none() && cwd.is_none() && pane.workspace.is_none();
    let workspace = if no_directory { Some(WorkspaceKind::Empty) } else { pane.workspace };
    TeamPane { workspace, ..pane }
}

fn usage(message: &str) -> ErrorBody {
    ErrorBody::new(ErrorCode::Usage, message)
}

fn made(answer: RunAnswer) -> RunMade {
    let RunAnswer { session, panes, warnings, .. } = answer;
    RunMade {
        session_id: session.id,
        name: session.name,
        session_mode: session.mode,
        status: session.status,
        unit_dir: session.unit_dir,
        workflows_dir: session.workflows_dir,
        working_dir: session.dir,
        panes,
        warnings,
    }
}
