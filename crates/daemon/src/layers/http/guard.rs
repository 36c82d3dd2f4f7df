//! Access checks, rate limits and audit events for every request.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use model::authority::Caller as Origin;
use model::event::EventBody;
use model::http::Scope;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use super::problem::{ApiError, add_body};
use super::server::Peer;
use super::tokens::Authenticated;
use super::{Api, metrics, page, unusable_token};
use crate::registry::{as_caller, inherit_caller};

/// The paths that need no token.
const PUBLIC: [&str; 4] = ["/v1/healthz", "/v1/openapi.json", "/healthz", "/openapi.json"];

/// The timeout for read requests.
const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// The time after which a response is sent for a mutation that is still running.
const MUTATION_TIMEOUT: Duration = Duration::from_secs(900);

/// The time for which browsers cache the response to a preflight request.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(600);

/// The prefix of a token in `sec-websocket-protocol`, because browsers cannot set other headers for
/// a WebSocket.
const TOKEN_PROTOCOL: &str = "ccmux.token.";

/// The maximum length of a path in an audit event, in characters.
const MAX_AUDITED_PATH: usize = 200;

/// An authenticated client, stored in the extensions of the request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) scope: Scope,
    /// The first digits of the digest of the token.
    id: String,
    from: String,
    /// Cancelled when the token becomes invalid. Streams end then.
    pub(crate) revoked: CancellationToken,
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "token {} ({}) from {}", self.id, self.scope, self.from)
    }
}

/// Adds the middleware that every request passes through.
pub(super) fn wrap(router: Router<Api>, api: &Api) -> Router {
    let panicked =
        |_: Box<dyn std::any::Any + Send>| ApiError::internal(&"handler panicked").into_response();
    router
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(api.clone(), guard))
        .layer(cors(api))
        // Outside of the CORS layer, which answers every OPTIONS request.
        .layer(from_fn_with_state(api.clone(), check_sender))
        .layer(from_fn(add_body))
        .layer(from_fn_with_state(api.clone(), metrics::observe))
        .with_state(api.clone())
}

/// Returns the layer that answers preflight requests and lets the pages of listed origins read
/// responses.
fn cors(api: &Api) -> CorsLayer {
    let policy = api.host_policy.clone();
    let is_listed = move |origin: &HeaderValue, _: &Parts| {
        origin.to_str().is_ok_and(|origin| policy.is_listed_origin(origin))
    };
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_listed))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::IF_NONE_MATCH,
            HeaderName::from_static("idempotency-key"),
            HeaderName::from_static("last-event-id"),
        ])
        .expose_headers(Any)
        .max_age(PREFLIGHT_MAX_AGE)
}

/// Rejects requests with a foreign host or origin, and OPTIONS requests other than preflights.
async fn check_sender(State(api): State<Api>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let checked =
        check_host(&api, &request).and_then(|()| check_origin(&api, headers, is_public(&request)));
    if let Err(error) = checked {
        return error.into_response();
    }
    let is_preflight = headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if request.method() == Method::OPTIONS && !is_preflight {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    next.run(request).await
}

async fn guard(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    match admit(&api, &request) {
        // Needs no token.
        Ok(None) => next.run(request).await,
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller.clone());
            let scope = caller.scope;
            as_caller(Origin::HttpToken { scope }, run(&api, caller, request, next)).await
        }
        Err(error) => error.into_response(),
    }
}

/// Runs a request.
///
/// A mutation runs to completion even if the client disconnects or its token is replaced, and is
/// recorded before the response is sent.
async fn run(api: &Api, caller: Caller, request: Request, next: Next) -> Response {
    if is_read(request.method()) {
        let revoked = caller.revoked;
        return tokio::select! {
            response = tokio::time::timeout(READ_TIMEOUT, next.run(request)) => match response {
                Ok(response) => end_when_revoked(response, revoked),
                Err(_) => timed_out("the request timed out").into_response(),
            },
            () = revoked.cancelled() => invalid_token().into_response(),
        };
    }
    let registry = api.services.registry.clone();
    let (method, path) = (request.method().to_string(), audited_path(request.uri().path()));
    let work = api.services.runtime.tasks.spawn(inherit_caller(async move {
        let response = next.run(request).await;
        let status = response.status().as_u16();
        let who = caller.to_string();
        registry.record(EventBody::ApiCalled { who, method, path, status }).await;
        response
    }));
    match tokio::time::timeout(MUTATION_TIMEOUT, work).await {
        Ok(Ok(response)) => response,
        Ok(Err(failed)) => ApiError::internal(&failed).into_response(),
        Err(_) => timed_out("the request is still running; check its result later").into_response(),
    }
}

/// Ends the body of a stream when the token of its client becomes invalid.
fn end_when_revoked(response: Response, revoked: CancellationToken) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        let data = body.into_data_stream().take_until(revoked.cancelled_owned());
        Body::from_stream(data)
    })
}

fn timed_out(detail: &str) -> ApiError {
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, "too_long", detail)
}

