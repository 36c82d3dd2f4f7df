//! `GET /v1/panes/{id}/attach`: a pane in a browser, or in any program that speaks WebSocket.
//!
//! What is said on the socket is in [`wire`], how it stays out of the pane's way in [`bridge`].

mod bridge;
mod wire;

use std::sync::Arc;

use axum::Extension;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use model::Size;
use model::event::Happening;
use model::http::Scope;
use protocol::http::Problem;
use protocol::{ErrorBody, ErrorCode};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::guard::Caller;
use super::problem::Refused;
use super::server::Peer;
use bridge::Bridge;

/// What this conversation is called among the protocols of a WebSocket.
const PROTOCOL: &str = "ccmux.attach.v1";

/// The longest message of a client: more than anybody pastes.
const MESSAGE_MAX: usize = 1 << 20;

/// How far behind a client may be after it was slow, if it does not say.
const LAG: u64 = 8 << 20;

/// How to attach.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// The offset that the caller has: exactly what follows it comes, as long as that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    /// How many bytes a caller that was slow may be behind before it gets a snapshot instead of
    /// them.
    #[param(default = 8_388_608)]
    lag: u64,
    /// Look on only, whatever the token allows.
    read_only: bool,
    /// The width of the caller's terminal; with `rows`, gives it a say in the size of the pane.
    #[param(minimum = 2, maximum = 1000)]
    cols: Option<u16>,
    /// The height of the caller's terminal.
    #[param(minimum = 2, maximum = 1000)]
    rows: Option<u16>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { from: None, lag: LAG, read_only: false, cols: None, rows: None }
    }
}

impl Wanted {
    fn size(&self) -> Result<Option<Size>, Refused> {
        let refused = |detail: String| Refused::new(StatusCode::BAD_REQUEST, "bad_request", detail);
        match (self.cols, self.rows) {
            (None, None) => Ok(None),
            (Some(cols), Some(rows)) => match Size::new(cols, rows) {
                Ok(size) => Ok(Some(size)),
                Err(error) => Err(refused(error.to_string())),
            },
            _ => Err(refused("a size has `cols` and `rows`".to_owned())),
        }
    }
}

/// The route of this file.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(attach))
}

/// Attach to a pane
///
/// A WebSocket. First `{"type":"snapshot","offset","size"}` and a binary message that rebuilds the
/// screen, then the pane's output as it comes; with `from`, `{"type":"resumed"}` and exactly what
/// follows that offset. Every binary message begins with its offset, 8 bytes big-endian. What the
/// caller sends as binary is typed; `{"type":"input","text","enter"}` types as a person would, and
/// `{"type":"resize","cols","rows"}` says how large its terminal is. Browsers, which can send no
/// `authorization`, offer the protocols `ccmux.attach.v1` and `ccmux.token.TOKEN`.
#[utoipa::path(
    get, path = "/v1/panes/{id}/attach", tag = "panes", operation_id = "attach",
    params(("id" = String, Path, description = "Name, id or unique beginning of an id"), Wanted),
    responses(
        (status = 101, description = "The WebSocket"),
        (status = 426, description = "The request does not ask for a WebSocket",
            content_type = "application/problem+json", body = Problem),
    ),
)]
pub(super) async fn attach(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refused> {
    let supervisor = &api.supervisor;
    let rows = supervisor.rows().await.map_err(super::unread)?;
    let row = rows.find_pane(&id)?;
    let gone = || ErrorBody::new(ErrorCode::NotFound, format!("pane {} is gone", row.name));
    let pane = supervisor.pane(row.id).ok_or_else(gone)?;
    if let Some(why) = pane.look().keeper.and_then(|keeper| keeper.incompatible()) {
        return Err(ErrorBody::new(ErrorCode::Conflict, why).into());
    }
    let size = wanted.size()?;
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(why) => return Ok(no_websocket(&why)),
    };
    let control = caller.scope.allows(Scope::Control) && !wanted.read_only;
    let path = format!("/v1/panes/{}/attach", row.id);
    let on_record = Happening::ApiCalled {
        who: caller.to_string(),
        method: "GET".to_owned(),
        path,
        status: 101,
    };
    let bridge = Bridge {
        supervisor: Arc::clone(supervisor),
        pane,
        control,
        on_record: Some(on_record),
        at: wanted.from,
        lag: wanted.lag,
        size: size.filter(|_| control),
    };
    let tasks = supervisor.tasks.clone();
    let counted = supervisor.http.metrics.attached();
    Ok(upgrade
        .protocols([PROTOCOL])
        .max_message_size(MESSAGE_MAX)
        .max_frame_size(MESSAGE_MAX)
        .on_upgrade(move |socket| {
            tasks.track_future(async move {
                bridge.serve(socket).await;
                // The connection's place among those that there may be is free only now.
                drop((counted, peer));
            })
        }))
}

fn no_websocket(why: &WebSocketUpgradeRejection) -> Response {
    let detail = format!("this is a WebSocket: {}", why.body_text());
    let refused = Refused::new(StatusCode::UPGRADE_REQUIRED, "no_websocket", detail)
        .hint("the screen as text is at /v1/panes/{id}/screen, the output at /v1/panes/{id}/log");
    let mut response = refused.into_response();
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response
}
