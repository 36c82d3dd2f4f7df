//! The environment of a pane, as it was planned and recorded.

use model::LaunchRecord;
use model::environment::shown;
use protocol::control::Response;
use protocol::environment::{EnvironmentView, VariableView};
use protocol::{ErrorBody, ErrorCode};

use super::Failure;
use crate::supervisor::Supervisor;

impl Supervisor {
    /// Which variables a pane has, and who set them. Secrets do not leave the daemon.
    pub(super) async fn environment(&self, target: &str) -> Result<Response, Failure> {
        let row = self.rows().await?.find_pane(target)?;
        let launch = self.pane(row.id).and_then(|pane| pane.launch()).ok_or_else(|| {
            let message = format!("the environment of pane {} is not known", row.name);
            ErrorBody::new(ErrorCode::Failed, message).hint("its launch record is lost")
        })?;
        Ok(Response::Environment(Box::new(EnvironmentView {
            pane: row.id,
            name: row.name,
            role: launch.role.clone(),
            ports: launch.ports,
            variables: variables(&launch),
            unused: launch.unused.clone(),
        })))
    }
}

fn variables(launch: &LaunchRecord) -> Vec<VariableView> {
    let view = |(name, value): (&str, &str)| {
        let safe = shown(name, value);
        VariableView {
            name: name.to_owned(),
            value: safe.to_owned(),
            masked: safe != value,
            source: launch.sources.get(name).copied(),
        }
    };
    launch.env.iter().map(view).collect()
}
