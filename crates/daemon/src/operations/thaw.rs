//! Resumes the processes of a frozen pane.

use std::sync::Arc;

use host::store::StoreError;
use model::authority::{Access, Caller};
use model::{Name, PaneId};
use protocol::ErrorCode;
use protocol::control::PaneAnswer;
use protocol::pane::Request as KeeperRequest;

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::{Description, Fault, FaultKind, any_of};
use crate::panes::error::{KeeperFault, NotLive};
use crate::panes::limits::PATIENCE;
use crate::registry::TargetError;
use crate::wire::keeper::{self, KeeperError};

any_of! {
    /// Why a pane was not thawed.
    pub(crate) enum ThawError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        NotLive(NotLive),
        NotFrozen(NotFrozen),
        Keeper(KeeperFault),
    }
}

/// The error of thawing a pane that is not frozen.
#[derive(Debug, thiserror::Error)]
#[error("pane {0} is not frozen")]
pub(crate) struct NotFrozen(Name);

impl Fault for NotFrozen {
    fn describe(&self) -> Description {
        FaultKind::Conflict.plain()
    }
}

/// Resumes the processes of a frozen pane.
pub(crate) async fn thaw(
    services: &Arc<Services>,
    caller: &Caller,
    target: &str,
) -> Result<PaneAnswer, ThawError> {
    let row = services.panes.rows().await?.find_pane(target)?;
    authorize(services, caller, Access::Control, Some(row.session)).await?;
    let (pane, _) = services.panes.live_pane(&row)?;
    match keeper::ask(&pane.dir, &KeeperRequest::Thaw, PATIENCE).await {
        Ok(_) => {}
        Err(KeeperError::Remote(body)) if body.code == ErrorCode::Conflict => {
            return Err(NotFrozen(row.name).into());
        }
        Err(error) => return Err(KeeperFault::NoAnswer(error).into()),
    }
    services.panes.report_limits(&pane).await;
    Ok(services.panes.pane_answer(row.id).await?)
}

/// Records the limit reports of a pane, after its keeper announced new ones.
pub(crate) async fn report_limits(
    services: &Services,
    caller: &Caller,
    pane: PaneId,
) -> Result<(), AccessDenied> {
    if let Some(pane) = services.panes.get(pane) {
        authorize(services, caller, Access::Control, Some(pane.session)).await?;
        services.panes.report_limits(&pane).await;
    }
    Ok(())
}
