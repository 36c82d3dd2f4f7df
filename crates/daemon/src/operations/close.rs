//! Closes a pane: ends its processes and moves its directory to the trash.
//!
//! Order: examine a live pane and refuse if it has unsaved work; end the processes, tear down, move
//! the directory aside and examine it there, mark the pane as closing in the registry, move its
//! directory to the trash, remove the pane from the registry. If the daemon is killed in between,
//! recovery continues from the last completed step.
//!
//! Only the last examination is complete: a live pane may write after the first one, which exists so
//! that a refusal changes nothing.

use std::sync::Arc;

use host::file::FileError;
use host::store::{PaneRow, StoreError};
use model::Name;
use model::authority::{Access, Caller};

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::{Description, Fault, FaultKind, any_of};
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
        Live(StillRunning),
        Unsaved(UnsavedWorkFound),
        File(FileError),
    }
}

/// The error of closing a live pane when only an ended one may be closed.
#[derive(Debug, thiserror::Error)]
#[error("pane {0} is running")]
pub(crate) struct StillRunning(Name);

impl Fault for StillRunning {
    fn describe(&self) -> Description {
        FaultKind::Conflict.plain()
    }
}

/// How a pane is closed.
#[derive(Clone, Copy, Default)]
pub(crate) struct CloseRequest<'a> {
    pub(crate) grace_ms: u64,
    pub(crate) discard: &'a [String],
    /// Whether to refuse if the pane is live.
    pub(crate) only_ended: bool,
}

/// Ends the processes of a pane and moves its directory to the trash.
pub(crate) async fn close(
    services: &Arc<Services>,
    caller: &Caller,
    target: &str,
    request: CloseRequest<'_>,
) -> Result<(), CloseError> {
    let CloseRequest { grace_ms, discard, only_ended } = request;
    let row = services.panes.rows().await?.find_pane(target)?;
    authorize(services, caller, Access::Control, Some(row.session)).await?;
    let Some(pane) = services.panes.get(row.id) else { return Err(StoreError::Gone.into()) };
    let _guard = pane.lifecycle_lock.lock().await;
    if matches!(pane.life(), Life::Gone(_)) {
        return Ok(());
    }
    let was_live = services.panes.is_live_after_start(&row).await?;
    if was_live && only_ended {
        return Err(StillRunning(row.name).into());
    }
    let workspaces = &services.panes.workspaces;
    let scope = removal_scope(services, &row, &pane).await?;
    if let Some(work) = workspaces.unsaved_work(&pane, &scope, discard).await {
        return Err(UnsavedWorkFound::of_pane(&row.name, &pane, work, was_live).into());
    }
    point("close.examined").await;
    services.panes.stop_all(std::slice::from_ref(&row), grace_ms).await?;
    point("close.stopped").await;
    let scope = removal_scope(services, &row, &pane).await?;
    // Teardown commands may delete work that the pane has written since.
    if was_live
        && workspaces.has_teardown(&pane).await
        && let Some(work) = workspaces.unsaved_work(&pane, &scope, discard).await
    {
        return Err(UnsavedWorkFound::of_pane(&row.name, &pane, work, false).into());
    }
    point("close.checked").await;
    workspaces.tear_down(&pane).await;
    // The pane, teardown commands and other programs may have written meanwhile.
    if let Some(work) = workspaces.set_aside(&pane, &scope, discard).await? {
        return Err(UnsavedWorkFound::of_pane(&row.name, &pane, work, false).into());
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

/// Fails if one of these panes is live and has unsaved work, before any of them is stopped.
pub(super) async fn check_live(
    services: &Arc<Services>,
    rows: &[PaneRow],
) -> Result<(), CloseError> {
    for row in rows {
        let Some(pane) = services.panes.get(row.id) else { continue };
        if !services.panes.is_live_after_start(row).await? {
            continue;
        }
        let scope = removal_scope(services, row, &pane).await?;
        if let Some(work) = services.panes.workspaces.unsaved_work(&pane, &scope, &[]).await {
            return Err(UnsavedWorkFound::of_pane(&row.name, &pane, work, true).into());
        }
    }
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
    let ending = pane.processes().into_iter().collect();
    Ok(RemovalScope { home: !keeps_home, session: session.await, ending })
}
