//! `GET /v1/metrics` and `/metrics`: what Prometheus reads.
//!
//! Calls are counted as they pass; everything else is asked of those who know at the moment of
//! reading. Routes are named as they are declared, so the number of series is bounded.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use model::message::MessageState;
use protocol::control::{Listing, Request as Asked, Response as Answer};
use protocol::message::MessageRequest;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::problem::Refused;

/// The upper ends of what the durations of calls are sorted into, in seconds.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// What the text says it is.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is counted.
pub(crate) struct Metrics {
    since: Instant,
    calls: Mutex<Calls>,
    attached: Arc<AtomicUsize>,
}

/// Calls since the daemon started.
#[derive(Debug, Default)]
struct Calls {
    /// By method, route and status.
    answered: BTreeMap<(&'static str, String, u16), u64>,
    /// By route.
    took: BTreeMap<String, Took>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Took {
    /// How many took at most that long, and longer than the one before.
    counts: [u64; BUCKETS.len() + 1],
    seconds: f64,
}

/// Counts an attached client for as long as it is.
pub(super) struct Attached(Arc<AtomicUsize>);

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { since: Instant::now(), calls: Mutex::default(), attached: Arc::default() }
    }
}

impl Metrics {
    /// One more attached client.
    pub(super) fn attached(&self) -> Attached {
        self.attached.fetch_add(1, Ordering::Relaxed);
        Attached(Arc::clone(&self.attached))
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, method: &Method, route: &str, status: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut calls = self.calls();
        let answered = calls.answered.entry((method_name(method), route.to_owned(), status));
        *answered.or_default() += 1;
        let sums = calls.took.entry(route.to_owned()).or_default();
        let bucket = BUCKETS.iter().position(|most| seconds <= *most).unwrap_or(BUCKETS.len());
        sums.counts[bucket] += 1;
        sums.seconds += seconds;
    }
}

/// A name for a method out of few: callers can make up any.
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

/// Counts every call that passes.
pub(super) async fn observe(State(api): State<Api>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let response = next.run(request).await;
    let route = route.as_deref().unwrap_or("unknown");
    let (status, took) = (response.status().as_u16(), began.elapsed());
    api.supervisor.http.metrics.count(&method, route, status, took);
    response
}

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<Api> {
    // Where Prometheus looks if nobody tells it otherwise.
    OpenApiRouter::new().routes(routes!(metrics)).route("/metrics", axum::routing::get(metrics))
}

/// Figures for Prometheus
#[utoipa::path(
    get, path = "/v1/metrics", tag = "daemon", operation_id = "metrics",
    responses((status = 200, description = "The figures in Prometheus' text format",
        content_type = "text/plain", body = String)),
)]
pub(super) async fn metrics(State(api): State<Api>) -> Result<Response, Refused> {
    let Answer::Sessions(listing) = api.perform(Asked::List).await? else {
        return Err(Refused::unexpected());
    };
    let supervisor = &api.supervisor;
    let events = supervisor.registry.read(|change| change.last_event()).await;
    let locks = supervisor.all_locks().await;
    let waiting = supervisor.locks.apply(|table, _| table.waiting().count()).await;
    let metrics = &supervisor.http.metrics;
    let mut text = Text::default();
    let version = env!("CARGO_PKG_VERSION");
    text.family("ccmux_build_info", "gauge", "The release.");
    text.sample("ccmux_build_info", &[("version", version)], 1);
    text.single(
        "ccmux_uptime_seconds",
        "gauge",
        "How long the daemon has been running.",
        metrics.since.elapsed().as_secs(),
    );
    panes(&mut text, &listing);
    text.single(
        "ccmux_events_total",
        "counter",
        "Events recorded so far.",
        events.map_err(super::unread)?,
    );
    text.single(
        "ccmux_locks_held",
        "gauge",
        "Locks that are held.",
        locks.map_err(super::unread)?.len(),
    );
    text.single(
        "ccmux_locks_waiting",
        "gauge",
        "Callers that wait for a lock.",
        waiting.map_err(super::unread)?,
    );
    let queued =
        MessageRequest::List { session: None, pane: None, state: Some(MessageState::Queued) };
    let Answer::Messages(queued) = api.perform(Asked::Message(queued)).await? else {
        return Err(Refused::unexpected());
    };
    text.single(
        "ccmux_messages_queued",
        "gauge",
        "Messages that wait for their receivers.",
        queued.messages.len(),
    );
    let attached = metrics.attached.load(Ordering::Relaxed);
    text.single("ccmux_attach_clients", "gauge", "Clients attached over HTTP.", attached);
    calls(&mut text, &metrics.calls());
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text.0).into_response())
}

