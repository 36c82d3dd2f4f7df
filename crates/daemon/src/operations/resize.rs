//! Resizes the terminal of a pane.

use std::time::Duration;

use host::store::StoreError;
use model::Size;
use model::authority::{Access, Caller};

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::any_of;
use crate::panes::error::{KeeperFault, NotLive};
use crate::registry::TargetError;
use crate::wire::keeper::{self, KeeperError};

any_of! {
    /// Why a pane was not resized.
    pub(crate) enum ResizeError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        NotLive(NotLive),
        Keeper(KeeperFault),
    }
}

/// How long to wait for the keeper.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(5);

/// Resizes the terminal of a pane and returns its new size.
pub(crate) async fn resize(
    services: &Services,
    caller: &Caller,
    target: &str,
    size: Size,
) -> Result<Size, ResizeError> {
    let row = services.panes.rows().await?.find_pane(target)?;
    authorize(services, caller, Access::Control, Some(row.session)).await?;
    let (pane, _) = services.panes.live_pane(&row)?;
    match keeper::resize(&pane.dir, size, KEEPER_TIMEOUT).await {
        Ok(size) => Ok(size),
        Err(KeeperError::Remote(body)) => Err(KeeperFault::Remote(body).into()),
        // The pane may have ended in the meantime.
        Err(error) => match services.panes.live_pane(&row) {
            Ok(_) => Err(KeeperFault::Unusable { name: row.name, why: error.to_string() }.into()),
            Err(ended) => Err(ended.into()),
        },
    }
}
