//! Deletes a session and everything in it (R31).
//!
//! ```text
//!  stopped --> examined --> marked as closing --> in the trash --> out of the registry
//! ```
//!
//! With `now`, entries of the trash that were not written to since they were examined become due at
//! once, and are deleted in the background; the others stay for the retention period. If the daemon
//! is killed in between, recovery retires the panes marked as closing, the next daemon deletes what
//! is due in the trash, and purging again completes the rest.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::clock;
use host::file::FileError;
use host::store::{PaneRow, StoreError};
use host::workspace::FILE_TIME_RESOLUTION;
use model::authority::{Access, Caller};
use model::{Name, PaneId, SessionRecord, Timestamp};
use tracing::info;

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::{Advice, Description, Fault, FaultKind, any_of};
use crate::panes::error::StopError;
use crate::panes::removal::{RemovalScope, put_back, session_removal};
use crate::panes::retire::Retention;
use crate::panes::workspace::UnsavedWorkFound;
use crate::panes::{Life, Pane};
use crate::registry::{PaneOrSessionRow, TargetError};
use crate::runtime::{point, run_blocking};

any_of! {
    /// Why a session was not purged.
    pub(crate) enum PurgeError {
        Denied(AccessDenied),
        Target(TargetError),
        NotPurgeable(NotPurgeable),
        Store(StoreError),
        Stop(StopError),
        Unsaved(UnsavedWorkFound),
        File(FileError),
    }
}

/// A target that cannot be purged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotPurgeable {
    #[error("{text:?} is a pane; only whole sessions are purged")]
    Pane { text: String, pane: PaneId },
    #[error("panes are being started in session {0}")]
    Starting(Name),
}

impl Fault for NotPurgeable {
    fn describe(&self) -> Description {
        match self {
            Self::Pane { pane, .. } => {
                FaultKind::Conflict.advise(Advice::ClosePane { pane: pane.short() })
            }
            Self::Starting(_) => FaultKind::Conflict.advise(Advice::try_later()),
        }
    }
}

/// The number of attempts while panes are being started in the session.
const MAX_ATTEMPTS: usize = 5;

/// The delay between attempts, in which a pane that is being started becomes stoppable.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// How a session is purged.
#[derive(Clone, Copy)]
pub(crate) struct PurgeRequest<'a> {
    pub(crate) grace_ms: u64,
    pub(crate) discard: &'a [String],
    /// Whether to delete the directories at once instead of after the retention period.
    pub(crate) now: bool,
}

/// Directories that were moved to the trash, with the time at which their examination began.
pub(crate) type ExaminedTrees = Vec<(PathBuf, Timestamp)>;

/// Ends all panes of a session and removes the session.
pub(crate) async fn purge(
    services: &Arc<Services>,
    caller: &Caller,
    target: &str,
    request: PurgeRequest<'_>,
) -> Result<(), PurgeError> {
    let session = match services.panes.rows().await?.find(target)? {
        PaneOrSessionRow::Session(row) => row.record,
        PaneOrSessionRow::Pane(row) => {
            let text = target.to_owned();
            return Err(NotPurgeable::Pane { text, pane: row.id }.into());
        }
    };
    authorize(services, caller, Access::Control, Some(session.id)).await?;
    services.housekeeping.release_reserve_if_full().await;
    let mut trees = Vec::new();
    let purged = purge_all(services, &session, request, &mut trees).await;
    if request.now {
        // Also after a failure: what has reached the trash was requested to be deleted.
        services.housekeeping.delete_examined(trees).await;
    }
    purged
}

