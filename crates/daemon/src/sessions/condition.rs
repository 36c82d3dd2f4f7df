//! Integrity checks of session directories (R32).
//!
//! Listings check every session, so an intact record is not read again until the file changes.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use host::StateRoot;
use host::record::{self, RecordError};
use model::{SessionId, SessionRecord};
use parking_lot::Mutex;

use super::SESSION_RECORD;

/// The condition of a session's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The directory and its record are valid.
    Intact,
    /// The record cannot be checked, for example because a newer release wrote it.
    Unverified(String),
    /// The directory does not exist.
    Missing,
    /// The directory exists, but its record is missing or invalid.
    Damaged(String),
}

/// Inode, size and modification time, by which an unchanged file is recognised.
type Stamp = (u64, u64, i64, i64);

/// A cache of the records that were found intact.
#[derive(Default)]
pub(super) struct Conditions(Mutex<HashMap<SessionId, Stamp>>);

impl Conditions {
    /// Checks the directory of a session. Blocks.
    pub(super) fn check(&self, root: &StateRoot, id: SessionId) -> Condition {
        let dir = root.session(id);
        let path = dir.join(SESSION_RECORD);
        let stamp = match fs::symlink_metadata(&path) {
            Ok(found) => (found.ino(), found.size(), found.mtime(), found.mtime_nsec()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return without_record(&dir),
            Err(error) => return Condition::Unverified(format!("`{}`: {error}", path.display())),
        };
        if self.0.lock().get(&id) == Some(&stamp) {
            return Condition::Intact;
        }
        match record::read::<SessionRecord>(&path) {
            Ok(record) if record.id == id => {
                self.0.lock().insert(id, stamp);
                Condition::Intact
            }
            Ok(_) => Condition::Damaged(format!("`{}` belongs to another session", path.display())),
            Err(error @ RecordError::Damaged { .. }) => Condition::Damaged(error.to_string()),
            Err(RecordError::Missing(_)) => without_record(&dir),
            // It may be valid: a newer release wrote it, or it is not readable now.
            Err(error) => Condition::Unverified(error.to_string()),
        }
    }

    /// Removes a session from the cache.
    pub(super) fn forget(&self, id: SessionId) {
        self.0.lock().remove(&id);
    }
}

fn without_record(dir: &Path) -> Condition {
    if dir.is_dir() {
        Condition::Damaged(format!("`{}` is missing", dir.join(SESSION_RECORD).display()))
    } else {
        Condition::Missing
    }
}

#[cfg(test)]
mod tests {
    use host::file::{self, Durability};
    use model::SessionMode;

    use super::*;

    fn record(id: SessionId) -> SessionRecord {
        SessionRecord {
            id,
            name: SessionRecord::default_name(&id),
            mode: SessionMode::Isolated,
            created: host::clock::now(),
            implicit: false,
            isolation: None,
            env: std::collections::BTreeMap::new(),
            template: None,
            project: None,
        }
    }

    #[test]
    fn check_tells_missing_damaged_and_intact_sessions_apart() {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        let (id, other) = (SessionId::from_random([1; 16]), SessionId::from_random([2; 16]));
        let path = root.session(id).join(SESSION_RECORD);
        let conditions = Conditions::default();
        let check = || conditions.check(&root, id);

        assert_eq!(check(), Condition::Missing);
        file::make_dir(&root.session(id)).unwrap();
        assert!(matches!(check(), Condition::Damaged(why) if why.contains("is missing")));
        record::write(&path, &record(other), Durability::ProcessCrash).unwrap();
        assert!(matches!(check(), Condition::Damaged(why) if why.contains("another session")));
        record::write(&path, &record(id), Durability::ProcessCrash).unwrap();
        assert_eq!(check(), Condition::Intact);
        file::write_atomic(&path, b"{", Durability::ProcessCrash).unwrap();
        assert!(matches!(check(), Condition::Damaged(_)), "the cache notices the change");
    }
}
