//! `GET /v1/panes/{id}/attach`: a pane over a WebSocket.
//!
//! [`wire`] defines the messages; [`bridge`] connects the WebSocket to the pane.

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
use model::event::EventBody;
use model::http::Scope;
use protocol::http::Problem;
use protocol::{ErrorBody, ErrorCode};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::bridge::Bridge;
use super::Api;
use super::guard::Caller;
use super::problem::ApiError;
use super::server::Peer;

/// The WebSocket subprotocol.
const PROTOCOL: &str = "ccmux.attach.v1";

/// The maximum size of a message from the client in bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// The default number of bytes that a slow client may lag behind.
const DEFAULT_LAG: u64 = 8 << 20;

/// Query parameters of an attach request.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AttachQuery {
    /// Resume with the output after this offset, if it is still stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    /// The number of bytes that a slow client may lag behind before it receives a snapshot
    /// instead.
    #[param(default = 8_388_608)]
    lag: u64,
    /// Do not accept input, even if the token allows it.
    read_only: bool,
    /// The width of the client's terminal; with `rows`, it takes part in the size of the pane.
    #[param(minimum = 2, maximum = 1000)]
    cols: Option<u16>,
    /// The height of the client's terminal.
    #[param(minimum = 2, maximum = 1000)]
    rows: Option<u16>,
}

impl Default for AttachQuery {
    fn default() -> Self {
        Self { from: None, lag: DEFAULT_LAG, read_only: false, cols: None, rows: None }
    }
}

impl AttachQuery {
    fn size(&self) -> Result<Option<Size>, ApiError> {
        let invalid =
            |detail: String| ApiError::new(StatusCode::BAD_REQUEST, "bad_request", detail);
        match (self.cols, self.rows) {
            (None, None) => Ok(None),
            (Some(cols), Some(rows)) => match Size::new(cols, rows) {
                Ok(size) => Ok(Some(size)),
                Err(error) => Err(invalid(error.to_string())),
            },
            _ => Err(invalid("`cols` and `rows` must be used together".to_owned())),
        }
    }
}

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(attach))
}

/// Attach to a pane
///
/// Opens a WebSocket. The server sends `{"type":"snapshot","offset","size"}` and a binary message
/// that redraws the screen, then the output of the pane. With `from`, it sends `{"type":"resumed"}`
/// and the output after that offset. Every binary message starts with its offset as 8 bytes in
/// big-endian order. The client sends raw input as binary messages,
/// `{"type":"input","text","enter"}` to enter text, and `{"type":"resize","cols","rows"}` to report
/// the size of its terminal. Browsers, which cannot set `authorization`, offer the subprotocols
/// `ccmux.attach.v1` and `ccmux.token.TOKEN`.
#[utoipa::path(
    get, path = "/v1/panes/{id}/attach", tag = "panes", operation_id = "attach",
    params(("id" = String, Path, description = "Pane ID, unique ID prefix, or name"), AttachQuery),
    responses(
        (status = 101, description = "Switching to WebSocket"),
        (status = 426, description = "The request is not a WebSocket upgrade",
            content_type = "application/problem+json", body = Problem),
    ),
)]
pub(super) async fn attach(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    Query(query): Query<AttachQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let services = &api.services;
    let rows = services.panes.rows().await.map_err(super::unread)?;
    let row = rows.find_pane(&id)?;
    let not_found =
        || ErrorBody::new(ErrorCode::NotFound, format!("pane {} no longer exists", row.name));
    let pane = services.panes.get(row.id).ok_or_else(not_found)?;
    if let Some(why) = pane.status().keeper.and_then(|keeper| keeper.incompatible()) {
        return Err(ErrorBody::new(ErrorCode::Conflict, why).into());
    }
    let size = query.size()?;
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(why) => return Ok(upgrade_required(&why)),
    };
    let control = caller.scope.allows(Scope::Control) && !query.read_only;
    let path = format!("/v1/panes/{}/attach", row.id);
    let audit_event = EventBody::ApiCalled {
        who: caller.to_string(),
        method: "GET".to_owned(),
        path,
        status: 101,
    };
    let bridge = Bridge {
        services: Arc::clone(services),
        pane,
        control,
        audit_event: Some(audit_event),
        offset: query.from,
        lag: query.lag,
        size: size.filter(|_| control),
        revoked: caller.revoked,
    };
    let tasks = services.runtime.tasks.clone();
    let counted = api.http.metrics.attached();
    Ok(upgrade
        .protocols([PROTOCOL])
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_upgrade(move |socket| {
            tasks.track_future(async move {
                bridge.serve(socket).await;
                // Releases the permit of the connection.
                drop((counted, peer));
            })
        }))
}

fn upgrade_required(why: &WebSocketUpgradeRejection) -> Response {
    let detail = format!("a WebSocket upgrade is required: {}", why.body_text());
    let error = ApiError::new(StatusCode::UPGRADE_REQUIRED, "no_websocket", detail).hint(
        "use /v1/panes/{id}/screen for the screen as text, or /v1/panes/{id}/log for the output",
    );
    let mut response = error.into_response();
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response
}