async fn purge_all(
    services: &Arc<Services>,
    session: &SessionRecord,
    request: PurgeRequest<'_>,
    trees: &mut ExaminedTrees,
) -> Result<(), PurgeError> {
    for _ in 0..MAX_ATTEMPTS {
        if let Some(since) = purge_panes(services, session, request, trees).await? {
            let dir = services.sessions.retire(session.id).await;
            trees.extend(dir.map(|dir| (dir, since)));
            info!(session = %session.id, "session purged");
            return Ok(());
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
    Err(NotPurgeable::Starting(session.name.clone()).into())
}

/// Ends and retires the current panes of a session, and removes the session if it has no others.
/// Returns the time at which the examination began if the session was removed.
async fn purge_panes(
    services: &Arc<Services>,
    session: &SessionRecord,
    request: PurgeRequest<'_>,
    trees: &mut ExaminedTrees,
) -> Result<Option<Timestamp>, PurgeError> {
    let rows = services.panes.rows().await?;
    let rows: Vec<PaneRow> = rows.panes_of(session.id).cloned().collect();
    let panes: Vec<Arc<Pane>> = rows
        .iter()
        .map(|row| services.panes.get(row.id).unwrap_or_else(|| unsupervised_pane(services, row)))
        .collect();
    // Locked in order of creation, as everywhere, to avoid deadlocks.
    let mut guards = Vec::with_capacity(panes.len());
    for pane in &panes {
        guards.push(pane.lifecycle_lock.lock().await);
    }
    services.panes.stop_all(&rows, request.grace_ms).await?;
    point("purge.stopped").await;
    // All panes are checked before any is removed: a session is purged completely or not at all.
    let since = examine(services, session, &panes, &rows, request.discard).await?;
    point("purge.examined").await;
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    let closing = ids.clone();
    let marked = services.registry.change(move |change| {
        let mut marks = closing.iter().map(|id| change.mark_closing(*id));
        // Panes that have already been removed are not an error.
        marks.try_for_each(|marked| marked.map(drop).or_else(ignore_gone))
    });
    if let Err(error) = marked.await {
        put_all_back(&panes).await?;
        return Err(error.into());
    }
    for pane in &panes {
        match services.panes.try_retire(pane, Retention::Trash).await {
            Ok(moved) => trees.extend(moved.into_iter().map(|dir| (dir, since))),
            Err(error) => {
                put_all_back(&panes).await?;
                return Err(error.into());
            }
        }
    }
    point("purge.retired").await;
    let session = session.id;
    let removed = services.registry.change(move |change| {
        for id in ids {
            change.remove_pane(id).map(drop).or_else(ignore_gone)?;
        }
        if !change.pane_names(session)?.is_empty() {
            return Ok(false);
        }
        change.remove_session(session).or_else(ignore_gone)?;
        Ok::<_, StoreError>(true)
    });
    let is_removed = removed.await?;
    for pane in &panes {
        pane.publish(Life::Gone(pane.status().ending));
        services.panes.forget(pane.id);
    }
    drop(guards);
    Ok(is_removed.then_some(since))
}

/// Examines all panes, tears them down, moves them aside and examines them again. If any has unsaved
/// work, all are put back. Returns a time before the second examination: files with a later time may
/// not have been seen.
async fn examine(
    services: &Arc<Services>,
    session: &SessionRecord,
    panes: &[Arc<Pane>],
    rows: &[PaneRow],
    discard: &[String],
) -> Result<Timestamp, PurgeError> {
    let workspaces = &services.panes.workspaces;
    let (root, record) = (services.runtime.root.clone(), session.clone());
    let removal = run_blocking(move || session_removal(&root, &record)).await;
    // The directories of the session are examined along with its first pane.
    let scope =
        |at: usize| RemovalScope { home: true, session: (at == 0).then(|| removal.clone()) };
    let refused = |panes| UnsavedWorkFound::Session { session: session.name.clone(), panes };
    let mut unsaved = Vec::new();
    for (at, (pane, row)) in panes.iter().zip(rows).enumerate() {
        let work = workspaces.unsaved_work(pane, &scope(at), discard).await;
        unsaved.extend(work.map(|work| (row.name.clone(), work)));
    }
    if panes.is_empty() {
        let since = start_examination().await;
        let work = run_blocking(move || host::workspace::find_in_session(&removal)).await;
        if !work.is_empty() && !discard.contains(&work.token()) {
            unsaved.push((session.name.clone(), work));
        }
        return if unsaved.is_empty() { Ok(since) } else { Err(refused(unsaved).into()) };
    }
    if !unsaved.is_empty() {
        return Err(refused(unsaved).into());
    }
    for pane in panes {
        workspaces.tear_down(pane).await;
    }
    let since = start_examination().await;
    for (at, (pane, row)) in panes.iter().zip(rows).enumerate() {
        match workspaces.set_aside(pane, &scope(at), discard).await {
            Ok(work) => unsaved.extend(work.map(|work| (row.name.clone(), work))),
            Err(error) => {
                put_all_back(panes).await?;
                return Err(error.into());
            }
        }
    }
    if !unsaved.is_empty() {
        put_all_back(panes).await?;
        return Err(refused(unsaved).into());
    }
    Ok(since)
}

/// Returns the time, after waiting until files that are written have a later one.
async fn start_examination() -> Timestamp {
    let since = clock::now();
    tokio::time::sleep(FILE_TIME_RESOLUTION).await;
    since
}

async fn put_all_back(panes: &[Arc<Pane>]) -> Result<(), FileError> {
    let dirs: Vec<PathBuf> = panes.iter().map(|pane| pane.dir.clone()).collect();
    run_blocking(move || dirs.iter().try_for_each(|dir| put_back(dir))).await
}

/// Builds the handle of a pane that has a row but no supervisor.
pub(crate) fn unsupervised_pane(services: &Services, row: &PaneRow) -> Arc<Pane> {
    let dir = services.runtime.root.pane(row.session, row.id);
    Arc::new(Pane::new(row.id, row.session, dir, Life::Gone(None)))
}

/// Treats a row that no longer exists as success.
pub(crate) fn ignore_gone(error: StoreError) -> Result<(), StoreError> {
    if matches!(error, StoreError::Gone) { Ok(()) } else { Err(error) }
}
