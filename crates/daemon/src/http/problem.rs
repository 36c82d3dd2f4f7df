//! Errors: all of them leave as RFC 9457 problems, ours and those of the libraries.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use protocol::http::Problem;
use protocol::{ErrorBody, ErrorCode};
use tracing::error;

/// What a body of a problem says it is.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// The most that is read of an error of a library.
const LONGEST: usize = 16 * 1024;

/// Why a call is refused. [`dress`] makes the body.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    code: &'static str,
    detail: String,
    hint: Option<String>,
    details: Option<serde_json::Value>,
    /// Seconds after which to try again.
    retry_after: Option<u64>,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { status, code, detail, hint: None, details: None, retry_after: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The daemon failed at a request.
    pub(crate) fn crashed(failed: &dyn std::fmt::Display) -> Self {
        error!(%failed, "a request over HTTP failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "crashed", "the daemon failed at this request")
            .hint("its log, run/daemon.log in the state root, says more")
    }

    /// The answer to a request was of another kind than the request.
    pub(crate) fn unexpected() -> Self {
        Self::crashed(&"an answer of another kind")
    }
}

impl From<ErrorBody> for Refused {
    fn from(body: ErrorBody) -> Self {
        let (status, code) = match body.code {
            // It is the caller's program that did not start.
            ErrorCode::Failed if names_program(&body) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "not_started")
            }
            ErrorCode::Failed | ErrorCode::Unknown => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
            ErrorCode::Usage => (StatusCode::UNPROCESSABLE_ENTITY, "usage"),
            ErrorCode::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            // Nothing that waiting or trying again would mend.
            ErrorCode::Conflict if names_key(&body) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "key_reused")
            }
            ErrorCode::Conflict => (StatusCode::CONFLICT, "conflict"),
            ErrorCode::TimedOut => (StatusCode::CONFLICT, "timed_out"),
            ErrorCode::Unreachable => (StatusCode::SERVICE_UNAVAILABLE, "unreachable"),
        };
        let ErrorBody { message, hint, details, .. } = body;
        Self { status, code, detail: message, hint, details, retry_after: None }
    }
}

/// Whether an error is about a key that was used for another request.
fn names_key(body: &ErrorBody) -> bool {
    body.details.as_ref().is_some_and(|details| details.get("idempotency_key").is_some())
}

/// Whether an error is about a program that could not be started.
fn names_program(body: &ErrorBody) -> bool {
    body.details.as_ref().is_some_and(|details| details.get("not_started").is_some())
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Gives every error that leaves its body.
pub(super) async fn dress(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let refused = match response.extensions_mut().remove::<Refused>() {
        Some(refused) => refused,
        None => {
            let body = std::mem::take(response.body_mut());
            said_by_library(status, body).await
        }
    };
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer realm=\"ccmux\"");
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    if let Some(seconds) = refused.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    *response.body_mut() = Body::from(refused.body(path));
    response
}

impl Refused {
    fn body(self, path: String) -> Vec<u8> {
        let problem = Problem {
            kind: format!("urn:ccmux:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code.to_owned(),
            hint: self.hint,
            instance: Some(path),
            details: self.details,
        };
        serde_json::to_vec(&problem).expect("a problem has string keys only")
    }
}

/// What a library answered instead of us.
async fn said_by_library(status: StatusCode, body: Body) -> Refused {
    let said = to_bytes(body, LONGEST).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    let (code, otherwise) = match status {
        StatusCode::NOT_FOUND => ("no_such_path", "there is nothing at this path"),
        StatusCode::METHOD_NOT_ALLOWED => {
            ("method_not_allowed", "this path does not take this method")
        }
        StatusCode::PAYLOAD_TOO_LARGE => ("too_large", "the body is too large"),
        status if status.is_server_error() => ("crashed", "the daemon failed at this request"),
        _ => ("bad_request", "the request cannot be read"),
    };
    // What a library says of its own failures is for the log.
    let detail = if said.is_empty() || status.is_server_error() { otherwise } else { &said };
    Refused::new(status, code, detail)
}
