//! Who may call, how often, and what is put on record about it.

use std::net::SocketAddr;
use std::sync::PoisonError;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use model::event::Happening;
use model::http::Scope;
use tower_http::catch_panic::CatchPanicLayer;

use super::problem::{Refused, dress};
use super::server::Peer;
use super::{Api, metrics, page, unusable_token};

/// What anybody may see who calls us by our name.
const PUBLIC: [&str; 4] = ["/v1/healthz", "/v1/openapi.json", "/healthz", "/openapi.json"];

/// How long looking at something may take.
const LOOKING: Duration = Duration::from_secs(120);

/// How long a change may take until the caller is told to look again later. It goes on.
const CHANGING: Duration = Duration::from_secs(900);

/// What a token is called in the list of protocols of a WebSocket, where browsers can send no
/// other header.
const TOKEN_PROTOCOL: &str = "ccmux.token.";

/// The most of a path that is put on record.
const PATH_ON_RECORD: usize = 200;

/// Who calls. Handlers find it among the extensions of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// What he may do.
    pub(crate) scope: Scope,
    /// The first digits of the digest of his token.
    id: String,
    from: SocketAddr,
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "token {} ({}) from {}", self.id, self.scope, self.from)
    }
}

/// What becomes of a request.
enum Admitted {
    /// Anybody may.
    Public,
    /// A browser asks whether a page may ask.
    Preflight,
    Caller(Caller),
}

/// Puts everything around the routes that every call goes through.
pub(super) fn around(router: Router<Api>, api: &Api) -> Router {
    let panicked =
        |_: Box<dyn std::any::Any + Send>| Refused::crashed(&"a handler panicked").into_response();
    router
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(api.clone(), guard))
        .layer(from_fn(dress))
        .layer(from_fn_with_state(api.clone(), metrics::observe))
        .with_state(api.clone())
}

