//! `GET /v1/metrics` and `/metrics`: metrics for Prometheus.
//!
//! Requests are counted by middleware; all other values are collected on each scrape. The route
//! label is the declared route pattern, so the number of series is bounded.

use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use model::message::MessageState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use protocol::control::Listing;
use protocol::message::MessageRequest;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::problem::ApiError;
use crate::operations;

/// The upper bounds of the duration histogram in seconds.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// The content type of the OpenMetrics text format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The counters of the HTTP API.
pub(crate) struct Metrics {
    since: Instant,
    responses: Family<ResponseLabels, Counter>,
    durations: Family<RouteLabel, Histogram, Durations>,
    attached: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SessionLabels {
    status: String,
    mode: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PaneLabels {
    agent: String,
    state: String,
}

/// Creates the duration histogram of a route.
#[derive(Clone)]
struct Durations;

impl MetricConstructor<Histogram> for Durations {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BUCKETS)
    }
}

/// Counts an attached client until it is dropped.
pub(super) struct Attached(Gauge);

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            responses: Family::default(),
            durations: Family::new_with_constructor(Durations),
            attached: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Counts an attached client.
    pub(super) fn attached(&self) -> Attached {
        self.attached.inc();
        Attached(self.attached.clone())
    }

    fn count(&self, method: &Method, route: &str, status: u16, duration: Duration) {
        let (method, route) = (method_name(method), route.to_owned());
        self.durations
            .get_or_create(&RouteLabel { route: route.clone() })
            .observe(duration.as_secs_f64());
        self.responses.get_or_create(&ResponseLabels { method, route, status }).inc();
    }

    /// Adds the counters of requests to a registry.
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "ccmux_attach_clients",
            "Clients attached over HTTP",
            self.attached.clone(),
        );
        registry.register("ccmux_http_requests", "Responses sent", self.responses.clone());
        registry.register(
            "ccmux_http_request_duration_seconds",
            "Time from the request to the start of the response",
            self.durations.clone(),
        );
    }
}

/// Returns a method name from a fixed set, because clients can send arbitrary methods.
fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Middleware that counts requests.
pub(super) async fn observe(State(api): State<Api>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let response = next.run(request).await;
    let route = route.as_deref().unwrap_or("unknown");
    let (status, duration) = (response.status().as_u16(), start.elapsed());
    api.http.metrics.count(&method, route, status, duration);
    response
}

pub(super) fn routes() -> OpenApiRouter<Api> {
    // The default path of Prometheus.
    OpenApiRouter::new().routes(routes!(metrics)).route("/metrics", axum::routing::get(metrics))
}

/// Get metrics for Prometheus
#[utoipa::path(
    get, path = "/v1/metrics", tag = "daemon", operation_id = "metrics",
    responses((status = 200, description = "The metrics in the OpenMetrics text format",
        content_type = "application/openmetrics-text", body = String)),
)]
pub(super) async fn metrics(State(api): State<Api>) -> Result<Response, ApiError> {
    let services = &api.services;
    let listing = api
        .perform(|services, caller| async move { operations::list(&services, &caller).await })
        .await?;
    let events = services.registry.read(|change| change.last_event()).await;
    let locks = services.coordination.all_locks().await;
    let waiting = services.coordination.locks.apply(|table, _| table.waiting().count()).await;
    let queued =
        MessageRequest::List { session: None, pane: None, state: Some(MessageState::Queued) };
    let queued = api
        .perform(
            |services, caller| async move { operations::message(&services, &caller, queued).await },
        )
        .await?;

    let metrics = &api.http.metrics;
    let mut registry = Registry::default();
    let version = vec![("version", env!("CARGO_PKG_VERSION"))];
    registry.register("ccmux_build", "The version of the daemon", Info::new(version));
    let uptime = i64::try_from(metrics.since.elapsed().as_secs()).unwrap_or(i64::MAX);
    gauge(&mut registry, "ccmux_uptime_seconds", "Time since the daemon started", uptime);
    register_panes(&mut registry, &listing);
    let recorded = Counter::<u64>::default();
    recorded.inc_by(events.map_err(super::unread)?);
    registry.register("ccmux_events", "Events recorded", recorded);
    let held = size(locks.map_err(super::unread)?.len());
    gauge(&mut registry, "ccmux_locks_held", "Locks held", held);
    let waiting = size(waiting.map_err(super::unread)?);
    gauge(&mut registry, "ccmux_locks_waiting", "Requests waiting for a lock", waiting);
    let queued = size(queued.messages.len());
    gauge(&mut registry, "ccmux_messages_queued", "Messages waiting for delivery", queued);
    metrics.register(&mut registry);
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text(&registry)).into_response())
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: i64) {
    let gauge = Gauge::<i64>::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

fn size(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Adds the numbers of sessions and panes by state.
fn register_panes(registry: &mut Registry, listing: &Listing) {
    let sessions = Family::<SessionLabels, Gauge>::default();
    let panes = Family::<PaneLabels, Gauge>::default();
    for listed in &listing.sessions {
        let (status, mode) = (label(&listed.session.status), label(&listed.session.mode));
        sessions.get_or_create(&SessionLabels { status, mode }).inc();
        for pane in &listed.panes {
            let (agent, state) = (pane.agent.as_str().to_owned(), label(&pane.state));
            panes.get_or_create(&PaneLabels { agent, state }).inc();
        }
    }
    registry.register("ccmux_sessions", "Sessions by status and mode", sessions);
    registry.register("ccmux_panes", "Panes by agent and current state", panes);
}

/// Returns the JSON string of an enum value.
fn label(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("unknown").to_owned()
}

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("writing to a string does not fail");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_duration() {
        let metrics = Metrics::default();
        for millis in [1, 3, 3, 700, 60_000] {
            metrics.count(&Method::GET, "/v1/panes/{id}", 200, Duration::from_millis(millis));
        }
        metrics.count(&"BREW".parse().unwrap(), "unknown", 405, Duration::ZERO);
        let mut registry = Registry::default();

        metrics.register(&mut registry);

        let text = text(&registry);
        for line in [
            r#"ccmux_http_requests_total{method="GET",route="/v1/panes/{id}",status="200"} 5"#,
            r#"ccmux_http_requests_total{method="other",route="unknown",status="405"} 1"#,
            r#"ccmux_http_request_duration_seconds_bucket{le="0.001",route="/v1/panes/{id}"} 1"#,
            r#"ccmux_http_request_duration_seconds_bucket{le="0.005",route="/v1/panes/{id}"} 3"#,
            r#"ccmux_http_request_duration_seconds_bucket{le="1.0",route="/v1/panes/{id}"} 4"#,
            r#"ccmux_http_request_duration_seconds_bucket{le="+Inf",route="/v1/panes/{id}"} 5"#,
            r#"ccmux_http_request_duration_seconds_count{route="/v1/panes/{id}"} 5"#,
        ] {
            assert!(text.lines().any(|found| found == line), "missing {line} in\n{text}");
        }
    }
}
