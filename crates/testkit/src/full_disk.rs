//! A small disk of its own, to be filled.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A mounted file system with little room, unmounted when dropped.
#[derive(Debug)]
pub struct FullDisk {
    dir: tempfile::TempDir,
}

impl FullDisk {
    /// Mounts a disk of `bytes`, or says `None` where this user may not mount.
    ///
    /// # Panics
    ///
    /// When no temporary directory can be made.
    #[must_use]
    pub fn mount(bytes: u64) -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("cxd").tempdir_in("/tmp").expect("a directory");
        let options = std::ffi::CString::new(format!("size={bytes},mode=0700")).ok()?;
        mount("tmpfs", dir.path(), "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, &*options)
            .ok()?;
        Some(Self { dir })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Fills it to the last byte.
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

    /// Gives the room back that [`FullDisk::fill`] took.
    pub fn make_room(&self) {
        // Nothing was filled: there is room already.
        let _absent = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.path().join(".filler")
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        // Detached, because a process under test may still have its working directory there. If it
        // fails, the directory stays, which is the visible trace one wants.
        let _still_there = unmount(self.dir.path(), UnmountFlags::DETACH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_disk_takes_no_more_and_a_cleared_one_does() {
        // Who may not mount has no such disk; there is nothing to show then.
        let Some(disk) = FullDisk::mount(1 << 20) else { return };
        let write = || {
            File::create(disk.path().join("file")).and_then(|mut file| file.write_all(&[1; 9000]))
        };

        disk.fill();
        let refused = write().unwrap_err();
        disk.make_room();

        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        write().unwrap();
    }

    #[test]
    fn a_dropped_disk_leaves_no_mount() {
        let Some(disk) = FullDisk::mount(1 << 20) else { return };
        let path = disk.path().to_owned();

        drop(disk);

        assert!(!path.exists());
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(path.to_str().unwrap()), "{mounts}");
    }
}
