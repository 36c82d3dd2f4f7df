//! `sessions/.sessions.index`: the registry as a JSON file, for scripts.
//!
//! Derived, and never read back. It is written soon after every change, once for all the changes
//! that come together. The status of a session is what it was then: whoever wants to know how it is
//! asks the daemon. Which panes are alive it does not say.

use std::sync::Arc;
use std::time::Duration;

use host::clock;
use host::file::{self, Survive};
use host::store::{PaneRow, SessionRow, StoreError};
use serde_json::{Value, json};
use tracing::warn;

use crate::supervisor::{Supervisor, run_blocking};

const NAME: &str = ".sessions.index";

/// Changes that come within this time share one writing.
const TOGETHER: Duration = Duration::from_millis(50);

impl Supervisor {
    /// Keeps the index up to date.
    pub(crate) async fn keep_index(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.registry.committed() => tokio::time::sleep(TOGETHER).await,
                () = self.ending.cancelled() => return,
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
            Err(error) => return warn!(%error, "the index of sessions is out of date"),
        };
        let this = Arc::clone(self);
        let path = self.root.sessions().join(NAME);
        run_blocking(move || {
            let told = sessions.iter().filter(|row| row.announced);
            let sessions: Vec<Value> = told.map(|row| this.session_entry(row, &panes)).collect();
            let index = json!({
                "format": 1,
                "written": clock::now(),
                "last_event": last_event,
                "sessions": sessions,
            });
            if let Err(error) =
                file::write_atomic(&path, format!("{index:#}\n").as_bytes(), Survive::Kill)
            {
                warn!(%error, "the index of sessions is out of date");
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
                let dir = self.root.pane(id, pane.id);
                json!({
                    "id": pane.id,
                    "name": pane.name,
                    "dir": dir.to_string_lossy(),
                    "created": pane.created,
                })
            })
            .collect();
        let states = own_ids.into_iter().filter_map(|id| Some(self.pane(id)?.look().state));
        let view = self.session_view(session, states);
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