async fn guard(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let page = text(request.headers(), &header::ORIGIN)
        .filter(|origin| api.doors.is_listed(origin))
        .and_then(|origin| HeaderValue::from_str(origin).ok());
    let mut response = match admit(&api, &request) {
        Ok(Admitted::Public) => next.run(request).await,
        Ok(Admitted::Preflight) => preflight(),
        Ok(Admitted::Caller(caller)) => {
            request.extensions_mut().insert(caller.clone());
            attend(&api, caller, request, next).await
        }
        Err(refused) => refused.into_response(),
    };
    if let Some(page) = page {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// Carries a request out. A change is carried out to its end, whoever still waits for it, and put
/// on record before it is answered.
async fn attend(api: &Api, caller: Caller, request: Request, next: Next) -> Response {
    if is_looking(request.method()) {
        let looked = tokio::time::timeout(LOOKING, next.run(request)).await;
        return looked.unwrap_or_else(|_| too_long("it took too long").into_response());
    }
    let supervisor = std::sync::Arc::clone(&api.supervisor);
    let (method, path) = (request.method().to_string(), on_record(request.uri().path()));
    let work = api.supervisor.tasks.spawn(async move {
        let response = next.run(request).await;
        let status = response.status().as_u16();
        let who = caller.to_string();
        supervisor.tell(Happening::ApiCalled { who, method, path, status }).await;
        response
    });
    match tokio::time::timeout(CHANGING, work).await {
        Ok(Ok(response)) => response,
        Ok(Err(failed)) => Refused::crashed(&failed).into_response(),
        Err(_) => too_long("it takes long, and goes on; look again later").into_response(),
    }
}

fn too_long(detail: &str) -> Refused {
    Refused::new(StatusCode::GATEWAY_TIMEOUT, "too_long", detail)
}

fn on_record(path: &str) -> String {
    path.chars().take(PATH_ON_RECORD).collect()
}

fn is_for_all(path: &str) -> bool {
    PUBLIC.contains(&path) || page::PATHS.contains(&path)
}

fn is_looking(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Whether a request is let in.
fn admit(api: &Api, request: &Request) -> Result<Admitted, Refused> {
    let (method, headers) = (request.method(), request.headers());
    check_host(api, request)?;
    let is_public = is_looking(method) && is_for_all(request.uri().path());
    check_origin(api, headers, is_public)?;
    if api.supervisor.stopping.is_cancelled() {
        return Err(Refused::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the daemon is being stopped",
        )
        .retry_after(1));
    }
    if is_public {
        return Ok(Admitted::Public);
    }
    // Only a page that may call gets this far with an origin.
    let asks = headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if *method == Method::OPTIONS && asks && headers.contains_key(header::ORIGIN) {
        return Ok(Admitted::Preflight);
    }
    let caller = authenticate(api, request)?;
    count(api, caller.scope)?;
    let needed = if is_looking(method) { Scope::Read } else { Scope::Control };
    if !caller.scope.allows(needed) {
        let detail = format!("this token allows to {}, not to {needed}", caller.scope);
        return Err(Refused::new(StatusCode::FORBIDDEN, "scope", detail)
            .hint("use the token that `ccmux token` prints"));
    }
    Ok(Admitted::Caller(caller))
}

/// Refuses a name that is not ours: a stranger's page may have had it point at us.
fn check_host(api: &Api, request: &Request) -> Result<(), Refused> {
    let named = text(request.headers(), &header::HOST);
    // A request may also name us in its first line, and then that counts.
    let named = request.uri().authority().map(|authority| authority.as_str()).or(named);
    if named.is_some_and(|host| api.doors.is_ours(host)) {
        return Ok(());
    }
    let detail = format!("this is not {:?}", named.unwrap_or_default());
    Err(Refused::new(StatusCode::FORBIDDEN, "host", detail)
        .hint("call it by its address, or list the name in http.allowed_hosts"))
}

/// Refuses pages of strangers.
fn check_origin(api: &Api, headers: &HeaderMap, is_public: bool) -> Result<(), Refused> {
    let refused = |detail: String| {
        Err(Refused::new(StatusCode::FORBIDDEN, "origin", detail)
            .hint("list the origin of the page in http.allowed_origins"))
    };
    match headers.get(header::ORIGIN) {
        Some(origin) if origin.to_str().is_ok_and(|origin| api.doors.admits(origin)) => Ok(()),
        Some(origin) => refused(format!("pages of {origin:?} may not call")),
        None => match text(headers, &HeaderName::from_static("sec-fetch-site")) {
            // Whoever follows a link may see what everybody may.
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) if is_public => Ok(()),
            Some(site) => refused(format!("a {site} page may not call")),
        },
    }
}

fn authenticate(api: &Api, request: &Request) -> Result<Caller, Refused> {
    let headers = request.headers();
    let offered = bearer(headers).or_else(|| protocol_token(headers)).ok_or_else(|| {
        Refused::new(StatusCode::UNAUTHORIZED, "no_token", "a token is needed")
            .hint("send `authorization: Bearer TOKEN`; `ccmux token` prints it")
    })?;
    let from = request.extensions().get::<Peer>().map(|peer| peer.address);
    let from = from.ok_or_else(Refused::unexpected)?;
    for scope in Scope::ALL {
        let file = api.supervisor.http.tokens.of(scope);
        let matched = file.matches(offered).map_err(|error| {
            let detail = unusable_token(&error).message;
            Refused::new(StatusCode::SERVICE_UNAVAILABLE, "token_file", detail)
        })?;
        if let Some(digest) = matched {
            let id = digest.to_hex()[..8].to_owned();
            return Ok(Caller { scope, id, from });
        }
    }
    Err(Refused::new(StatusCode::UNAUTHORIZED, "wrong_token", "this token is none of ours")
        .hint("it may have been replaced; `ccmux token` prints it"))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = text(headers, &header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token among the protocols of a WebSocket.
fn protocol_token(headers: &HeaderMap) -> Option<&str> {
    if !text(headers, &header::UPGRADE)?.eq_ignore_ascii_case("websocket") {
        return None;
    }
    let offered = text(headers, &header::SEC_WEBSOCKET_PROTOCOL)?;
    offered.split(',').find_map(|one| one.trim().strip_prefix(TOKEN_PROTOCOL))
}

/// Takes note of a call, and refuses one too many.
fn count(api: &Api, scope: Scope) -> Result<(), Refused> {
    let now = u64::try_from(api.since.elapsed().as_micros()).unwrap_or(u64::MAX);
    let mut buckets = api.buckets.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = buckets[scope as usize].take(now, api.rate);
    taken.map_err(|wait| {
        let detail = format!("more than {} calls a second", api.rate);
        Refused::new(StatusCode::TOO_MANY_REQUESTS, "too_many_calls", detail)
            .hint("http.rate in ccmux.toml is the bound")
            .retry_after(wait.div_ceil(1_000_000))
    })
}

/// Tells a browser that a page may ask.
fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, idempotency-key, if-none-match, last-event-id",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
