//! A transaction on the registry: its queries and updates.

use std::collections::BTreeSet;

use model::authority::Caller;
use model::event::{Event, EventBody};
use model::isolation::Method;
use model::{
    ConversationId, Ending, EndingReason, Name, PaneId, SessionId, SessionRecord, Timestamp,
};
use rusqlite::{OptionalExtension as _, Row, Savepoint, params};
use serde::{Deserialize, Serialize};

use super::{StoreError, session_env};
use crate::clock;

/// A change in progress. Queries see its own updates.
#[derive(Debug)]
pub struct Change<'a> {
    pub(super) savepoint: Savepoint<'a>,
    events: Vec<Event>,
    /// The caller that the events of this change name.
    caller: Option<Caller>,
}

/// The text of an event in the database.
#[derive(Serialize, Deserialize)]
struct StoredEvent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caller: Option<Caller>,
    #[serde(flatten)]
    what: EventBody,
}

/// A session in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The record, which is also in the session's directory.
    pub record: SessionRecord,
    /// Whether its creation event was recorded, so that clients may know it.
    pub announced: bool,
}

/// A pane in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaneRow {
    /// Sequence number, in the order of creation.
    pub seq: u64,
    /// The pane.
    pub id: PaneId,
    /// Its session.
    pub session: SessionId,
    /// Its name.
    pub name: Name,
    /// When it was created.
    pub created: Timestamp,
    /// Whether its creation event was recorded, so that clients may know it.
    pub announced: bool,
    /// Whether the pane is being closed.
    pub closing: bool,
    /// How the pane ended, once that event was recorded.
    pub ended: Option<Ending>,
}

/// A pane to add.
#[derive(Clone, Debug)]
pub struct NewPane {
    /// The pane.
    pub id: PaneId,
    /// Its session, which is in the registry.
    pub session: SessionId,
    /// Its name.
    pub name: Name,
    /// When it was created.
    pub created: Timestamp,
}

/// The result of removing a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// Only the pane was removed.
    Pane,
    /// Its session was removed too: it was implicit or never announced.
    PaneAndSession,
}

const SESSION: &str = "SELECT id, name, mode, created, implicit, announced, isolation, env, template, project \
     FROM sessions";
pub(super) const PANE: &str =
    "SELECT seq, id, session, name, created, announced, closing, ended FROM panes";

impl<'a> Change<'a> {
    pub(super) fn new(savepoint: Savepoint<'a>) -> Self {
        Self { savepoint, events: Vec::new(), caller: None }
    }

    pub(super) fn keep(self) -> Result<Vec<Event>, StoreError> {
        self.savepoint.commit()?;
        Ok(self.events)
    }