/// Sessions and panes, by how they are.
fn panes(text: &mut Text, listing: &Listing) {
    let mut sessions: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut panes: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for listed in &listing.sessions {
        let how = (word(&listed.session.status), word(&listed.session.mode));
        *sessions.entry(how).or_default() += 1;
        for pane in &listed.panes {
            *panes.entry((pane.agent.as_str(), word(&pane.state))).or_default() += 1;
        }
    }
    text.family("ccmux_sessions", "gauge", "Sessions.");
    for ((status, mode), count) in &sessions {
        text.sample("ccmux_sessions", &[("status", status), ("mode", mode)], count);
    }
    text.family("ccmux_panes", "gauge", "Panes, by what their processes say at this moment.");
    for ((agent, state), count) in &panes {
        text.sample("ccmux_panes", &[("agent", agent), ("state", state)], count);
    }
}

/// The word that stands for a value in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("unknown").to_owned()
}

fn calls(text: &mut Text, calls: &Calls) {
    let name = "ccmux_http_requests_total";
    text.family(name, "counter", "Calls answered.");
    for ((method, route, status), count) in &calls.answered {
        let status = status.to_string();
        text.sample(name, &[("method", method), ("route", route), ("status", &status)], count);
    }
    let name = "ccmux_http_request_duration_seconds";
    text.family(name, "histogram", "How long calls took, until the answer began.");
    for (route, took) in &calls.took {
        let ends = BUCKETS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        let mut so_far = 0;
        for (end, count) in ends.zip(took.counts) {
            so_far += count;
            text.sample(&format!("{name}_bucket"), &[("route", route), ("le", &end)], so_far);
        }
        text.sample(&format!("{name}_sum"), &[("route", route)], took.seconds);
        text.sample(&format!("{name}_count"), &[("route", route)], so_far);
    }
}

/// Prometheus' text format.
#[derive(Debug, Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        if labels.is_empty() {
            return self.line(format_args!("{name} {value}"));
        }
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_route_and_sorted_by_how_long_they_took() {
        let metrics = Metrics::default();
        for millis in [1, 3, 3, 700, 60_000] {
            metrics.count(&Method::GET, "/v1/panes/{id}", 200, Duration::from_millis(millis));
        }
        metrics.count(&"BREW".parse().unwrap(), "unknown", 405, Duration::ZERO);
        let mut text = Text::default();

        calls(&mut text, &metrics.calls());

        for line in [
            r#"ccmux_http_requests_total{method="GET",route="/v1/panes/{id}",status="200"} 5"#,
            r#"ccmux_http_requests_total{method="other",route="unknown",status="405"} 1"#,
            r#"ccmux_http_request_duration_seconds_bucket{route="/v1/panes/{id}",le="0.001"} 1"#,
            r#"ccmux_http_request_duration_seconds_bucket{route="/v1/panes/{id}",le="0.005"} 3"#,
            r#"ccmux_http_request_duration_seconds_bucket{route="/v1/panes/{id}",le="1"} 4"#,
            r#"ccmux_http_request_duration_seconds_bucket{route="/v1/panes/{id}",le="+Inf"} 5"#,
            r#"ccmux_http_request_duration_seconds_count{route="/v1/panes/{id}"} 5"#,
        ] {
            assert!(text.0.lines().any(|found| found == line), "no {line} in\n{}", text.0);
        }
    }

    #[test]
    fn a_label_cannot_end_its_line() {
        let mut text = Text::default();

        text.sample("name", &[("agent", "a\"b\\c\nd")], 1);

        assert_eq!(text.0, "name{agent=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}
