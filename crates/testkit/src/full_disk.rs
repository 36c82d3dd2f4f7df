//! A small disk that a test can fill.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::mount::Mount;

/// A small file system in a temporary directory, unmounted when dropped.
///
/// Mounting needs [`Capability::Mount`](crate::Capability::Mount).
#[derive(Debug)]
pub struct FullDisk {
    // Dropped before the directory that it is mounted at.
    _mount: Mount,
    dir: tempfile::TempDir,
}

impl FullDisk {
    /// Mounts an empty disk of `bytes`.
    ///
    /// # Panics
    ///
    /// When it cannot be mounted.
    #[must_use]
    #[track_caller]
    pub fn mount(bytes: u64) -> Self {
        let dir = tempfile::Builder::new().prefix("cxd").tempdir_in("/tmp").expect("a directory");
        match Mount::tmpfs(dir.path(), &bytes.to_string()) {
            Ok(mount) => Self { _mount: mount, dir },
            Err(error) => panic!("cannot mount a disk at {}: {error}", dir.path().display()),
        }
    }

    /// Returns its mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Fills it completely.
    ///
    /// # Panics
    ///
    /// When writing fails for another reason than a full disk.
    pub fn fill(&self) {
        let mut filler = File::options()
            .create(true)
            .append(true)
            .open(self.filler())
            .expect("a file on the disk can be opened");
        let block = [0; 4096];
        loop {
            match filler.write(&block) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return,
                Err(error) => panic!("cannot fill the disk: {error}"),
            }
        }
    }

    /// Returns the number of bytes that can still be written.
    ///
    /// # Panics
    ///
    /// When the disk cannot be examined.
    #[must_use]
    pub fn available(&self) -> u64 {
        let found = rustix::fs::statvfs(self.path()).expect("the disk is mounted");
        found.f_bavail.saturating_mul(found.f_frsize)
    }

    /// Frees the space that [`FullDisk::fill`] used.
    pub fn free(&self) {
        // Missing if the disk was not filled.
        let _absent = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.path().join(".filler")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_disk_refuses_writes_until_freed() {
        crate::require!(Mount);
        let disk = FullDisk::mount(1 << 20);
        let write = || {
            File::create(disk.path().join("file")).and_then(|mut file| file.write_all(&[1; 9000]))
        };

        disk.fill();
        let refused = write().unwrap_err();
        disk.free();

        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        write().unwrap();
    }

    #[test]
    fn dropped_disk_is_unmounted() {
        crate::require!(Mount);
        let disk = FullDisk::mount(1 << 20);
        let path = disk.path().to_owned();

        drop(disk);

        assert!(!path.exists());
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(path.to_str().unwrap()), "{mounts}");
    }
}
