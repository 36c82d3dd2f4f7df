//! Ends the processes of a pane or a session and keeps the directories.

use std::sync::Arc;

use host::store::{PaneRow, StoreError};
use model::authority::{Access, Caller};

use super::access::{AccessDenied, authorize};
use super::show::add_changes;
use super::{PaneOrSession, Services};
use crate::fault::any_of;
use crate::panes::error as panes;
use crate::registry::{PaneOrSessionRow, TargetError};

any_of! {
    /// Why a pane or session was not stopped.
    pub(crate) enum StopError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        Panes(panes::StopError),
    }
}

/// Ends the processes of a pane, or of all panes of a session.
pub(crate) async fn stop(
    services: &Arc<Services>,
    caller: &Caller,
    target: &str,
    grace_ms: u64,
) -> Result<PaneOrSession, StopError> {
    let rows = services.panes.rows().await?;
    match rows.find(target)? {
        PaneOrSessionRow::Pane(row) => {
            authorize(services, caller, Access::Control, Some(row.session)).await?;
            services.panes.stop_all(std::slice::from_ref(&row), grace_ms).await?;
            let mut answer = services.panes.pane_answer(row.id).await?;
            add_changes(services, &mut answer).await;
            Ok(PaneOrSession::Pane(Box::new(answer)))
        }
        PaneOrSessionRow::Session(session) => {
            authorize(services, caller, Access::Control, Some(session.record.id)).await?;
            let panes: Vec<PaneRow> = rows.panes_of(session.record.id).cloned().collect();
            services.panes.stop_all(&panes, grace_ms).await?;
            Ok({
                let rows = services.panes.rows().await?;
                PaneOrSession::Session(Box::new(services.panes.session_answer(&session, &rows)))
            })
        }
    }
}
