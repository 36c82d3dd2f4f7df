//! Read-only bind mount of the shared directory in the mount namespace of a pane (R18).
//!
//! File modes stop every user but root. For root the directory is mounted read-only onto itself in
//! a namespace that only the pane sees. This protects from accidents, not from a root user who undoes
//! the mount.
#![expect(unsafe_code, reason = "mounting between fork and exec has no safe form")]

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{chroot, fchdir, geteuid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::own_processes::OwnProcesses;
use crate::process;

/// A read-only mount, prepared before the fork.
#[derive(Clone, Debug)]
pub struct ReadOnlyMount {
    dir: CString,
    flags: libc::c_ulong,
}

impl ReadOnlyMount {
    /// Prepares the mount of a directory; `None` if file modes suffice or it does not exist.
    #[must_use]
    pub fn prepare(dir: &Path) -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let has = statvfs(dir).ok()?.f_flag;
        let kept = [
            (StatVfsMountFlags::NOSUID, libc::MS_NOSUID),
            (StatVfsMountFlags::NODEV, libc::MS_NODEV),
            (StatVfsMountFlags::NOEXEC, libc::MS_NOEXEC),
            (StatVfsMountFlags::NOATIME, libc::MS_NOATIME),
        ];
        let kept = kept.into_iter().filter(|(flag, _)| has.contains(*flag));
        let read_only = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        let flags = kept.fold(read_only, |all, (_, flag)| all | flag);
        Some(Self { dir: CString::new(dir.as_os_str().as_bytes()).ok()?, flags })
    }

    /// Mounts the directory read-only for this process and its children. Called between fork and
    /// exec: makes system calls only.
    ///
    /// # Errors
    ///
    /// Any error of the operating system; some containers do not permit mounts.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: the call takes a number and changes the namespace of this process only.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // Later mounts outside remain visible here, but mounts here are not visible outside.
        mount(None, c"/", libc::MS_REC | libc::MS_SLAVE)?;
        mount(Some(&self.dir), &self.dir, libc::MS_BIND)?;
        mount(None, &self.dir, self.flags)
    }
}

fn mount(from: Option<&CStr>, to: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let from = from.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: both paths are NUL-terminated and outlive the call; null is allowed for the other
    // arguments.
    let done = unsafe { libc::mount(from, to.as_ptr(), ptr::null(), flags, ptr::null()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether a directory is mounted read-only for this process.
fn is_read_only(dir: &Path) -> bool {
    statvfs(dir).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Returns whether a process can write to a directory because it is root and has no read-only mount.
/// Also false if the process cannot be inspected.
#[must_use]
pub fn is_writable_for(pid: u32, dir: &Path) -> bool {
    let Ok(inside) = dir.strip_prefix("/") else { return false };
    let seen = PathBuf::from(format!("/proc/{pid}/root")).join(inside);
    geteuid().is_root() && seen.is_dir() && !is_read_only(&seen)
}

/// Leaves the mount namespace of the pane in which this process was started, if `dir` is read-only
/// there: the daemon serves all panes. Returns whether it did.
///
/// Must be called before the process has threads.
///
/// # Errors
///
/// The reason why the process is still in the namespace.
pub fn leave_pane_namespace(dir: &Path, own: &OwnProcesses) -> io::Result<bool> {
    if !geteuid().is_root() || !is_read_only(dir) {
        return Ok(false);
    }
    let space = |pid: &u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let current = space(&std::process::id());
    let mut parents = process::ancestors(std::process::id());
    let keeper = parents.find(|pid| own.contains(*pid) && space(pid) != current);
    let keeper = keeper.ok_or_else(|| io::Error::other("keeper of the pane not found"))?;
    let outside = File::open(format!("/proc/{keeper}/ns/mnt"))?;
    let root = File::open(format!("/proc/{keeper}/root"))?;
    move_into_link_name_space(outside.as_fd(), Some(LinkNameSpaceType::Mount))?;
    // The root is now that of the namespace, which may differ from the keeper's root.
    fchdir(&root)?;
    chroot(c".")?;
    Ok(true)
}
