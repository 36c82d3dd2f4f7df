//! Whether the directory of a session is there and says what it should (R32).
//!
//! Listings ask this of every session, so a record that was found good is not read again as long as
//! the file is the same.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use host::StateRoot;
use host::record::{self, RecordError};
use model::{SessionId, SessionRecord};

use crate::launch::SESSION_RECORD;

/// How the directory of a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// As it should be.
    Whole,
    /// As it should be, as far as this release can tell.
    Strange(String),
    /// It is not there.
    Missing,
    /// It is there, and its record cannot be believed.
    Damaged(String),
}

/// By what a file is known to be the one that was read.
type Stamp = (u64, u64, i64, i64);

/// The records that were found good.
#[derive(Default)]
pub(crate) struct Conditions(Mutex<HashMap<SessionId, Stamp>>);

impl Conditions {
    /// Looks at the directory of a session. Blocks.
    pub(super) fn look(&self, root: &StateRoot, id: SessionId) -> Condition {
        let dir = root.session(id);
        let path = dir.join(SESSION_RECORD);
        let stamp = match fs::symlink_metadata(&path) {
            Ok(found) => (found.ino(), found.size(), found.mtime(), found.mtime_nsec()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return without_record(&dir),
            Err(error) => return Condition::Strange(format!("`{}`: {error}", path.display())),
        };
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id) == Some(&stamp) {
            return Condition::Whole;
        }
        match record::read::<SessionRecord>(&path) {
            Ok(record) if record.id == id => {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, stamp);
                Condition::Whole
            }
            Ok(_) => Condition::Damaged(format!("`{}` is about something else", path.display())),
            Err(error @ RecordError::Damaged { .. }) => Condition::Damaged(error.to_string()),
            Err(RecordError::Missing(_)) => without_record(&dir),
            // Of a newer release, or not readable now: nothing is known to be wrong with it.
            Err(error) => Condition::Strange(error.to_string()),
        }
    }

    /// The session is gone.
    pub(crate) fn forget(&self, id: SessionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

fn without_record(dir: &Path) -> Condition {
    if dir.is_dir() {
        Condition::Damaged(format!("`{}` is missing", dir.join(SESSION_RECORD).display()))
    } else {
        Condition::Missing
    }
}
