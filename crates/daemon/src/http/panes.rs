//! Panes over HTTP.

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response as Answer};
use model::key::UnknownKey;
use model::launch::LaunchRequest;
use model::{Size, WorkspaceKind};
use protocol::control::{PaneAnswer, Request, Response};
use protocol::http::{
    AgentBody, InputBody, LogBody, LogQuery, PaneBody, RemoveQuery, ScreenBody, ScreenQuery,
    SizeBody, StopBody,
};
use protocol::look::{LOG_PIECE, Text, Typing, View};
use protocol::{ErrorBody, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::{IdempotencyKey, Json, Optional, created};
use super::problem::Refused;
use super::sessions::{bad_query, discard, failed, grace};

/// How long a pane may take to read what is typed, unless the caller says.
const READING_MS: u64 = 10_000;

/// How long at most.
const READING_MS_MAX: u64 = 60_000;

/// The offset of the first byte of a piece of a log.
const FROM: HeaderName = HeaderName::from_static("ccmux-from");

/// The offset after its last byte.
const NEXT: HeaderName = HeaderName::from_static("ccmux-next");

/// Whether more is there already.
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
    /// The pane that a path names.
    pub(super) async fn pane_id(&self, text: &str) -> Result<String, Refused> {
        let rows = self.supervisor.rows().await.map_err(failed)?;
        Ok(rows.find_pane(text)?.id.to_string())
    }

    async fn pane(&self, request: Request) -> Result<PaneAnswer, Refused> {
        let Response::Pane(answer) = self.perform(request).await? else {
            return Err(Refused::unexpected());
        };
        Ok(*answer)
    }

    async fn text(&self, target: String, view: View) -> Result<Text, Refused> {
        let Response::Text(text) = self.perform(Request::Read { target, view }).await? else {
            return Err(Refused::unexpected());
        };
        Ok(text)
    }
}

/// What was asked for over HTTP, as everybody else asks for it.
fn launch_request(api: &Api, body: AgentBody, project: Option<String>) -> LaunchRequest {
    let command = body.words();
    let cwd = body.cwd.or(project);
    // Without a directory of the caller's there is nothing to work on but what it will make.
    let nowhere = cwd.is_none() && body.workspace.is_none();
    LaunchRequest {
        name: body.name,
        agent: body.agent,
        isolation: body.isolation,
        workspace: if nowhere { Some(WorkspaceKind::Empty) } else { body.workspace },
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

fn size(body: SizeBody) -> Result<Size, Refused> {
    Size::new(body.cols, body.rows).map_err(|why| {
        ErrorBody::new(ErrorCode::Usage, format!("the size cannot be had: {why}")).into()
    })
}

/// Start a pane in a session
#[utoipa::path(post, path = "/v1/sessions/{id}/panes", tag = "panes", request_body = AgentBody,
    params(("id" = String, Path, description = "Session: id, unique beginning of an id, or name"),
        ("idempotency-key" = Option<String>, Header,
            description = "A word of the caller's: repeated with it, the call starts nothing new")),
    responses(
        (status = 201, description = "It runs", body = PaneBody),
        (status = 200, description = "An earlier call with this key has started it",
            body = PaneBody,
            headers(("idempotency-replayed" = bool, description = "True"))),
    ))]
async fn create(
    State(api): State<Api>,
    Path(id): Path<String>,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<AgentBody>,
) -> Result<Answer, Refused> {
    let record = api.session_record(&id).await?;
    let request = launch_request(&api, body, record.project);
    let request = LaunchRequest { session: Some(record.id.to_string()), key, ..request };
    let answer = api.pane(Request::New(Box::new(request))).await?;
    Ok(created(&answer, answer.repeated))
}

/// Show a pane
#[utoipa::path(get, path = "/v1/panes/{id}", tag = "panes",
    params(("id" = String, Path, description = "Pane: id, unique beginning of an id, or name")),
    responses((status = 200, description = "The pane with its session", body = PaneBody)))]
async fn show(State(api): State<Api>, Path(id): Path<String>) -> Result<Json<PaneAnswer>, Refused> {
    let target = api.pane_id(&id).await?;
    api.pane(Request::Show { target }).await.map(Json)
}

/// Type into a pane
#[utoipa::path(post, path = "/v1/panes/{id}/input", tag = "panes", request_body = InputBody,
    params(("id" = String, Path, description = "Pane: id, unique beginning of an id, or name")),
    responses((status = 204, description = "The terminal took all of it")))]
async fn input(
    State(api): State<Api>,
    Path(id): Path<String>,
    Json(body): Json<InputBody>,
) -> Result<StatusCode, Refused> {
    let target = api.pane_id(&id).await?;
    let InputBody { text, keys, enter, timeout_ms } = body;
    let timeout_ms = timeout_ms.unwrap_or(READING_MS);
    if timeout_ms > READING_MS_MAX {
        return Err(ErrorBody::new(ErrorCode::Usage, "timeoutMs is at most 60000").into());
    }
    let keys = keys.iter().map(|key| key.parse()).collect::<Result<_, UnknownKey>>();
    let keys = keys.map_err(|why| ErrorBody::new(ErrorCode::Usage, why.to_string()))?;
    let typing = Typing { text, keys, enter };
    api.perform(Request::Send { target, typing, timeout_ms }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a pane shows, as text
#[utoipa::path(get, path = "/v1/panes/{id}/screen", tag = "panes",
    params(("id" = String, Path, description = "Pane: id, unique beginning of an id, or name"),
        ScreenQuery),
    responses((status = 200, description = "Its screen", body = ScreenBody)))]
