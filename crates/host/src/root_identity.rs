//! The identity of a state root (`root.json`): how a root that was moved or copied is recognised.
//!
//! | path    | directory                             | the root is |
//! |---------|---------------------------------------|-------------|
//! |         | no record                             | new         |
//! | same    | same                                  | the same    |
//! | another | same, also reached by the old path    | the same    |
//! | another | same                                  | moved       |
//! | any     | another                               | a copy      |
//! |         | the record cannot be read             | a copy      |
//!
//! A directory is identified by its device and inode. The number of a device may change at a boot,
//! so it is compared within one boot only.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::file::{self, Durability, FileError};
use crate::record::{self, RecordError};
use crate::root::StateRoot;
use crate::{clock, process};

/// File name of the record in the state root.
pub const RECORD: &str = "root.json";

/// The record of a state root about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootIdentity {
    /// Unique id; a copy gets a new one.
    pub id: String,
    /// The path, spelled as in the records of the panes.
    pub path: String,
    /// The device of the directory.
    pub device: u64,
    /// The inode of the directory.
    pub inode: u64,
    /// The boot in which the device number is valid.
    pub boot: String,
    /// The paths from which the root was moved, oldest first.
    #[serde(default)]
    pub former: Vec<String>,
    /// The path of the root that this one is a copy of.
    #[serde(default)]
    pub copy_of: Option<String>,
}

/// What happened to a root since it was last opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootHistory {
    /// The root has no identity yet: it is new or of an older release.
    New,
    /// The root is where it was.
    Same,
    /// The directory was renamed. Its processes may be running.
    Moved {
        /// The previous path.
        from: String,
    },
    /// The root is a copy, and owns no process that was started before.
    Copied {
        /// The path of the original; `None` if the record could not be read.
        from: Option<String>,
    },
}

/// An examined root.
#[derive(Clone, Debug)]
pub struct ExaminedRoot {
    /// The identity that the root has from now on.
    pub identity: RootIdentity,
    /// What happened to the root.
    pub history: RootHistory,
    /// Why the record could not be read.
    pub problem: Option<String>,
    /// Whether the record on disk has to be replaced.
    pub is_changed: bool,
}

impl ExaminedRoot {
    /// Examines a root. Changes nothing except that a damaged record is set aside.
    ///
    /// # Errors
    ///
    /// [`FileError`] if the directory cannot be accessed.
    pub fn of(root: &StateRoot) -> Result<Self, FileError> {
        let found = fs::metadata(root.path()).map_err(FileError::when("access", root.path()))?;
        let boot = process::boot_id().map_err(FileError::when("examine", root.path()))?;
        let now = RootIdentity {
            id: new_id(),
            path: root.path().to_string_lossy().into_owned(),
            device: found.dev(),
            inode: found.ino(),
            boot,
            former: Vec::new(),
            copy_of: None,
        };
        let path = root.path().join(RECORD);
        let (known, problem) = match record::read::<RootIdentity>(&path) {
            Ok(known) => (known, None),
            Err(RecordError::Missing(_)) => return Ok(Self::changed(now, RootHistory::New, None)),
            Err(error) => {
                if matches!(error, RecordError::Damaged { .. }) {
                    file::set_aside(&path, root.path(), &format!("{RECORD}.damaged"))?;
                }
                let problem = Some(error.to_string());
                let history = RootHistory::Copied { from: None };
                // The record of a newer release must not be replaced.
                let is_changed = !matches!(error, RecordError::TooNew { .. });
                return Ok(Self { is_changed, ..Self::changed(now, history, problem) });
            }
        };
        let is_other_spelling = || same_dir(Path::new(&known.path), root.path());
        let history = history(&known, &now, is_other_spelling);
        let identity = match &history {
            RootHistory::New | RootHistory::Same => RootIdentity {
                device: now.device,
                boot: now.boot,
                path: known.path.clone(),
                ..known.clone()
            },
            RootHistory::Moved { from } => {
                let mut former = known.former.clone();
                former.retain(|path| *path != now.path && path != from);
                former.push(from.clone());
                RootIdentity { id: known.id.clone(), former, copy_of: known.copy_of.clone(), ..now }
            }
            RootHistory::Copied { from } => RootIdentity { copy_of: from.clone(), ..now },
        };
        let is_changed = identity != known;
        Ok(Self { identity, history, problem, is_changed })
    }

    fn changed(identity: RootIdentity, history: RootHistory, problem: Option<String>) -> Self {
        Self { identity, history, problem, is_changed: true }
    }

