//! The routes and their description, from one declaration each.

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
        description = "Sessions, panes, messages and locks of one ccmux. Every call but `healthz` \
                       and `openapi.json` needs a bearer token, which `ccmux token` prints. \
                       Sessions and panes are named by id, by a unique beginning of an id, or by \
                       name."
    ),
    components(schemas(Problem))
)]
struct Description;

/// What can be called, and the same for callers as JSON.
pub(super) fn router() -> (Router<Api>, String) {
    let (router, mut description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(healthz))
        .routes(routes!(describe))
        // Where programs look that know no versions.
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

/// That the daemon is there
#[utoipa::path(get, path = "/v1/healthz", tag = "daemon", security(()),
    responses((status = 200, description = "It is there", body = Healthz)))]
async fn healthz() -> Json<Healthz> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Json(Healthz { status: "ok".to_owned(), version })
}

/// This description
#[utoipa::path(get, path = "/v1/openapi.json", tag = "daemon", security(()),
    responses(
        (status = 200, description = "The description", body = Object,
            headers(("etag" = String, description = "For `if-none-match`"))),
        (status = 304, description = "It is the same as before"),
    ))]
async fn describe(State(api): State<Api>, headers: HeaderMap) -> Response {
    tagged(&headers, api.description.clone())
}

/// Why anything may be refused.
const ALWAYS: [(&str, &str); 10] = [
    ("400", "The request cannot be read"),
    ("401", "No token, or one that is not ours"),
    ("403", "The token allows less, or the name or the page is not ours"),
    ("404", "Something that is named is not there"),
    ("409", "It collides with something, several have this name, or its state does not allow it"),
    ("422", "The request makes no sense"),
    ("429", "Too many calls a second"),
    ("500", "The daemon failed at this"),
    ("503", "The daemon is being stopped, or what is needed does not answer"),
    ("504", "It took too long; a change goes on"),
];

/// Why a change may be refused.
const CHANGES: [(&str, &str); 3] = [
    ("408", "The body took too long"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
];

/// Adds what is the same for every call: why it may be refused, and that it needs a token.
fn complete(description: &mut OpenApi) {
    let components = description.components.get_or_insert_with(Components::new);
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("What `ccmux token` prints"))
        .build();
    components.add_security_scheme("token", SecurityScheme::Http(scheme));
    for item in description.paths.paths.values_mut() {
        for (operation, changes) in operations(item) {
            // Handlers of different things have the same names.
            let tag = operation.tags.iter().flatten().next().map(String::as_str);
            let name = operation.operation_id.as_deref().unwrap_or_default();
            operation.operation_id = Some(format!("{}_{name}", tag.unwrap_or("other")));
            let public = operation.security.is_some();
            if !public {
                let token = SecurityRequirement::new("token", Vec::<String>::new());
                operation.security = Some(vec![token]);
            }
            let reasons =
                ALWAYS.iter().filter(|(status, _)| !public || matches!(*status, "403" | "503"));
            let reasons = reasons.chain(changes.then_some(&CHANGES).into_iter().flatten());
            for (status, why) in reasons {
                let responses = &mut operation.responses.responses;
                responses.entry((*status).to_owned()).or_insert_with(|| refusal(why));
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&mut Operation, bool)> {
    let looking = item.get.as_mut().map(|operation| (operation, false));
    let changing = [item.post.as_mut(), item.delete.as_mut(), item.put.as_mut()];
    looking.into_iter().chain(changing.into_iter().flatten().map(|operation| (operation, true)))
}

fn refusal(why: &str) -> RefOr<Described> {
    let mut described = Described::new(why);
    let body = Content::new(Some(Ref::from_schema_name("Problem")));
    described.content.insert(PROBLEM_JSON.to_owned(), RefOr::T(body));
    RefOr::T(described)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// R29: what callers are told is what is served.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test that rewrites a document when told to")]
    fn the_description_in_the_documents_is_up_to_date() {
        let (_, expected) = router();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, format!("{expected}\n")).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found.trim_end() == expected,
            "run `UPDATE=1 cargo test -p ccmux-daemon openapi` and commit what it changes"
        );
    }
}
