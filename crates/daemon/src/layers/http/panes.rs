//! Panes over HTTP.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use model::authority::Caller;
use model::key::UnknownKey;
use model::launch::LaunchRequest;
use model::{Size, WorkspaceKind};
use protocol::control::PaneAnswer;
use protocol::http::{
    AgentBody, InputBody, LogBody, LogQuery, PaneBody, RemoveQuery, ScreenBody, ScreenQuery,
    SizeBody, StopBody,
};
use protocol::pane_io::{LOG_PIECE, ReadView, Text, Typing};
use protocol::{ErrorBody, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::{IdempotencyKey, Json, Optional, created};
use super::problem::ApiError;
use super::sessions::{bad_query, discard_tokens, failed, grace};
use crate::fault::Fault;
use crate::operations::{self, PaneOrSession, Services};

/// The default time for a pane to read its input.
const DEFAULT_INPUT_TIMEOUT_MS: u64 = 10_000;

/// The maximum time for a pane to read its input.
const MAX_INPUT_TIMEOUT_MS: u64 = 60_000;

/// The offset of the first byte in the response.
const FROM: HeaderName = HeaderName::from_static("ccmux-from");

/// The offset after the last byte in the response.
const NEXT: HeaderName = HeaderName::from_static("ccmux-next");

/// Whether more output is available.
const MORE: HeaderName = HeaderName::from_static("ccmux-more");

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(show, close))
        .routes(routes!(input))
        .routes(routes!(screen))
        .routes(routes!(log))
        .routes(routes!(resize))
        .routes(routes!(stop))
        .routes(routes!(restore))
}

impl Api {
    /// Finds the ID of the pane identified by a path parameter.
    pub(super) async fn pane_id(&self, text: &str) -> Result<String, ApiError> {
        let rows = self.services.panes.rows().await.map_err(failed)?;
        Ok(rows.find_pane(text)?.id.to_string())
    }

    /// Runs an operation on a pane whose ID is already resolved.
    async fn pane<E: Fault, F>(
        &self,
        operation: impl FnOnce(Arc<Services>, Caller) -> F,
    ) -> Result<Json<PaneAnswer>, ApiError>
    where
        F: Future<Output = Result<PaneOrSession, E>> + Send + 'static,
    {
        match self.perform(operation).await? {
            PaneOrSession::Pane(answer) => Ok(Json(*answer)),
            PaneOrSession::Session(_) => Err(ApiError::internal(&"pane ID resolved to a session")),
        }
    }

    async fn text(&self, target: String, view: ReadView) -> Result<Text, ApiError> {
        self.perform(|services, caller| async move {
            operations::read(&services, &caller, &target, view).await
        })
        .await
    }
}

/// Converts the body to the request of the operation.
fn launch_request(api: &Api, body: AgentBody, project: Option<String>) -> LaunchRequest {
    let command = body.words();
    let cwd = body.cwd.or(project);
    // A pane without a directory gets an empty workspace.
    let no_directory = cwd.is_none() && body.workspace.is_none();
    LaunchRequest {
        name: body.name,
        agent: body.agent,
        isolation: body.isolation,
        workspace: if no_directory { Some(WorkspaceKind::Empty) } else { body.workspace },
        carry: body.carry,
        command,
        cwd: cwd.unwrap_or_else(|| api.users_home()),
        env: body.env,
        role: body.role,
        unit: body.unit,
        prompt: body.prompt,
        client_env: api.client_env.clone(),
        ..LaunchRequest::default()
    }
}

fn size(body: SizeBody) -> Result<Size, ApiError> {
    Size::new(body.cols, body.rows)
        .map_err(|why| ErrorBody::new(ErrorCode::Usage, format!("invalid size: {why}")).into())
}

/// Start a pane in a session
#[utoipa::path(post, path = "/v1/sessions/{id}/panes", tag = "panes", request_body = AgentBody,
    params(("id" = String, Path, description = "Session ID, unique ID prefix, or name"),
        ("idempotency-key" = Option<String>, Header,
            description = "Unique key of this request; a retry with the same key returns the pane already started")),
    responses(
        (status = 201, description = "The pane was started", body = PaneBody),
        (status = 200, description = "An earlier request with this key started the pane",
            body = PaneBody,
            headers(("idempotency-replayed" = bool, description = "Always true"))),
    ))]
