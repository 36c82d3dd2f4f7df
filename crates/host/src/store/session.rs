//! What concerns one session in the registry as a whole.

use model::SessionId;

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
}
