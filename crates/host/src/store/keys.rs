//! What was made by which request, and what is not made yet (B7).
//!
//! The key of a request is entered with the thing that it makes and goes with it. A session that
//! is made with its panes is pending until the last of them is there; what is pending when a
//! daemon starts never came to be.

use model::{IdempotencyKey, PaneId, SessionId};
use rusqlite::{OptionalExtension as _, params};

use super::{Change, StoreError};

/// What a request with a key has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// A session with its panes.
    Session(SessionId),
    /// One pane.
    Pane(PaneId),
}

/// A request that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// What came of it.
    pub made: Made,
    /// What it said, as a digest.
    pub digest: String,
}

const SESSION: &str = "session";
const PANE: &str = "pane";

impl Change<'_> {
    /// What the request with this key has made.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn made_by(&self, key: &IdempotencyKey) -> Result<Option<KeyRow>, StoreError> {
        let sql = "SELECT kind, id, digest FROM keys WHERE key = ?1";
        let found: Option<(String, String, String)> = self
            .savepoint
            .prepare_cached(sql)?
            .query_row([key.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let Some((kind, id, digest)) = found else { return Ok(None) };
        let unknown = || StoreError::Meaningless(format!("the key of a {kind} {id:?}"));
        let made = match kind.as_str() {
            SESSION => Made::Session(id.parse().map_err(|_| unknown())?),
            PANE => Made::Pane(id.parse().map_err(|_| unknown())?),
            _ => return Err(unknown()),
        };
        Ok(Some(KeyRow { made, digest }))
    }

    /// Enters what the request with this key makes.
    ///
    /// # Errors
    ///
    /// [`StoreError`], also if the key is taken.
    pub fn add_key(
        &mut self,
        key: &IdempotencyKey,
        made: Made,
        digest: &str,
    ) -> Result<(), StoreError> {
        let (kind, id) = match made {
            Made::Session(id) => (SESSION, id.to_string()),
            Made::Pane(id) => (PANE, id.to_string()),
        };
        let sql = "INSERT INTO keys (key, kind, id, digest) VALUES (?1, ?2, ?3, ?4)";
        self.savepoint.prepare_cached(sql)?.execute(params![key.as_str(), kind, id, digest])?;
        Ok(())
    }

    /// Forgets the key of something that goes.
    pub(super) fn forget_keys_of(&mut self, id: &str) -> Result<(), StoreError> {
        self.savepoint.prepare_cached("DELETE FROM keys WHERE id = ?1")?.execute([id])?;
        Ok(())
    }

    /// Says that a session is not complete until [`Change::complete`].
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn mark_pending(&mut self, id: SessionId) -> Result<(), StoreError> {
        let sql = "INSERT OR IGNORE INTO pending (session) VALUES (?1)";
        self.savepoint.prepare_cached(sql)?.execute([id.to_string()])?;
        Ok(())
    }

    /// Says that a session is complete.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if it is gone meanwhile.
    pub fn complete(&mut self, id: SessionId) -> Result<(), StoreError> {
        self.session(id)?;
        self.forget_pending(id)
    }

    pub(super) fn forget_pending(&mut self, id: SessionId) -> Result<(), StoreError> {
        let sql = "DELETE FROM pending WHERE session = ?1";
        self.savepoint.prepare_cached(sql)?.execute([id.to_string()])?;
        Ok(())
    }

    /// The sessions that are not complete.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn pending(&self) -> Result<Vec<SessionId>, StoreError> {
        let mut query = self.savepoint.prepare_cached("SELECT session FROM pending")?;
        let ids = query.query_map([], |row| row.get::<_, String>(0))?;
        let mut found = Vec::new();
        for id in ids {
            let id = id?;
            let unknown = || StoreError::Meaningless(format!("{id:?} as a pending session"));
            found.push(id.parse().map_err(|_| unknown())?);
        }
        Ok(found)
    }
}
