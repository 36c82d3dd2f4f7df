//! Idempotency keys of requests, and incomplete sessions (B7).
//!
//! The key of a request is stored with the object that it creates and removed with it. A session that
//! is created with its panes is pending until the last of them exists; a session that is pending when
//! the daemon starts was never completed.

use model::{IdempotencyKey, PaneId, SessionId};
use rusqlite::{OptionalExtension as _, params};

use super::{Change, StoreError};

/// The object that a request with a key created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// A session with its panes.
    Session(SessionId),
    /// One pane.
    Pane(PaneId),
}

/// A completed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The object that it created.
    pub made: Created,
    /// Digest of the request.
    pub digest: String,
}

const SESSION: &str = "session";
const PANE: &str = "pane";

impl Change<'_> {
    /// Returns the object that the request with this key created.
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
        let unknown = || StoreError::Invalid(format!("key of a {kind} {id:?}"));
        let made = match kind.as_str() {
            SESSION => Created::Session(id.parse().map_err(|_| unknown())?),
            PANE => Created::Pane(id.parse().map_err(|_| unknown())?),
            _ => return Err(unknown()),
        };
        Ok(Some(KeyRow { made, digest }))
    }

    /// Stores the key of a request with the object that it creates.
    ///
    /// # Errors
    ///
    /// [`StoreError`], also if the key is taken.
    pub fn add_key(
        &mut self,
        key: &IdempotencyKey,
        made: Created,
        digest: &str,
    ) -> Result<(), StoreError> {
        let (kind, id) = match made {
            Created::Session(id) => (SESSION, id.to_string()),
            Created::Pane(id) => (PANE, id.to_string()),
        };
        let sql = "INSERT INTO keys (key, kind, id, digest) VALUES (?1, ?2, ?3, ?4)";
        self.savepoint.prepare_cached(sql)?.execute(params![key.as_str(), kind, id, digest])?;
        Ok(())
    }

    /// Removes the keys of an object.
    pub(super) fn forget_keys_of(&mut self, id: &str) -> Result<(), StoreError> {
        self.savepoint.prepare_cached("DELETE FROM keys WHERE id = ?1")?.execute([id])?;
        Ok(())
    }

    /// Marks a session as incomplete until [`Change::complete`].
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn mark_pending(&mut self, id: SessionId) -> Result<(), StoreError> {
        let sql = "INSERT OR IGNORE INTO pending (session) VALUES (?1)";
        self.savepoint.prepare_cached(sql)?.execute([id.to_string()])?;
        Ok(())
    }

    /// Marks a session as complete.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the session does not exist.
    pub fn complete(&mut self, id: SessionId) -> Result<(), StoreError> {
        self.session(id)?;
        self.forget_pending(id)
    }

    pub(super) fn forget_pending(&mut self, id: SessionId) -> Result<(), StoreError> {
        let sql = "DELETE FROM pending WHERE session = ?1";
        self.savepoint.prepare_cached(sql)?.execute([id.to_string()])?;
        Ok(())
    }

    /// Returns the incomplete sessions.
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
            let unknown = || StoreError::Invalid(format!("pending session {id:?}"));
            found.push(id.parse().map_err(|_| unknown())?);
        }
        Ok(found)
    }
}
