//! Persistent store of the file locks that panes hold.
//!
//! Separate from the registry: locks change far more often, do not need a sync to disk, and neither
//! database should wait for the other. A lock cannot outlive its owner, and no owner survives a
//! power loss, so only the tokens must: they are reserved in blocks, and the end of a block is on
//! disk before its first token is issued.

use std::fs;
use std::path::{Path, PathBuf};

use model::lock::table::TableChange;
use model::lock::{Held, Token};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use crate::clock;
use crate::file::{self, FileError};
use crate::root::StateRoot;
use crate::store::{SetAside, StoreError};

/// The format written by this release.
const FORMAT: &str = "1";

/// Number of tokens reserved at once. Unused tokens are lost when the daemon ends.
const BLOCK: u64 = 1_000_000;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS meta (
        key   TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS locks (
        token INTEGER PRIMARY KEY,
        held  TEXT NOT NULL
    ) STRICT;";

/// The lock store, open for writing.
#[derive(Debug)]
pub struct LockStore {
    db: Connection,
    /// The last reserved token.
    block_end: u64,
}

/// Result of opening the lock store.
#[derive(Debug)]
pub struct OpenedLockStore {
    /// The store.
    pub store: LockStore,
    /// The held locks, oldest first.
    pub held: Vec<Held>,
    /// New tokens must be greater.
    pub last_token: Token,
    /// The damaged database that was replaced, if any.
    pub set_aside: Option<SetAside>,
}

impl LockStore {
    /// Opens the lock store of `root`, or creates it. The caller holds the instance lock.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooNew`] for a newer format, which is left unchanged; [`StoreError`] for errors
    /// of the operating system.
    pub fn open(root: &StateRoot) -> Result<OpenedLockStore, StoreError> {
        let path = root.locks().join("locks.db");
        match Self::open_file(&path, 0) {
            Ok(opened) => Ok(opened),
            Err(error) if error.is_damage() => {
                let aside = set_aside(&path, &error)?;
                // Fewer than one token per millisecond was ever issued, so all of them are lower.
                let after = u64::try_from(clock::now().0).unwrap_or(0);
                let opened = Self::open_file(&path, after)?;
                Ok(OpenedLockStore { set_aside: Some(aside), ..opened })
            }
            Err(error) => Err(error),
        }
    }

    fn open_file(path: &Path, after: u64) -> Result<OpenedLockStore, StoreError> {
        if fs::symlink_metadata(path).is_err() {
            // Created here to be private from the start; an empty file is an empty database.
            drop(file::open_append(path)?);
        }
        let db = Connection::open(path)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.execute_batch(TABLES)?;
        db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?1)", [FORMAT])?;
        let format: String = db.query_row(META, ["format"], |row| row.get(0))?;
        if format != FORMAT {
            let (path, found) = (path.to_owned(), format.parse().unwrap_or(u32::MAX));
            return Err(StoreError::TooNew { path, found, supported: 1 });
        }
        let held = read(&db, path)?;
        let mut store = Self { db, block_end: 0 };
        let last: Option<String> =
            store.db.query_row(META, ["tokens"], |row| row.get(0)).optional()?;
        let last = last.and_then(|text| text.parse().ok()).unwrap_or(0);
        let last = held.iter().map(|held| held.token.0).fold(last.max(after), u64::max);
        // The next block is reserved with the first lock, so that opening does not wait for it.
        store.block_end = last;
        Ok(OpenedLockStore { store, held, last_token: Token(last), set_aside: None })
    }

    /// Writes changes. They survive the end of every process.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; nothing was written.
    pub fn write(&mut self, changes: &[TableChange]) -> Result<(), StoreError> {
        let highest = changes.iter().filter_map(|change| match change {
            TableChange::Put(held) => Some(held.token.0),
            TableChange::Drop(_) => None,
        });
        let highest = highest.max().unwrap_or(0);
        if highest > self.block_end {
            self.reserve(highest)?;
        }
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut put =
                transaction.prepare_cached("INSERT OR REPLACE INTO locks VALUES (?1, ?2)")?;
            let mut drop = transaction.prepare_cached("DELETE FROM locks WHERE token = ?1")?;
            for change in changes {
                match change {
                    TableChange::Put(held) => {
                        let text =
                            serde_json::to_string(held).expect("a lock has string keys only");
                        put.execute(params![number(held.token), text])?;
                    }
                    TableChange::Drop(token) => {
                        drop.execute([number(*token)])?;
                    }
                }
            }
        }
        Ok(transaction.commit()?)
    }

    /// Reserves the block of tokens after `last` and syncs it to disk.
    fn reserve(&mut self, last: u64) -> Result<(), StoreError> {
        let end = last.saturating_add(BLOCK);
        self.db.pragma_update(None, "synchronous", "FULL")?;
        let written =
            self.db.execute("INSERT OR REPLACE INTO meta VALUES ('tokens', ?1)", [end.to_string()]);
        self.db.pragma_update(None, "synchronous", "NORMAL")?;
        written?;
        self.block_end = end;
        Ok(())
    }
}

