//! One change of the registry: what can be asked and done within it.

use model::event::{Event, Happening};
use model::isolation::Method;
use model::{
    ConversationId, Ending, EndingReason, Name, PaneId, SessionId, SessionRecord, Timestamp,
};
use rusqlite::{OptionalExtension as _, Row, Savepoint, params};

use super::{StoreError, session_env};
use crate::clock;

/// A change that is being made. What it reads includes what it did so far.
#[derive(Debug)]
pub struct Change<'a> {
    pub(super) savepoint: Savepoint<'a>,
    events: Vec<Event>,
}

/// A session, as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// What its directory says of it as well.
    pub record: SessionRecord,
    /// Somebody may know of it: a pane of it was started.
    pub announced: bool,
}

/// A pane, as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaneRow {
    /// Its place in the order of creation.
    pub seq: u64,
    /// The pane.
    pub id: PaneId,
    /// Its session.
    pub session: SessionId,
    /// What people call it.
    pub name: Name,
    /// When it was made.
    pub created: Timestamp,
    /// Somebody may know of it: it was started, and that was recorded.
    pub announced: bool,
    /// It was decided that it goes.
    pub closing: bool,
    /// How it ended, once that was recorded as an event.
    pub ended: Option<Ending>,
}

/// A pane to be entered.
#[derive(Clone, Debug)]
pub struct NewPane {
    /// The pane.
    pub id: PaneId,
    /// Its session, which is in the registry.
    pub session: SessionId,
    /// Its name.
    pub name: Name,
    /// When it was made.
    pub created: Timestamp,
}

/// What went with a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// Only the pane.
    Pane,
    /// Its session too: it was made for this pane alone, or never came to be.
    PaneAndSession,
}

const SESSION: &str = "SELECT id, name, mode, created, implicit, announced, isolation, env, template, project \
     FROM sessions";
pub(super) const PANE: &str =
    "SELECT seq, id, session, name, created, announced, closing, ended FROM panes";

impl<'a> Change<'a> {
    pub(super) fn new(savepoint: Savepoint<'a>) -> Self {
        Self { savepoint, events: Vec::new() }
    }

    pub(super) fn keep(self) -> Result<Vec<Event>, StoreError> {
        self.savepoint.commit()?;
        Ok(self.events)
    }

    /// Every session, oldest first.
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

    /// One session.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if there is none.
    pub fn session(&self, id: SessionId) -> Result<SessionRow, StoreError> {
        let mut query = self.savepoint.prepare_cached(&format!("{SESSION} WHERE id = ?1"))?;
        let mut rows = query.query([id.to_string()])?;
        session_row(rows.next()?.ok_or(StoreError::Gone)?)
    }

    /// Every pane, oldest first.
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

    /// One pane.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if there is none.
    pub fn pane(&self, id: PaneId) -> Result<PaneRow, StoreError> {
        let mut query = self.savepoint.prepare_cached(&format!("{PANE} WHERE id = ?1"))?;
        let mut rows = query.query([id.to_string()])?;
        pane_row(rows.next()?.ok_or(StoreError::Gone)?)
    }

