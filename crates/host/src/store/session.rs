//! What concerns one session in the registry as a whole.

use model::event::Happening;
use model::{PaneId, SessionId, SessionMode, SessionRecord};
use rusqlite::params;

use super::change::{PANE, pane_row};
use super::{Change, PaneRow, StoreError};

impl Change<'_> {
    /// The panes of a session, oldest first.
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

    /// Makes a legacy session an isolated one, once these panes have trees of their own. The
    /// session afterwards; none if it has others by now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if there is no such session.
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
            self.emit(Happening::SessionMigrated { session: id, panes: moved.len() })?;
        }
        Ok(Some(record))
    }
}
