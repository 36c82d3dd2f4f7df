//! Rolls back sessions and panes whose creation failed.

use std::sync::Arc;

use host::store::{PaneRow, StoreError};
use model::{PaneId, SessionId};
use tracing::{info, warn};

use crate::operations::Services;
use crate::operations::purge::{ignore_gone, unsupervised_pane};
use crate::panes::Life;
use crate::panes::retire::Retention;
use crate::runtime::point;

/// Rolls back the pending sessions of the previous daemon. Must complete before requests are
/// accepted, so that no client sees a partial run.
///
/// # Errors
///
/// [`StoreError`].
pub(crate) async fn roll_back_pending(services: &Arc<Services>) -> Result<(), StoreError> {
    for session in services.registry.read(|change| change.pending()).await? {
        info!(%session, "incomplete session found");
        roll_back_session(services, session).await;
    }
    Ok(())
}

/// Ends a session with all its panes and moves its directory to the trash, including any work that
/// its agents have done. A failure is logged.
pub(crate) async fn roll_back_session(services: &Arc<Services>, session: SessionId) {
    let rows = match services.panes.rows().await {
        Ok(rows) => rows,
        // The session stays pending, and the next daemon tries again.
        Err(error) => return warn!(%session, %error, "session not rolled back"),
    };
    let panes: Vec<PaneRow> = rows.panes_of(session).cloned().collect();
    roll_back_panes(services, panes).await;
    let removed = services.registry.change(move |change| change.remove_session(session)).await;
    match removed {
        Ok(()) | Err(StoreError::Gone) => {
            drop(services.sessions.retire(session).await);
        }
        Err(error) => warn!(%session, %error, "session not rolled back"),
    }
}

/// Ends panes and moves their directories to the trash. Failures are logged.
pub(crate) async fn roll_back_panes(services: &Arc<Services>, rows: Vec<PaneRow>) {
    if let Err(error) = services.panes.stop_all(&rows, 0).await {
        warn!(%error, "processes of a rolled-back run not ended");
    }
    let ids: Vec<PaneId> = rows.iter().map(|row| row.id).collect();
    let closing = ids.clone();
    let marked = services.registry.change(move |change| {
        closing.iter().try_for_each(|id| change.mark_closing(*id).map(drop).or_else(ignore_gone))
    });
    if let Err(error) = marked.await {
        warn!(%error, "panes not marked as closing");
    }
    point("run.undone").await;
    for row in &rows {
        let pane = services.panes.get(row.id).unwrap_or_else(|| unsupervised_pane(services, row));
        services.panes.workspaces.tear_down(&pane).await;
        services.panes.conversations.claims.release(row.id);
        if !services.panes.retire_pane(&pane, Retention::Trash).await {
            continue;
        }
        let id = row.id;
        let removed = services.registry.change(move |change| change.remove_pane(id)).await;
        if let Err(error) = removed.map(drop).or_else(ignore_gone) {
            warn!(pane = %id, %error, "pane row not removed");
        }
        pane.publish(Life::Gone(pane.status().ending));
        services.panes.forget(id);
        services.lifecycle.pane_removed(row.session, id).await;
    }
}
