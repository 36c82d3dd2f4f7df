//! Sessions over HTTP.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use model::authority::Caller;
use model::{SessionRecord, Timestamp};
use protocol::control::{ListedSession, SessionAnswer};
use protocol::http::{
    AgentsBody, ConnectBody, ConnectPane, PurgeQuery, SessionBody, SessionsPage, SessionsQuery,
    StopBody,
};
use protocol::{ErrorBody, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::{Json, Optional, bytes, tagged};
use super::problem::ApiError;
use super::wording::api_error;
use crate::fault::Fault;
use crate::operations::page::{Cursor, Page};
use crate::operations::{self, PaneOrSession, Services};
use crate::registry::current_caller;

/// The default number of sessions per page.
const DEFAULT_LIMIT: u16 = 50;

/// The default grace period before processes are killed.
const DEFAULT_GRACE_MS: u64 = 5000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, purge))
        .routes(routes!(agents))
        .routes(routes!(connect))
        .routes(routes!(stop))
        .routes(routes!(restore))
}

impl Api {
    /// Finds the session identified by a path parameter.
    pub(super) async fn session_record(&self, text: &str) -> Result<SessionRecord, ApiError> {
        let rows = self.services.panes.rows().await.map_err(failed)?;
        Ok(rows.find_session(text)?.record.clone())
    }

    async fn session_id(&self, text: &str) -> Result<String, ApiError> {
        Ok(self.session_record(text).await?.id.to_string())
    }

    /// Runs an operation on a session whose ID is already resolved.
    async fn session<E: Fault, F>(
        &self,
        operation: impl FnOnce(Arc<Services>, Caller) -> F,
    ) -> Result<SessionAnswer, ApiError>
    where
        F: Future<Output = Result<PaneOrSession, E>> + Send + 'static,
    {
        match self.perform(operation).await? {
            PaneOrSession::Session(answer) => Ok(*answer),
            PaneOrSession::Pane(_) => Err(ApiError::internal(&"session ID resolved to a pane")),
        }
    }

    async fn show_session(&self, text: &str) -> Result<SessionAnswer, ApiError> {
        let target = self.session_id(text).await?;
        self.session(|services, caller| async move {
            operations::show(&services, &caller, &target).await
        })
        .await
    }
}

/// Converts a failure; the function form of `From`, for `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes by value")]
pub(super) fn failed(error: impl Fault) -> ApiError {
    api_error(&error)
}

/// List sessions with their panes
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(SessionsQuery),
    responses(
        (status = 200, description = "One page of sessions", body = SessionsPage,
            headers(("etag" = String, description = "Entity tag for `if-none-match`"))),
        (status = 304, description = "Not modified"),
    ))]
async fn list(
    State(api): State<Api>,
    Query(query): Query<SessionsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let limit = usize::from(query.limit.unwrap_or(DEFAULT_LIMIT));
    if !(1..=100).contains(&limit) {
        return Err(bad_query("limit must be between 1 and 100"));
    }
    let after = query.cursor.as_deref().map(parse_cursor).transpose()?;
    let page = Page { after, mode: query.mode, status: query.status, limit };
    let (sessions, more) =
        operations::page(&api.services, &current_caller(), page).await.map_err(failed)?;
    let next = sessions.last().filter(|_| more).map(encode_cursor);
    Ok(tagged(&headers, bytes(&SessionsPage { sessions, next })))
}

/// Encodes the position after a session.
fn encode_cursor(last: &ListedSession) -> String {
    format!("{}.{}", last.session.created.0, last.session.id)
}

fn parse_cursor(text: &str) -> Result<Cursor, ApiError> {
    let parts = text
        .split_once('.')
        .and_then(|(created, id)| Some((Timestamp(created.parse().ok()?), id.parse().ok()?)));
    let invalid = || ErrorBody::new(ErrorCode::Usage, "invalid cursor");
    Ok(parts.ok_or_else(invalid)?)
}

pub(super) fn bad_query(detail: &str) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "bad_request", detail)
}

/// Show a session with its panes
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "Session ID, unique ID prefix, or name")),
    responses(
        (status = 200, description = "The session", body = SessionBody,
            headers(("etag" = String, description = "Entity tag for `if-none-match`"))),
        (status = 304, description = "Not modified"),
    ))]
async fn show(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let answer = api.show_session(&id).await?;
    Ok(tagged(&headers, bytes(&answer)))
}

