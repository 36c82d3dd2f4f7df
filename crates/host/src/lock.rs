//! Advisory file locks, which the kernel releases when their holder ends for any reason.
//!
//! A keeper holds the lock on its pane's directory while it lives. The daemon takes the lock before
//! it starts the keeper and passes the descriptor as the keeper's standard input, so a starting pane
//! is never mistaken for a dead one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::file::{FileError, NONBLOCK};

/// An exclusive lock, held until dropped.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Lock(File);

impl Lock {
    /// Duplicates the descriptor that holds the lock, to pass it to another process.
    ///
    /// # Errors
    ///
    /// Any error of the operating system, such as too many open files.
    pub fn share(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

/// Takes the lock on a directory; `None` if it is held.
///
/// # Errors
///
/// [`FileError`].
pub fn take_dir(dir: &Path) -> Result<Option<Lock>, FileError> {
    let flags = libc::O_DIRECTORY | NONBLOCK;
    take(OpenOptions::new().read(true).custom_flags(flags).open(dir), dir)
}

/// Takes the lock on a file, which is created if it is missing; `None` if it is held.
///
/// # Errors
///
/// [`FileError`].
pub fn take_file(path: &Path) -> Result<Option<Lock>, FileError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600).custom_flags(NONBLOCK);
    take(options.open(path), path)
}

fn take(opened: io::Result<File>, path: &Path) -> Result<Option<Lock>, FileError> {
    let file = opened.map_err(FileError::when("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(FileError::when("lock", path)(error)),
    }
}

/// Returns whether the lock on a directory is held. A missing directory has no lock.
#[must_use]
pub fn is_held(dir: &Path) -> bool {
    matches!(take_dir(dir), Ok(None))
}

/// Returns the process that took the lock on a file, as the kernel lists it; `None` if the lock is
/// free or was taken outside of this pid namespace.
#[must_use]
pub fn holder(path: &Path) -> Option<u32> {
    let found = fs::metadata(path).ok()?;
    let id = format!(
        "{:02x}:{:02x}:{}",
        rustix::fs::major(found.dev()),
        rustix::fs::minor(found.dev()),
        found.ino()
    );
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let of_file = |line: &&str| line.contains(" FLOCK ") && line.split(' ').any(|word| word == id);
    let line = locks.lines().find(of_file)?;
    line.split_whitespace().nth(4)?.parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_held_until_last_descriptor_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let lock = take_dir(dir.path()).unwrap().expect("the lock is free");
        let shared = lock.share().unwrap();

        drop(lock);
        assert!(is_held(dir.path()));
        assert_eq!(holder(dir.path()), Some(std::process::id()));
        drop(shared);
        assert!(!is_held(dir.path()));
    }
}
