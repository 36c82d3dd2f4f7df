//! Atomic file replacement, private directories, and the file error type.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Opens a named pipe without waiting for its other end. Regular files ignore it.
pub(crate) const NONBLOCK: i32 = libc::O_NONBLOCK;

/// An operation on a file that the operating system refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`: {source}", path.display())]
pub struct FileError {
    /// The operation, as a verb phrase.
    pub action: &'static str,
    /// The file or directory concerned.
    pub path: PathBuf,
    /// Error of the operating system.
    pub source: io::Error,
}

impl FileError {
    /// Returns a conversion for `map_err` that adds the operation and the path.
    pub fn when(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { action, path, source }
    }

    /// Returns whether the disk or the quota is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// The failure that a write must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of every process: the bytes are in the page cache.
    ProcessCrash,
    /// A power loss: the bytes are on the disk.
    PowerLoss,
}

/// Atomically replaces the file at `path`. The new file is readable by its owner only.
///
/// # Errors
///
/// [`FileError`]; the previous file is kept.
pub fn write_atomic(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), FileError> {
    let fail = || FileError::when("write", path);
    let temporary = temporary_path(path);
    let written = create_new(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        if durability == Durability::PowerLoss { file.sync_all() } else { Ok(()) }
    });
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, path)) {
        // A failing removal cannot make things worse.
        let _leftover = fs::remove_file(&temporary);
        return Err(fail()(error));
    }
    match (durability, path.parent()) {
        (Durability::PowerLoss, Some(parent)) if parent.as_os_str().is_empty() => {
            sync_dir(Path::new("."))
        }
        (Durability::PowerLoss, Some(parent)) => sync_dir(parent),
        _ => Ok(()),
    }
}

/// Returns a unique temporary path next to `path`, so that the rename stays on one file system.
fn temporary_path(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{count}.new", std::process::id()));
    path.with_file_name(name)
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Reads a regular file. Anything else at `path`, such as a named pipe, is an error: opening or
/// reading it could block forever.
///
/// # Errors
///
/// Any error of the operating system.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Syncs a file to the disk; does nothing if it does not exist.
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

/// Syncs the entries of a directory to the disk.
///
/// # Errors
///
/// [`FileError`].
pub fn sync_dir(dir: &Path) -> Result<(), FileError> {
    let opened = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(dir);
    opened.and_then(|dir| dir.sync_all()).map_err(FileError::when("sync", dir))
}

/// Creates a directory with mode 0700; succeeds if it exists.
///
/// # Errors
///
/// [`FileError`], also if the path exists and is not a directory.
pub fn make_dir(path: &Path) -> Result<(), FileError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = fs::symlink_metadata(path).map_err(FileError::when("access", path))?;
            if found.is_dir() { Ok(()) } else { Err(FileError::when("create", path)(error)) }
        }
        Err(error) => Err(FileError::when("create", path)(error)),
    }
}

/// Creates the parents of `at` in `dir`.
///
/// # Errors
///
/// [`FileError`].
pub fn make_parents(dir: &Path, at: &str) -> Result<(), FileError> {
    let mut place = dir.to_owned();
    let parents = Path::new(at).parent().into_iter().flat_map(Path::components);
    for part in parents {
        place.push(part);
        make_dir(&place)?;
    }
    Ok(())
}

/// Opens a file for appending, readable by its owner only.
///
/// # Errors
///
/// [`FileError`].
pub fn open_append(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(NONBLOCK)
        .open(path)
        .map_err(FileError::when("open", path))
}

/// Moves `path` to an unused name in `to_dir` that starts with `stem`, and returns the new path.
///
/// # Errors
///
/// [`FileError`]; the file was not moved.
pub fn set_aside(path: &Path, to_dir: &Path, stem: &str) -> Result<PathBuf, FileError> {
    let target = (0_u32..)
        .map(|n| to_dir.join(if n == 0 { stem.to_owned() } else { format!("{stem}.{n}") }))
        .find(|candidate| fs::symlink_metadata(candidate).is_err())
        .expect("there are more numbers than files");
    fs::rename(path, &target).map_err(FileError::when("move", path))?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn write_atomic_replaces_file_and_leaves_no_temporary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");

        write_atomic(&path, b"one", Durability::PowerLoss).unwrap();
        write_atomic(&path, b"two", Durability::ProcessCrash).unwrap();

        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn write_atomic_failure_names_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing").join("record");

        let error = write_atomic(&path, b"one", Durability::ProcessCrash).unwrap_err();

        assert!(error.to_string().contains("missing/record"), "{error}");
    }

    #[test]
    fn named_pipe_is_an_error_and_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();

        assert_eq!(read_regular(&path).unwrap_err().to_string(), "not a regular file");
        assert!(open_append(&path).is_err());
        assert!(sync(&path).is_err());
        assert!(crate::lock::take_file(&path).is_err());
        assert!(!crate::lock::is_held(&path));
    }

    #[test]
    fn set_aside_never_replaces_a_file() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["one", "two"] {
            let path = dir.path().join("db");
            write_atomic(&path, text.as_bytes(), Durability::ProcessCrash).unwrap();
            set_aside(&path, dir.path(), "db.damaged").unwrap();
        }

        assert_eq!(fs::read(dir.path().join("db.damaged")).unwrap(), b"one");
        assert_eq!(fs::read(dir.path().join("db.damaged.1")).unwrap(), b"two");
    }
}
