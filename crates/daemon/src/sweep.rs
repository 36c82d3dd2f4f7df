//! Tidying up: what has been in the trash for long enough is deleted, what belongs to no pane is
//! moved to the trash (R14, R15).
//!
//! ```text
//!  directories listed --> registry read --> sessions and processes looked at --> judged
//!                                                                                  |
//!  told <-- moved <-- judged again <-- processes and sessions <-- registry <-------+ each orphan
//! ```
//!
//! A pane that is being started is in the registry before any of its directories is made, and one
//! that goes leaves the registry after them. So whoever first sees the directory and then no entry
//! has seen an orphan, and not a pane that is on its way. After a recovery that was not complete
//! nothing is taken for an orphan: what was not seen must not be taken for not there. And if the
//! configuration cannot be read, nothing is done at all.

mod survey;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use host::store::StoreError;
use host::{clock, file, hooks, remove};
use model::config::CleanupConfig;
use model::event::Happening;
use model::{PaneId, Timestamp};
use protocol::gc::GcKind;
use tracing::{info, warn};

use self::survey::Entry;
use crate::retire::{Left, holder_of};
use crate::supervisor::{Supervisor, point, run_blocking};
use crate::trash::{self, Due, Since};

/// Something that belongs to no pane, and what is to become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: PathBuf,
    pub(crate) kind: GcKind,
    /// Why that is to become of it, for people.
    pub(crate) why: String,
    pub(crate) fate: Fate,
    /// When it will be deleted, if it is in the trash for a time.
    pub(crate) until: Option<Timestamp>,
}

/// What is to become of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stay,
    /// It is moved to the trash.
    Trash,
    /// The whole tree is deleted.
    Delete,
    /// It is a file, and deleted.
    DeleteFile,
}

/// What came of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// It is no longer what it was found to be.
    Spared,
    Failed(String),
}

impl Finding {
    pub(crate) fn staying(path: PathBuf, kind: GcKind, why: String) -> Self {
        Self { path, kind, why, fate: Fate::Stay, until: None }
    }

    /// Leaves it where it is after all.
    fn spare(&mut self, why: &str) {
        if self.fate != Fate::Stay {
            self.fate = Fate::Stay;
            self.why = format!("{}, but {why}", self.why);
        }
    }
}

impl Supervisor {
    /// Tidies up now and from time to time.
    pub(crate) async fn keep_tidy(self: Arc<Self>) {
        loop {
            let every = match self.config().await {
                Ok(config) => {
                    self.tidy(config.cleanup).await;
                    config.cleanup.every
                }
                Err(error) => {
                    warn!(%error.message, "nothing is tidied up");
                    CleanupConfig::default().every
                }
            };
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }

    async fn tidy(&self, wishes: CleanupConfig) {
        let _alone = self.tidying.lock().await;
        match self.survey(wishes, Due::After(wishes.retention)).await {
            Ok(findings) => drop(self.deal_with(&findings, wishes.orphan_age).await),
            Err(error) => warn!(%error, "nothing is tidied up"),
        }
    }

    /// Everything that belongs to no pane: first what is in the trash.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nobody can say which panes there are.
    pub(crate) async fn survey(
        &self,
        wishes: CleanupConfig,
        due: Due,
    ) -> Result<Vec<Finding>, StoreError> {
        let root = self.root.clone();
        let (entries, unreadable) = run_blocking(move || survey::entries(&root)).await;
        // After the entries, so that one without a pane here is not of one that came meanwhile.
        let known = self.registry.read(|change| change.panes()).await?;
        let known: HashSet<PaneId> = known.into_iter().map(|row| row.id).collect();
        let (root, least) = (self.root.clone(), wishes.orphan_age);
        let mut findings = run_blocking(move || {
            let now = clock::now();
            let mut findings = trash::look(&root.trash(), due, now);
            findings.extend(unreadable);
            findings.extend(survey::judge_all(&root, entries, &known, least, now));
            findings
        })
        .await;
        if !self.problems().is_empty() {
            let orphans = findings.iter_mut().filter(|found| found.kind != GcKind::Trash);
            orphans.for_each(|found| {
                found.spare("the last recovery was not complete: see `ccmux daemon status --json`");
            });
        }
        Ok(findings)
    }

    /// Does with each of them what is to be done; what came of it, in the same order. Whoever calls
    /// holds `tidying`.
    pub(crate) async fn deal_with(&self, findings: &[Finding], least: Duration) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(findings.len());
        let mut moved = false;
        for finding in findings {
            if self.stopping.is_cancelled() {
                outcomes.push(Outcome::Failed("the daemon is being stopped".to_owned()));
                continue;
            }
            let outcome = match finding.fate {
                Fate::Stay => Outcome::Spared,
                Fate::Delete => self.delete(finding.path.clone()).await,
                Fate::DeleteFile => self.delete_mark(&finding.path, least).await,
                Fate::Trash => {
                    if !moved {
                        point("sweep.found").await;
                        moved = true;
                    }
                    self.move_orphan(finding, least).await
                }
            };
            if let Outcome::Failed(why) = &outcome {
                self.complain(&finding.path, why).await;
            }
            outcomes.push(outcome);
        }
        if moved {
            let trash = self.root.trash();
            // What is back where it was after a power loss is an orphan again.
            if let Err(error) = run_blocking(move || file::sync_dir(&trash)).await {
                warn!(%error, "what was moved may be back after a power loss");
            }
        }
        outcomes
    }

