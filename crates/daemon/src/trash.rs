//! Retired directories: moved out of the way at once, deleted days later.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host::clock;
use host::file::{self, FileError, Survive};
use model::Timestamp;
use tracing::{info, warn};

use crate::supervisor::{Supervisor, run_blocking};

/// How long a retired directory is kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often the trash is looked through.
const EVERY: Duration = Duration::from_secs(6 * 3600);

/// Moves a directory to the trash, durably. One that is not there needs no moving.
///
/// # Errors
///
/// [`FileError`]; it is then where it was.
pub(crate) fn retire(
    dir: &Path,
    trash: &Path,
    kind: &str,
    id: impl Display,
) -> Result<Option<PathBuf>, FileError> {
    let stem = format!("{}-{kind}-{id}", clock::now().0);
    let moved = match file::set_aside(dir, trash, &stem) {
        Ok(moved) => moved,
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    file::sync_dir(trash)?;
    if let Some(parent) = dir.parent() {
        file::sync_dir(parent)?;
    }
    Ok(Some(moved))
}

/// What the name of the mark beside a directory that is to stay ends with.
pub(crate) const KEPT_MARK: &str = ".kept";

/// Marks a directory of a closed pane as one that is to stay.
///
/// # Errors
///
/// [`FileError`].
pub(crate) fn mark_kept(dir: &Path) -> Result<(), FileError> {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(KEPT_MARK);
    let why = format!("kept when its pane was closed, {}\n", clock::now());
    file::write_atomic(&dir.with_file_name(name), why.as_bytes(), Survive::PowerLoss)
}

impl Supervisor {
    /// Empties the trash of what is old enough, now and from time to time.
    pub(crate) async fn sweep_trash(self: Arc<Self>) {
        loop {
            let trash = self.root.trash();
            run_blocking(move || sweep(&trash, clock::now())).await;
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }
}

fn sweep(trash: &Path, now: Timestamp) {
    for entry in fs::read_dir(trash).into_iter().flatten().flatten() {
        let path = entry.path();
        if !is_due(&entry.file_name().to_string_lossy(), now) {
            continue;
        }
        match fs::remove_dir_all(&path) {
            Ok(()) => info!(path = %path.display(), "removed from the trash"),
            Err(error) => warn!(path = %path.display(), %error, "cannot be removed"),
        }
    }
}

/// Whether something that was retired under this name has been kept long enough. What does not say
/// since when it is there is not ours to delete.
fn is_due(name: &str, now: Timestamp) -> bool {
    let kept = i64::try_from(KEPT.as_millis()).expect("a week has few milliseconds");
    let since = name.split_once('-').and_then(|(since, _)| since.parse::<i64>().ok());
    since.is_some_and(|since| now.0.saturating_sub(since) > kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_and_old_enough_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let day = 86_400_000;
        let names = ["1000-pane-a", "864000000-pane-b", "notes", "x-pane-c"];
        for name in names {
            fs::create_dir(dir.path().join(name)).unwrap();
        }

        sweep(dir.path(), Timestamp(8 * day));

        let left = names.map(|name| dir.path().join(name).exists());
        assert_eq!(left, [false, true, true, true]);
    }

    #[test]
    fn a_directory_is_moved_whole_and_a_missing_one_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let (pane, trash) = (dir.path().join("pane"), dir.path().join("trash"));
        fs::create_dir_all(pane.join("workspace")).unwrap();
        fs::create_dir(&trash).unwrap();

        let moved = retire(&pane, &trash, "pane", "x").unwrap().unwrap();
        let again = retire(&pane, &trash, "pane", "x").unwrap();

        assert!(moved.join("workspace").is_dir());
        assert_eq!(again, None);
    }
}
