//! Stopping panes, and removing retired panes from the registry.

use std::sync::Arc;
use std::time::Duration;

use host::store::{PaneRow, Removed, StoreError};
use model::PaneId;
use protocol::pane::Request as KeeperRequest;
use tokio::time::timeout;
use tracing::{info, warn};

use super::Panes;
use super::conversation::Tracking;
use super::error::StopError;
use super::pane::{Keeper, Life, Pane};
use super::reap::kill;
use crate::fault::TaskFailed;
use crate::registry::{current_caller, inherit_caller};
use crate::runtime::{point, run_blocking};
use crate::wire::keeper;

/// Timeout for a keeper to acknowledge a stop request.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Time beyond the grace period in which a keeper must have stopped its pane.
const AFTER_GRACE: Duration = Duration::from_secs(5);

/// Timeout for a pane to start, and for its ending to be recorded after its keeper was killed.
const RECORD_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum grace period; longer ones are reduced to it.
const GRACE_MAX: Duration = Duration::from_secs(3600);

impl Panes {
    /// Stops several panes at once.
    ///
    /// # Errors
    ///
    /// The first failure; the other panes are stopped nevertheless.
    pub(crate) async fn stop_all(
        self: &Arc<Self>,
        rows: &[PaneRow],
        grace_ms: u64,
    ) -> Result<(), StopError> {
        let grace = Duration::from_millis(grace_ms).min(GRACE_MAX);
        let stops: Vec<_> = rows
            .iter()
            .filter_map(|row| Some((self.get(row.id)?, row.name.clone())))
            .map(|(pane, name)| {
                let this = Arc::clone(self);
                self.runtime.tasks.spawn(inherit_caller(async move {
                    this.stop_pane(&pane, name.as_str(), grace).await
                }))
            })
            .collect();
        let mut result = Ok(());
        for stop in stops {
            let stopped = stop.await.unwrap_or_else(|failed| {
                Err(TaskFailed { what: "stopping the pane", why: failed.to_string() }.into())
            });
            result = result.and(stopped);
        }
        result
    }

    /// Stops a pane. Succeeds if it has ended already.
    async fn stop_pane(
        self: &Arc<Self>,
        pane: &Arc<Pane>,
        name: &str,
        grace: Duration,
    ) -> Result<(), StopError> {
        wait_started(pane, name).await?;
        if let Life::Live(keeper) = pane.life() {
            // An agent that exits normally deletes its session file.
            self.conversations.refresh(pane, Tracking::Continuous).await;
            stop_or_kill(pane, &keeper, grace).await;
        }
        if timeout(RECORD_TIMEOUT, pane.ended()).await.is_err() {
            return Err(StopError::NotEnded(name.to_owned()));
        }
        Ok(())
    }

    /// Waits until a pane that is being started runs or has failed. Returns whether it is live.
    ///
    /// # Errors
    ///
    /// [`StopError::Starting`] if that takes too long.
    pub(crate) async fn is_live_after_start(&self, row: &PaneRow) -> Result<bool, StopError> {
        let Some(pane) = self.get(row.id) else { return Ok(false) };
        wait_started(&pane, row.name.as_str()).await?;
        Ok(run_blocking(move || pane.status().state.is_live()).await)
    }

    /// Removes a retired pane from the registry.
    pub(crate) async fn remove(&self, id: PaneId) -> Result<(), StoreError> {
        let removed = self.registry.change(move |change| change.remove_pane(id)).await?;
        let Some(pane) = self.get(id) else { return Ok(()) };
        pane.publish(Life::Gone(pane.status().ending));
        self.forget(id);
        if removed == Removed::PaneAndSession {
            drop(self.sessions.retire(pane.session).await);
        } else {
            self.lifecycle.pane_removed(pane.session, id).await;
        }
        Ok(())
    }
}

/// Waits until a pane that is being started runs or has failed.
///
/// # Errors
///
/// [`StopError::Starting`] if that takes too long.
pub(crate) async fn wait_started(pane: &Pane, name: &str) -> Result<(), StopError> {
    let mut life = pane.watch();
    let started = life.wait_for(|life| !matches!(life, Life::Starting));
    let waited = timeout(RECORD_TIMEOUT, started).await;
    waited.map(drop).map_err(|_| StopError::Starting(name.to_owned()))
}

/// Requests a stop from the keeper, and kills the keeper if the pane does not end in time.
async fn stop_or_kill(pane: &Pane, keeper: &Keeper, grace: Duration) {
    let acknowledged = if keeper.incompatible().is_some() {
        false
    } else {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let answer = keeper::ask(&pane.dir, &KeeperRequest::Stop { grace_ms }, ACK_TIMEOUT).await;
        if let Err(error) = &answer {
            info!(pane = %pane.id, %error, "stop request not acknowledged");
        }
        answer.is_ok()
    };
    // From here on, an ending without an exit record counts as a requested stop.
    pane.set_stop_requested(current_caller());
    point("stop.asked").await;
    if acknowledged && timeout(grace + AFTER_GRACE, pane.ended()).await.is_ok() {
        return;
    }
    if keeper.is_alive() {
        warn!(pane = %pane.id, "keeper killed after stop timeout");
        kill(keeper);
    }
}
