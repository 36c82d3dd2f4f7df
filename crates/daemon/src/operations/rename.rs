//! Renames a pane or a session.
//!
//! The registry is authoritative. The record in the directory is updated afterwards, so that a lost
//! registry is rebuilt with the new name. If the daemon is killed in between, recovery updates the
//! record.

use std::path::PathBuf;

use host::file::{Durability, FileError};
use host::record;
use host::store::StoreError;
use model::authority::{Access, Caller};
use model::{Name, PaneId};
use serde::Serialize;
use tracing::warn;

use super::access::{AccessDenied, authorize};
use super::{PaneOrSession, Services};
use crate::fault::any_of;
use crate::registry::{PaneOrSessionRow, TargetError};
use crate::runtime::{point, run_blocking};
use crate::sessions::SESSION_RECORD;

any_of! {
    /// Why a pane or session was not renamed.
    pub(crate) enum RenameError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
    }
}

/// Renames a pane or a session.
pub(crate) async fn rename(
    services: &Services,
    caller: &Caller,
    target: &str,
    name: Name,
) -> Result<PaneOrSession, RenameError> {
    let found = services.panes.rows().await?.find(target)?;
    let new_name = name.clone();
    match found {
        PaneOrSessionRow::Pane(row) => {
            authorize(services, caller, Access::Control, Some(row.session)).await?;
            services.registry.change(move |change| change.rename_pane(row.id, &new_name)).await?;
            point("rename.committed").await;
            complete(services, row.id, name).await;
            Ok(PaneOrSession::Pane(Box::new(services.panes.pane_answer(row.id).await?)))
        }
        PaneOrSessionRow::Session(row) => {
            authorize(services, caller, Access::Control, Some(row.record.id)).await?;
            let mut record = row.record;
            let id = record.id;
            services.registry.change(move |change| change.rename_session(id, &new_name)).await?;
            point("rename.committed").await;
            record.name = name;
            write_record(services.runtime.root.session(id).join(SESSION_RECORD), record).await;
            let rows = services.panes.rows().await?;
            match rows.find(&id.to_string())? {
                PaneOrSessionRow::Session(session) => Ok(PaneOrSession::Session(Box::new(
                    services.panes.session_answer(&session, &rows),
                ))),
                PaneOrSessionRow::Pane(pane) => {
                    Ok(PaneOrSession::Pane(Box::new(services.panes.answer(&pane, &rows)?)))
                }
            }
        }
    }
}

/// Updates the record of a pane that was renamed in the registry, and announces the change.
pub(super) async fn complete(services: &Services, id: PaneId, name: Name) {
    if let Some(pane) = services.panes.get(id) {
        let update = move || pane.change_launch(|launch| launch.name = name);
        if let Err(error) = run_blocking(update).await {
            // Recovery writes it when the daemon starts.
            warn!(pane = %id, %error, "launch record not updated");
        }
    }
    services.lifecycle.pane_transitioned(id);
}

async fn write_record<T: Serialize + Send + 'static>(path: PathBuf, value: T) {
    let written: Result<(), FileError> =
        run_blocking(move || record::write(&path, &value, Durability::PowerLoss)).await;
    if let Err(error) = written {
        // Recovery writes it when the daemon starts.
        warn!(%error, "session record not updated");
    }
}
