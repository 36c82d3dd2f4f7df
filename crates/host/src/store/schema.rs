//! The tables of the registry, and whether a file has them.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::StoreError;

/// The format that this release writes.
pub(super) const FORMAT: u32 = 4;

/// `announced`: the event that tells of it was recorded, so somebody may know of it.
/// `closing`: it was decided that the pane goes; what is left to do is done even after a crash.
/// `env`: the variables of every pane of a session, as JSON.
/// `keys`: which request, known by a digest, has made what; it goes with what it made.
/// `pending`: sessions that are not complete; a daemon that finds one takes it back whole.
/// `template`, `project`: what a session was made from, and the directory that its panes share.
/// `ended`: how the pane ended, once the event that tells of it was recorded.
const TABLES: &str = "
    CREATE TABLE meta (
        key       TEXT PRIMARY KEY,
        value     TEXT NOT NULL
    ) STRICT;
    CREATE TABLE sessions (
        seq       INTEGER PRIMARY KEY AUTOINCREMENT,
        id        TEXT NOT NULL UNIQUE,
        name      TEXT NOT NULL UNIQUE,
        mode      TEXT NOT NULL,
        created   INTEGER NOT NULL,
        implicit  INTEGER NOT NULL,
        announced INTEGER NOT NULL,
        isolation TEXT,
        env       TEXT NOT NULL DEFAULT '{}',
        template  TEXT,
        project   TEXT
    ) STRICT;
    CREATE TABLE panes (
        seq       INTEGER PRIMARY KEY AUTOINCREMENT,
        id        TEXT NOT NULL UNIQUE,
        session   TEXT NOT NULL REFERENCES sessions (id),
        name      TEXT NOT NULL,
        created   INTEGER NOT NULL,
        announced INTEGER NOT NULL,
        closing   INTEGER NOT NULL DEFAULT 0,
        ended     TEXT,
        UNIQUE (session, name)
    ) STRICT;
    CREATE TABLE events (
        seq       INTEGER PRIMARY KEY AUTOINCREMENT,
        at        INTEGER NOT NULL,
        what      TEXT NOT NULL
    ) STRICT;
    CREATE TABLE keys (
        key       TEXT PRIMARY KEY,
        kind      TEXT NOT NULL,
        id        TEXT NOT NULL,
        digest    TEXT NOT NULL
    ) STRICT;
    CREATE TABLE pending (
        session   TEXT PRIMARY KEY
    ) STRICT;";

/// What brings a database from each format to the next, beginning with the first.
const STEPS: [&str; FORMAT as usize - 1] = [
    "ALTER TABLE sessions ADD COLUMN isolation TEXT;",
    "ALTER TABLE sessions ADD COLUMN env TEXT NOT NULL DEFAULT '{}';",
    "CREATE TABLE keys (
         key TEXT PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, digest TEXT NOT NULL
     ) STRICT;
     CREATE TABLE pending (session TEXT PRIMARY KEY) STRICT;
     ALTER TABLE sessions ADD COLUMN template TEXT;
     ALTER TABLE sessions ADD COLUMN project TEXT;",
];

/// Makes the tables in an empty database. Numbers of events go on after `events_after`.
pub(super) fn create(db: &mut Connection, events_after: u64) -> Result<(), StoreError> {
    let transaction = db.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute("INSERT INTO meta VALUES ('format', ?1)", [FORMAT.to_string()])?;
    let after = i64::try_from(events_after).unwrap_or(i64::MAX);
    transaction
        .execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ?1)", params![after])?;
    Ok(transaction.commit()?)
}

/// Whether the database has no tables at all: one that was never finished.
pub(super) fn is_empty(db: &Connection) -> Result<bool, StoreError> {
    Ok(db.query_row("SELECT count(*) = 0 FROM sqlite_master", [], |row| row.get(0))?)
}

/// Brings the tables of an older release up to this one's: all of it or nothing.
pub(super) fn migrate(db: &mut Connection) -> Result<(), StoreError> {
    let format: Option<String> = db
        .query_row("SELECT value FROM meta WHERE key = 'format'", [], |row| row.get(0))
        .optional()
        .unwrap_or(None);
    let from = format.and_then(|text| text.parse::<usize>().ok());
    let Some(steps) = from.and_then(|from| STEPS.get(from.checked_sub(1)?..)) else {
        return Ok(());
    };
    if steps.is_empty() {
        return Ok(());
    }
    let transaction = db.transaction()?;
    for step in steps {
        transaction.execute_batch(step)?;
    }
    transaction.execute("UPDATE meta SET value = ?1 WHERE key = 'format'", [FORMAT.to_string()])?;
    Ok(transaction.commit()?)
}

/// Whether the database is whole, and one that this release may write.
pub(super) fn check(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let damaged = |why: String| StoreError::Damaged { path: path.to_owned(), why };
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(damaged(verdict));
    }
    let format: Option<String> = db
        .query_row("SELECT value FROM meta WHERE key = 'format'", [], |row| row.get(0))
        .optional()
        .map_err(|error| damaged(error.to_string()))?;
    match format.and_then(|text| text.parse::<u32>().ok()) {
        Some(FORMAT) => {}
        Some(found) if found > FORMAT => {
            let supported = FORMAT;
            return Err(StoreError::TooNew { path: path.to_owned(), found, supported });
        }
        _ => return Err(damaged("it does not say which format it has".to_owned())),
    }
    for table in ["sessions", "panes", "events", "keys", "pending"] {
        db.prepare(&format!("SELECT * FROM {table}"))
            .map_err(|error| damaged(error.to_string()))?;
    }
    Ok(())
}
