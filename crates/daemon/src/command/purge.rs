//! Deleting a session with everything in it (R31).
//!
//! ```text
//!  stopped --> on record as going --> in the trash, due at once --> out of the registry --> deleted
//! ```
//!
//! Killed in between, recovery goes on with the panes that are on record as going, the next daemon
//! deletes what is due, and to purge again finishes the rest.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::store::{PaneRow, StoreError};
use model::{SessionId, SessionRecord};
use protocol::control::Response;
use protocol::{ErrorBody, ErrorCode};
use tracing::{info, warn};

use super::Failure;
use super::resolution::Meant;
use crate::pane::{Life, Pane};
use crate::retire::Keep;
use crate::supervisor::{Supervisor, point, run_blocking};
use crate::trash::{self, Since};
use crate::workspace;

/// How often it is tried again because panes were started in the session meanwhile.
const ROUNDS: usize = 5;

/// How long a pane that has just been entered may take to be one that can be stopped.
const PAUSE: Duration = Duration::from_millis(20);

impl Supervisor {
    /// Ends every pane of a session and deletes everything of it.
    pub(super) async fn purge(
        self: &Arc<Self>,
        target: &str,
        grace_ms: u64,
        discard: &[String],
    ) -> Result<Response, Failure> {
        let session = match self.rows().await?.find(target)? {
            Meant::Session(row) => row.record,
            Meant::Pane(row) => {
                let message = format!("{target:?} is a pane, and only whole sessions are purged");
                return Err(ErrorBody::new(ErrorCode::Conflict, message)
                    .hint(format!("end it with `ccmux close {}`", row.id.short()))
                    .into());
            }
        };
        let mut trees = Vec::new();
        let purged = self.purge_all(&session, grace_ms, discard, &mut trees).await;
        // Also what was moved before something failed: it was asked to go.
        self.delete_soon(trees);
        purged.map(|()| Response::Done)
    }

    async fn purge_all(
        self: &Arc<Self>,
        session: &SessionRecord,
        grace_ms: u64,
        discard: &[String],
        trees: &mut Vec<PathBuf>,
    ) -> Result<(), Failure> {
        for _ in 0..ROUNDS {
            if self.purge_panes(session, grace_ms, discard, trees).await? {
                trees.extend(self.shelve_session(session.id).await);
                info!(session = %session.id, "purged");
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        let message = format!("panes are being started in the session {}", session.name);
        Err(ErrorBody::new(ErrorCode::Conflict, message).hint("try again later").into())
    }

    /// Ends and retires the panes that a session has now; whether the session is gone, too. It is
    /// not if others were started in it meanwhile.
    async fn purge_panes(
        self: &Arc<Self>,
        session: &SessionRecord,
        grace_ms: u64,
        discard: &[String],
        trees: &mut Vec<PathBuf>,
    ) -> Result<bool, Failure> {
        let rows = self.rows().await?;
        let rows: Vec<PaneRow> = rows.panes_of(session.id).cloned().collect();
        let panes: Vec<Arc<Pane>> = rows
            .iter()
            .map(|row| self.pane(row.id).unwrap_or_else(|| self.pane_without_life(row)))
            .collect();
        // In the order of their creation, as everybody who takes several turns takes them.
        let mut turns = Vec::with_capacity(panes.len());
        for pane in &panes {
            turns.push(pane.turn.lock().await);
        }
        self.stop_all(&rows, grace_ms).await?;
        point("purge.stopped").await;
        // All of it, before anything goes: a session goes whole or not at all.
        let mut unsaved = Vec::new();
        for (pane, row) in panes.iter().zip(&rows) {
            let work = self.unsaved_work(pane, discard).await?;
            unsaved.extend(work.map(|work| (row.name.clone(), work)));
        }
        if !unsaved.is_empty() {
            return Err(workspace::session_stays(&session.name, &unsaved).into());
        }
        for pane in &panes {
            self.tear_down(pane).await;
        }
        let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
        let going = ids.clone();
        self.registry
            .change(move |change| {
                let mut marks = going.iter().map(|id| change.mark_closing(*id));
                // What is gone already is where it should be.
                marks.try_for_each(|marked| marked.map(drop).or_else(unless_gone))
            })
            .await?;
        for pane in &panes {
            trees.extend(self.try_retire(pane, Keep::NotEvenInTrash).await?);
        }
        point("purge.retired").await;
        let session = session.id;
        let removed = self.registry.change(move |change| {
            for id in ids {
                change.remove_pane(id).map(drop).or_else(unless_gone)?;
            }
            if !change.pane_names(session)?.is_empty() {
                return Ok(false);
            }
            change.remove_session(session).or_else(unless_gone)?;
            Ok::<_, StoreError>(true)
        });
        let is_gone = removed.await?;
        for pane in &panes {
            pane.publish(Life::Gone(pane.look().ending));
            self.forget(pane.id);
        }
        drop(turns);
        Ok(is_gone)
    }

    /// A pane that has a row and that nobody is busy with.
    pub(super) fn pane_without_life(&self, row: &PaneRow) -> Arc<Pane> {
        let dir = self.root.pane(row.session, row.id);
        Arc::new(Pane::new(row.id, row.session, dir, Life::Gone(None)))
    }

    /// Moves the directory of a session that is no longer in the registry to the trash: nobody can
    /// start a pane in it any more.
    async fn shelve_session(&self, session: SessionId) -> Option<PathBuf> {
        self.forget_session(session);
        self.messages.apply(move |books| books.forget(session)).await;
        let (dir, trash) = (self.root.session(session), self.root.trash());
        let moved =
            run_blocking(move || trash::retire(&dir, &trash, "session", session, Since::Ever));
        moved.await.unwrap_or_else(|error| {
            warn!(%error, "the directory of a session that is gone stays");
            None
        })
    }
}

pub(super) fn unless_gone(error: StoreError) -> Result<(), StoreError> {
    if matches!(error, StoreError::Gone) { Ok(()) } else { Err(error) }
}
