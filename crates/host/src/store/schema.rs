//! The schema of the registry: creation, migration and checks.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::StoreError;

/// The format written by this release.
pub(super) const FORMAT: u32 = 4;

/// `announced`: the creation event was recorded, so clients may know the object.
/// `closing`: the pane is being closed; this is completed even after a crash.
/// `env`: the variables of every pane of a session, as JSON.
/// `keys`: idempotency keys with the request digest and the object created.
/// `pending`: incomplete sessions, which the next daemon removes.
/// `template`, `project`: the template of a session, and the directory that its panes share.
/// `ended`: how the pane ended, once that event was recorded.
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

/// The migrations from each format to the next.
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

/// Creates the tables in an empty database. Event numbers start after `events_after`.
pub(super) fn create(db: &mut Connection, events_after: u64) -> Result<(), StoreError> {
    let transaction = db.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute("INSERT INTO meta VALUES ('format', ?1)", [FORMAT.to_string()])?;
    let after = i64::try_from(events_after).unwrap_or(i64::MAX);
    transaction
        .execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ?1)", params![after])?;
    Ok(transaction.commit()?)
}

/// Returns whether the database has no tables, because its creation was interrupted.
pub(super) fn is_empty(db: &Connection) -> Result<bool, StoreError> {
    Ok(db.query_row("SELECT count(*) = 0 FROM sqlite_master", [], |row| row.get(0))?)
}

/// Migrates the tables of an older release, completely or not at all.
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

/// Checks that the database is undamaged and has the format of this release.
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
        _ => return Err(damaged("the format number is missing".to_owned())),
    }
    for table in ["sessions", "panes", "events", "keys", "pending"] {
        db.prepare(&format!("SELECT * FROM {table}"))
            .map_err(|error| damaged(error.to_string()))?;
    }
    Ok(())
}