    /// Returns all sessions, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        let mut query = self.savepoint.prepare_cached(&format!("{SESSION} ORDER BY seq"))?;
        let mut rows = query.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(session_row(row)?);
        }
        Ok(found)
    }

    /// Returns one session.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if it does not exist.
    pub fn session(&self, id: SessionId) -> Result<SessionRow, StoreError> {
        let mut query = self.savepoint.prepare_cached(&format!("{SESSION} WHERE id = ?1"))?;
        let mut rows = query.query([id.to_string()])?;
        session_row(rows.next()?.ok_or(StoreError::Gone)?)
    }

    /// Returns all panes, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn panes(&self) -> Result<Vec<PaneRow>, StoreError> {
        let mut query = self.savepoint.prepare_cached(&format!("{PANE} ORDER BY seq"))?;
        let mut rows = query.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(pane_row(row)?);
        }
        Ok(found)
    }

    /// Returns one pane.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if it does not exist.
    pub fn pane(&self, id: PaneId) -> Result<PaneRow, StoreError> {
        let mut query = self.savepoint.prepare_cached(&format!("{PANE} WHERE id = ?1"))?;
        let mut rows = query.query([id.to_string()])?;
        pane_row(rows.next()?.ok_or(StoreError::Gone)?)
    }

    /// Adds a session, without an event.
    ///
    /// # Errors
    ///
    /// [`StoreError::SessionNameTaken`].
    pub fn add_session(&mut self, record: &SessionRecord) -> Result<(), StoreError> {
        self.check_session_name(&record.name)?;
        let sql = "INSERT INTO sessions \
                   (id, name, mode, created, implicit, isolation, env, template, project, announced) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0)";
        self.savepoint.prepare_cached(sql)?.execute(params![
            record.id.to_string(),
            record.name.as_str(),
            record.mode.to_string(),
            record.created.0,
            record.implicit,
            record.isolation.map(Method::as_str),
            session_env::text(&record.env),
            record.template,
            record.project,
        ])?;
        Ok(())
    }

    /// Adds a pane, without an event.
    ///
    /// # Errors
    ///
    /// [`StoreError::PaneNameTaken`].
    pub fn add_pane(&mut self, pane: &NewPane) -> Result<(), StoreError> {
        check_pane_name(&pane.name, &self.pane_names(pane.session)?)?;
        let sql = "INSERT INTO panes (id, session, name, created, announced) \
                   VALUES (?1, ?2, ?3, ?4, 0)";
        self.savepoint.prepare_cached(sql)?.execute(params![
            pane.id.to_string(),
            pane.session.to_string(),
            pane.name.as_str(),
            pane.created.0,
        ])?;
        Ok(())
    }

    /// Records the creation event of a pane, and of its session if that has none yet. Idempotent.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the pane does not exist.
    pub fn announce(&mut self, id: PaneId) -> Result<(), StoreError> {
        let pane = self.pane(id)?;
        self.announce_session(pane.session)?;
        if !pane.announced {
            self.set("UPDATE panes SET announced = 1 WHERE id = ?1", id)?;
            let PaneRow { session, name, .. } = pane;
            self.emit(EventBody::PaneCreated { session, pane: id, name })?;
        }
        Ok(())
    }

    /// Records the creation event of a session. Idempotent.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the session does not exist.
    pub fn announce_session(&mut self, id: SessionId) -> Result<(), StoreError> {
        let session = self.session(id)?;
        if !session.announced {
            self.set("UPDATE sessions SET announced = 1 WHERE id = ?1", id)?;
            self.emit(EventBody::SessionCreated { session: id, name: session.record.name })?;
        }
        Ok(())
    }

    /// Records that a pane is running: the creation event of a new pane, or the restore event of one
    /// that had ended. Idempotent.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the pane does not exist.
    pub fn record_running(
        &mut self,
        id: PaneId,
        conversation: Option<&ConversationId>,
    ) -> Result<(), StoreError> {
        self.announce(id)?;
        if self.pane(id)?.ended.is_some() {
            self.set("UPDATE panes SET ended = NULL WHERE id = ?1", id)?;
            let conversation = conversation.cloned();
            self.emit(EventBody::PaneRestored { pane: id, conversation })?;
        }
        Ok(())
    }

    /// Records how a pane ended. Only the first ending counts; returns whether this was the first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the pane does not exist.
    pub fn end(&mut self, id: PaneId, ending: &Ending, killed: usize) -> Result<bool, StoreError> {
        self.announce(id)?;
        if self.pane(id)?.ended.is_some() {
            return Ok(false);
        }
        let text = serde_json::to_string(ending).expect("an ending has string keys only");
        self.savepoint
            .prepare_cached("UPDATE panes SET ended = ?2 WHERE id = ?1")?
            .execute(params![id.to_string(), text])?;
        self.emit(match ending.reason {
            EndingReason::Lost => EventBody::PaneLost { pane: id, killed },
            EndingReason::Exited | EndingReason::Stopped | EndingReason::NotStarted => {
                EventBody::PaneExited { pane: id, ending: ending.clone() }
            }
        })?;
        Ok(true)
    }

    /// Renames a pane. Its current name is not a change.
    ///
    /// # Errors
    ///
    /// [`StoreError::PaneNameTaken`], [`StoreError::Gone`].
    pub fn rename_pane(&mut self, id: PaneId, name: &Name) -> Result<(), StoreError> {
        let pane = self.pane(id)?;
        if pane.name == *name {
            return Ok(());
        }
        check_pane_name(name, &self.taken_pane_names(pane.session)?)?;
        self.savepoint
            .prepare_cached("UPDATE panes SET name = ?2 WHERE id = ?1")?
            .execute([id.to_string().as_str(), name.as_str()])?;
        self.emit(EventBody::PaneRenamed { pane: id, name: name.clone() })
    }

    /// Renames a session. Its current name is not a change.
    ///
    /// # Errors
    ///
    /// [`StoreError::SessionNameTaken`], [`StoreError::Gone`].
    pub fn rename_session(&mut self, id: SessionId, name: &Name) -> Result<(), StoreError> {
        if self.session(id)?.record.name == *name {
            return Ok(());
        }
        self.check_session_name(name)?;
        self.savepoint
            .prepare_cached("UPDATE sessions SET name = ?2 WHERE id = ?1")?
            .execute([id.to_string().as_str(), name.as_str()])?;
        self.emit(EventBody::SessionRenamed { session: id, name: name.clone() })
    }

    /// Marks a pane as closing. Returns whether it was not marked before.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the pane does not exist.
    pub fn mark_closing(&mut self, id: PaneId) -> Result<bool, StoreError> {
        let first = !self.pane(id)?.closing;
        if first {
            self.set("UPDATE panes SET closing = 1 WHERE id = ?1", id)?;
        }
        Ok(first)
    }

    /// Removes a pane, and its session if that is implicit or was never announced. A pane that was
    /// never announced is removed without an event.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the pane does not exist.
    pub fn remove_pane(&mut self, id: PaneId) -> Result<Removed, StoreError> {
        let pane = self.pane(id)?;
        self.set("DELETE FROM panes WHERE id = ?1", id)?;
        self.forget_keys_of(&id.to_string())?;
        if pane.announced {
            self.emit(EventBody::PaneClosed { pane: id })?;
        }
        if self.remove_session_if_unused(pane.session)? {
            Ok(Removed::PaneAndSession)
        } else {
            Ok(Removed::Pane)
        }
    }

    /// Removes a session without panes that is implicit or was never announced. Returns whether it
    /// was removed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the session does not exist.
    pub fn remove_session_if_unused(&mut self, id: SessionId) -> Result<bool, StoreError> {
        let session = self.session(id)?;
        let goes = session.record.implicit || !session.announced;
        if !goes || !self.pane_names(id)?.is_empty() {
            return Ok(false);
        }
        self.delete_session(&session)?;
        Ok(true)
    }

    /// Removes a session without panes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if the session does not exist; [`StoreError::Invalid`] if it has panes.
    pub fn remove_session(&mut self, id: SessionId) -> Result<(), StoreError> {
        let session = self.session(id)?;
        if !self.pane_names(id)?.is_empty() {
            return Err(StoreError::Invalid("cannot remove a session with panes".to_owned()));
        }
        self.delete_session(&session)
    }

    fn delete_session(&mut self, session: &SessionRow) -> Result<(), StoreError> {
        let id = session.record.id;
        self.set("DELETE FROM sessions WHERE id = ?1", id)?;
        self.forget_keys_of(&id.to_string())?;
        self.forget_pending(id)?;
        if session.announced {
            self.emit(EventBody::SessionClosed { session: id })?;
        }
        Ok(())
    }

    fn set(&mut self, sql: &str, id: impl Into<String>) -> Result<(), StoreError> {
        self.savepoint.prepare_cached(sql)?.execute([id.into()])?;
        Ok(())
    }

    /// Names the caller of the events that this change emits from now on.
    pub fn act_as(&mut self, caller: Caller) {
        self.caller = Some(caller);
    }

    /// Records an event.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn emit(&mut self, what: EventBody) -> Result<(), StoreError> {
        let at = clock::now();
        let stored = StoredEvent { caller: self.caller, what };
        let text = serde_json::to_string(&stored).expect("an event has string keys only");
        self.savepoint
            .prepare_cached("INSERT INTO events (at, what) VALUES (?1, ?2)")?
            .execute(params![at.0, text])?;
        let seq = self.savepoint.last_insert_rowid().cast_unsigned();
        self.events.push(Event::new(seq, at, stored.what).by(self.caller));
        Ok(())
    }

    /// Returns up to `limit` events after this number, in order. Kinds that only newer releases know
    /// are skipped.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn events(&self, after: u64, limit: u32) -> Result<Vec<Event>, StoreError> {
        let sql = "SELECT seq, at, what FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        let mut query = self.savepoint.prepare_cached(sql)?;
        let mut rows = query.query(params![i64::try_from(after).unwrap_or(i64::MAX), limit])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            if let Ok(stored) = serde_json::from_str::<StoredEvent>(&row.get::<_, String>(2)?) {
                let seq = row.get::<_, i64>(0)?.cast_unsigned();
                let event = Event::new(seq, Timestamp(row.get(1)?), stored.what);
                found.push(event.by(stored.caller));
            }
        }
        Ok(found)
    }

    /// Returns the number of the latest event, even if it was deleted since.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn last_event(&self) -> Result<u64, StoreError> {
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'events'";
        let last: Option<i64> =
            self.savepoint.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        Ok(last.unwrap_or(0).cast_unsigned())
    }
}