async fn screen(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<ScreenQuery>,
) -> Result<Json<ScreenBody>, Refused> {
    let target = api.pane_id(&id).await?;
    let view = match query.lines {
        None => View::Screen,
        Some(lines @ 1..=100_000) => View::Lines(lines as usize),
        Some(_) => return Err(bad_query("lines is between 1 and 100000")),
    };
    let Text { text, next, .. } = api.text(target, view).await?;
    Ok(Json(ScreenBody { text, offset: next }))
}

/// What a pane wrote, byte by byte
///
/// As it was written, or as JSON for callers who accept nothing else.
#[utoipa::path(get, path = "/v1/panes/{id}/log", tag = "panes",
    params(("id" = String, Path, description = "Pane: id, unique beginning of an id, or name"),
        LogQuery),
    responses((status = 200, description = "A piece of it", content(
            (Vec<u8> = "application/octet-stream"), (LogBody = "application/json")),
        headers(
            ("ccmux-from" = u64, description = "The offset of the first byte, which is later than \
                the one asked for if that is no longer kept"),
            ("ccmux-next" = u64, description = "The offset after the last byte: ask from here on"),
            ("ccmux-more" = bool, description = "More is there already")))))]
async fn log(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<LogQuery>,
    headers: HeaderMap,
) -> Result<Answer, Refused> {
    let target = api.pane_id(&id).await?;
    let limit = query.limit.map_or(LOG_PIECE, |limit| limit as usize);
    if !(1..=LOG_PIECE).contains(&limit) {
        return Err(bad_query("limit is between 1 and 1048576"));
    }
    if query.from.is_some_and(|from| i64::try_from(from).is_err()) {
        return Err(bad_query("no pane writes that much"));
    }
    let piece = api.text(target, View::Log { from: query.from }).await?;
    let Text { text, bytes, from, mut next, mut more } = piece;
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

/// Whether a caller accepts JSON and no plain bytes.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| {
        accepted.contains("application/json")
            && !accepted.contains("*/*")
            && !accepted.contains("octet-stream")
    })
}

/// Give a pane another size, for as long as no terminal is attached to it
#[utoipa::path(post, path = "/v1/panes/{id}/resize", tag = "panes", request_body = SizeBody,
    params(("id" = String, Path, description = "Pane: id, unique beginning of an id, or name")),
    responses((status = 200, description = "The size that it has now", body = SizeBody)))]
async fn resize(
    State(api): State<Api>,
    Path(id): Path<String>,
    Json(body): Json<SizeBody>,
) -> Result<Json<SizeBody>, Refused> {
    let target = api.pane_id(&id).await?;
    let size = size(body)?;
    let Response::Resized(size) = api.perform(Request::Resize { target, size }).await? else {
        return Err(Refused::unexpected());
    };
    Ok(Json(SizeBody { cols: size.cols(), rows: size.rows() }))
}

/// End the processes of a pane and keep its directories
#[utoipa::path(post, path = "/v1/panes/{id}/stop", tag = "panes",
    request_body(content = Option<StopBody>, description = "May be left out"),
    params(("id" = String, Path, description = "Pane: id, unique beginning of an id, or name")),
    responses((status = 200, description = "No process is left", body = PaneBody)))]
async fn stop(
    State(api): State<Api>,
    Path(id): Path<String>,
    Optional(body): Optional<StopBody>,
) -> Result<Json<PaneAnswer>, Refused> {
    let target = api.pane_id(&id).await?;
    let grace_ms = grace(body.grace_ms)?;
    api.pane(Request::Stop { target, grace_ms }).await.map(Json)
}

/// Start a pane again that has ended, going on with its conversation
#[utoipa::path(post, path = "/v1/panes/{id}/restore", tag = "panes",
    params(("id" = String, Path, description = "Pane: id, unique beginning of an id, or name")),
    responses((status = 200, description = "It runs", body = PaneBody)))]
async fn restore(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<PaneAnswer>, Refused> {
    let target = api.pane_id(&id).await?;
    api.pane(Request::Restore { target }).await.map(Json)
}

/// End a pane and retire its directories
///
/// Refused for work that would be lost, unless `discard` names exactly that work.
#[utoipa::path(delete, path = "/v1/panes/{id}", tag = "panes",
    params(("id" = String, Path, description = "Pane: id, unique beginning of an id, or name"),
        RemoveQuery),
    responses((status = 204, description = "It is gone")))]
async fn close(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<RemoveQuery>,
) -> Result<StatusCode, Refused> {
    let target = api.pane_id(&id).await?;
    let grace_ms = grace(query.grace_ms)?;
    api.perform(Request::Close { target, grace_ms, discard: discard(&query) }).await?;
    Ok(StatusCode::NO_CONTENT)
}
