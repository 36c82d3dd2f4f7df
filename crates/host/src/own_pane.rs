//! The pane that this process runs in, established without a daemon.
//!
//! The rule is that of [`crate::ancestry`]: the chain of parents decides, never a variable.
//! A keeper is recognised by its command line and its working directory, which is the directory of
//! its pane also after the state root was moved.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use model::PaneId;
use rustix::net::sockopt::socket_peercred;

use crate::ancestry::{self, AncestorCache, KnownPanes, PeerOrigin, UnknownReason};
use crate::own_processes::OwnProcesses;
use crate::proc_file;
use crate::root_identity::same_dir;

/// Where a process of this state root runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnPane {
    /// Outside of all panes of the state root.
    Outside,
    /// In a pane.
    Inside {
        /// The pane.
        pane: PaneId,
        /// Its keeper, unless that has ended.
        keeper: Option<NearestKeeper>,
    },
    /// The chain of parents could not be established.
    Unknown(UnknownReason),
}

/// A keeper among the ancestors of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestKeeper {
    /// Its process.
    pub pid: u32,
    /// The directory of its pane, which contains its socket.
    pub dir: PathBuf,
}

/// Returns the pane of the state root `home` that this process runs in.
#[must_use]
pub fn of_this_process(home: &Path) -> OwnPane {
    if !home.is_dir() {
        return OwnPane::Outside;
    }
    let nearest = RefCell::new(None);
    let keeper = |pid, _start| {
        let dir = pane_dir_of_keeper(pid)?;
        let pane = pane_in(&dir, home)?;
        nearest.replace(Some(NearestKeeper { pid, dir }));
        Some(pane)
    };
    let known = KnownPanes {
        keeper: &keeper,
        session: &|_| None,
        own: &OwnProcesses::of_root(&home.to_string_lossy()),
        cache: &AncestorCache::default(),
    };
    match ancestry::of_pid(std::process::id(), &known) {
        PeerOrigin::Outside => OwnPane::Outside,
        // The environment or the control group may name a pane of another state root.
        PeerOrigin::Inside(pane) if !has_pane(home, pane) => OwnPane::Outside,
        PeerOrigin::Inside(pane) => OwnPane::Inside { pane, keeper: nearest.take() },
        PeerOrigin::Unknown(why) => OwnPane::Unknown(why),
    }
}

/// Returns a standard input by which a child can tell that this process started it.
///
/// # Errors
///
/// Any error of the operating system.
pub fn stdin_of_child() -> io::Result<UnixStream> {
    UnixStream::pair().map(|(of_child, _)| of_child)
}

/// Returns whether the process `pid` made the standard input of this process with
/// [`stdin_of_child`]. The kernel records the process that makes a pair of sockets. A connection to
/// a listening socket of that process does not count: its other end has an address.
#[must_use]
pub fn is_started_by(pid: u32) -> bool {
    let stdin = std::io::stdin();
    let Ok(stream) = stdin.as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return false;
    };
    let is_unnamed = stream.peer_addr().map_or(true, |address| address.is_unnamed());
    let maker = socket_peercred(&stream).map(|credentials| credentials.pid.as_raw_pid());
    is_unnamed && maker.is_ok_and(|maker| u32::try_from(maker) == Ok(pid))
}

fn pane_dir_of_keeper(pid: u32) -> Option<PathBuf> {
    let command_line = proc_file::read(pid, "cmdline").ok()?;
    let is_keeper = command_line.split(|&byte| byte == 0).nth(1) == Some(b"keeper");
    is_keeper.then(|| fs::read_link(format!("/proc/{pid}/cwd")).ok()).flatten()
}

/// Returns the pane whose directory is `dir`, if that is in the state root `home`.
fn pane_in(dir: &Path, home: &Path) -> Option<PaneId> {
    let pane = dir.file_name()?.to_str()?.parse().ok()?;
    let root = dir.ancestors().nth(4)?;
    same_dir(root, home).then_some(pane)
}

fn has_pane(home: &Path, pane: PaneId) -> bool {
    let sessions = fs::read_dir(home.join("sessions")).into_iter().flatten().flatten();
    let mut panes = sessions.map(|session| session.path().join("panes").join(pane.to_string()));
    panes.any(|dir| dir.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pane_of_a_directory_is_found_only_in_its_own_root() {
        let temp = tempfile::tempdir().unwrap();
        let (home, other) = (temp.path().join("home"), temp.path().join("other"));
        let pane = PaneId::from_random([1; 16]);
        let session = model::SessionId::from_random([2; 16]);
        let dir = home.join(format!("sessions/{session}/panes/{pane}"));
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir_all(&other).unwrap();
        std::os::unix::fs::symlink(&home, temp.path().join("alias")).unwrap();

        assert_eq!(pane_in(&dir, &home), Some(pane));
        assert_eq!(pane_in(&dir, &temp.path().join("alias")), Some(pane));
        assert_eq!(pane_in(&dir, &other), None);
        assert_eq!(pane_in(&dir.join("workspace"), &home), None);
        assert!(has_pane(&home, pane) && !has_pane(&other, pane));
    }
}
