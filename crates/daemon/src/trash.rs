//! The trash: directories are moved there at once and deleted after the retention period.
//!
//! An entry is named `<since>-<kind>-<id>`: the start of its retention period in milliseconds since
//! 1970, the kind of directory, and the id of its pane or session. Entries with another name, and
//! entries that are not a directory of this user, were not put there by ccmux and are never touched.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use host::clock;
use host::file::{self, FileError};
use model::event::EventBody;
use tracing::warn;

use crate::registry::Registry;

/// The start of the retention period of an entry that may be deleted at once.
const DUE: i64 = 0;

/// Moves a directory to the trash, durably. Returns its new path, or `None` if it does not exist.
///
/// # Errors
///
/// [`FileError`]; the directory was then not moved.
pub(crate) fn retire(
    dir: &Path,
    trash: &Path,
    kind: &str,
    id: impl Display,
) -> Result<Option<PathBuf>, FileError> {
    let moved = retire_unsynced(dir, trash, kind, id)?;
    if moved.is_some() {
        file::sync_dir(trash)?;
        if let Some(parent) = dir.parent() {
            file::sync_dir(parent)?;
        }
    }
    Ok(moved)
}

/// Like [`retire`], but a power loss may undo the move.
///
/// # Errors
///
/// [`FileError`]; the directory was then not moved.
pub(crate) fn retire_unsynced(
    dir: &Path,
    trash: &Path,
    kind: &str,
    id: impl Display,
) -> Result<Option<PathBuf>, FileError> {
    let stem = format!("{}-{kind}-{id}", clock::now().0);
    match file::set_aside(dir, trash, &stem) {
        Ok(moved) => Ok(Some(moved)),
        // The same error is returned if the trash is missing, which is a failure.
        Err(error) if error.source.kind() == io::ErrorKind::NotFound && is_missing(dir) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes an entry of the trash due for deletion, and returns its new path.
///
/// # Errors
///
/// [`FileError`]; the entry keeps its name.
pub(crate) fn make_due(entry: &Path) -> Result<PathBuf, FileError> {
    let name = entry.file_name().unwrap_or_default().to_string_lossy();
    let rest = name.split_once('-').map_or(&*name, |(_, rest)| rest);
    let stem = format!("{DUE}-{rest}");
    file::set_aside(entry, entry.parent().unwrap_or(Path::new("/")), &stem)
}

fn is_missing(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// The suffix of the marker file beside a directory that outlives its pane.
pub(crate) const KEPT_SUFFIX: &str = ".kept";

/// Marks a directory of a closed pane to be kept.
///
/// # Errors
///
/// [`FileError`].
pub(crate) fn mark_kept(dir: &Path) -> Result<(), FileError> {
    let marker = kept_marker(dir);
    let text = format!("kept when its pane was closed, {}\n", clock::now());
    // Only the name counts, so a partly written marker is valid and no rename is needed.
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&marker);
    let written = created.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    match written {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(FileError::when("write", &marker)(error))
        }
        _ => dir.parent().map_or(Ok(()), file::sync_dir),
    }
}

/// Returns the path of the marker that keeps a directory. It need not exist.
pub(crate) fn kept_marker(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(KEPT_SUFFIX);
    dir.with_file_name(name)
}

/// A path that could not be removed.
#[derive(Debug)]
pub(crate) struct RemovalFailure {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

/// Logs and records an event for each path that could not be removed.
pub(crate) async fn report_removal_failures(registry: &Registry, failures: Vec<RemovalFailure>) {
    for RemovalFailure { path, why } in failures {
        warn!(path = %path.display(), %why, "path not removed");
        let path = path.to_string_lossy().into_owned();
        registry.record(EventBody::CleanupFailed { path, why }).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn retire_moves_the_whole_directory_and_ignores_a_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        let (pane, trash) = (dir.path().join("pane"), dir.path().join("trash"));
        fs::create_dir_all(pane.join("workspace")).unwrap();
        fs::create_dir(&trash).unwrap();

        let moved = retire(&pane, &trash, "pane", ID).unwrap().unwrap();
        let again = retire(&pane, &trash, "pane", ID).unwrap();

        assert!(moved.join("workspace").is_dir() && !pane.exists());
        assert_eq!(again, None);
    }

    #[test]
    fn make_due_dates_the_entry_1970() {
        let dir = tempfile::tempdir().unwrap();
        let (pane, trash) = (dir.path().join("pane"), dir.path().join("trash"));
        fs::create_dir(&pane).unwrap();
        fs::create_dir(&trash).unwrap();
        let moved = retire(&pane, &trash, "pane", ID).unwrap().unwrap();

        let due = make_due(&moved).unwrap();

        assert_eq!(due, trash.join(format!("0-pane-{ID}")));
        assert!(due.is_dir() && !moved.exists());
    }

    #[test]
    fn retire_without_a_trash_directory_fails_and_moves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (pane, trash) = (dir.path().join("pane"), dir.path().join("trash"));
        fs::create_dir(&pane).unwrap();

        let error = retire(&pane, &trash, "pane", ID).unwrap_err();

        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
        assert!(pane.is_dir());
    }

    #[test]
    fn mark_kept_twice_creates_one_marker_beside_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let pane = dir.path().join("pane-x");
        fs::create_dir(&pane).unwrap();

        mark_kept(&pane).unwrap();
        mark_kept(&pane).unwrap();

        assert_eq!(kept_marker(&pane), dir.path().join("pane-x.kept"));
        assert!(fs::read_to_string(kept_marker(&pane)).unwrap().starts_with("kept when"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
