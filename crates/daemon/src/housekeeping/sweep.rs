//! The sweep: deletes expired entries of the trash, and moves directories that belong to no pane to
//! the trash (R14, R15).
//!
//! ```text
//!  list directories --> read registry --> check sessions and processes --> decide
//!                                                                            |
//!  record event <-- move <-- decide again <-- check again <------------------+ for each orphan
//! ```
//!
//! A pane is added to the registry before its directories are created, and removed from it after
//! they are gone. A directory that is listed first and has no entry in the registry afterwards is
//! therefore an orphan, not a pane that is being started. After an incomplete recovery no directory
//! is considered an orphan, because a record that could not be read may claim it. If the
//! configuration cannot be read, nothing is swept.

mod orphans;
mod work_dirs;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host::reserve::DiskReserve;
use host::store::StoreError;
use host::{clock, file, hooks, remove, workspace};
use model::config::CleanupConfig;
use model::event::EventBody;
use model::{PaneId, Timestamp};
use protocol::gc::GcKind;
use tracing::{info, warn};

use self::orphans::Entry;
use super::Housekeeping;
use super::finding::{SweepAction, SweepFinding, SweepOutcome};
use super::trash_survey::{self, TrashSelection};
use crate::panes::retire::trash_kind;
use crate::runtime::{point, run_blocking};
use crate::trash::{self, RemovalFailure};

