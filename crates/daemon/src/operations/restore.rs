//! Restarts an ended pane, or all ended panes of a session.

use std::sync::Arc;

use host::store::StoreError;
use model::SessionRecord;
use model::authority::{Access, Caller};

use super::access::{AccessDenied, authorize};
use super::{PaneOrSession, Services};
use crate::fault::{TaskFailed, any_of};
use crate::panes::error as panes;
use crate::registry::{PaneOrSessionRow, TargetError, inherit_caller};
use crate::runtime::run_blocking;
use crate::sessions::error::RepairError;

any_of! {
    /// Why a pane or session was not restored.
    pub(crate) enum RestoreError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        Session(RepairError),
        Pane(panes::RestoreError),
    }
}

/// Restarts an ended pane, or all ended panes of a session.
pub(crate) async fn restore(
    services: &Arc<Services>,
    caller: &Caller,
    target: &str,
) -> Result<PaneOrSession, RestoreError> {
    let rows = services.panes.rows().await?;
    match rows.find(target)? {
        PaneOrSessionRow::Pane(row) => {
            authorize(services, caller, Access::Control, Some(row.session)).await?;
            if let Some(session) = rows.session(row.session) {
                repair(services, &session.record).await?;
            }
            Box::pin(services.panes.restore_pane(&row)).await?;
            Ok(PaneOrSession::Pane(Box::new(services.panes.pane_answer(row.id).await?)))
        }
        PaneOrSessionRow::Session(session) => {
            authorize(services, caller, Access::Control, Some(session.record.id)).await?;
            repair(services, &session.record).await?;
            let ended = rows.panes_of(session.record.id).filter(|row| {
                services.panes.get(row.id).is_some_and(|pane| !pane.status().state.is_live())
            });
            let restores: Vec<_> = ended
                .map(|row| {
                    let (this, row) = (Arc::clone(services), row.clone());
                    services
                        .runtime
                        .tasks
                        .spawn(inherit_caller(async move { this.panes.restore_pane(&row).await }))
                })
                .collect();
            let mut result = Ok(());
            for restore in restores {
                let restored = restore.await.unwrap_or_else(|failed| {
                    Err(TaskFailed { what: "restoring a pane", why: failed.to_string() }.into())
                });
                result = result.and(restored);
            }
            result?;
            Ok({
                let rows = services.panes.rows().await?;
                PaneOrSession::Session(Box::new(services.panes.session_answer(&session, &rows)))
            })
        }
    }
}

/// Repairs the directory of a session, so that its panes can be restarted.
async fn repair(services: &Arc<Services>, session: &SessionRecord) -> Result<(), RepairError> {
    let (this, record) = (Arc::clone(services), session.clone());
    run_blocking(move || this.sessions.repair(&record)).await
}
