//! Error responses: every error, including those of libraries, has an RFC 9457 body.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use protocol::http::Problem;
use tracing::error;

/// The content type of an error body.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// The maximum size of a library error that is copied into the detail.
const MAX_LIBRARY_ERROR: usize = 16 * 1024;

/// An HTTP error. [`add_body`] renders it.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    detail: String,
    hint: Option<String>,
    details: Option<serde_json::Value>,
    /// The value of `retry-after` in seconds.
    retry_after: Option<u64>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { status, code, detail, hint: None, details: None, retry_after: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Returns an internal error and logs its cause.
    pub(crate) fn internal(failed: &dyn std::fmt::Display) -> Self {
        error!(%failed, "HTTP request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "crashed", "internal error")
            .hint("see run/daemon.log in the state root")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Middleware that replaces the body of every error response.
pub(super) async fn add_body(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let error = match response.extensions_mut().remove::<ApiError>() {
        Some(error) => error,
        None => {
            let body = std::mem::take(response.body_mut());
            from_library(status, body).await
        }
    };
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer realm=\"ccmux\"");
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    if let Some(seconds) = error.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    *response.body_mut() = Body::from(error.body(path));
    response
}

impl ApiError {
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

/// Converts an error response produced by a library.
async fn from_library(status: StatusCode, body: Body) -> ApiError {
    let text = to_bytes(body, MAX_LIBRARY_ERROR).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    let (code, default) = match status {
        StatusCode::NOT_FOUND => ("no_such_path", "no such path"),
        StatusCode::METHOD_NOT_ALLOWED => {
            ("method_not_allowed", "method not allowed for this path")
        }
        StatusCode::PAYLOAD_TOO_LARGE => ("too_large", "the body is too large"),
        status if status.is_server_error() => ("crashed", "internal error"),
        _ => ("bad_request", "invalid request"),
    };
    // Internal errors of libraries are not for clients.
    let detail = if text.is_empty() || status.is_server_error() { default } else { &text };
    ApiError::new(status, code, detail)
}
