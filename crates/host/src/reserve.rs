//! Disk space reserved for cleanup.
//!
//! Removing a pane writes to the registry, so a full disk could not be freed. A file of a few
//! megabytes is kept in the state root and deleted when the disk is full and something is about to
//! be cleaned up, or when the daemon starts.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::StateRoot;

/// Size of the file: enough for the registry to record the removal of thousands of panes.
const SIZE: u64 = 4 << 20;

/// The file is only created if the disk has this many times its size.
const ROOM: u64 = 2;

/// The reserved space of a state root.
#[derive(Clone, Debug)]
pub struct DiskReserve(PathBuf);

impl DiskReserve {
    /// Returns the reserve of a state root, which need not exist.
    #[must_use]
    pub fn of(root: &StateRoot) -> Self {
        Self(root.run().join("reserve"))
    }

    /// Frees the reserved space if the disk is full. Does nothing if it is freed already.
    pub fn release_if_full(&self) {
        if self.available().is_ok_and(|bytes| bytes < SIZE) {
            // Missing, or the disk is read-only: the cleanup itself will report that.
            let _freed = fs::remove_file(&self.0);
        }
    }

    /// Reserves the space again if the disk has room.
    ///
    /// # Errors
    ///
    /// Any error of the operating system; no space is reserved then.
    pub fn replenish(&self) -> io::Result<()> {
        if self.0.exists() || self.available()? < ROOM * SIZE {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.0)?;
        let reserved = fallocate(&file, FallocateFlags::empty(), 0, SIZE);
        if reserved.is_err() {
            // An empty file reserves nothing.
            fs::remove_file(&self.0)?;
        }
        Ok(reserved?)
    }

    /// Returns the number of bytes that the user can still write.
    fn available(&self) -> io::Result<u64> {
        let dir = self.0.parent().unwrap_or(&self.0);
        let found = statvfs(dir)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_is_created_once_and_kept_while_the_disk_has_room() {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("state")).unwrap();
        let reserve = DiskReserve::of(&root);

        reserve.replenish().unwrap();
        reserve.replenish().unwrap();
        reserve.release_if_full();

        assert_eq!(fs::metadata(root.run().join("reserve")).unwrap().len(), SIZE);
    }
}