async fn create(
    State(api): State<Api>,
    Path(id): Path<String>,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<AgentBody>,
) -> Result<Response, ApiError> {
    let record = api.session_record(&id).await?;
    let request = launch_request(&api, body, record.project);
    let request = LaunchRequest { session: Some(record.id.to_string()), key, ..request };
    let launch = |services, caller| async move {
        Box::pin(operations::launch_once(&services, &caller, request)).await
    };
    let answer = api.perform(launch).await?;
    Ok(created(&answer, answer.repeated))
}

/// Show a pane
#[utoipa::path(get, path = "/v1/panes/{id}", tag = "panes",
    params(("id" = String, Path, description = "Pane ID, unique ID prefix, or name")),
    responses((status = 200, description = "The pane and its session", body = PaneBody)))]
async fn show(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<PaneAnswer>, ApiError> {
    let target = api.pane_id(&id).await?;
    api.pane(|services, caller| async move { operations::show(&services, &caller, &target).await })
        .await
}

/// Send input to a pane
#[utoipa::path(post, path = "/v1/panes/{id}/input", tag = "panes", request_body = InputBody,
    params(("id" = String, Path, description = "Pane ID, unique ID prefix, or name")),
    responses((status = 204, description = "The terminal accepted all input")))]
async fn input(
    State(api): State<Api>,
    Path(id): Path<String>,
    Json(body): Json<InputBody>,
) -> Result<StatusCode, ApiError> {
    let target = api.pane_id(&id).await?;
    let InputBody { text, keys, enter, timeout_ms, force } = body;
    let timeout_ms = timeout_ms.unwrap_or(DEFAULT_INPUT_TIMEOUT_MS);
    if timeout_ms > MAX_INPUT_TIMEOUT_MS {
        return Err(ErrorBody::new(ErrorCode::Usage, "timeoutMs must be at most 60000").into());
    }
    let keys = keys.iter().map(|key| key.parse()).collect::<Result<_, UnknownKey>>();
    let keys = keys.map_err(|why| ErrorBody::new(ErrorCode::Usage, why.to_string()))?;
    let input = operations::Input { typing: Typing { text, keys, enter }, timeout_ms, force };
    let send = |services: Arc<Services>, caller| async move {
        operations::send(&services, &caller, &target, input).await
    };
    api.perform(send).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Get the screen of a pane as text
#[utoipa::path(get, path = "/v1/panes/{id}/screen", tag = "panes",
    params(("id" = String, Path, description = "Pane ID, unique ID prefix, or name"),
        ScreenQuery),
    responses((status = 200, description = "The screen", body = ScreenBody)))]
async fn screen(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<ScreenQuery>,
) -> Result<Json<ScreenBody>, ApiError> {
    let target = api.pane_id(&id).await?;
    let view = match query.lines {
        None => ReadView::Screen,
        Some(lines @ 1..=100_000) => ReadView::Lines(lines as usize),
        Some(_) => return Err(bad_query("lines must be between 1 and 100000")),
    };
    let Text { text, next, .. } = api.text(target, view).await?;
    Ok(Json(ScreenBody { text, offset: next }))
}

/// Get the raw output of a pane
///
/// Returns bytes, or JSON if `accept` allows only JSON.
#[utoipa::path(get, path = "/v1/panes/{id}/log", tag = "panes",
    params(("id" = String, Path, description = "Pane ID, unique ID prefix, or name"),
        LogQuery),
    responses((status = 200, description = "Part of the output", content(
            (Vec<u8> = "application/octet-stream"), (LogBody = "application/json")),
        headers(
            ("ccmux-from" = u64, description = "The offset of the first byte; greater than the \
                requested offset if that part of the output is no longer stored"),
            ("ccmux-next" = u64, description = "The offset after the last byte; pass it as `from` to continue"),
            ("ccmux-more" = bool, description = "Whether more output is available")))))]
