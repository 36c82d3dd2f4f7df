//! Something mounted where a test wants it, unmounted when dropped.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

/// A mount of a test's own.
#[derive(Debug)]
#[must_use = "it is unmounted when this is dropped"]
pub struct Mount {
    at: PathBuf,
}

impl Mount {
    /// An empty file system at `dir`, or `None` where this user may not mount.
    pub fn empty(dir: &Path) -> Option<Self> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", dir, "tmpfs", flags, c"size=64k,mode=0700").ok()?;
        Some(Self { at: dir.to_owned() })
    }

    /// Makes `dir` one that not even root can write to, or `None` where this user may not mount.
    pub fn read_only(dir: &Path) -> Option<Self> {
        mount_bind(dir, dir).ok()?;
        let mounted = Self { at: dir.to_owned() };
        mount_remount(dir, MountFlags::BIND | MountFlags::RDONLY, c"").ok()?;
        Some(mounted)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Detached, because a process under test may still look at it.
        let _still_there = unmount(&self.at, UnmountFlags::DETACH);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_mounted_is_there_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        // Who may not mount has nothing to show.
        let Some(mounted) = Mount::read_only(dir.path()) else { return };

        let refused = fs::create_dir(dir.path().join("x"));
        drop(mounted);

        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        fs::create_dir(dir.path().join("x")).unwrap();
    }
}