fn audited_path(path: &str) -> String {
    path.chars().take(MAX_AUDITED_PATH).collect()
}

fn is_public(request: &Request) -> bool {
    let path = request.uri().path();
    is_read(request.method()) && (PUBLIC.contains(&path) || page::PATHS.contains(&path))
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Checks whether a request is allowed. Returns its caller, or `None` if it needs no token.
fn admit(api: &Api, request: &Request) -> Result<Option<Caller>, ApiError> {
    if api.services.runtime.stopping.is_cancelled() {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the daemon is stopping",
        )
        .retry_after(1));
    }
    if is_public(request) {
        return Ok(None);
    }
    let caller = authenticate(api, request)?;
    check_rate(api, caller.scope)?;
    let needed = if is_read(request.method()) { Scope::Read } else { Scope::Control };
    if !caller.scope.allows(needed) {
        let detail = format!("the token has scope {}, but {needed} is required", caller.scope);
        return Err(ApiError::new(StatusCode::FORBIDDEN, "scope", detail)
            .hint("use the token printed by `ccmux token`"));
    }
    Ok(Some(caller))
}

/// Rejects unknown host names, which prevents DNS rebinding attacks.
fn check_host(api: &Api, request: &Request) -> Result<(), ApiError> {
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "host", "more than one Host header"));
    }
    let host = text(request.headers(), &header::HOST);
    // An absolute request target overrides the header.
    let host = request.uri().authority().map(|authority| authority.as_str()).or(host);
    if host.is_some_and(|host| api.host_policy.allows_host(host)) {
        return Ok(());
    }
    let detail = format!("unknown host {:?}", host.unwrap_or_default());
    Err(ApiError::new(StatusCode::FORBIDDEN, "host", detail)
        .hint("use the listen address, or add the host to http.allowed_hosts"))
}

/// Rejects requests of web pages from other origins.
fn check_origin(api: &Api, headers: &HeaderMap, is_public: bool) -> Result<(), ApiError> {
    let reject = |detail: String| {
        Err(ApiError::new(StatusCode::FORBIDDEN, "origin", detail)
            .hint("add the origin to http.allowed_origins"))
    };
    match headers.get(header::ORIGIN) {
        Some(origin)
            if origin.to_str().is_ok_and(|origin| api.host_policy.allows_origin(origin)) =>
        {
            Ok(())
        }
        Some(origin) => reject(format!("origin {origin:?} is not allowed")),
        None => match text(headers, &HeaderName::from_static("sec-fetch-site")) {
            None | Some("same-origin" | "none") => Ok(()),
            // Links from other sites to public pages work.
            Some(_) if is_public => Ok(()),
            Some(site) => reject(format!("{site} requests are not allowed")),
        },
    }
}

fn authenticate(api: &Api, request: &Request) -> Result<Caller, ApiError> {
    let headers = request.headers();
    let offered = bearer(headers).or_else(|| protocol_token(headers)).ok_or_else(|| {
        ApiError::new(StatusCode::UNAUTHORIZED, "no_token", "missing token")
            .hint("send `authorization: Bearer TOKEN`; `ccmux token` prints the token")
    })?;
    let peer = request.extensions().get::<Peer>();
    let peer = peer.ok_or_else(|| ApiError::internal(&"connection has no peer"))?;
    let authenticated = api.http.tokens.authenticate(offered).map_err(|error| {
        let detail = unusable_token(&error).message;
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "token_file", detail)
    })?;
    let Authenticated { scope, digest, revoked } = authenticated.ok_or_else(invalid_token)?;
    if !peer.authenticated() {
        let detail = "too many connections";
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", detail);
        return Err(error.retry_after(1));
    }
    let from = peer.from().to_owned();
    Ok(Caller { scope, id: digest.to_hex()[..8].to_owned(), from, revoked })
}

fn invalid_token() -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "wrong_token", "invalid token")
        .hint("it may have been replaced; `ccmux token` prints the current token")
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = text(headers, &header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the token from `sec-websocket-protocol`.
fn protocol_token(headers: &HeaderMap) -> Option<&str> {
    if !text(headers, &header::UPGRADE)?.eq_ignore_ascii_case("websocket") {
        return None;
    }
    let offered = text(headers, &header::SEC_WEBSOCKET_PROTOCOL)?;
    offered.split(',').find_map(|one| one.trim().strip_prefix(TOKEN_PROTOCOL))
}

/// Counts a request and rejects it if the rate limit is exceeded.
fn check_rate(api: &Api, scope: Scope) -> Result<(), ApiError> {
    let now = u64::try_from(api.since.elapsed().as_micros()).unwrap_or(u64::MAX);
    let mut buckets = api.buckets.lock();
    let taken = buckets[scope as usize].take(now, api.rate);
    taken.map_err(|wait| {
        let detail = format!("rate limit of {} requests per second exceeded", api.rate);
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_calls", detail)
            .hint("the limit is http.rate in ccmux.toml")
            .retry_after(wait.div_ceil(1_000_000))
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