/// List the panes of a session
#[utoipa::path(get, path = "/v1/sessions/{id}/agents", tag = "sessions",
    params(("id" = String, Path, description = "Session ID, unique ID prefix, or name")),
    responses((status = 200, description = "The panes of the session", body = AgentsBody)))]
async fn agents(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<AgentsBody>, ApiError> {
    let answer = api.show_session(&id).await?;
    Ok(Json(AgentsBody { agents: answer.panes }))
}

/// Get attach addresses for the panes of a session
#[utoipa::path(post, path = "/v1/sessions/{id}/connect", tag = "sessions",
    params(("id" = String, Path, description = "Session ID, unique ID prefix, or name")),
    responses((status = 200, description = "One entry per running pane", body = ConnectBody)))]
async fn connect(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<ConnectBody>, ApiError> {
    let answer = api.show_session(&id).await?;
    let live: Vec<_> = answer.panes.iter().filter(|pane| pane.state.is_live()).collect();
    if live.is_empty() {
        let message = format!("session {} has no running panes", answer.session.name);
        let hint =
            format!("restart its panes with POST /v1/sessions/{}/restore", answer.session.id);
        return Err(ErrorBody::new(ErrorCode::Conflict, message).hint(hint).into());
    }
    let base = api.http.url().unwrap_or_default().replacen("http", "ws", 1);
    let panes = live.into_iter().map(|pane| ConnectPane {
        pane_id: pane.id,
        name: pane.name.clone(),
        web_socket: format!("{base}/v1/panes/{}/attach", pane.id),
        command: vec!["ccmux".to_owned(), "attach".to_owned(), pane.id.to_string()],
    });
    Ok(Json(ConnectBody { session_id: answer.session.id, panes: panes.collect() }))
}

/// Stop all processes of a session and keep its directories
#[utoipa::path(post, path = "/v1/sessions/{id}/stop", tag = "sessions",
    params(("id" = String, Path, description = "Session ID, unique ID prefix, or name")),
    request_body(content = Option<StopBody>, description = "Optional"),
    responses((status = 200, description = "All processes have ended", body = SessionBody)))]
async fn stop(
    State(api): State<Api>,
    Path(id): Path<String>,
    Optional(body): Optional<StopBody>,
) -> Result<Json<SessionAnswer>, ApiError> {
    let target = api.session_id(&id).await?;
    let grace_ms = grace(body.grace_ms)?;
    let stop = |services, caller| async move {
        operations::stop(&services, &caller, &target, grace_ms).await
    };
    api.session(stop).await.map(Json)
}

/// Returns the requested grace period, or the default.
pub(super) fn grace(requested: Option<u64>) -> Result<u64, ApiError> {
    match requested {
        None => Ok(DEFAULT_GRACE_MS),
        Some(grace) if grace <= 600_000 => Ok(grace),
        Some(_) => Err(ErrorBody::new(ErrorCode::Usage, "graceMs must be at most 600000").into()),
    }
}

/// Restart the ended panes of a session
#[utoipa::path(post, path = "/v1/sessions/{id}/restore", tag = "sessions",
    params(("id" = String, Path, description = "Session ID, unique ID prefix, or name")),
    responses((status = 200, description = "The panes are running", body = SessionBody)))]
async fn restore(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<SessionAnswer>, ApiError> {
    let target = api.session_id(&id).await?;
    let restore = |services, caller| async move {
        Box::pin(operations::restore(&services, &caller, &target)).await
    };
    api.session(restore).await.map(Json)
}

/// Stop all panes of a session and move its data to the trash
///
/// Fails if unsaved work would be lost, unless `discard` contains the tokens that identify it. No
/// pane is stopped then.
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "Session ID, unique ID prefix, or name"),
        PurgeQuery),
    responses((status = 204, description = "The session was removed")))]
async fn purge(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<PurgeQuery>,
) -> Result<StatusCode, ApiError> {
    let target = api.session_id(&id).await?;
    let grace_ms = grace(query.grace_ms)?;
    let (tokens, now) = (discard_tokens(query.discard.as_deref()), query.now);
    let purge = |services, caller| async move {
        let request = operations::PurgeRequest { grace_ms, discard: &tokens, now };
        Box::pin(operations::purge(&services, &caller, &target, request)).await
    };
    api.perform(purge).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the tokens of the unsaved work to discard.
pub(super) fn discard_tokens(discard: Option<&str>) -> Vec<String> {
    let tokens = discard.unwrap_or_default().split(',').map(str::trim);
    tokens.filter(|token| !token.is_empty()).map(str::to_owned).collect()
}
