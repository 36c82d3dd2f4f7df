//! Taking back what did not come to be whole.

use std::sync::Arc;

use host::store::{PaneRow, StoreError};
use model::{PaneId, SessionId};
use tracing::{info, warn};

use crate::command::purge::unless_gone;
use crate::pane::Life;
use crate::retire::Keep;
use crate::supervisor::{Supervisor, point};

impl Supervisor {
    /// Takes back what the last daemon was killed at. Before anybody is answered: nobody sees half
    /// of a run.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub(crate) async fn take_back_pending(self: &Arc<Self>) -> Result<(), StoreError> {
        for session in self.registry.read(|change| change.pending()).await? {
            info!(%session, "was not complete");
            self.take_back(session).await;
        }
        Ok(())
    }

    /// Ends and retires a session with all its panes. Whoever asked for it is told that there is
    /// none; what its agents may have done meanwhile is in the trash.
    pub(super) async fn take_back(self: &Arc<Self>, session: SessionId) {
        let rows = match self.rows().await {
            Ok(rows) => rows,
            // It stays on record as pending, and the next daemon tries again.
            Err(error) => return warn!(%session, %error, "is not taken back"),
        };
        let panes: Vec<PaneRow> = rows.panes_of(session).cloned().collect();
        self.take_back_panes(panes).await;
        let removed = self.registry.change(move |change| change.remove_session(session)).await;
        match removed {
            Ok(()) | Err(StoreError::Gone) => self.retire_session(session).await,
            Err(error) => warn!(%session, %error, "is not taken back"),
        }
    }

    /// Ends and retires panes.
    pub(super) async fn take_back_panes(self: &Arc<Self>, rows: Vec<PaneRow>) {
        if let Err(error) = self.stop_all(&rows, 0).await {
            warn!(%error.message, "not everything ended");
        }
        let ids: Vec<PaneId> = rows.iter().map(|row| row.id).collect();
        let going = ids.clone();
        let marked = self.registry.change(move |change| {
            going.iter().try_for_each(|id| change.mark_closing(*id).map(drop).or_else(unless_gone))
        });
        if let Err(error) = marked.await {
            warn!(%error, "panes are not on record as going");
        }
        point("run.undone").await;
        for row in &rows {
            let pane = self.pane(row.id).unwrap_or_else(|| self.pane_without_life(row));
            self.tear_down(&pane).await;
            self.claims.release(row.id);
            if !self.retire_pane(&pane, Keep::Nothing).await {
                continue;
            }
            let id = row.id;
            let removed = self.registry.change(move |change| change.remove_pane(id)).await;
            if let Err(error) = removed.map(drop).or_else(unless_gone) {
                warn!(pane = %id, %error, "its entry stays");
            }
            pane.publish(Life::Gone(pane.look().ending));
            self.forget(id);
            self.fail_messages(row.session, id).await;
        }
    }
}
