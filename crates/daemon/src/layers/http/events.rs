//! `GET /v1/events`: the event log as server-sent events.
//!
//! The `id` of an event is its sequence number in the log, so a client that reconnects with
//! `Last-Event-ID` resumes without gaps or duplicates. The only state per client is the number of
//! the last event sent; unread events stay in the log.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use model::event::Event;
use model::{PaneId, SessionId};
use protocol::http::Problem;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::problem::ApiError;
use super::sessions::bad_query;
use crate::registry::{EventStream, PaneOrSessionRow, Rows};

/// The interval between comments on an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Query parameters of the event stream.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Return events after this sequence number; `0` starts with the oldest (default: only new
    /// events).
    after: Option<u64>,
    /// Return only events of this session: ID, unique ID prefix, or name.
    session: Option<String>,
    /// Return only events of this pane: ID, unique ID prefix, or name.
    pane: Option<String>,
    /// Keep the stream open for new events (default: true).
    follow: Option<bool>,
}

/// A server-sent event
#[derive(utoipa::ToSchema)]
#[schema(as = SentEvent)]
#[expect(dead_code, reason = "describes the stream in OpenAPI")]
struct Sent {
    /// The sequence number.
    id: String,
    /// The event kind.
    event: String,
    /// The event as JSON text: an object of the schema `Event`
    data: String,
}

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(events))
}

/// Stream events
///
/// The `id` of each event is its sequence number, `event` is its kind, and `data` is the event as
/// JSON. An idle stream carries a comment every 15 seconds. The connection of a client that reads
/// too slowly is closed; it can resume with `Last-Event-ID` without gaps or duplicates.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "events",
    params(EventsQuery, ("Last-Event-ID" = Option<u64>, Header, description = "Resume after this sequence number; overrides `after`")),
    responses(
        (status = 200, description = "The event stream", content_type = "text/event-stream", body = Sent),
        (status = 404, description = "No such session or pane",
            content_type = "application/problem+json", body = Problem),
        (status = 409, description = "The name or prefix is ambiguous",
            content_type = "application/problem+json", body = Problem),
    ),
)]
pub(super) async fn events(
    State(api): State<Api>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let filter = Filter::new(&api, &query).await?;
    let last = last_event_id(&headers)?;
    // Both are checked, even though only one counts.
    if [last, query.after].into_iter().flatten().any(|after| i64::try_from(after).is_err()) {
        return Err(bad_query("after is out of range"));
    }
    let after = match last.or(query.after) {
        Some(after) => after,
        None => {
            api.services.registry.read(|change| change.last_event()).await.map_err(super::unread)?
        }
    };
    let subscription = Subscription {
        events: api.services.registry.events(Some(after), query.follow.unwrap_or(true)),
        filter,
        stopping: api.services.runtime.stopping.clone(),
    };
    let events = stream::unfold(subscription, |mut subscription| async {
        let event = subscription.next().await?;
        Some((Ok::<_, Infallible>(sse_event(&event)), subscription))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

fn sse_event(event: &Event) -> sse::Event {
    let data = serde_json::to_value(event).expect("events have string keys only");
    let kind = data.get("event").and_then(|kind| kind.as_str()).unwrap_or("message").to_owned();
    sse::Event::default().id(event.seq.to_string()).event(kind).data(data.to_string())
}

struct Subscription {
    events: EventStream,
    filter: Filter,
    stopping: CancellationToken,
}

impl Subscription {
    /// Returns the next event that matches the filter, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let event = tokio::select! {
                event = self.events.next() => event,
                () = self.stopping.cancelled() => return None,
            };
            // A read error ends the stream; the next request reports it.
            let event = event.ok()??;
            if self.filter.matches(&event) {
                return Some(event);
            }
        }
    }
}

/// The session and pane of the requested events.
#[derive(Debug, Default)]
struct Filter {
    session: Option<SessionId>,
    pane: Option<PaneId>,
    /// The known panes of the session, because not every pane event contains the session.
    panes: HashSet<PaneId>,
}

impl Filter {
    async fn new(api: &Api, query: &EventsQuery) -> Result<Self, ApiError> {
        if query.session.is_none() && query.pane.is_none() {
            return Ok(Self::default());
        }
        let rows = api.services.panes.rows().await.map_err(super::unread)?;
        let session = query.session.as_deref().map(|text| session_of(&rows, text)).transpose()?;
        let pane = query.pane.as_deref().map(|text| pane_of(&rows, text)).transpose()?;
        let panes = session.into_iter().flat_map(|id| rows.panes_of(id).map(|row| row.id));
        Ok(Self { session, pane, panes: panes.collect() })
    }

    fn matches(&mut self, event: &Event) -> bool {
        if self.session.is_none() && self.pane.is_none() {
            return true;
        }
        let body = serde_json::to_value(&event.what).unwrap_or_default();
        let session: Option<SessionId> = id_in(&body, "session");
        let pane: Option<PaneId> = id_in(&body, "pane");
        if let (Some(wanted), Some(pane)) = (self.session, pane)
            && session == Some(wanted)
        {
            self.panes.insert(pane);
        }
        let of_session = self.session.is_none_or(|wanted| {
            session == Some(wanted) || pane.is_some_and(|pane| self.panes.contains(&pane))
        });
        of_session && self.pane.is_none_or(|wanted| pane == Some(wanted))
    }
}

fn id_in<T: std::str::FromStr>(body: &serde_json::Value, field: &str) -> Option<T> {
    body.get(field)?.as_str()?.parse().ok()
}

/// Finds a session. A full ID may be that of a deleted session.
fn session_of(rows: &Rows, text: &str) -> Result<SessionId, ApiError> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    match rows.find(text)? {
        PaneOrSessionRow::Session(session) => Ok(session.record.id),
        PaneOrSessionRow::Pane(pane) => Ok(pane.session),
    }
}

fn pane_of(rows: &Rows, text: &str) -> Result<PaneId, ApiError> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(rows.find_pane(text)?.id),
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().unwrap_or("?").trim();
    // Generated clients send these for an absent value.
    if matches!(text, "" | "null") {
        return Ok(None);
    }
    let number = text.parse().ok();
    number.map(Some).ok_or_else(|| {
        let detail = "Last-Event-ID must be an event sequence number";
        ApiError::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    })
}
