//! Sessions over HTTP.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response as Answer;
use model::{SessionRecord, Timestamp};
use protocol::control::{ListedSession, Request, Response, SessionAnswer};
use protocol::http::{
    AgentsBody, ConnectBody, ConnectPane, RemoveQuery, SessionBody, SessionsPage, SessionsQuery,
    StopBody,
};
use protocol::{ErrorBody, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::{Json, Optional, bytes, tagged};
use super::problem::Refused;
use crate::command::page::{Page, Place};

/// How many sessions are on a page, unless the caller says.
const PAGE: u16 = 50;

/// How long processes may take to leave by themselves, unless the caller says.
pub(super) const GRACE_MS: u64 = 5000;

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
    /// The session that a path names.
    pub(super) async fn session_record(&self, text: &str) -> Result<SessionRecord, Refused> {
        let rows = self.supervisor.rows().await.map_err(failed)?;
        Ok(rows.find_session(text)?.record.clone())
    }

    async fn session_id(&self, text: &str) -> Result<String, Refused> {
        Ok(self.session_record(text).await?.id.to_string())
    }

    async fn session(&self, request: Request) -> Result<SessionAnswer, Refused> {
        let Response::Session(answer) = self.perform(request).await? else {
            return Err(Refused::unexpected());
        };
        Ok(answer)
    }

    async fn show_session(&self, text: &str) -> Result<SessionAnswer, Refused> {
        let target = self.session_id(text).await?;
        self.session(Request::Show { target }).await
    }
}

pub(super) fn failed(error: impl Into<crate::command::Failure>) -> Refused {
    error.into().into_body().into()
}

/// List sessions with their panes
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(SessionsQuery),
    responses(
        (status = 200, description = "A page of them", body = SessionsPage,
            headers(("etag" = String, description = "For `if-none-match`"))),
        (status = 304, description = "It is the same as before"),
    ))]
async fn list(
    State(api): State<Api>,
    Query(query): Query<SessionsQuery>,
    headers: HeaderMap,
) -> Result<Answer, Refused> {
    let limit = usize::from(query.limit.unwrap_or(PAGE));
    if !(1..=100).contains(&limit) {
        return Err(bad_query("limit is between 1 and 100"));
    }
    let after = query.cursor.as_deref().map(read_cursor).transpose()?;
    let page = Page { after, mode: query.mode, status: query.status, most: limit };
    let (sessions, more) = api.supervisor.page(page).await.map_err(failed)?;
    let next = sessions.last().filter(|_| more).map(cursor);
    Ok(tagged(&headers, bytes(&SessionsPage { sessions, next })))
}

/// Where the page after this session begins.
fn cursor(last: &ListedSession) -> String {
    format!("{}.{}", last.session.created.0, last.session.id)
}

fn read_cursor(text: &str) -> Result<Place, Refused> {
    let parts = text
        .split_once('.')
        .and_then(|(created, id)| Some((Timestamp(created.parse().ok()?), id.parse().ok()?)));
    let none_of_ours = || ErrorBody::new(ErrorCode::Usage, "this cursor is none of ours");
    Ok(parts.ok_or_else(none_of_ours)?)
}

pub(super) fn bad_query(detail: &str) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, "bad_request", detail)
}

/// Show a session with its panes
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "Session: id, unique beginning of an id, or name")),
    responses(
        (status = 200, description = "The session", body = SessionBody,
            headers(("etag" = String, description = "For `if-none-match`"))),
        (status = 304, description = "It is the same as before"),
    ))]
async fn show(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Answer, Refused> {
    let answer = api.show_session(&id).await?;
    Ok(tagged(&headers, bytes(&answer)))
}

/// List the agents of a session
#[utoipa::path(get, path = "/v1/sessions/{id}/agents", tag = "sessions",
    params(("id" = String, Path, description = "Session: id, unique beginning of an id, or name")),
    responses((status = 200, description = "Its panes", body = AgentsBody)))]
async fn agents(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<AgentsBody>, Refused> {
    let answer = api.show_session(&id).await?;
    Ok(Json(AgentsBody { agents: answer.panes }))
}

/// How to attach to the panes of a session
#[utoipa::path(post, path = "/v1/sessions/{id}/connect", tag = "sessions",
    params(("id" = String, Path, description = "Session: id, unique beginning of an id, or name")),
    responses((status = 200, description = "One way for each pane that lives", body = ConnectBody)))]
async fn connect(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<ConnectBody>, Refused> {
    let answer = api.show_session(&id).await?;
    let live: Vec<_> = answer.panes.iter().filter(|pane| pane.state.is_live()).collect();
    if live.is_empty() {
        let message = format!("no pane of the session {} is running", answer.session.name);
        let hint = format!("start them again: POST /v1/sessions/{}/restore", answer.session.id);
        return Err(ErrorBody::new(ErrorCode::Conflict, message).hint(hint).into());
    }
    let base = api.supervisor.http.url().unwrap_or_default().replacen("http", "ws", 1);
    let panes = live.into_iter().map(|pane| ConnectPane {
        pane_id: pane.id,
        name: pane.name.clone(),
        web_socket: format!("{base}/v1/panes/{}/attach", pane.id),
        command: vec!["ccmux".to_owned(), "attach".to_owned(), pane.id.to_string()],
    });
    Ok(Json(ConnectBody { session_id: answer.session.id, panes: panes.collect() }))
}

/// End every process of a session and keep its directories
#[utoipa::path(post, path = "/v1/sessions/{id}/stop", tag = "sessions",
    params(("id" = String, Path, description = "Session: id, unique beginning of an id, or name")),
    request_body(content = Option<StopBody>, description = "May be left out"),
    responses((status = 200, description = "No process is left", body = SessionBody)))]
async fn stop(
    State(api): State<Api>,
    Path(id): Path<String>,
    Optional(body): Optional<StopBody>,
) -> Result<Json<SessionAnswer>, Refused> {
    let target = api.session_id(&id).await?;
    let grace_ms = grace(body.grace_ms)?;
    api.session(Request::Stop { target, grace_ms }).await.map(Json)
}

/// The grace period that a caller asks for.
pub(super) fn grace(asked: Option<u64>) -> Result<u64, Refused> {
    match asked {
        None => Ok(GRACE_MS),
        Some(grace) if grace <= 600_000 => Ok(grace),
        Some(_) => Err(ErrorBody::new(ErrorCode::Usage, "graceMs is at most 600000").into()),
    }
}

/// Start every pane of a session again that has ended
#[utoipa::path(post, path = "/v1/sessions/{id}/restore", tag = "sessions",
    params(("id" = String, Path, description = "Session: id, unique beginning of an id, or name")),
    responses((status = 200, description = "They run", body = SessionBody)))]
async fn restore(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<SessionAnswer>, Refused> {
    let target = api.session_id(&id).await?;
    api.session(Request::Restore { target }).await.map(Json)
}

/// End every pane of a session and delete everything of it
///
/// Refused for work that would be lost, unless `discard` names exactly that work.
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "Session: id, unique beginning of an id, or name"),
        RemoveQuery),
    responses((status = 204, description = "It is gone")))]
async fn purge(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<RemoveQuery>,
) -> Result<StatusCode, Refused> {
    let target = api.session_id(&id).await?;
    let grace_ms = grace(query.grace_ms)?;
    api.perform(Request::Purge { target, grace_ms, discard: discard(&query) }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The words for work that may be lost.
pub(super) fn discard(query: &RemoveQuery) -> Vec<String> {
    let words = query.discard.as_deref().unwrap_or_default().split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
