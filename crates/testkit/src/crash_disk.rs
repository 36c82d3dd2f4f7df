//! A disk whose power can be cut.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::ioctl::{Setter, ioctl};

use crate::wait::wait_until;

/// `FS_IOC_SHUTDOWN`: stops a file system at once.
const SHUTDOWN: u32 = 0x8004_587d;

/// The journal is not written either: only synced data stays, as after a power cut.
const WITHOUT_JOURNAL: u32 = 2;

/// Deadline for the processes that use the disk to be gone.
const DEADLINE: Duration = Duration::from_secs(30);

/// An ext4 file system in a file, unmounted when dropped.
///
/// Mounting needs [`Capability::LoopMount`](crate::Capability::LoopMount).
#[derive(Debug)]
pub struct CrashDisk {
    dir: tempfile::TempDir,
}

impl CrashDisk {
    /// Creates and mounts an empty disk of `bytes`.
    ///
    /// # Errors
    ///
    /// The message of the program that failed.
    pub fn mount(bytes: u64) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let dir = tempfile::Builder::new().prefix("cxp").tempdir_in("/tmp").map_err(text)?;
        let disk = Self { dir };
        File::create(disk.image()).and_then(|file| file.set_len(bytes)).map_err(text)?;
        std::fs::create_dir(disk.path()).map_err(text)?;
        run("mkfs.ext4", &[Path::new("-q"), &disk.image()])?;
        disk.attach()?;
        Ok(disk)
    }

    /// Returns its mount point.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    /// Cuts the power: nothing is written from now on, and what was not synced is lost.
    ///
    /// # Panics
    ///
    /// When the file system cannot be stopped.
    pub fn cut_power(&self) {
        let disk = File::open(self.path()).expect("the disk is mounted");
        #[expect(unsafe_code, reason = "rustix has no wrapper for this request")]
        // SAFETY: the request reads one `u32`, as its definition in the kernel says.
        let stopped = unsafe { ioctl(&disk, Setter::<SHUTDOWN, u32>::new(WITHOUT_JOURNAL)) };
        stopped.expect("ext4 can be shut down");
    }

    /// Mounts it again after the power was cut and all processes that used it have ended.
    ///
    /// # Panics
    ///
    /// When it is still in use, or cannot be mounted.
    pub fn restore_power(&self) {
        wait_until("the disk is unmounted", DEADLINE, || run("umount", &[&self.path()]).is_ok());
        // Panes can have mount namespaces, whose mounts end shortly after their processes.
        wait_until("the disk is unused", DEADLINE, || self.is_detached());
        self.attach().expect("the disk can be mounted again");
    }

    fn is_detached(&self) -> bool {
        let devices = Command::new("losetup").arg("-j").arg(self.image()).output();
        devices.is_ok_and(|devices| devices.stdout.is_empty())
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn attach(&self) -> Result<(), String> {
        run("mount", &[Path::new("-o"), Path::new("loop"), &self.image(), &self.path()])
    }
}

impl Drop for CrashDisk {
    fn drop(&mut self) {
        // Detached, because a process under test may still use it.
        let _not_mounted = run("umount", &[Path::new("-l"), &self.path()]);
    }
}

fn run(program: &str, args: &[&Path]) -> Result<(), String> {
    let done = Command::new(program).args(args).output();
    let done = done.map_err(|error| format!("cannot run {program}: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(format!("{program}: {}", said.trim())) }
}
