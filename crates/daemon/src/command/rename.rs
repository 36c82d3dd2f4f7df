//! Giving a pane or a session another name.
//!
//! The registry decides. The record in the directory follows, so that a lost registry is rebuilt
//! with the new name; if we are killed in between, recovery writes it.

use std::path::PathBuf;

use host::file::{FileError, Survive};
use host::record;
use model::Name;
use protocol::control::Response;
use serde::Serialize;
use tracing::warn;

use super::Failure;
use super::resolution::Meant;
use crate::launch::SESSION_RECORD;
use crate::supervisor::{Supervisor, point, run_blocking};

impl Supervisor {
    pub(super) async fn rename(&self, target: &str, name: Name) -> Result<Response, Failure> {
        let meant = self.rows().await?.find(target)?;
        let new = name.clone();
        match meant {
            Meant::Pane(row) => {
                self.registry.change(move |change| change.rename_pane(row.id, &new)).await?;
                point("rename.committed").await;
                let pane = self.pane(row.id);
                if let Some(pane) = pane {
                    let renamed = move || pane.change_launch(|launch| launch.name = name);
                    if let Err(error) = run_blocking(renamed).await {
                        // The registry has the name, and the next daemon tries again.
                        warn!(%error, "the new name is in the registry only");
                    }
                }
                self.note_step(row.id);
                Ok(Response::Pane(Box::new(self.pane_answer(row.id).await?)))
            }
            Meant::Session(row) => {
                let mut record = row.record;
                let id = record.id;
                self.registry.change(move |change| change.rename_session(id, &new)).await?;
                point("rename.committed").await;
                record.name = name;
                replace(self.root.session(id).join(SESSION_RECORD), record).await;
                let rows = self.rows().await?;
                match rows.find(&id.to_string())? {
                    Meant::Session(session) => Ok(self.session_answer(&session, &rows)),
                    Meant::Pane(pane) => Ok(Response::Pane(Box::new(self.answer(&pane, &rows)?))),
                }
            }
        }
    }
}

async fn replace<T: Serialize + Send + 'static>(path: PathBuf, value: T) {
    let written: Result<(), FileError> =
        run_blocking(move || record::write(&path, &value, Survive::PowerLoss)).await;
    if let Err(error) = written {
        // The registry has the name, and the next daemon tries again.
        warn!(%error, "the new name is in the registry only");
    }
}