const META: &str = "SELECT value FROM meta WHERE key = ?1";

fn number(token: Token) -> i64 {
    i64::try_from(token.0).unwrap_or(i64::MAX)
}

fn read(db: &Connection, path: &Path) -> Result<Vec<Held>, StoreError> {
    let damaged = |why: String| StoreError::Damaged { path: path.to_owned(), why };
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(damaged(verdict));
    }
    let mut query = db.prepare("SELECT held FROM locks ORDER BY token")?;
    let mut rows = query.query([])?;
    let mut held = Vec::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        held.push(serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?);
    }
    Ok(held)
}

/// Moves the database and its WAL files out of the way.
fn set_aside(path: &Path, error: &StoreError) -> Result<SetAside, StoreError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let stem = format!("locks.db.damaged-{}", clock::now().0);
    let kept_as = file::set_aside(path, dir, &stem)?;
    for part in ["-wal", "-shm"] {
        match file::set_aside(&dir.join(format!("locks.db{part}")), dir, &format!("{stem}{part}")) {
            Ok(_) => {}
            Err(FileError { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(SetAside { path: PathBuf::from(path), kept_as, why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use model::lock::{Key, Lease, LockMode, LockPath, Moment, Owner};
    use model::{LockId, ProcessIdentity, Timestamp};

    use super::*;

    fn held(token: u64) -> Held {
        let keys = vec![Key { space: String::new(), path: "/a".to_owned() }];
        let process = ProcessIdentity { pid: 1, start: 2, boot: "b".to_owned() };
        Held {
            id: LockId::from_random([1; 16]),
            token: Token(token),
            path: LockPath { shown: "/a".to_owned(), keys, tree: false },
            mode: LockMode::Write,
            owner: Owner { pane: None, process },
            lease: Lease { acquired: Timestamp(0), until: Moment(9), length: 9, automatic: false },
            tag: None,
            turn: 1,
        }
    }

    #[test]
    fn written_locks_are_read_back_and_tokens_increase() {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        let mut first = LockStore::open(&root).unwrap();
        let (one, two) = (held(first.last_token.0 + 1), held(first.last_token.0 + 2));
        let put = |held: &Held| TableChange::Put(Box::new(held.clone()));
        first.store.write(&[put(&one), put(&two)]).unwrap();
        first.store.write(&[TableChange::Drop(one.token)]).unwrap();
        drop(first);

        let second = LockStore::open(&root).unwrap();

        assert!(second.last_token > two.token);
        assert_eq!(second.held, [two]);
    }

    #[test]
    fn damaged_database_is_set_aside_and_tokens_increase() {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        let first = LockStore::open(&root).unwrap();
        let given = first.store.block_end;
        drop(first);
        let path = root.locks().join("locks.db");
        fs::remove_file(path.with_extension("db-wal")).ok();
        file::write_atomic(&path, &[b'x'; 4096], file::Durability::ProcessCrash).unwrap();

        let second = LockStore::open(&root).unwrap();

        let aside = second.set_aside.unwrap();
        assert_eq!(fs::read(aside.kept_as).unwrap(), [b'x'; 4096]);
        assert!(second.last_token.0 > given && second.held.is_empty());
    }
}
