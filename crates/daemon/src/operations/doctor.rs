//! Checks the health of the installation.

use std::collections::BTreeMap;

use model::authority::{Access, Caller};
use model::health::Health;

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::health::Probing;

/// Checks the installation, sessions and panes, with the variables and the version of the client.
pub(crate) async fn doctor(
    services: &Services,
    caller: &Caller,
    client_env: BTreeMap<String, String>,
    version: String,
) -> Result<Health, AccessDenied> {
    authorize(services, caller, Access::Read, None).await?;
    Ok(Box::pin(services.health.examine(client_env, version, Probing::of(caller))).await)
}
