//! The routes and their OpenAPI description, from one declaration each.

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use protocol::http::{Healthz, Problem};
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, Content, OpenApi, Ref, RefOr, Response as Described};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Json, tagged};
use super::problem::PROBLEM_JSON;
use super::{Api, attach, doctor, events, locks, messages, metrics, page, panes, runs, sessions};

/// The API of ccmux
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "ccmux",
        description = "Sessions, panes, messages and locks of one ccmux daemon. Every request except \
                       `healthz` and `openapi.json` needs a bearer token; `ccmux token` prints \
                       it. Sessions and panes are identified by ID, unique ID prefix, or name."
    ),
    components(schemas(Problem, protocol::schema::Event))
)]
struct Description;

/// Returns the router and its OpenAPI description as JSON.
pub(super) fn router() -> (Router<Api>, String) {
    let (router, mut description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(healthz))
        .routes(routes!(describe))
        // Unversioned aliases for monitoring tools.
        .route("/healthz", get(healthz))
        .route("/openapi.json", get(describe))
        .merge(runs::routes())
        .merge(sessions::routes())
        .merge(panes::routes())
        .merge(locks::routes())
        .merge(messages::routes())
        .merge(doctor::routes())
        .merge(attach::routes())
        .merge(events::routes())
        .merge(metrics::routes())
        .merge(page::routes())
        .split_for_parts();
    complete(&mut description);
    let text = description.to_pretty_json().expect("a description has string keys only");
    (router, text)
}

/// Check that the daemon is running
#[utoipa::path(get, path = "/v1/healthz", tag = "daemon", security(()),
    responses((status = 200, description = "The daemon is running", body = Healthz)))]
async fn healthz() -> Json<Healthz> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Json(Healthz { status: "ok".to_owned(), version })
}

/// Get the OpenAPI description
#[utoipa::path(get, path = "/v1/openapi.json", tag = "daemon", security(()),
    responses(
        (status = 200, description = "The OpenAPI description", body = Object,
            headers(("etag" = String, description = "Entity tag for `if-none-match`"))),
        (status = 304, description = "Not modified"),
    ))]
async fn describe(State(api): State<Api>, headers: HeaderMap) -> Response {
    tagged(&headers, api.description.clone())
}

/// The errors that every operation may return.
const COMMON_ERRORS: [(&str, &str); 10] = [
    ("400", "Malformed request"),
    ("401", "Missing or invalid token"),
    ("403", "Insufficient token scope, or host or origin not allowed"),
    ("404", "Not found"),
    ("409", "Conflict with another resource or with the current state, or ambiguous name"),
    ("422", "Invalid request"),
    ("429", "Rate limit exceeded"),
    ("500", "Internal error"),
    ("503", "The daemon is stopping, or a required process does not respond"),
    ("504", "Timed out; a mutation keeps running"),
];

/// The additional errors of mutations.
const MUTATION_ERRORS: [(&str, &str); 3] = [
    ("408", "Timed out reading the body"),
    ("413", "The body is too large"),
    ("415", "The content type is not JSON"),
];

/// Adds the parts common to all operations: errors and the security requirement.
fn complete(description: &mut OpenApi) {
    let components = description.components.get_or_insert_with(Components::new);
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("The token printed by `ccmux token`"))
        .build();
    components.add_security_scheme("token", SecurityScheme::Http(scheme));
    for item in description.paths.paths.values_mut() {
        for (operation, is_mutation) in operations(item) {
            // Handler names are unique only within a tag.
            let tag = operation.tags.iter().flatten().next().map(String::as_str);
            let name = operation.operation_id.as_deref().unwrap_or_default();
            operation.operation_id = Some(format!("{}_{name}", tag.unwrap_or("other")));
            let public = operation.security.is_some();
            if !public {
                let token = SecurityRequirement::new("token", Vec::<String>::new());
                operation.security = Some(vec![token]);
            }
            let errors = COMMON_ERRORS
                .iter()
                .filter(|(status, _)| !public || matches!(*status, "403" | "503"));
            let errors =
                errors.chain(is_mutation.then_some(&MUTATION_ERRORS).into_iter().flatten());
            for (status, why) in errors {
                let responses = &mut operation.responses.responses;
                responses.entry((*status).to_owned()).or_insert_with(|| error_response(why));
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&mut Operation, bool)> {
    let read = item.get.as_mut().map(|operation| (operation, false));
    let mutations = [item.post.as_mut(), item.delete.as_mut(), item.put.as_mut()];
    read.into_iter().chain(mutations.into_iter().flatten().map(|operation| (operation, true)))
}

fn error_response(why: &str) -> RefOr<Described> {
    let mut described = Described::new(why);
    let body = Content::new(Some(Ref::from_schema_name("Problem")));
    described.content.insert(PROBLEM_JSON.to_owned(), RefOr::T(body));
    RefOr::T(described)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// R29: the published description matches the routes.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test updates the document on request")]
    fn published_openapi_description_is_up_to_date() {
        let (_, expected) = router();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, format!("{expected}\n")).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found.trim_end() == expected,
            "run `UPDATE=1 cargo test -p ccmux-daemon openapi` and commit the result"
        );
    }
}
