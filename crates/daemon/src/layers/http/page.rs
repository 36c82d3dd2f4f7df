//! `GET /` and `/v1/docs`: the API reference as an HTML page.
//!
//! The page is self-contained and renders `/v1/openapi.json`. Its content security policy allows
//! only the inline script and style that carry the nonce of the response.

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;

use super::Api;

/// The paths of the page. They need no token.
pub(super) const PATHS: [&str; 2] = ["/", "/v1/docs"];

const PAGE: &str = include_str!("page.html");

/// The placeholder for the nonce in the page.
const PLACEHOLDER: &str = "NONCE";

pub(super) fn routes() -> OpenApiRouter<Api> {
    PATHS.into_iter().fold(OpenApiRouter::new(), |router, path| router.route(path, get(page)))
}

async fn page() -> Response {
    let nonce: String = host::clock::random_id().iter().map(|byte| format!("{byte:02x}")).collect();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::from_str(&policy).expect("the policy is ASCII");
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Html(PAGE.replace(PLACEHOLDER, &nonce))).into_response()
}
