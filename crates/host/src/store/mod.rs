//! The registry: which sessions and panes there are, and what happened to them.
//!
//! One SQLite database in WAL mode, with one owner at a time: whoever holds the instance lock.
//! Every change and the events that tell of it are one transaction, so an event is never recorded
//! for something that is not so, and nothing changes without its event. Changes that wait for each
//! other share one transaction ([`Group`]), each in a savepoint of its own: one that fails takes no
//! other with it, and all of them cost one sync of the disk.
//!
//! Whether a pane lives is not in here: that is asked of its process.
//!
//! A database that is damaged is set aside, never deleted, and an empty one takes its place; the
//! caller fills it from the directories. The numbers of events then go on from the present time in
//! milliseconds: as long as fewer than a thousand events per second happen on average, no number is
//! ever used twice, and that needs nothing that could be damaged as well.

mod change;
mod error;
mod keys;
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
pub use keys::{KeyRow, Made};

use crate::clock;
use crate::file::{self, FileError, Survive};
use crate::root::StateRoot;

/// How many events are kept.
pub const EVENTS_KEPT: u64 = 10_000;

/// How long the writer may keep the database to itself while somebody looks at it.
const EXAMINE_PATIENCE: Duration = Duration::from_secs(2);

/// The registry, open for writing.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    /// What the next commit survives, as the database was last told.
    survive: Survive,
}

/// An opened registry.
#[derive(Debug)]
pub struct Opened {
    /// The registry.
    pub store: Store,
    /// The damaged one whose place it took.
    pub set_aside: Option<SetAside>,
}

/// A damaged file that was kept under another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Where it was.
    pub path: PathBuf,
    /// Where it is now.
    pub kept_as: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl Store {
    /// Opens the registry of `root`, and makes it if there is none. The caller holds the instance
    /// lock.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooNew`] for a newer format, which is left as it is; [`StoreError`] if the
    /// system refuses.
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
            // Made here so that it is private from the start; an empty file is an empty database.
            drop(file::open_append(path)?);
        }
        let mut db = Connection::open(path)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "foreign_keys", true)?;
        if schema::is_empty(&db)? {
            let events_after = if has_sessions(root) { clock::now().0 } else { 0 };
            schema::create(&mut db, u64::try_from(events_after).unwrap_or(0))?;
        } else {
            schema::migrate(&mut db)?;
            schema::check(&db, path)?;
        }
        Ok(Self { db, survive: Survive::PowerLoss })
    }

    /// Begins a transaction for several changes; together they will survive this much.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn begin(&mut self, survive: Survive) -> Result<Group<'_>, StoreError> {
        if self.survive != survive {
            let synchronous = match survive {
                Survive::Kill => "NORMAL",
                Survive::PowerLoss => "FULL",
            };
            self.db.pragma_update(None, "synchronous", synchronous)?;
            self.survive = survive;
        }
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Deferred)?;
        Ok(Group { transaction, events: Vec::new() })
    }

    /// One change by itself, on disk when this returns.
    ///
    /// # Errors
    ///
    /// Those of the change, or [`StoreError`].
    pub fn change<T, E: From<StoreError>>(
        &mut self,
        change: impl FnOnce(&mut Change<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut group = self.begin(Survive::PowerLoss)?;
        let value = group.apply(change)?;
        group.commit()?;
        Ok(value)
    }
}

/// Several changes in one transaction. Dropped without [`Group::commit`], none of them happened.
#[derive(Debug)]
pub struct Group<'a> {
    transaction: Transaction<'a>,
    events: Vec<Event>,
}

impl Group<'_> {
    /// Makes one change, whole or not at all, without touching the others.
    ///
    /// # Errors
    ///
    /// Those of the change, or [`StoreError`].
    pub fn apply<T, E: From<StoreError>>(
        &mut self,
        change: impl FnOnce(&mut Change<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let savepoint = self.transaction.savepoint().map_err(StoreError::from)?;
        // Dropped by an error or a panic of the change, the savepoint takes back what it did.
        let mut made = Change::new(savepoint);
        let value = change(&mut made)?;
        self.events.extend(made.keep()?);
        Ok(value)
    }

    /// Makes the changes true; returns the events that tell of them, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; none of the changes happened then.
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

/// Looks at the registry of `root` as it is on disk now, beside whoever writes it. Changes nothing.
///
/// # Errors
///
/// What is wrong with it.
pub fn examine(root: &StateRoot) -> Result<(), StoreError> {
    let path = root.database();
    // Pages that the writer holds in memory would hide what happened to the file.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(&path, flags)?;
    db.busy_timeout(EXAMINE_PATIENCE)?;
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

/// Moves the database and what belongs to it out of the way.
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
