//! Status of the daemon.

use std::sync::Arc;

use host::store::StoreError;
use model::authority::{Access, Caller};
use protocol::control::DaemonStatus;

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::any_of;
use crate::runtime::run_blocking;

any_of! {
    /// Why the status was not returned.
    pub(crate) enum StatusError {
        Denied(AccessDenied),
        Store(StoreError),
    }
}

/// Returns the status of the daemon.
pub(crate) async fn daemon_status(
    services: &Arc<Services>,
    caller: &Caller,
) -> Result<DaemonStatus, StatusError> {
    authorize(services, caller, Access::List, None).await?;
    let last_event = services.registry.read(|change| change.last_event()).await?;
    let this = Arc::clone(services);
    let panes = run_blocking(move || this.panes.count_live()).await;
    Ok(DaemonStatus {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        home: services.runtime.root.path().to_string_lossy().into_owned(),
        panes,
        http: None,
        last_event,
        problems: services.runtime.problems(),
    })
}
