//! Ending panes: stop keeps the directories, close retires them.
//!
//! A pane is closed in this order: its processes are gone, the registry says that it goes, its
//! directory is in the trash, the registry forgets it. Killed in between, recovery goes on from
//! wherever that was.

use std::sync::Arc;
use std::time::Duration;

use host::store::{PaneRow, Removed, StoreError};
use model::PaneId;
use protocol::control::Response;
use protocol::pane::Request as KeeperRequest;
use protocol::{ErrorBody, ErrorCode};
use tokio::time::timeout;
use tracing::{info, warn};

use super::Failure;
use super::resolution::Meant;
use crate::conversation::Seen;
use crate::keeper;
use crate::pane::{Keeper, Life, Pane};
use crate::retire::Keep;
use crate::supervise::kill;
use crate::supervisor::{Supervisor, point};
use crate::workspace;

/// How long a keeper may take to say that it heard.
const HEARD: Duration = Duration::from_secs(2);

/// How much longer than the grace period a keeper may take to end its pane.
const AFTER_GRACE: Duration = Duration::from_secs(5);

/// How long a pane may take to be on record as ended after its keeper was killed.
const SETTLED: Duration = Duration::from_secs(15);

/// The longest grace period; longer ones are taken for it.
const GRACE_MAX: Duration = Duration::from_secs(3600);

impl Supervisor {
    /// Ends the processes of a pane or of all panes of a session.
    pub(super) async fn stop(
        self: &Arc<Self>,
        target: &str,
        grace_ms: u64,
    ) -> Result<Response, Failure> {
        let rows = self.rows().await?;
        match rows.find(target)? {
            Meant::Pane(row) => {
                self.stop_all(std::slice::from_ref(&row), grace_ms).await?;
                Ok(Response::Pane(Box::new(self.pane_answer(row.id).await?)))
            }
            Meant::Session(session) => {
                let panes: Vec<PaneRow> = rows.panes_of(session.record.id).cloned().collect();
                self.stop_all(&panes, grace_ms).await?;
                Ok(self.session_answer(&session, &self.rows().await?))
            }
        }
    }

    /// Stops several panes at once; the first that cannot be stopped is the error.
    pub(super) async fn stop_all(
        self: &Arc<Self>,
        rows: &[PaneRow],
        grace_ms: u64,
    ) -> Result<(), ErrorBody> {
        let grace = Duration::from_millis(grace_ms).min(GRACE_MAX);
        let stops: Vec<_> = rows
            .iter()
            .filter_map(|row| Some((self.pane(row.id)?, row.name.clone())))
            .map(|(pane, name)| {
                let this = Arc::clone(self);
                self.tasks.spawn(async move { this.stop_pane(&pane, name.as_str(), grace).await })
            })
            .collect();
        let mut result = Ok(());
        for stop in stops {
            let stopped = stop.await.unwrap_or_else(|failed| {
                Err(ErrorBody::new(ErrorCode::Failed, format!("the stop failed: {failed}")))
            });
            result = result.and(stopped);
        }
        result
    }

    /// Ends a pane. One that has ended is fine.
    async fn stop_pane(
        self: &Arc<Self>,
        pane: &Arc<Pane>,
        name: &str,
        grace: Duration,
    ) -> Result<(), ErrorBody> {
        let mut life = pane.watch();
        let started = life.wait_for(|life| !matches!(life, Life::Starting));
        if timeout(SETTLED, started).await.is_err() {
            let message = format!("pane {name} is still being started");
            return Err(ErrorBody::new(ErrorCode::Conflict, message).hint("try again later"));
        }
        if let Life::Live(keeper) = pane.life() {
            // An agent that leaves in good order takes its own word with it.
            self.refresh_conversation(pane, Seen::Watched).await;
            self.ask_to_stop(pane, &keeper, grace).await;
        }
        if timeout(SETTLED, pane.ended()).await.is_err() {
            let message = format!("pane {name} could not be ended");
            return Err(ErrorBody::new(ErrorCode::Failed, message));
        }
        Ok(())
    }

    /// Asks the keeper, and insists if it does not do it.
    async fn ask_to_stop(&self, pane: &Pane, keeper: &Keeper, grace: Duration) {
        let heard = if keeper.incompatible().is_some() {
            false
        } else {
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            let asked = keeper::ask(&pane.dir, &KeeperRequest::Stop { grace_ms }, HEARD).await;
            if let Err(silent) = &asked {
                info!(pane = %pane.id, %silent, "did not hear the stop");
            }
            asked.is_ok()
        };
        // Only from here on is an ending without a record taken for one that was asked for.
        pane.ask_to_stop();
        point("stop.asked").await;
        if heard && timeout(grace + AFTER_GRACE, pane.ended()).await.is_ok() {
            return;
        }
        if keeper.is_alive() {
            warn!(pane = %pane.id, "its keeper does not stop it, killing");
            kill(keeper);
        }
    }

    /// Ends a pane and retires its directory.
    pub(super) async fn close(
        self: &Arc<Self>,
        target: &str,
        grace_ms: u64,
        discard: &[String],
    ) -> Result<Response, Failure> {
        let row = self.rows().await?.find_pane(target)?;
        let Some(pane) = self.pane(row.id) else { return Err(StoreError::Gone.into()) };
        let _turn = pane.turn.lock().await;
        if matches!(pane.life(), Life::Gone(_)) {
            return Ok(Response::Done);
        }
        self.stop_all(std::slice::from_ref(&row), grace_ms).await?;
        point("close.stopped").await;
        if let Some(work) = self.unsaved_work(&pane, discard).await? {
            return Err(workspace::stays(&row.name, &pane, &work).into());
        }
        point("close.checked").await;
        self.tear_down(&pane).await;
        self.registry.change(move |change| change.mark_closing(row.id)).await?;
        let kept = pane.launch().is_some_and(|launch| launch.isolation.kept_on_close);
        self.try_retire(&pane, if kept { Keep::Apart } else { Keep::Nothing }).await?;
        point("close.retired").await;
        self.remove(row.id).await?;
        Ok(Response::Done)
    }

    /// Takes a retired pane out of the registry.
    async fn remove(&self, id: PaneId) -> Result<(), StoreError> {
        let removed = self.registry.change(move |change| change.remove_pane(id)).await?;
        let Some(pane) = self.pane(id) else { return Ok(()) };
        pane.publish(Life::Gone(pane.look().ending));
        self.forget(id);
        if removed == Removed::PaneAndSession {
            self.retire_session(pane.session).await;
        } else {
            self.fail_messages(pane.session, id).await;
        }
        Ok(())
    }
}
