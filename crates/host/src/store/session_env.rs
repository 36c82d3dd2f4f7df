//! Environment variables of sessions in the registry.

use std::collections::BTreeMap;

use model::{SessionId, SessionRecord};

use super::{Change, StoreError};

impl Change<'_> {
    /// Adds variables for every pane of a session. Returns the new record.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the session does not exist.
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
    serde_json::to_string(env).expect("a map of strings is valid JSON")
}

pub(super) fn read(text: &str) -> Result<BTreeMap<String, String>, StoreError> {
    // The text is not reported: it may contain secrets.
    serde_json::from_str(text)
        .map_err(|error| StoreError::Invalid(format!("session environment: {error}")))
}