    /// Whether a session has this name.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn has_session_named(&self, name: &Name) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE name = ?1)";
        Ok(self.savepoint.prepare_cached(sql)?.query_row([name.as_str()], |row| row.get(0))?)
    }

    /// The names that the panes of a session have.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn pane_names(&self, session: SessionId) -> Result<Vec<Name>, StoreError> {
        let sql = "SELECT name FROM panes WHERE session = ?1";
        let mut query = self.savepoint.prepare_cached(sql)?;
        let mut rows = query.query([session.to_string()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(parsed(&row.get::<_, String>(0)?, "the name of a pane")?);
        }
        Ok(found)
    }

    /// Enters a session that nobody knows of yet.
    ///
    /// # Errors
    ///
    /// [`StoreError::SessionNameTaken`].
    pub fn add_session(&mut self, record: &SessionRecord) -> Result<(), StoreError> {
        if self.has_session_named(&record.name)? {
            return Err(StoreError::SessionNameTaken(record.name.clone()));
        }
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

    /// Enters a pane that nobody knows of yet.
    ///
    /// # Errors
    ///
    /// [`StoreError::PaneNameTaken`].
    pub fn add_pane(&mut self, pane: &NewPane) -> Result<(), StoreError> {
        if self.pane_names(pane.session)?.contains(&pane.name) {
            return Err(StoreError::PaneNameTaken(pane.name.clone()));
        }
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

    /// Tells of a pane that was started, and of its session if it is the first: once, however
    /// often this is called.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if there is no such pane.
    pub fn announce(&mut self, id: PaneId) -> Result<(), StoreError> {
        let pane = self.pane(id)?;
        self.announce_session(pane.session)?;
        if !pane.announced {
            self.set("UPDATE panes SET announced = 1 WHERE id = ?1", id)?;
            let PaneRow { session, name, .. } = pane;
            self.emit(Happening::PaneCreated { session, pane: id, name })?;
        }
        Ok(())
    }

    /// Tells of a session: once, however often this is called.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if there is no such session.
    pub fn announce_session(&mut self, id: SessionId) -> Result<(), StoreError> {
        let session = self.session(id)?;
        if !session.announced {
            self.set("UPDATE sessions SET announced = 1 WHERE id = ?1", id)?;
            self.emit(Happening::SessionCreated { session: id, name: session.record.name })?;
        }
        Ok(())
    }

    /// Tells that a pane lives: of a new one, that it was started; of one that had ended, that it
    /// was started again. Once, however often this is called.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if there is no such pane.
    pub fn tell_alive(
        &mut self,
        id: PaneId,
        conversation: Option<&ConversationId>,
    ) -> Result<(), StoreError> {
        self.announce(id)?;
        if self.pane(id)?.ended.is_some() {
            self.set("UPDATE panes SET ended = NULL WHERE id = ?1", id)?;
            let conversation = conversation.cloned();
            self.emit(Happening::PaneRestored { pane: id, conversation })?;
        }
        Ok(())
    }

    /// Records how a pane ended: once, the first ending counts. Whether this was the first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if there is no such pane.
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
            EndingReason::Lost => Happening::PaneLost { pane: id, killed },
            EndingReason::Exited | EndingReason::Stopped | EndingReason::NotStarted => {
                Happening::PaneExited { pane: id, ending: ending.clone() }
            }
        })?;
        Ok(true)
    }

    /// Gives a pane another name. Its own name again is no change.
    ///
    /// # Errors
    ///
    /// [`StoreError::PaneNameTaken`], [`StoreError::Gone`].
    pub fn rename_pane(&mut self, id: PaneId, name: &Name) -> Result<(), StoreError> {
        let pane = self.pane(id)?;
        if pane.name == *name {
            return Ok(());
        }
        if self.pane_names(pane.session)?.contains(name) {
            return Err(StoreError::PaneNameTaken(name.clone()));
        }
        self.savepoint
            .prepare_cached("UPDATE panes SET name = ?2 WHERE id = ?1")?
            .execute([id.to_string().as_str(), name.as_str()])?;
        self.emit(Happening::PaneRenamed { pane: id, name: name.clone() })
    }

    /// Gives a session another name. Its own name again is no change.
    ///
    /// # Errors
    ///
    /// [`StoreError::SessionNameTaken`], [`StoreError::Gone`].
    pub fn rename_session(&mut self, id: SessionId, name: &Name) -> Result<(), StoreError> {
        if self.session(id)?.record.name == *name {
            return Ok(());
        }
        if self.has_session_named(name)? {
            return Err(StoreError::SessionNameTaken(name.clone()));
        }
        self.savepoint
            .prepare_cached("UPDATE sessions SET name = ?2 WHERE id = ?1")?
            .execute([id.to_string().as_str(), name.as_str()])?;
        self.emit(Happening::SessionRenamed { session: id, name: name.clone() })
    }

    /// Decides that a pane goes. Whether this was the first to decide so.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if it is gone already.
    pub fn mark_closing(&mut self, id: PaneId) -> Result<bool, StoreError> {
        let first = !self.pane(id)?.closing;
        if first {
            self.set("UPDATE panes SET closing = 1 WHERE id = ?1", id)?;
        }
        Ok(first)
    }

    /// Removes a pane, and its session if it was made for this pane alone or never came to be.
    /// What nobody knew of goes without an event.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if it is gone already.
    pub fn remove_pane(&mut self, id: PaneId) -> Result<Removed, StoreError> {
        let pane = self.pane(id)?;
        self.set("DELETE FROM panes WHERE id = ?1", id)?;
        self.forget_keys_of(&id.to_string())?;
        if pane.announced {
            self.emit(Happening::PaneClosed { pane: id })?;
        }
        if self.remove_session_if_over(pane.session)? {
            Ok(Removed::PaneAndSession)
        } else {
            Ok(Removed::Pane)
        }
    }

    /// Removes a session without panes that was made for one pane alone or never came to be.
    /// Whether it went.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if it is gone already.
    pub fn remove_session_if_over(&mut self, id: SessionId) -> Result<bool, StoreError> {
        let session = self.session(id)?;
        let goes = session.record.implicit || !session.announced;
        if !goes || !self.pane_names(id)?.is_empty() {
            return Ok(false);
        }
        self.delete_session(&session)?;
        Ok(true)
    }

    /// Removes a session that has no panes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`] if it is gone already; [`StoreError::Meaningless`] if it has panes.
    pub fn remove_session(&mut self, id: SessionId) -> Result<(), StoreError> {
        let session = self.session(id)?;
        if !self.pane_names(id)?.is_empty() {
            return Err(StoreError::Meaningless(
                "a session with panes as one to remove".to_owned(),
            ));
        }
        self.delete_session(&session)
    }

    fn delete_session(&mut self, session: &SessionRow) -> Result<(), StoreError> {
        let id = session.record.id;
        self.set("DELETE FROM sessions WHERE id = ?1", id)?;
        self.forget_keys_of(&id.to_string())?;
        self.forget_pending(id)?;
        if session.announced {
            self.emit(Happening::SessionClosed { session: id })?;
        }
        Ok(())
    }

    fn set(&mut self, sql: &str, id: impl Into<String>) -> Result<(), StoreError> {
        self.savepoint.prepare_cached(sql)?.execute([id.into()])?;
        Ok(())
    }

    /// Records an event.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn emit(&mut self, what: Happening) -> Result<(), StoreError> {
        let at = clock::now();
        let text = serde_json::to_string(&what).expect("an event has string keys only");
        self.savepoint
            .prepare_cached("INSERT INTO events (at, what) VALUES (?1, ?2)")?
            .execute(params![at.0, text])?;
        let seq = self.savepoint.last_insert_rowid().cast_unsigned();
        self.events.push(Event { seq, at, what });
        Ok(())
    }

    /// Up to `limit` events after this number, in order. Kinds that only a newer release knows are
    /// left out.
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
            if let Ok(what) = serde_json::from_str(&row.get::<_, String>(2)?) {
                let seq = row.get::<_, i64>(0)?.cast_unsigned();
                found.push(Event { seq, at: Timestamp(row.get(1)?), what });
            }
        }
        Ok(found)
    }

    /// The number of the latest event, also of one that is no longer kept.
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
            id: parsed(&row.get::<_, String>(0)?, "the id of a session")?,
            name: parsed(&row.get::<_, String>(1)?, "the name of a session")?,
            mode: parsed(&row.get::<_, String>(2)?, "the mode of a session")?,
            created: Timestamp(row.get(3)?),
            implicit: row.get(4)?,
            isolation: isolation.map(|text| parsed(&text, "a method of isolation")).transpose()?,
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
            .map_err(|error| StoreError::Meaningless(format!("an ending {text:?}: {error}")))
    });
    Ok(PaneRow {
        seq: row.get::<_, i64>(0)?.cast_unsigned(),
        id: parsed(&row.get::<_, String>(1)?, "the id of a pane")?,
        session: parsed(&row.get::<_, String>(2)?, "the session of a pane")?,
        name: parsed(&row.get::<_, String>(3)?, "the name of a pane")?,
        created: Timestamp(row.get(4)?),
        announced: row.get(5)?,
        closing: row.get(6)?,
        ended: ended.transpose()?,
    })
}

fn parsed<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::Meaningless(format!("{text:?} as {what}")))
}
