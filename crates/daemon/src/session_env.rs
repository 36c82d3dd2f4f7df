//! The variables that the panes of a session share.
//!
//! A pane that is made with some adds them to its session when it is told of, and not before: one
//! that could not be started leaves its session as it was. The registry has them; `.session`
//! follows, so that a lost registry is rebuilt with them.

use std::collections::BTreeMap;

use host::file::Survive;
use host::record;
use protocol::ErrorBody;
use tracing::warn;

use crate::command::Failure;
use crate::launch::SESSION_RECORD;
use crate::pane::Pane;
use crate::supervisor::{Supervisor, run_blocking};

impl Supervisor {
    /// Puts on record that a new pane lives, and what its session has from now on.
    pub(crate) async fn tell_started(
        &self,
        pane: &Pane,
        added: BTreeMap<String, String>,
    ) -> Result<(), ErrorBody> {
        if added.is_empty() {
            return self.tell_alive(pane).await;
        }
        let (id, session) = (pane.id, pane.session);
        let told = self.registry.change(move |change| {
            change.tell_alive(id, None)?;
            change.add_session_env(session, &added)
        });
        let record = told.await.map_err(|error| Failure::from(error).into_body())?;
        let path = self.root.session(session).join(SESSION_RECORD);
        let written = run_blocking(move || record::write(&path, &record, Survive::PowerLoss)).await;
        if let Err(error) = written {
            // The next daemon tries again.
            warn!(%error, "the variables of a session are in the registry only");
        }
        Ok(())
    }
}
