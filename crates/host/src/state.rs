//! `session.state` on disk: read, checked, set aside when it is damaged, and written.

use std::fs;
use std::path::{Path, PathBuf};

use model::state::{FILE, SavedState};
use model::{PaneId, SessionId};

use crate::clock;
use crate::file::{self, FileError, Survive};
use crate::record::{self, RecordError};
use crate::store::SetAside;

/// What the names of those begin with that were set aside.
const DAMAGED: &str = "session.state.damaged-";

/// What is in a pane's directory.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// The state of this pane.
    Own(Box<SavedState>),
    /// Something that is not the state of this pane, and why.
    Damaged(String),
    /// Something that we may neither use nor replace, and why.
    Untouchable(String),
}

/// Looks at the state in a pane's directory. Changes nothing.
#[must_use]
pub fn look(dir: &Path, pane: PaneId, session: SessionId) -> Found {
    match record::read::<SavedState>(&dir.join(FILE)) {
        Ok(state) if state.is_of(pane, session) => Found::Own(Box::new(state)),
        Ok(state) => Found::Damaged(format!("it is the state of pane {}", state.pane)),
        Err(RecordError::Missing(_)) => Found::Nothing,
        Err(RecordError::Damaged { why, .. }) => Found::Damaged(why),
        Err(error @ (RecordError::TooNew { .. } | RecordError::File(_))) => {
            Found::Untouchable(error.to_string())
        }
    }
}

/// Moves a damaged state out of the way, never to be read or written again.
///
/// # Errors
///
/// [`FileError`]; it is then where it was.
pub fn set_aside(dir: &Path, why: String) -> Result<SetAside, FileError> {
    let path = dir.join(FILE);
    let kept_as = file::set_aside(&path, dir, &format!("{DAMAGED}{}", clock::now().0))?;
    Ok(SetAside { path, kept_as, why })
}

/// Those that were set aside in a pane's directory, in order of name.
#[must_use]
pub fn aside(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(DAMAGED))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Replaces the state in a pane's directory. What is there was looked at before.
///
/// # Errors
///
/// [`FileError`].
pub fn write(dir: &Path, state: &SavedState) -> Result<(), FileError> {
    // Not synced: after a power loss an older one is as good as the newest.
    record::write(&dir.join(FILE), state, Survive::Kill)
}
