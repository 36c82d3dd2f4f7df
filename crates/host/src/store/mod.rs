//! The registry of sessions, panes and events.
//!
//! One SQLite database in WAL mode, owned by the process that holds the instance lock. A change and
//! its events are one transaction, so an event is never recorded without its change, nor a change
//! without its event. Queued changes share one transaction ([`Group`]), each in its own savepoint: a
//! failed change does not affect the others, and all of them cost one sync to disk.
//!
//! The registry does not record whether a pane is running; its process tells.
//!
//! A damaged database is set aside, never deleted, and replaced by an empty one, which the caller
//! fills from the directories. Event numbers then continue from the current time in milliseconds: with
//! fewer than a thousand events per second on average, no number is used twice, and this needs no
//! stored state that could be damaged as well.

mod change;
mod error;
mod keys;
mod names;
mod schema;
mod session;
mod session_env;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::SessionId;
use model::event::Event;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

pub use change::{Change, NewPane, PaneRow, Removed, SessionRow};
pub use error::StoreError;
pub use keys::{Created, KeyRow};
pub use names::RenamedPane;

use crate::clock;
use crate::file::{self, Durability, FileError};
use crate::root::StateRoot;

/// Number of events that are kept.
pub const EVENTS_KEPT: u64 = 10_000;

/// How long to wait for another program that has locked the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Busy timeout of [`check`].
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// The registry, open for writing.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    /// The durability that the database is set to.
    survive: Durability,
}

/// Result of opening the registry.
#[derive(Debug)]
pub struct Opened {
    /// The registry.
    pub store: Store,
    /// The damaged database that was replaced, if any.
    pub set_aside: Option<SetAside>,
}

/// A damaged file that was kept under another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Original path.
    pub path: PathBuf,
    /// New path.
    pub kept_as: PathBuf,
    /// Description of the damage.
    pub why: String,
}

impl Store {
    /// Opens the registry of `root`, or creates it. The caller holds the instance lock.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooNew`] for a newer format, which is left unchanged; [`StoreError`] for errors
    /// of the operating system.
    pub fn open(root: &StateRoot) -> Result<Opened, StoreError> {
        let path = root.database();
        let set_aside = match Self::open_file(&path, root) {
            Ok(store) => return Ok(Opened { store, set_aside: None }),
            Err(error) if error.is_damage() => set_aside(&path, &error)?,
            Err(error) => return Err(error),
        };
        let store = Self::open_file(&path, root)?;
        Ok(Opened { store, set_aside: Some(set_aside) })
    }

    fn open_file(path: &Path, root: &StateRoot) -> Result<Self, StoreError> {
        if fs::symlink_metadata(path)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        {
            // Created here to be private from the start; an empty file is an empty database.
            drop(file::open_append(path)?);
        }
        let mut db = Connection::open(path)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "foreign_keys", true)?;
        // Variables of sessions may be secrets: deleted values are overwritten.
        db.pragma_update(None, "secure_delete", true)?;
        if schema::is_empty(&db)? {
            let events_after = if has_sessions(root) { clock::now().0 } else { 0 };
            schema::create(&mut db, u64::try_from(events_after).unwrap_or(0))?;
        } else {
            schema::migrate(&mut db)?;
            schema::check(&db, path)?;
        }
        Ok(Self { db, survive: Durability::PowerLoss })
    }

    /// Starts a transaction for several changes, with this durability.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn begin(&mut self, survive: Durability) -> Result<Group<'_>, StoreError> {
        if self.survive != survive {
            let synchronous = match survive {
                Durability::ProcessCrash => "NORMAL",
                Durability::PowerLoss => "FULL",
            };
            self.db.pragma_update(None, "synchronous", synchronous)?;
            self.survive = survive;
        }
        // Locked from the start, a writer waits for others. A transaction that reads first fails
        // without waiting when another program has written in between.
        let behavior = match survive {
            Durability::ProcessCrash => TransactionBehavior::Deferred,
            Durability::PowerLoss => TransactionBehavior::Immediate,
        };
        let transaction = self.db.transaction_with_behavior(behavior)?;
        Ok(Group { transaction, events: Vec::new() })
    }

    /// Makes a single change and syncs it to disk.
    ///
    /// # Errors
    ///
    /// The error of the change, or [`StoreError`].
    pub fn change<T, E: From<StoreError>>(
        &mut self,
        change: impl FnOnce(&mut Change<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut group = self.begin(Durability::PowerLoss)?;
        let value = group.apply(change)?;
        group.commit()?;
        Ok(value)
    }
}

/// Several changes in one transaction, rolled back unless [`Group::commit`] is called.
#[derive(Debug)]
pub struct Group<'a> {
    transaction: Transaction<'a>,
    events: Vec<Event>,
}

impl Group<'_> {
    /// Makes one change, completely or not at all, independent of the others.
    ///
    /// # Errors
    ///
    /// The error of the change, or [`StoreError`].
    pub fn apply<T, E: From<StoreError>>(
        &mut self,
        change: impl FnOnce(&mut Change<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let savepoint = self.transaction.savepoint().map_err(StoreError::from)?;
        // Dropping the savepoint after an error or a panic rolls the change back.
        let mut made = Change::new(savepoint);
        let value = change(&mut made)?;
        self.events.extend(made.keep()?);
        Ok(value)
    }

    /// Commits the changes and returns their events, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; none of the changes was made.
    pub fn commit(self) -> Result<Vec<Event>, StoreError> {
        if let Some(last) = self.events.last() {
            let forgotten = i64::try_from(last.seq.saturating_sub(EVENTS_KEPT)).unwrap_or(i64::MAX);
            self.transaction
                .prepare_cached("DELETE FROM events WHERE seq <= ?1")?
                .execute([forgotten])?;
        }
        self.transaction.commit()?;
        Ok(self.events)
    }
}

/// Checks the registry on disk while another process may write it. Changes nothing.
///
/// # Errors
///
/// The damage, as [`StoreError`].
pub fn check(root: &StateRoot) -> Result<(), StoreError> {
    let path = root.database();
    // A separate connection: the writer's page cache would hide damage of the file.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(&path, flags)?;
    db.busy_timeout(CHECK_TIMEOUT)?;
    schema::check(&db, &path)
}

fn has_sessions(root: &StateRoot) -> bool {
    fs::read_dir(root.sessions()).is_ok_and(|mut entries| {
        entries.any(|entry| {
            entry.is_ok_and(|entry| {
                entry.file_name().to_str().is_some_and(|name| name.parse::<SessionId>().is_ok())
            })
        })
    })
}

/// Moves the database and its WAL files out of the way.
fn set_aside(path: &Path, error: &StoreError) -> Result<SetAside, StoreError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = format!("{name}.damaged-{}", clock::now().0);
    let kept_as = file::set_aside(path, dir, &stem)?;
    for part in ["-wal", "-shm"] {
        let beside = dir.join(format!("{name}{part}"));
        match file::set_aside(&beside, dir, &format!("{stem}{part}")) {
            Ok(_) => {}
            Err(FileError { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    let why =
        if let StoreError::Damaged { why, .. } = error { why.clone() } else { error.to_string() };
    Ok(SetAside { path: path.to_owned(), kept_as, why })
}

#[cfg(test)]
mod tests;
