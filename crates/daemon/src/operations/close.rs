//! Closes a pane: ends its processes and moves its directory to the trash.
//!
//! Order: end the processes, examine, tear down, move the directory aside and examine it again, mark the pane as closing in the registry, move its directory to the
//! trash, remove the pane from the registry. If the daemon is killed in between, recovery continues
//! from the last completed step.

use std::sync::Arc;

use host::file::FileError;
use host::store::{PaneRow, StoreError};
use model::authority::{Access, Caller};

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::any_of;
use crate::panes::error::StopError;
use crate::panes::removal::{RemovalScope, put_back, session_removal};
use crate::panes::retire::Retention;
use crate::panes::workspace::UnsavedWorkFound;
use crate::panes::{Life, Pane};
use crate::registry::TargetError;
use crate::runtime::{point, run_blocking};

any_of! {
    /// Why a pane was not closed.
    pub(crate) enum CloseError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        Stop(StopError),
        Unsaved(UnsavedWorkFound),
        File(FileError),
    }
}

/// Ends the processes of a pane and moves its directory to the trash.
pub(crate) async fn close(
    services: &Arc<Services>,
    caller: &Caller,
    target: &str,
    grace_ms: u64,
    discard: &[String],
) -> Result<(), CloseError> {
    let row = services.panes.rows().await?.find_pane(target)?;
    authorize(services, caller, Access::Control, Some(row.session)).await?;
    let Some(pane) = services.panes.get(row.id) else { return Err(StoreError::Gone.into()) };
    let _guard = pane.lifecycle_lock.lock().await;
    if matches!(pane.life(), Life::Gone(_)) {
        return Ok(());
    }
    services.panes.stop_all(std::slice::from_ref(&row), grace_ms).await?;
    point("close.stopped").await;
    let workspaces = &services.panes.workspaces;
    let scope = removal_scope(services, &row, &pane).await?;
    if let Some(work) = workspaces.unsaved_work(&pane, &scope, discard).await {
        return Err(UnsavedWorkFound::of_pane(&row.name, &pane, work).into());
    }
    point("close.checked").await;
    workspaces.tear_down(&pane).await;
    // Teardown commands and other programs may have written meanwhile.
    if let Some(work) = workspaces.set_aside(&pane, &scope, discard).await? {
        return Err(UnsavedWorkFound::of_pane(&row.name, &pane, work).into());
    }
    if let Err(error) = services.registry.change(move |change| change.mark_closing(row.id)).await {
        let (root, dir) = (services.runtime.root.clone(), pane.dir.clone());
        run_blocking(move || put_back(&root, &dir)).await?;
        return Err(error.into());
    }
    let keep_config = pane.launch().is_some_and(|launch| launch.isolation.kept_on_close);
    let retention = if keep_config { Retention::KeepConfig } else { Retention::Trash };
    if let Err(error) = services.panes.try_retire(&pane, retention).await {
        let (root, dir) = (services.runtime.root.clone(), pane.dir.clone());
        run_blocking(move || put_back(&root, &dir)).await?;
        return Err(error.into());
    }
    point("close.retired").await;
    services.panes.remove(row.id).await?;
    Ok(())
}

/// Returns what is removed together with a pane when it is closed.
pub(crate) async fn removal_scope(
    services: &Arc<Services>,
    row: &PaneRow,
    pane: &Pane,
) -> Result<RemovalScope, StoreError> {
    let rows = services.panes.rows().await?;
    let is_last = rows.panes_of(row.session).count() == 1;
    let session = rows.session(row.session).map(|row| row.record.clone());
    let session = session.filter(|session| is_last && session.implicit);
    let root = services.runtime.root.clone();
    let session = run_blocking(move || session.map(|session| session_removal(&root, &session)));
    let keeps_home = pane.launch().is_some_and(|launch| launch.isolation.kept_on_close);
    Ok(RemovalScope { home: !keeps_home, session: session.await })
}
