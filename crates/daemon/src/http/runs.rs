//! Runs over HTTP: sessions that are made with all their panes by one call.

use axum::extract::State;
use axum::response::Response as Answer;
use model::team::TeamPane;
use model::{SessionMode, WorkspaceKind};
use protocol::control::{Request, Response};
use protocol::http::{AgentBody, RunBody, RunMade};
use protocol::run::{RunAnswer, RunRequest};
use protocol::{ErrorBody, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::{IdempotencyKey, Json, created};
use super::problem::Refused;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(create))
}

/// Make a session with all its panes, whole or not at all
#[utoipa::path(post, path = "/v1/runs", tag = "sessions", request_body = RunBody,
    params(("idempotency-key" = Option<String>, Header,
        description = "A word of the caller's: repeated with it, the call makes nothing new")),
    responses(
        (status = 201, description = "It runs", body = RunMade),
        (status = 200, description = "An earlier call with this key has made it", body = RunMade,
            headers(("idempotency-replayed" = bool, description = "True"))),
    ))]
async fn create(
    State(api): State<Api>,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<RunBody>,
) -> Result<Answer, Refused> {
    let request = RunRequest { key, client_env: api.client_env.clone(), ..request(&api, body)? };
    let Response::Run(answer) = api.perform(Request::Run(Box::new(request))).await? else {
        return Err(Refused::unexpected());
    };
    let repeated = answer.repeated;
    Ok(created(&made(*answer), repeated))
}

/// What was asked for, as everybody else asks for it.
fn request(api: &Api, body: RunBody) -> Result<RunRequest, Refused> {
    let source = serde_json::to_value(&body).ok();
    let RunBody { session_mode, name, template, cwd, mut env, agents, team } = body;
    let panes: Vec<TeamPane> = agents.into_iter().map(pane).collect();
    let (name, template, mode, panes) = match team {
        None => (name, template, session_mode, panes),
        Some(_) if !panes.is_empty() => {
            return Err(usage("a run has either agents or a team").into());
        }
        Some(team) => {
            env.extend(team.env);
            let (name, template) = (name.or(team.session), template.or(team.template));
            (name, template, session_mode.or(team.mode), team.panes)
        }
    };
    if mode == Some(SessionMode::Legacy) && cwd.is_none() {
        return Err(
            usage("a legacy session works in a directory of yours: say which with cwd").into()
        );
    }
    let panes = panes.into_iter().map(|pane| in_place(pane, cwd.as_deref())).collect();
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
        isolation: body.isolation,
        cwd: body.cwd,
        env: body.env,
        command: body.command,
        args: body.args,
        prompt: body.prompt,
        ..TeamPane::default()
    }
}

/// Without a directory of the caller's there is nothing to work on but what the pane will make.
fn in_place(pane: TeamPane, cwd: Option<&str>) -> TeamPane {
    let nowhere = pane.cwd.is_none() && cwd.is_none() && pane.workspace.is_none();
    let workspace = if nowhere { Some(WorkspaceKind::Empty) } else { pane.workspace };
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
