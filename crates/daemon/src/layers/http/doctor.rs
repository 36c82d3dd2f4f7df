//! Health checks over HTTP.

use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::Json;
use super::problem::ApiError;
use crate::operations;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(doctor))
}

/// Check the installation, sessions and panes for problems
///
/// With a token of the scope `read`, agents are not run; only cached results of earlier checks are
/// used.
#[utoipa::path(get, path = "/v1/doctor", tag = "daemon",
    responses((status = 200, description = "The findings", body = protocol::schema::HealthReport)))]
async fn doctor(State(api): State<Api>) -> Result<Json<model::health::Health>, ApiError> {
    let is_relevant =
        |(name, _): &(&String, &String)| model::launch::inheritance::is_sent_for_diagnosis(name);
    let client_env = api.client_env.iter().filter(is_relevant);
    let client_env = client_env.map(|(name, value)| (name.clone(), value.clone())).collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let report = api.perform(|services, caller| async move {
        operations::doctor(&services, &caller, client_env, version).await
    });
    report.await.map(Json)
}