fn session_row(row: &Row<'_>) -> Result<SessionRow, StoreError> {
    let isolation: Option<String> = row.get(6)?;
    Ok(SessionRow {
        record: SessionRecord {
            id: parsed(&row.get::<_, String>(0)?, "session id")?,
            name: parsed(&row.get::<_, String>(1)?, "session name")?,
            mode: parsed(&row.get::<_, String>(2)?, "session mode")?,
            created: Timestamp(row.get(3)?),
            implicit: row.get(4)?,
            isolation: isolation.map(|text| parsed(&text, "isolation method")).transpose()?,
            env: session_env::read(&row.get::<_, String>(7)?)?,
            template: row.get(8)?,
            project: row.get(9)?,
        },
        announced: row.get(5)?,
    })
}

pub(super) fn pane_row(row: &Row<'_>) -> Result<PaneRow, StoreError> {
    let ended: Option<String> = row.get(7)?;
    let ended = ended.map(|text| {
        serde_json::from_str(&text)
            .map_err(|error| StoreError::Invalid(format!("ending {text:?}: {error}")))
    });
    Ok(PaneRow {
        seq: row.get::<_, i64>(0)?.cast_unsigned(),
        id: parsed(&row.get::<_, String>(1)?, "pane id")?,
        session: parsed(&row.get::<_, String>(2)?, "session of a pane")?,
        name: parsed(&row.get::<_, String>(3)?, "pane name")?,
        created: Timestamp(row.get(4)?),
        announced: row.get(5)?,
        closing: row.get(6)?,
        ended: ended.transpose()?,
    })
}

/// Checks that a name is not taken.
pub(super) fn check_pane_name<'a>(
    name: &Name,
    taken: impl IntoIterator<Item = &'a Name>,
) -> Result<(), StoreError> {
    let taken: BTreeSet<&Name> = taken.into_iter().collect();
    if !taken.contains(name) {
        return Ok(());
    }
    let free = name.free(|name| taken.contains(name));
    Err(StoreError::PaneNameTaken { name: name.clone(), free })
}

pub(super) fn parsed<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::Invalid(format!("{what} {text:?}")))
}
