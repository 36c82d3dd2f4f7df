//! Registry operations on whole sessions.

use model::event::EventBody;
use model::{PaneId, SessionId, SessionMode, SessionRecord};
use rusqlite::params;

use super::change::{PANE, pane_row};
use super::{Change, PaneRow, StoreError, session_env};
use crate::record;

impl Change<'_> {
    /// Returns the panes of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn panes_of(&self, session: SessionId) -> Result<Vec<PaneRow>, StoreError> {
        let sql = format!("{PANE} WHERE session = ?1 ORDER BY seq");
        let mut query = self.savepoint.prepare_cached(&sql)?;
        let mut rows = query.query([session.to_string()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(pane_row(row)?);
        }
        Ok(found)
    }

    /// Replaces the path of the state root in the records of all sessions.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn rebase_sessions(&mut self, from: &str, to: &str) -> Result<(), StoreError> {
        for row in self.sessions()? {
            let rebased = record::rebased(&row.record, from, to)
                .map_err(|error| StoreError::Invalid(format!("session record: {error}")))?;
            if rebased != row.record {
                let (id, env) = (rebased.id.to_string(), session_env::text(&rebased.env));
                self.savepoint
                    .prepare_cached("UPDATE sessions SET env = ?2, project = ?3 WHERE id = ?1")?
                    .execute(params![id, env, rebased.project])?;
            }
        }
        Ok(())
    }

    /// Makes a legacy session isolated once these panes have their own working trees. Returns the
    /// new record; `None` if the session has other panes by now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the session does not exist.
    pub fn migrate_session(
        &mut self,
        id: SessionId,
        project: Option<&str>,
        moved: &[PaneId],
    ) -> Result<Option<SessionRecord>, StoreError> {
        let mut record = self.session(id)?.record;
        if self.panes_of(id)?.iter().any(|pane| !moved.contains(&pane.id)) {
            return Ok(None);
        }
        if record.mode != SessionMode::Isolated {
            record.mode = SessionMode::Isolated;
            record.project = project.map(str::to_owned);
            self.savepoint
                .prepare_cached("UPDATE sessions SET mode = ?2, project = ?3 WHERE id = ?1")?
                .execute(params![id.to_string(), record.mode.to_string(), record.project])?;
            self.emit(EventBody::SessionMigrated { session: id, panes: moved.len() })?;
        }
        Ok(Some(record))
    }
}
