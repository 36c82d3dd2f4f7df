//! A directory that not even root writes to: read-only in a mount name space of a pane's own (R18).
//!
//! Modes keep everybody but root from writing. For root the directory is mounted onto itself,
//! read-only, where only the pane sees it. It keeps from accidents: whoever is root and wants to
//! write can undo it.
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

use crate::household::Household;
use crate::process;

/// What is to be closed, worked out before the fork.
#[derive(Clone, Debug)]
pub struct Closing {
    dir: CString,
    flags: libc::c_ulong,
}

impl Closing {
    /// Of this directory; none where modes do it, or where there is no such directory.
    #[must_use]
    pub fn of(dir: &Path) -> Option<Self> {
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
        let closed = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        let flags = kept.fold(closed, |all, (_, flag)| all | flag);
        Some(Self { dir: CString::new(dir.as_os_str().as_bytes()).ok()?, flags })
    }

    /// Closes it for this process and those it starts. Called between fork and exec: system calls
    /// and nothing else.
    ///
    /// # Errors
    ///
    /// The system's; not every container lets its root do this.
    pub fn take_on(&self) -> io::Result<()> {
        // SAFETY: it takes a number, and what it parts from is parted from by this process alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // What is mounted outside later on is seen in here, and nothing the other way round: the
        // next mount must not be seen by anybody else.
        mount(None, c"/", libc::MS_REC | libc::MS_SLAVE)?;
        mount(Some(&self.dir), &self.dir, libc::MS_BIND)?;
        mount(None, &self.dir, self.flags)
    }
}

fn mount(from: Option<&CStr>, to: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let from = from.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: both names end with a zero and outlive the call, which may be given none for the
    // others.
    let done = unsafe { libc::mount(from, to.as_ptr(), ptr::null(), flags, ptr::null()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a directory is closed for us.
fn is_closed(dir: &Path) -> bool {
    statvfs(dir).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Whether a process can write to a directory because it is root and nothing was closed for it.
/// False for one that cannot be asked, too.
#[must_use]
pub fn is_open_for(pid: u32, dir: &Path) -> bool {
    let Ok(inside) = dir.strip_prefix("/") else { return false };
    let seen = PathBuf::from(format!("/proc/{pid}/root")).join(inside);
    geteuid().is_root() && seen.is_dir() && !is_closed(&seen)
}

/// Leaves the name space of the pane that we were started in, if it is one in which `dir` is
/// closed: what is ours is not for that pane alone. Whether we did.
///
/// To be called before the process has threads.
///
/// # Errors
///
/// Why we are still in it.
pub fn leave_pane(dir: &Path, household: &Household) -> io::Result<bool> {
    if !geteuid().is_root() || !is_closed(dir) {
        return Ok(false);
    }
    let space = |pid: &u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let ours = space(&std::process::id());
    let mut parents = process::lineage(std::process::id());
    let keeper = parents.find(|pid| household.contains(*pid) && space(pid) != ours);
    let keeper = keeper.ok_or_else(|| io::Error::other("the keeper of the pane is not found"))?;
    let outside = File::open(format!("/proc/{keeper}/ns/mnt"))?;
    let root = File::open(format!("/proc/{keeper}/root"))?;
    move_into_link_name_space(outside.as_fd(), Some(LinkNameSpaceType::Mount))?;
    // We are at the root of everything now, which need not be the root that the keeper sees.
    fchdir(&root)?;
    chroot(c".")?;
    Ok(true)
}
