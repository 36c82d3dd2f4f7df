//! Deletes a session and everything in it (R31).
//!
//! ```text
//!  examined --> stopped --> examined --> marked as closing --> in the trash --> out of the registry
//! ```
//!
//! The first examination refuses before anything is stopped; the second is complete.
//!
//! With `now`, the trash entries are due at once and deleted in the background. If the daemon is killed in between, recovery retires the panes marked as closing, the next
//! daemon deletes what is due in the trash, and purging again completes the rest.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::file::FileError;
use host::store::{PaneRow, StoreError};
use host::workspace::{SessionRemoval, Work};
use model::authority::{Access, Caller};
use model::{Name, PaneId, SessionRecord};
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

impl PurgeRequest<'_> {
    fn retention(self) -> Retention {
        if self.now { Retention::Delete } else { Retention::Trash }
    }
}

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
        services.housekeeping.delete_soon(trees);
    }
    purged
}

async fn purge_all(
    services: &Arc<Services>,
    session: &SessionRecord,
    request: PurgeRequest<'_>,
    trees: &mut Vec<PathBuf>,
) -> Result<(), PurgeError> {
    for _ in 0..MAX_ATTEMPTS {
        if purge_panes(services, session, request, trees).await? {
            trees.extend(services.sessions.retire(session.id, request.retention().expiry()).await);
            info!(session = %session.id, "session purged");
            return Ok(());
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
    Err(NotPurgeable::Starting(session.name.clone()).into())
}

/// Ends and retires the current panes of a session, and removes the session if it has no others.
/// Returns whether the session was removed.
async fn purge_panes(
    services: &Arc<Services>,
    session: &SessionRecord,
    request: PurgeRequest<'_>,
    trees: &mut Vec<PathBuf>,
) -> Result<bool, PurgeError> {
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
    // All panes are checked before any is stopped or removed: a session is purged completely or not
    // at all.
    let examination = Examination { services, session, panes: &panes, rows: &rows, request };
    examination.refuse_unsaved(examination.is_live().await?).await?;
    services.panes.stop_all(&rows, request.grace_ms).await?;
    point("purge.stopped").await;
    examination.set_aside().await?;
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
        match services.panes.try_retire(pane, request.retention()).await {
            Ok(moved) => trees.extend(moved),
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
    Ok(is_removed)
}

/// The examination of a session and its panes.
struct Examination<'a> {
    services: &'a Arc<Services>,
    session: &'a SessionRecord,
    panes: &'a [Arc<Pane>],
    rows: &'a [PaneRow],
    request: PurgeRequest<'a>,
}

impl Examination<'_> {
    /// Returns whether a pane is live.
    async fn is_live(&self) -> Result<bool, StopError> {
        for row in self.rows {
            if self.services.panes.is_live_after_start(row).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns what is removed with the session.
    async fn session_removal(&self) -> SessionRemoval {
        let (root, record) = (self.services.runtime.root.clone(), self.session.clone());
        run_blocking(move || session_removal(&root, &record)).await
    }

    /// Returns what is removed with the pane at this position: the directories of the session are
    /// examined along with its first pane. Live panes are ended before the removal.
    fn scope(&self, at: usize, removal: &SessionRemoval) -> RemovalScope {
        let session = (at == 0).then(|| removal.clone());
        let ending = self.panes.iter().filter_map(|pane| pane.processes()).collect();
        RemovalScope { home: true, session, ending }
    }

    fn refused(&self, panes: Vec<(Name, Work)>, running: bool) -> PurgeError {
        UnsavedWorkFound::Session { session: self.session.name.clone(), panes, running }.into()
    }

    /// Fails if there is unsaved work in the session, which stays unchanged.
    async fn refuse_unsaved(&self, running: bool) -> Result<(), PurgeError> {
        let removal = self.session_removal().await;
        let workspaces = &self.services.panes.workspaces;
        let mut unsaved = Vec::new();
        for (at, (pane, row)) in self.panes.iter().zip(self.rows).enumerate() {
            let work = workspaces
                .unsaved_work(pane, &self.scope(at, &removal), self.request.discard)
                .await;
            unsaved.extend(work.map(|work| (row.name.clone(), work)));
        }
        if self.panes.is_empty() {
            let work = run_blocking(move || host::workspace::find_in_session(&removal)).await;
            if !work.is_empty() && !self.request.discard.contains(&work.token()) {
                unsaved.push((self.session.name.clone(), work));
            }
        }
        if unsaved.is_empty() { Ok(()) } else { Err(self.refused(unsaved, running)) }
    }

    /// Tears all panes down, moves them aside and examines them there. If any has unsaved work, all
    /// are put back.
    async fn set_aside(&self) -> Result<(), PurgeError> {
        let workspaces = &self.services.panes.workspaces;
        for pane in self.panes {
            // Teardown commands may delete work that the panes have written since.
            if workspaces.has_teardown(pane).await {
                self.refuse_unsaved(false).await?;
                break;
            }
        }
        for pane in self.panes {
            workspaces.tear_down(pane).await;
        }
        let removal = self.session_removal().await;
        let mut unsaved = Vec::new();
        for (at, (pane, row)) in self.panes.iter().zip(self.rows).enumerate() {
            match workspaces.set_aside(pane, &self.scope(at, &removal), self.request.discard).await
            {
                Ok(work) => unsaved.extend(work.map(|work| (row.name.clone(), work))),
                Err(error) => {
                    put_all_back(self.panes).await?;
                    return Err(error.into());
                }
            }
        }
        if unsaved.is_empty() {
            return Ok(());
        }
        put_all_back(self.panes).await?;
        Err(self.refused(unsaved, false))
    }
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
