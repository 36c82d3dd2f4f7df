//! How everything is.

use axum::extract::State;
use protocol::control::{Request, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::Json;
use super::problem::Refused;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(doctor))
}

/// Look at everything there is for what is wrong
///
/// As `ccmux doctor --json` prints it.
#[utoipa::path(get, path = "/v1/doctor", tag = "daemon",
    responses((status = 200, description = "What was found", body = Object)))]
async fn doctor(State(api): State<Api>) -> Result<Json<model::health::Health>, Refused> {
    let examined = |(name, _): &(&String, &String)| model::environment::is_examined(name);
    let client_env = api.client_env.iter().filter(examined);
    let client_env = client_env.map(|(name, value)| (name.clone(), value.clone())).collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let done = api.perform(Request::Doctor { client_env, version }).await?;
    let Response::Health(health) = done else { return Err(Refused::unexpected()) };
    Ok(Json(health))
}