    /// Writes the identity. Until then the root is examined with the same result.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn write(&self, root: &StateRoot) -> Result<(), FileError> {
        if !self.is_changed {
            return Ok(());
        }
        record::write(&root.path().join(RECORD), &self.identity, Durability::PowerLoss)
    }

    /// Returns the path whose occurrences in records of this root have to be replaced.
    #[must_use]
    pub fn previous_path(&self) -> Option<&str> {
        match &self.history {
            RootHistory::New | RootHistory::Same => None,
            RootHistory::Moved { from } => Some(from),
            RootHistory::Copied { from } => {
                from.as_deref().filter(|from| *from != self.identity.path)
            }
        }
    }
}

impl RootIdentity {
    /// Returns whether the directory at `path` is still this root.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode))
    }
}

/// Returns whether two paths lead to the same directory.
#[must_use]
pub fn same_dir(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    one == other || matches!((id(one), id(other)), (Ok(one), Ok(other)) if one == other)
}

fn history(
    known: &RootIdentity,
    now: &RootIdentity,
    is_other_spelling: impl FnOnce() -> bool,
) -> RootHistory {
    let same_device = known.device == now.device;
    let same_place = known.inode == now.inode
        && (same_device || known.boot != now.boot && known.path == now.path);
    if !same_place {
        RootHistory::Copied { from: Some(known.path.clone()) }
    } else if known.path == now.path || is_other_spelling() {
        RootHistory::Same
    } else {
        RootHistory::Moved { from: known.path.clone() }
    }
}

fn new_id() -> String {
    model::SessionId::from_random(clock::random_id()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(path: &str, device: u64, inode: u64, boot: &str) -> RootIdentity {
        RootIdentity {
            id: String::new(),
            path: path.to_owned(),
            device,
            inode,
            boot: boot.to_owned(),
            former: Vec::new(),
            copy_of: None,
        }
    }

    #[test]
    fn history_follows_the_table() {
        let known = identity("/a", 1, 2, "x");
        let moved = || RootHistory::Moved { from: "/a".to_owned() };
        let copied = || RootHistory::Copied { from: Some("/a".to_owned()) };
        #[rustfmt::skip]
        let table = [
            // now                        spelling  history
            (identity("/a", 1, 2, "x"), false, RootHistory::Same),
            (identity("/b", 1, 2, "x"), true,  RootHistory::Same),
            (identity("/b", 1, 2, "x"), false, moved()),
            (identity("/b", 1, 2, "y"), false, moved()),
            (identity("/b", 1, 3, "x"), false, copied()),
            (identity("/a", 1, 3, "x"), false, copied()),
            // A device may have another number after a boot.
            (identity("/a", 9, 2, "y"), false, RootHistory::Same),
            (identity("/a", 9, 2, "x"), false, copied()),
            (identity("/b", 9, 2, "y"), false, copied()),
        ];
        for (now, spelling, expected) in table {
            assert_eq!(history(&known, &now, || spelling), expected, "{now:?}");
        }
    }

    #[test]
    fn moved_root_keeps_its_id_and_copied_root_gets_another() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second, copy] = ["first", "second", "copy"].map(|name| dir.path().join(name));
        let root = StateRoot::open(&first).unwrap();
        let new = ExaminedRoot::of(&root).unwrap();
        new.write(&root).unwrap();
        fs::rename(&first, &second).unwrap();
        let other = StateRoot::open(&copy).unwrap();
        fs::copy(second.join(RECORD), copy.join(RECORD)).unwrap();

        let moved = ExaminedRoot::of(&StateRoot::open(&second).unwrap()).unwrap();
        let copied = ExaminedRoot::of(&other).unwrap();

        assert_eq!(new.history, RootHistory::New);
        assert_eq!(moved.identity.id, new.identity.id);
        assert_eq!(moved.identity.former, [first.to_str().unwrap()]);
        assert_ne!(copied.identity.id, new.identity.id);
        assert_eq!(copied.identity.copy_of.as_deref(), first.to_str());
        assert!(moved.is_changed && copied.is_changed);
        copied.write(&other).unwrap();
        assert_eq!(ExaminedRoot::of(&other).unwrap().history, RootHistory::Same);
    }

    #[test]
    fn damaged_record_is_set_aside_and_counts_as_copy() {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        let path = root.path().join(RECORD);
        file::write_atomic(&path, b"{", Durability::ProcessCrash).unwrap();

        let examined = ExaminedRoot::of(&root).unwrap();

        assert_eq!(examined.history, RootHistory::Copied { from: None });
        assert!(examined.problem.is_some() && !path.exists());
    }
}