    /// Moves an orphan to the trash, if it still is one.
    async fn move_orphan(&self, finding: &Finding, least: Duration) -> Outcome {
        let entry = Entry::at(finding.path.clone());
        let Some(pane) = entry.name.pane() else { return Outcome::Spared };
        if !self.is_still_orphan(entry, least).await {
            return Outcome::Spared;
        }
        let (path, trash) = (finding.path.clone(), self.root.trash());
        let moved =
            run_blocking(move || trash::shelve(&path, &trash, &holder_of(&path), pane, Since::Now));
        match moved.await {
            Ok(Some(kept_as)) => {
                point("sweep.moved").await;
                info!(path = %finding.path.display(), "belonged to no pane and is in the trash");
                let text = |path: &Path| path.to_string_lossy().into_owned();
                let (path, kept_as) = (text(&finding.path), text(&kept_as));
                self.tell(Happening::Retired { path, kept_as, why: finding.why.clone() }).await;
                Outcome::Done
            }
            Ok(None) => Outcome::Spared,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    /// Deletes the mark of a directory that is gone, if it still is.
    async fn delete_mark(&self, mark: &Path, least: Duration) -> Outcome {
        if !self.is_still_orphan(Entry::at(mark.to_owned()), least).await {
            return Outcome::Spared;
        }
        let mark = mark.to_owned();
        match run_blocking(move || std::fs::remove_file(mark)).await {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(format!("cannot remove it: {error}")),
        }
    }

    async fn is_still_orphan(&self, entry: Entry, least: Duration) -> bool {
        let Some(pane) = entry.name.pane() else { return false };
        let read = self.registry.read(move |change| match change.pane(pane) {
            Ok(_) => Ok(true),
            Err(StoreError::Gone) => Ok(false),
            Err(error) => Err(error),
        });
        // Who cannot be asked may know it.
        let known = read.await.unwrap_or(true);
        let (root, household) = (self.root.clone(), self.household.clone());
        run_blocking(move || {
            survey::is_still_orphan(&root, &entry, known, &household, least, clock::now())
        })
        .await
    }

    /// Deletes trees in the trash, in a task of its own.
    pub(crate) fn delete_soon(self: &Arc<Self>, trees: Vec<PathBuf>) {
        let this = Arc::clone(self);
        self.tasks.spawn(async move {
            let _alone = this.tidying.lock().await;
            for tree in trees {
                if let Outcome::Failed(why) = this.delete(tree.clone()).await {
                    this.complain(&tree, &why).await;
                }
            }
        });
    }

    /// Deletes a tree in the trash. Beside the runtime: it may be a large one.
    async fn delete(&self, tree: PathBuf) -> Outcome {
        let deleted = run_blocking(move || {
            hooks::point("gc.deleting");
            let deleted = remove::tree(&tree);
            if deleted.is_ok() {
                info!(path = %tree.display(), "removed from the trash");
            }
            deleted
        });
        match deleted.await {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    /// Tells that something is still there: once in our life, however often it is tried.
    async fn complain(&self, path: &Path, why: &str) {
        let told = || self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        if told().insert(path.to_owned()) {
            self.tell_left(vec![Left { path: path.to_owned(), why: why.to_owned() }]).await;
        }
    }
}
