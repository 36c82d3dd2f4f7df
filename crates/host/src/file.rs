//! Whole files and directories, made so that a crash leaves the old one or the new one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the operating system refused, and where.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`: {source}", path.display())]
pub struct FileError {
    /// What was being done, as a verb phrase.
    pub action: &'static str,
    /// The file or directory concerned.
    pub path: PathBuf,
    /// The system's answer.
    pub source: io::Error,
}

impl FileError {
    /// For `map_err`: what was being done, and to which path.
    pub fn when(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { action, path, source }
    }

    /// Whether there is no room left to write to.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// How much a write must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survive {
    /// The death of every process: the bytes are with the kernel.
    Kill,
    /// The death of the machine: the bytes are on the disk.
    PowerLoss,
}

/// Replaces the file at `path` by one with these bytes, readable by its owner alone.
///
/// # Errors
///
/// [`FileError`]; the previous file is then still in place.
pub fn write_atomic(path: &Path, bytes: &[u8], survive: Survive) -> Result<(), FileError> {
    let fail = || FileError::when("write", path);
    let beside = beside(path);
    let written = create_new(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        if survive == Survive::PowerLoss { file.sync_all() } else { Ok(()) }
    });
    if let Err(error) = written.and_then(|()| fs::rename(&beside, path)) {
        // The half-written file is of no use, and its removal cannot make things worse.
        let _leftover = fs::remove_file(&beside);
        return Err(fail()(error));
    }
    match (survive, path.parent()) {
        (Survive::PowerLoss, Some(parent)) if parent.as_os_str().is_empty() => {
            sync_dir(Path::new("."))
        }
        (Survive::PowerLoss, Some(parent)) => sync_dir(parent),
        _ => Ok(()),
    }
}

/// A name that no other writer uses, next to `path` so that the rename stays on one file system.
fn beside(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{count}.new", std::process::id()));
    path.with_file_name(name)
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Makes the bytes of a file survive the death of the machine; fine if there is none.
///
/// # Errors
///
/// [`FileError`].
pub fn sync(path: &Path) -> Result<(), FileError> {
    match sync_dir(path) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}

/// Makes the entries of a directory survive the death of the machine.
///
/// # Errors
///
/// [`FileError`].
pub fn sync_dir(dir: &Path) -> Result<(), FileError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(FileError::when("sync", dir))
}

/// Makes a directory for its owner alone, whatever the umask; fine if it is there.
///
/// # Errors
///
/// [`FileError`], also if something else has that name.
pub fn make_dir(path: &Path) -> Result<(), FileError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = fs::symlink_metadata(path).map_err(FileError::when("look at", path))?;
            if found.is_dir() { Ok(()) } else { Err(FileError::when("make", path)(error)) }
        }
        Err(error) => Err(FileError::when("make", path)(error)),
    }
}

/// Opens a file for appending, readable by its owner alone.
///
/// # Errors
///
/// [`FileError`].
pub fn open_append(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(FileError::when("open", path))
}

/// Moves `path` to a free name under `to_dir`, beginning with `stem`, and returns where it is now.
///
/// # Errors
///
/// [`FileError`]; nothing was moved then.
pub fn set_aside(path: &Path, to_dir: &Path, stem: &str) -> Result<PathBuf, FileError> {
    let target = (0_u32..)
        .map(|n| to_dir.join(if n == 0 { stem.to_owned() } else { format!("{stem}.{n}") }))
        .find(|candidate| fs::symlink_metadata(candidate).is_err())
        .expect("fewer files exist than there are numbers");
    fs::rename(path, &target).map_err(FileError::when("move", path))?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_replaced_file_is_whole_private_and_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");

        write_atomic(&path, b"one", Survive::PowerLoss).unwrap();
        write_atomic(&path, b"two", Survive::Kill).unwrap();

        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_names_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing").join("record");

        let error = write_atomic(&path, b"one", Survive::Kill).unwrap_err();

        assert!(error.to_string().contains("missing/record"), "{error}");
    }

    #[test]
    fn what_is_set_aside_never_replaces_anything() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["one", "two"] {
            let path = dir.path().join("db");
            write_atomic(&path, text.as_bytes(), Survive::Kill).unwrap();
            set_aside(&path, dir.path(), "db.damaged").unwrap();
        }

        assert_eq!(fs::read(dir.path().join("db.damaged")).unwrap(), b"one");
        assert_eq!(fs::read(dir.path().join("db.damaged.1")).unwrap(), b"two");
    }
}
