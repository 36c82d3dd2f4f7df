//! The saved state of a pane (`session.state`): read, validated, set aside if damaged, and written.

use std::fs;
use std::path::{Path, PathBuf};

use model::state::{FILE, SavedState};
use model::{PaneId, SessionId};

use crate::clock;
use crate::file::{self, Durability, FileError};
use crate::record::{self, RecordError};
use crate::store::SetAside;

/// Name prefix of damaged files that were set aside.
const DAMAGED_PREFIX: &str = "session.state.damaged-";

/// The state file in a pane's directory.
#[derive(Debug)]
pub enum SavedStateFile {
    /// There is no file.
    Missing,
    /// The valid state of this pane.
    Valid(Box<SavedState>),
    /// A damaged file or the state of another pane, with the reason.
    Damaged(String),
    /// A file that must be neither used nor replaced, with the reason.
    Unusable(String),
}

/// Reads the state in a pane's directory. Changes nothing.
#[must_use]
pub fn read(dir: &Path, pane: PaneId, session: SessionId) -> SavedStateFile {
    match record::read::<SavedState>(&dir.join(FILE)) {
        Ok(state) if state.is_of(pane, session) => SavedStateFile::Valid(Box::new(state)),
        Ok(state) => SavedStateFile::Damaged(format!("it is the state of pane {}", state.pane)),
        Err(RecordError::Missing(_)) => SavedStateFile::Missing,
        Err(RecordError::Damaged { why, .. }) => SavedStateFile::Damaged(why),
        Err(error @ (RecordError::TooNew { .. } | RecordError::File(_))) => {
            SavedStateFile::Unusable(error.to_string())
        }
    }
}

/// Moves a damaged state file to another name.
///
/// # Errors
///
/// [`FileError`]; the file was not moved.
pub fn set_aside(dir: &Path, why: String) -> Result<SetAside, FileError> {
    let path = dir.join(FILE);
    let kept_as = file::set_aside(&path, dir, &format!("{DAMAGED_PREFIX}{}", clock::now().0))?;
    Ok(SetAside { path, kept_as, why })
}

/// Returns the damaged files that were set aside in a pane's directory, sorted by name.
#[must_use]
pub fn list_set_aside(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(DAMAGED_PREFIX))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Replaces the state in a pane's directory. The caller has checked the existing file.
///
/// # Errors
///
/// [`FileError`].
pub fn write(dir: &Path, state: &SavedState) -> Result<(), FileError> {
    // Not synced: after a power loss an older state is as good as the latest.
    record::write(&dir.join(FILE), state, Durability::ProcessCrash)
}