impl Housekeeping {
    /// Sweeps now and then periodically, as configured by `cleanup.every`, until the daemon stops.
    pub(crate) async fn run_sweeper(self: Arc<Self>) {
        loop {
            if !self.runtime.is_root_in_place() {
                info!("daemon stops because its state root was moved");
                return self.runtime.stopping.cancel();
            }
            self.replenish_reserve().await;
            let every = match self.runtime.config().await {
                Ok(config) => {
                    self.sweep(config.cleanup).await;
                    config.cleanup.every
                }
                Err(error) => {
                    warn!(%error, "sweep skipped");
                    CleanupConfig::default().every
                }
            };
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = self.runtime.stopping.cancelled() => return,
            }
        }
    }

    /// Frees the space that is reserved for cleanup, if the disk is full.
    pub(crate) async fn release_reserve_if_full(&self) {
        let reserve = DiskReserve::of(&self.runtime.root);
        run_blocking(move || reserve.release_if_full()).await;
    }

    /// Reserves space for cleanup again, if the disk has room.
    pub(crate) async fn replenish_reserve(&self) {
        let reserve = DiskReserve::of(&self.runtime.root);
        if let Err(error) = run_blocking(move || reserve.replenish()).await {
            warn!(%error, "disk space for cleanup not reserved");
        }
    }

    async fn sweep(&self, config: CleanupConfig) {
        let _guard = self.cleanup_lock.lock().await;
        match self.survey(config, TrashSelection::OlderThan(config.retention)).await {
            Ok(findings) => drop(self.apply(&findings, config.orphan_age).await),
            Err(error) => warn!(%error, "sweep skipped"),
        }
    }

    /// Returns every path that belongs to no pane; the contents of the trash come first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the panes in the registry cannot be read.
    pub(crate) async fn survey(
        &self,
        config: CleanupConfig,
        selection: TrashSelection,
    ) -> Result<Vec<SweepFinding>, StoreError> {
        let root = self.runtime.root.clone();
        let (entries, unreadable) = run_blocking(move || orphans::entries(&root)).await;
        // Read after the entries: a pane that is started in between has a row already.
        let known = self.registry.read(|change| change.panes()).await?;
        let known: HashSet<PaneId> = known.into_iter().map(|row| row.id).collect();
        let (root, min_age) = (self.runtime.root.clone(), config.orphan_age);
        let mut findings = run_blocking(move || {
            let now = clock::now();
            let mut findings = trash_survey::survey(&root.trash(), selection, now);
            findings.extend(unreadable);
            findings.extend(work_dirs::survey(&root));
            findings.extend(orphans::assess_all(&root, entries, &known, min_age, now));
            findings
        })
        .await;
        if !self.runtime.problems().is_empty() {
            let orphans = findings.iter_mut().filter(|found| found.kind != GcKind::Trash);
            orphans.for_each(|found| {
                found
                    .cancel("the last recovery was not complete: see `ccmux daemon status --json`");
            });
        }
        Ok(findings)
    }

    /// Carries out the planned actions and returns their outcomes in the same order. The caller
    /// holds `cleanup_lock`.
    pub(crate) async fn apply(
        &self,
        findings: &[SweepFinding],
        min_age: Duration,
    ) -> Vec<SweepOutcome> {
        let mut outcomes = Vec::with_capacity(findings.len());
        let mut moved = false;
        for finding in findings {
            if self.runtime.stopping.is_cancelled() {
                outcomes.push(SweepOutcome::Failed("the daemon is stopping".to_owned()));
                continue;
            }
            let outcome = match finding.planned {
                SweepAction::Keep => SweepOutcome::Skipped,
                SweepAction::DeleteTree => self.delete(finding.path.clone()).await,
                SweepAction::DeleteFile => self.delete_marker(&finding.path, min_age).await,
                SweepAction::MoveToTrash => {
                    if !moved {
                        point("sweep.found").await;
                        moved = true;
                    }
                    self.move_orphan(finding, min_age).await
                }
            };
            if let SweepOutcome::Failed(why) = &outcome {
                self.report_once(&finding.path, why).await;
            }
            outcomes.push(outcome);
        }
        if moved {
            let trash = self.runtime.root.trash();
            // If a power loss undoes a move, the directory is an orphan again.
            if let Err(error) = run_blocking(move || file::sync_dir(&trash)).await {
                warn!(%error, "trash directory not synced");
            }
        }
        outcomes
    }

    /// Moves an orphan to the trash, if it still is one.
    async fn move_orphan(&self, finding: &SweepFinding, min_age: Duration) -> SweepOutcome {
        let entry = Entry::at(finding.path.clone());
        let Some(pane) = entry.name.pane() else { return SweepOutcome::Skipped };
        if !self.is_still_orphan(entry, min_age).await {
            return SweepOutcome::Skipped;
        }
        let (path, trash) = (finding.path.clone(), self.runtime.root.trash());
        let moved =
            run_blocking(move || trash::retire_unsynced(&path, &trash, &trash_kind(&path), pane));
        match moved.await {
            Ok(Some(kept_as)) => {
                point("sweep.moved").await;
                info!(%pane, path = %finding.path.display(), "orphan moved to trash");
                let text = |path: &Path| path.to_string_lossy().into_owned();
                let (path, kept_as) = (text(&finding.path), text(&kept_as));
                self.registry
                    .record(EventBody::Retired { path, kept_as, why: finding.why.clone() })
                    .await;
                SweepOutcome::Done
            }
            Ok(None) => SweepOutcome::Skipped,
            Err(error) => SweepOutcome::Failed(error.to_string()),
        }
    }

    /// Deletes the marker of a directory that no longer exists.
    async fn delete_marker(&self, marker: &Path, min_age: Duration) -> SweepOutcome {
        if !self.is_still_orphan(Entry::at(marker.to_owned()), min_age).await {
            return SweepOutcome::Skipped;
        }
        let marker = marker.to_owned();
        match run_blocking(move || std::fs::remove_file(marker)).await {
            Ok(()) => SweepOutcome::Done,
            Err(error) => SweepOutcome::Failed(format!("cannot remove it: {error}")),
        }
    }

    async fn is_still_orphan(&self, entry: Entry, min_age: Duration) -> bool {
        let Some(pane) = entry.name.pane() else { return false };
        let read = self.registry.read(move |change| match change.pane(pane) {
            Ok(_) => Ok(true),
            Err(StoreError::Gone) => Ok(false),
            Err(error) => Err(error),
        });
        // If the registry cannot be read, the pane may exist.
        let known = read.await.unwrap_or(true);
        let (root, own_processes) = (self.runtime.root.clone(), self.runtime.own_processes.clone());
        run_blocking(move || {
            orphans::is_still_orphan(&root, &entry, known, &own_processes, min_age, clock::now())
        })
        .await
    }

    /// Deletes trees in the trash that were not written to since they were examined. The others are
    /// reported and stay for the retention period.
    pub(crate) async fn delete_examined(self: &Arc<Self>, trees: Vec<(PathBuf, Timestamp)>) {
        let (due, kept) = run_blocking(move || {
            let (mut due, mut kept) = (Vec::new(), Vec::new());
            for (path, since) in trees {
                let made_due = match workspace::find_late_write(&path, since) {
                    None => trash::make_due(&path).map_err(|error| error.to_string()),
                    Some(why) => Err(format!("{why}; it is kept for the retention period")),
                };
                match made_due {
                    Ok(entry) => due.push(entry),
                    Err(why) => kept.push(RemovalFailure { path, why }),
                }
            }
            (due, kept)
        })
        .await;
        trash::report_removal_failures(&self.registry, kept).await;
        self.delete_soon(due);
    }

    /// Deletes trees in the trash, in a separate task.
    fn delete_soon(self: &Arc<Self>, trees: Vec<PathBuf>) {
        let this = Arc::clone(self);
        self.runtime.tasks.spawn(async move {
            let _guard = this.cleanup_lock.lock().await;
            for tree in trees {
                if let SweepOutcome::Failed(why) = this.delete(tree.clone()).await {
                    this.report_once(&tree, &why).await;
                }
            }
            this.replenish_reserve().await;
        });
    }

    /// Deletes a tree in the trash.
    async fn delete(&self, tree: PathBuf) -> SweepOutcome {
        let deleted = run_blocking(move || {
            hooks::point("gc.deleting");
            let deleted = remove::tree(&tree);
            if deleted.is_ok() {
                info!(path = %tree.display(), "trash entry deleted");
            }
            deleted
        });
        match deleted.await {
            Ok(()) => SweepOutcome::Done,
            Err(error) => SweepOutcome::Failed(error.to_string()),
        }
    }

    /// Reports a path that could not be removed, once in the life of the daemon.
    async fn report_once(&self, path: &Path, why: &str) {
        if self.reported.lock().insert(path.to_owned()) {
            let failure = RemovalFailure { path: path.to_owned(), why: why.to_owned() };
            trash::report_removal_failures(&self.registry, vec![failure]).await;
        }
    }
}
