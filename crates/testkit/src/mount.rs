//! Mounts that last as long as a test.

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

/// A mounted file system, unmounted when dropped.
///
/// Mounting needs [`Capability::Mount`](crate::Capability::Mount).
#[derive(Debug)]
#[must_use = "it is unmounted when this is dropped"]
pub struct Mount {
    at: PathBuf,
}

impl Mount {
    /// Mounts an empty tmpfs of `size` (`64k`, `24m`) at `dir`.
    ///
    /// # Errors
    ///
    /// The error of `mount(2)`.
    pub fn tmpfs(dir: &Path, size: &str) -> io::Result<Self> {
        let options = CString::new(format!("size={size},mode=0700")).map_err(io::Error::other)?;
        mount("tmpfs", dir, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, &*options)?;
        Ok(Self { at: dir.to_owned() })
    }

    /// Makes `dir` read-only, for root too.
    ///
    /// # Errors
    ///
    /// The error of `mount(2)`.
    pub fn read_only(dir: &Path) -> io::Result<Self> {
        mount_bind(dir, dir)?;
        let mounted = Self { at: dir.to_owned() };
        mount_remount(dir, MountFlags::BIND | MountFlags::RDONLY, c"")?;
        Ok(mounted)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Detached, because a process under test may still use it. If this fails, the mount stays
        // visible, which is the trace a developer needs.
        let _still_mounted = unmount(&self.at, UnmountFlags::DETACH);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn read_only_mount_dropped_makes_directory_writable_again() {
        crate::require!(Mount);
        let dir = tempfile::tempdir().unwrap();
        let mounted = Mount::read_only(dir.path()).unwrap();

        let refused = fs::create_dir(dir.path().join("x"));
        drop(mounted);

        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
        fs::create_dir(dir.path().join("x")).unwrap();
    }
}