async fn log(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<LogQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let target = api.pane_id(&id).await?;
    let limit = query.limit.map_or(LOG_PIECE, |limit| limit as usize);
    if !(1..=LOG_PIECE).contains(&limit) {
        return Err(bad_query("limit must be between 1 and 1048576"));
    }
    if query.from.is_some_and(|from| i64::try_from(from).is_err()) {
        return Err(bad_query("from is out of range"));
    }
    let output = api.text(target, ReadView::Log { from: query.from }).await?;
    let Text { text, bytes, from, mut next, mut more } = output;
    let mut bytes = bytes.unwrap_or_else(|| text.into_bytes());
    if bytes.len() > limit {
        bytes.truncate(limit);
        next = from + bytes.len() as u64;
        more = true;
    }
    if wants_json(&headers) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        return Ok(Json(LogBody { text, from, next, more }).into_response());
    }
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (FROM, from.into()),
        (NEXT, next.into()),
        (MORE, HeaderValue::from_static(if more { "true" } else { "false" })),
    ];
    Ok((headers, Bytes::from(bytes)).into_response())
}

/// Returns whether the client accepts JSON but not raw bytes.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| {
        accepted.contains("application/json")
            && !accepted.contains("*/*")
            && !accepted.contains("octet-stream")
    })
}

/// Resize a pane
///
/// The size applies while no terminal is attached to the pane.
#[utoipa::path(post, path = "/v1/panes/{id}/resize", tag = "panes", request_body = SizeBody,
    params(("id" = String, Path, description = "Pane ID, unique ID prefix, or name")),
    responses((status = 200, description = "The current size", body = SizeBody)))]
async fn resize(
    State(api): State<Api>,
    Path(id): Path<String>,
    Json(body): Json<SizeBody>,
) -> Result<Json<SizeBody>, ApiError> {
    let target = api.pane_id(&id).await?;
    let size = size(body)?;
    let resize = |services: Arc<Services>, caller| async move {
        operations::resize(&services, &caller, &target, size).await
    };
    let size = api.perform(resize).await?;
    Ok(Json(SizeBody { cols: size.cols(), rows: size.rows() }))
}

/// Stop the processes of a pane and keep its directories
#[utoipa::path(post, path = "/v1/panes/{id}/stop", tag = "panes",
    request_body(content = Option<StopBody>, description = "Optional"),
    params(("id" = String, Path, description = "Pane ID, unique ID prefix, or name")),
    responses((status = 200, description = "All processes have ended", body = PaneBody)))]
async fn stop(
    State(api): State<Api>,
    Path(id): Path<String>,
    Optional(body): Optional<StopBody>,
) -> Result<Json<PaneAnswer>, ApiError> {
    let target = api.pane_id(&id).await?;
    let grace_ms = grace(body.grace_ms)?;
    api.pane(|services, caller| async move {
        operations::stop(&services, &caller, &target, grace_ms).await
    })
    .await
}

/// Restart an ended pane and resume its conversation
#[utoipa::path(post, path = "/v1/panes/{id}/restore", tag = "panes",
    params(("id" = String, Path, description = "Pane ID, unique ID prefix, or name")),
    responses((status = 200, description = "The pane is running", body = PaneBody)))]
async fn restore(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<PaneAnswer>, ApiError> {
    let target = api.pane_id(&id).await?;
    let restore = |services, caller| async move {
        Box::pin(operations::restore(&services, &caller, &target)).await
    };
    api.pane(restore).await
}

/// Close a pane and move its directories to the trash
///
/// Fails if unsaved work would be lost, unless `discard` contains the token that identifies it. A
/// running pane with unsaved work keeps running.
#[utoipa::path(delete, path = "/v1/panes/{id}", tag = "panes",
    params(("id" = String, Path, description = "Pane ID, unique ID prefix, or name"),
        RemoveQuery),
    responses((status = 204, description = "The pane was closed")))]
async fn close(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<RemoveQuery>,
) -> Result<StatusCode, ApiError> {
    let target = api.pane_id(&id).await?;
    let grace_ms = grace(query.grace_ms)?;
    let tokens = discard_tokens(query.discard.as_deref());
    let close = |services, caller| async move {
        let request = operations::CloseRequest { grace_ms, discard: &tokens, only_ended: false };
        Box::pin(operations::close(&services, &caller, &target, request)).await
    };
    api.perform(close).await?;
    Ok(StatusCode::NO_CONTENT)
}
