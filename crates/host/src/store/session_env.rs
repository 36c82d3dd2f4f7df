//! The variables of a session in the registry.

use std::collections::BTreeMap;

use model::{SessionId, SessionRecord};

use super::{Change, StoreError};

impl Change<'_> {
    /// Adds variables to those that every pane of a session gets. The session afterwards.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if there is no such session.
    pub fn add_session_env(
        &mut self,
        id: SessionId,
        added: &BTreeMap<String, String>,
    ) -> Result<SessionRecord, StoreError> {
        let mut record = self.session(id)?.record;
        record.env.extend(added.clone());
        self.savepoint
            .prepare_cached("UPDATE sessions SET env = ?2 WHERE id = ?1")?
            .execute([id.to_string(), text(&record.env)])?;
        Ok(record)
    }
}

pub(super) fn text(env: &BTreeMap<String, String>) -> String {
    serde_json::to_string(env).expect("names are strings")
}

pub(super) fn read(text: &str) -> Result<BTreeMap<String, String>, StoreError> {
    // Not told with the text: there may be a secret in it.
    serde_json::from_str(text)
        .map_err(|error| StoreError::Meaningless(format!("the variables of a session: {error}")))
}
