//! Locks that the kernel lets go of when their holder dies, however it dies.
//!
//! A keeper holds the lock on its pane's directory for as long as it lives. The daemon takes that
//! lock before it starts the keeper and hands the descriptor over as the keeper's standard input,
//! so there is no moment at which a starting pane could be taken for a dead one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::file::FileError;

/// A lock that was free and is held until dropped.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Lock(File);

impl Lock {
    /// The descriptor that holds the lock, to be handed to another process.
    ///
    /// # Errors
    ///
    /// The system's, when there is no descriptor left.
    pub fn share(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

/// Takes the lock on a directory; none if somebody has it.
///
/// # Errors
///
/// [`FileError`].
pub fn take_dir(dir: &Path) -> Result<Option<Lock>, FileError> {
    take(File::open(dir), dir)
}

/// Takes the lock on a file, which is made if it is not there; none if somebody has it.
///
/// # Errors
///
/// [`FileError`].
pub fn take_file(path: &Path) -> Result<Option<Lock>, FileError> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    take(open, path)
}

fn take(opened: io::Result<File>, path: &Path) -> Result<Option<Lock>, FileError> {
    let file = opened.map_err(FileError::when("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(FileError::when("lock", path)(error)),
    }
}

/// Whether somebody holds the lock on a directory. A directory that is not there has no holder.
#[must_use]
pub fn is_held(dir: &Path) -> bool {
    matches!(take_dir(dir), Ok(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_its_last_descriptor_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let lock = take_dir(dir.path()).unwrap().expect("nobody has it");
        let shared = lock.share().unwrap();

        drop(lock);
        assert!(is_held(dir.path()));
        drop(shared);
        assert!(!is_held(dir.path()));
    }
}
