//! Conversion of failures to HTTP errors: status codes, problem codes, and hints that name routes.

use axum::http::StatusCode;

use super::problem::ApiError;
use crate::fault::{Advice, Description, Fault, FaultKind};
use crate::layers::details::details;

/// Converts a failure to an HTTP error.
pub(crate) fn api_error(fault: &dyn Fault) -> ApiError {
    let Description { kind, advice, details: about } = fault.describe();
    let (status, code) = status(kind);
    let mut error = ApiError::new(status, code, fault.to_string());
    if let Some(hint) = advice.as_ref().and_then(hint) {
        error = error.hint(hint);
    }
    match about {
        Some(about) => error.details(details(&about)),
        None => error,
    }
}

impl<E: Fault> From<E> for ApiError {
    fn from(error: E) -> Self {
        api_error(&error)
    }
}

fn status(kind: FaultKind) -> (StatusCode, &'static str) {
    match kind {
        FaultKind::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, "usage"),
        FaultKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
        FaultKind::Conflict => (StatusCode::CONFLICT, "conflict"),
        FaultKind::Denied => (StatusCode::FORBIDDEN, "denied"),
        // Not 409, because a retry cannot succeed.
        FaultKind::KeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "key_reused"),
        FaultKind::NotStarted => (StatusCode::UNPROCESSABLE_ENTITY, "not_started"),
        FaultKind::TimedOut => (StatusCode::CONFLICT, "timed_out"),
        FaultKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unreachable"),
        FaultKind::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
    }
}

/// Renders advice in terms of routes and body fields; `None` if HTTP has no equivalent.
fn hint(advice: &Advice) -> Option<String> {
    let text = match advice {
        Advice::Text(text) => text.clone().into_owned(),
        Advice::ListSessions => "GET /v1/sessions lists sessions and panes".to_owned(),
        Advice::ListMessages => "GET /v1/messages lists messages".to_owned(),
        Advice::ListQueuedMessages => "GET /v1/messages?state=queued lists them".to_owned(),
        Advice::NameOneOf(candidates) => {
            let ids: Vec<&str> = candidates.iter().map(|one| one.id.as_str()).collect();
            format!("use one of the IDs {}", ids.join(", "))
        }
        Advice::StartPane { session } => {
            format!("start one with POST /v1/sessions/{session}/panes")
        }
        Advice::StartAnyPane => "start one with POST /v1/runs".to_owned(),
        Advice::Attach { .. } => "attach to it with GET /v1/panes/{id}/attach".to_owned(),
        Advice::AttachOrStop { .. } => {
            "attach to that pane, or stop it with POST /v1/panes/{id}/stop".to_owned()
        }
        Advice::StopPane => "end it with POST /v1/panes/{id}/stop".to_owned(),
        Advice::ThawPane { .. } => {
            "free resources or raise the limit, then thaw the pane".to_owned()
        }
        Advice::ClosePane { pane } => format!("close it with DELETE /v1/panes/{pane}"),
        Advice::PurgeSession { session } => {
            format!("remove it with DELETE /v1/sessions/{session}")
        }
        Advice::ReadOutput { pane } => {
            format!("its output is kept: GET /v1/panes/{pane}/screen?lines=50")
        }
        Advice::AnswerOrForce { .. } => {
            "answer it in the attached pane, or repeat the request with `force`".to_owned()
        }
        Advice::ReadScreen => {
            "part of it may have arrived; check with GET /v1/panes/{id}/screen".to_owned()
        }
        Advice::ChooseDirectory => "choose another directory in `cwd`".to_owned(),
        Advice::ChooseWorkspace => {
            "set `workspace` to shared, empty, worktree, clone or copy, or set another `cwd`"
                .to_owned()
        }
        Advice::OmitMode => "omit the mode, or choose another session".to_owned(),
        Advice::OmitTemplate => "omit `template`, or choose another session".to_owned(),
        Advice::OmitTemplateOrMode => {
            "omit `template`, or set `sessionMode` to isolated".to_owned()
        }
        Advice::NameSession => {
            "name the session in `session`; a full pane ID needs none".to_owned()
        }
        Advice::NameTeam => "set `name`".to_owned(),
        Advice::WaitForLock => {
            "wait for it with `waitMs`, or list all locks with GET /v1/locks".to_owned()
        }
        Advice::RunDoctor => "GET /v1/doctor reports the cause and the remedy".to_owned(),
        Advice::CheckConfig => "correct ccmux.toml in the state root".to_owned(),
        Advice::DiscardPane { cwd, token, running, .. } => format!(
            "save it from `{cwd}`, or discard exactly this work with the query discard={token}{}",
            stop_before(*running)
        ),
        Advice::DiscardSession { tokens, running, .. } => format!(
            "save it from the workspaces, or discard exactly this work with the query \
             discard={}{}",
            tokens.join(","),
            stop_before(*running)
        ),
        Advice::ListTemplates
        | Advice::ListShared
        | Advice::StopSessionThenMigrate { .. }
        | Advice::MigrateSession { .. }
        | Advice::ChooseWorkspaceForMigration
        | Advice::ReplacePanes => return None,
    };
    Some(text)
}

/// Running programs may change their work, so that a token for it is soon invalid.
fn stop_before(running: bool) -> &'static str {
    if running { "; if the work keeps changing, stop the panes first" } else { "" }
}
