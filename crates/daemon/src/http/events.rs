//! `GET /v1/events`: what happens, as server-sent events.
//!
//! The number of an event in the log is its `id`, so a reader that was cut off, or was too slow and
//! was dropped, goes on exactly where it was: browsers do so by themselves, with `Last-Event-ID`.
//! Nothing is kept for a reader but the number of the last event it was given; what it has not read
//! is read from the log again.

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
use super::problem::Refused;
use super::sessions::bad_query;
use crate::command::EventStream;
use crate::command::resolution::{Meant, Rows};

/// How often a reader is told that there is nothing to tell.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Which events.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Those after this number; `0` begins with the oldest. Without it, and without
    /// `Last-Event-ID`, only what happens from now on.
    after: Option<u64>,
    /// Only those of this session: name, id or unique beginning of an id.
    session: Option<String>,
    /// Only those of this pane: name, id or unique beginning of an id.
    pane: Option<String>,
    /// `false` ends the stream after what has happened so far.
    follow: Option<bool>,
}

/// One event, as it is sent
#[derive(utoipa::ToSchema)]
#[schema(as = SentEvent)]
#[expect(dead_code, reason = "what the description says of them")]
struct Sent {
    /// Its number.
    id: String,
    /// Its kind.
    event: String,
    /// What happened, as JSON.
    data: String,
}

/// The route of this file.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(events))
}

/// What happens, as it happens
///
/// Each event has its number as `id` and its kind as `event`; `data` is what `ccmux events --json`
/// prints. A comment comes every 15 seconds when nothing else does. A reader that is too slow is
/// dropped and goes on by `Last-Event-ID`, without gap or duplicate.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "events",
    params(Wanted, ("Last-Event-ID" = Option<u64>, Header, description = "Goes on after this number; outweighs `after`")),
    responses(
        (status = 200, description = "The stream", content_type = "text/event-stream", body = Sent),
        (status = 404, description = "There is no such session or pane",
            content_type = "application/problem+json", body = Problem),
        (status = 409, description = "Several sessions or panes have this name",
            content_type = "application/problem+json", body = Problem),
    ),
)]
pub(super) async fn events(
    State(api): State<Api>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let filter = Filter::new(&api, &wanted).await?;
    let after = match last_event_id(&headers)?.or(wanted.after) {
        Some(after) if i64::try_from(after).is_err() => {
            return Err(bad_query("no event has such a number"));
        }
        Some(after) => after,
        None => api
            .supervisor
            .registry
            .read(|change| change.last_event())
            .await
            .map_err(super::unread)?,
    };
    let following = Following {
        events: api.supervisor.events(Some(after), wanted.follow.unwrap_or(true)),
        filter,
        stopping: api.supervisor.stopping.clone(),
    };
    let told = stream::unfold(following, |mut following| async {
        let event = following.next().await?;
        Some((Ok::<_, Infallible>(told(&event)), following))
    });
    Ok(Sse::new(told).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

fn told(event: &Event) -> sse::Event {
    let data = serde_json::to_value(event).expect("events have string keys only");
    let kind = data.get("event").and_then(|kind| kind.as_str()).unwrap_or("message").to_owned();
    sse::Event::default().id(event.seq.to_string()).event(kind).data(data.to_string())
}

struct Following {
    events: EventStream,
    filter: Filter,
    stopping: CancellationToken,
}

impl Following {
    /// The next event that is wanted; none at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let event = tokio::select! {
                event = self.events.next() => event,
                () = self.stopping.cancelled() => return None,
            };
            // A log that cannot be read ends the stream; asking again says why.
            let event = event.ok()??;
            if self.filter.wants(&event) {
                return Some(event);
            }
        }
    }
}

/// Whose events are wanted.
#[derive(Debug, Default)]
struct Filter {
    session: Option<SessionId>,
    pane: Option<PaneId>,
    /// The panes of the session that are known so far: not every event of a pane names its session.
    panes: HashSet<PaneId>,
}

impl Filter {
    async fn new(api: &Api, wanted: &Wanted) -> Result<Self, Refused> {
        if wanted.session.is_none() && wanted.pane.is_none() {
            return Ok(Self::default());
        }
        let rows = api.supervisor.rows().await.map_err(super::unread)?;
        let session = wanted.session.as_deref().map(|text| session_of(&rows, text)).transpose()?;
        let pane = wanted.pane.as_deref().map(|text| pane_of(&rows, text)).transpose()?;
        let own = session.into_iter().flat_map(|id| rows.panes_of(id).map(|row| row.id));
        Ok(Self { session, pane, panes: own.collect() })
    }

    fn wants(&mut self, event: &Event) -> bool {
        if self.session.is_none() && self.pane.is_none() {
            return true;
        }
        let said = serde_json::to_value(&event.what).unwrap_or_default();
        let session: Option<SessionId> = id_in(&said, "session");
        let pane: Option<PaneId> = id_in(&said, "pane");
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

fn id_in<T: std::str::FromStr>(said: &serde_json::Value, field: &str) -> Option<T> {
    said.get(field)?.as_str()?.parse().ok()
}

/// The session that is meant. A whole id may be that of one that is gone.
fn session_of(rows: &Rows, text: &str) -> Result<SessionId, Refused> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    match rows.find(text)? {
        Meant::Session(session) => Ok(session.record.id),
        Meant::Pane(pane) => Ok(pane.session),
    }
}

fn pane_of(rows: &Rows, text: &str) -> Result<PaneId, Refused> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(rows.find_pane(text)?.id),
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Refused> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().unwrap_or("?").trim();
    // How generated clients write that there is none.
    if matches!(text, "" | "null") {
        return Ok(None);
    }
    let number = text.parse().ok();
    number.map(Some).ok_or_else(|| {
        let detail = "Last-Event-ID is not the number of an event";
        Refused::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    })
}
