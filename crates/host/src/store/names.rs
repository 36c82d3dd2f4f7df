//! Names in the registry: which are taken, and how an ended pane gives up its own.

use std::collections::BTreeSet;

use model::{Name, PaneId, SessionId};

use super::StoreError;
use super::change::{Change, check_pane_name, parsed};

/// A pane that gave up its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenamedPane {
    /// The pane.
    pub id: PaneId,
    /// Its new name.
    pub name: Name,
}

impl Change<'_> {
    /// Returns whether a session has this name.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn has_session_named(&self, name: &Name) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE name = ?1)";
        Ok(self.savepoint.prepare_cached(sql)?.query_row([name.as_str()], |row| row.get(0))?)
    }

    /// Returns the names of the panes of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn pane_names(&self, session: SessionId) -> Result<Vec<Name>, StoreError> {
        self.names("SELECT name FROM panes WHERE session = ?1", session)
    }

    fn names(&self, sql: &str, session: SessionId) -> Result<Vec<Name>, StoreError> {
        let mut query = self.savepoint.prepare_cached(sql)?;
        let mut rows = query.query([session.to_string()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(parsed(&row.get::<_, String>(0)?, "pane name")?);
        }
        Ok(found)
    }

    /// Returns the names that a pane of a session cannot get: those of its other panes and, if it is
    /// implicit, those of the live panes of all implicit sessions. Users do not see implicit
    /// sessions, so their panes share one namespace.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn taken_pane_names(&self, session: SessionId) -> Result<BTreeSet<Name>, StoreError> {
        let mut taken: BTreeSet<Name> = self.pane_names(session)?.into_iter().collect();
        taken.extend(self.live_names_beside(session)?);
        Ok(taken)
    }

    /// Returns the names of the live panes of the other implicit sessions, if this one is implicit.
    fn live_names_beside(&self, session: SessionId) -> Result<Vec<Name>, StoreError> {
        let sql = "SELECT panes.name FROM panes JOIN sessions ON sessions.id = panes.session \
                   WHERE panes.ended IS NULL AND sessions.implicit AND sessions.id <> ?1 \
                   AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND implicit)";
        self.names(sql, session)
    }

    /// Makes a name available for a new pane of a session. An ended pane of the session that has the
    /// name gets another one, which is returned; `is_live` says whether a pane that is recorded as
    /// ended is being restored.
    ///
    /// # Errors
    ///
    /// [`StoreError::PaneNameTaken`] if a live pane has the name.
    pub fn vacate_pane_name(
        &mut self,
        session: SessionId,
        name: &Name,
        is_live: impl Fn(PaneId) -> bool,
    ) -> Result<Option<RenamedPane>, StoreError> {
        let taken = self.taken_pane_names(session)?;
        if !taken.contains(name) {
            return Ok(None);
        }
        let holder = self.panes_of(session)?.into_iter().find(|pane| pane.name == *name);
        let ended = holder.filter(|pane| pane.ended.is_some() && !is_live(pane.id));
        let is_taken_beside = self.live_names_beside(session)?.contains(name);
        let Some(ended) = ended.filter(|_| !is_taken_beside) else {
            return check_pane_name(name, &taken).map(|()| None);
        };
        let renamed = RenamedPane { id: ended.id, name: name.former(|name| taken.contains(name)) };
        self.rename_pane(renamed.id, &renamed.name)?;
        Ok(Some(renamed))
    }

    pub(super) fn check_session_name(&self, name: &Name) -> Result<(), StoreError> {
        if !self.has_session_named(name)? {
            return Ok(());
        }
        let sessions = self.sessions()?;
        let is_taken = |name: &Name| sessions.iter().any(|row| row.record.name == *name);
        Err(StoreError::SessionNameTaken { name: name.clone(), free: name.free(is_taken) })
    }
}
