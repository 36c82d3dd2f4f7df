//! `GET /` and `/v1/docs`: a page on which people read what can be called.
//!
//! One file without anything from elsewhere; it reads `/v1/openapi.json` and shows it. The policy
//! that goes with it lets nothing run but what is in it.

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;

use super::Api;

/// The paths of the page; anybody may read it who calls us by our name.
pub(super) const PATHS: [&str; 2] = ["/", "/v1/docs"];

const PAGE: &str = include_str!("page.html");

/// What in the page stands for a word that is another one each time.
const PLACE: &str = "NONCE";

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<Api> {
    PATHS.into_iter().fold(OpenApiRouter::new(), |router, path| router.route(path, get(page)))
}

async fn page() -> Response {
    let nonce: String = host::clock::random_id().iter().map(|byte| format!("{byte:02x}")).collect();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::from_str(&policy).expect("words and hex digits");
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Html(PAGE.replace(PLACE, &nonce))).into_response()
}
