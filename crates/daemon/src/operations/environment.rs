//! Shows the recorded environment of a pane.

use host::store::StoreError;
use model::LaunchRecord;
use model::authority::{Access, Caller};
use model::environment::shown;
use protocol::environment::{EnvironmentView, VariableView};

use super::Services;
use super::access::{AccessDenied, authorize};
use super::limit::LaunchRecordLost;
use crate::fault::any_of;
use crate::registry::TargetError;

any_of! {
    /// Why the environment of a pane was not shown.
    pub(crate) enum EnvironmentError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        Record(LaunchRecordLost),
    }
}

/// Returns the environment variables of a pane with their sources. Secrets are masked.
pub(crate) async fn environment(
    services: &Services,
    caller: &Caller,
    target: &str,
) -> Result<EnvironmentView, EnvironmentError> {
    let row = services.panes.rows().await?.find_pane(target)?;
    authorize(services, caller, Access::Read, Some(row.session)).await?;
    let launch = services
        .panes
        .get(row.id)
        .and_then(|pane| pane.launch())
        .ok_or_else(|| LaunchRecordLost { what: "environment", pane: row.name.clone() })?;
    Ok(EnvironmentView {
        pane: row.id,
        name: row.name,
        role: launch.role.clone(),
        ports: launch.ports,
        variables: variables(&launch),
        unused: launch.unused.clone(),
    })
}

fn variables(launch: &LaunchRecord) -> Vec<VariableView> {
    let view = |(name, value): (&str, &str)| {
        let displayed = shown(name, value);
        VariableView {
            name: name.to_owned(),
            value: displayed.to_owned(),
            masked: displayed != value,
            source: launch.sources.get(name).copied(),
        }
    };
    launch.env.iter().map(view).collect()
}
