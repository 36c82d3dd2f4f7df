//! `sessions/.sessions.index`: the registry as a JSON file, for scripts.
//!
//! The file is derived and never read back. It is written shortly after every change; changes in
//! quick succession share one write. The status of a session is the one at the time of writing, and
//! the file does not say which panes are alive: for current values, ask the daemon.

use std::sync::Arc;
use std::time::Duration;

use host::clock;
use host::file::{self, Durability};
use host::store::{PaneRow, SessionRow, StoreError};
use serde_json::{Value, json};
use tracing::warn;

use super::Housekeeping;
use crate::runtime::run_blocking;

const NAME: &str = ".sessions.index";

/// Changes within this time share one write.
const DEBOUNCE: Duration = Duration::from_millis(50);

impl Housekeeping {
    /// Rewrites the index after changes of the registry, until the daemon ends.
    pub(crate) async fn run_index_writer(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.registry.committed() => tokio::time::sleep(DEBOUNCE).await,
                () = self.runtime.ending.cancelled() => return,
            }
            self.write_index().await;
        }
    }

    async fn write_index(self: &Arc<Self>) {
        let read = self.registry.read(|change| {
            Ok::<_, StoreError>((change.sessions()?, change.panes()?, change.last_event()?))
        });
        let (sessions, panes, last_event) = match read.await {
            Ok(read) => read,
            Err(error) => return warn!(%error, "session index not written"),
        };
        let this = Arc::clone(self);
        let path = self.runtime.root.sessions().join(NAME);
        run_blocking(move || {
            let announced = sessions.iter().filter(|row| row.announced);
            let sessions: Vec<Value> =
                announced.map(|row| this.session_entry(row, &panes)).collect();
            let index = json!({
                "format": 1,
                "written": clock::now(),
                "last_event": last_event,
                "sessions": sessions,
            });
            if let Err(error) = file::write_atomic(
                &path,
                format!("{index:#}\n").as_bytes(),
                Durability::ProcessCrash,
            ) {
                warn!(%error, "session index not written");
            }
        })
        .await;
    }

    fn session_entry(&self, session: &SessionRow, panes: &[PaneRow]) -> Value {
        let id = session.record.id;
        let own: Vec<&PaneRow> =
            panes.iter().filter(|pane| pane.session == id && pane.announced).collect();
        let own_ids: Vec<_> = own.iter().map(|pane| pane.id).collect();
        let panes: Vec<Value> = own
            .into_iter()
            .map(|pane| {
                let dir = self.runtime.root.pane(id, pane.id);
                json!({
                    "id": pane.id,
                    "name": pane.name,
                    "dir": dir.to_string_lossy(),
                    "created": pane.created,
                })
            })
            .collect();
        let states = own_ids.into_iter().filter_map(|id| Some(self.panes.get(id)?.status().state));
        let view = self.sessions.view(session, states);
        json!({
            "id": id,
            "name": view.name,
            "mode": view.mode,
            "status": view.status,
            "template": view.template,
            "project": view.project,
            "dir": view.dir,
            "created": view.created,
            "panes": panes,
        })
    }
}
