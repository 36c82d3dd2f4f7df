//! Processes, identified by pid, start time and boot.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::own_processes::OwnProcesses;
use crate::proc_file;
use model::{PaneId, ProcessIdentity};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The environment variable that marks the processes of a pane.
const PANE_MARK: &[u8] = b"CCMUX_PANE_ID=";

/// Maximum number of ancestors that are followed.
const MAX_ANCESTORS: usize = 64;

/// A process as described by `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent.
    pub parent: u32,
    /// Session id.
    pub session: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Whether the process has ended and waits to be reaped.
    pub zombie: bool,
    /// Whether the process is in the foreground process group of its terminal and so receives what
    /// is typed. A shell that waits for a command is not.
    pub foreground: bool,
    /// Address of its environment, which the kernel chooses anew whenever the process executes a
    /// program; 0 if it is not visible.
    pub image: u64,
}

/// Returns the id of the current boot.
///
/// # Errors
///
/// Any error of the operating system.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Returns the identity of the process that has this pid now.
///
/// # Errors
///
/// `NotFound` if there is no such process, or any other error of the operating system.
pub fn identify(pid: u32) -> io::Result<ProcessIdentity> {
    let start = stat(pid).ok_or(io::ErrorKind::NotFound)?.start;
    Ok(ProcessIdentity { pid, start, boot: boot_id()? })
}

/// Opens a pidfd of exactly this process; `None` if it has ended, even if its pid was reused.
#[must_use]
pub fn open(identity: &ProcessIdentity) -> Option<OwnedFd> {
    let pidfd = open_pid(identity.pid)?;
    // Checked after the pidfd was opened, so the answer is about the process it refers to.
    let now = identify(identity.pid).ok()?;
    (now == *identity && !stat(identity.pid)?.zombie).then_some(pidfd)
}

/// Returns whether exactly this process is stopped by a signal or a debugger.
#[must_use]
pub fn is_stopped(identity: &ProcessIdentity) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", identity.pid)).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    matches!(state, Some('T' | 't')) && is_alive(identity)
}

/// Returns whether exactly this process is alive.
#[must_use]
pub fn is_alive(identity: &ProcessIdentity) -> bool {
    open(identity).is_some()
}

/// Sends a signal to exactly this process; does nothing if it has ended.
pub fn signal(identity: &ProcessIdentity, signal: Signal) {
    if let Some(pidfd) = open(identity) {
        // The process may end between the two calls, which is harmless.
        let _ended = pidfd_send_signal(&pidfd, signal);
    }
}

fn open_pid(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Returns the status of a process; `None` if it does not exist.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    // A single read suffices for this line. Ending a pane reads one for every process.
    let mut line = [0; 1024];
    let length = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse_stat(pid, &line[..length])
}

/// Parses the fields after the program name, which may contain any character, also parentheses.
fn parse_stat(pid: u32, text: &[u8]) -> Option<Stat> {
    let after_name = text.iter().rposition(|&byte| byte == b')')? + 2;
    let mut fields = std::str::from_utf8(text.get(after_name..)?).ok()?.split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?;
    let session = fields.next()?.parse().ok()?;
    let foreground = fields.nth(1)? == group;
    let start = fields.nth(13)?.parse().ok()?;
    let image = fields.nth(27).and_then(|address| address.parse().ok()).unwrap_or_default();
    Some(Stat { pid, parent, session, start, zombie, foreground, image })
}

/// Returns every process of the machine.
#[must_use]
pub fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| stat(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

/// Iterates over a process and its ancestors, nearest first.
pub(crate) fn ancestors(pid: u32) -> impl Iterator<Item = u32> {
    let parent = |pid: &u32| stat(*pid).map(|found| found.parent);
    std::iter::successors(Some(pid), parent).take_while(|pid| *pid > 1).take(MAX_ANCESTORS)
}

/// The descendants of a process.
#[derive(Clone, Debug, Default)]
pub struct Descendants {
    /// The processes, without zombies.
    pub found: Vec<Stat>,
    /// Whether processes of ccmux were skipped, together with their descendants.
    pub skipped: bool,
}

/// Returns the descendants of `root`, without the processes of ccmux.
#[must_use]
pub fn descendants(root: u32, own: &OwnProcesses) -> Descendants {
    below(&all(), [root].into(), own)
}

/// Returns every process of `all` that descends from one of `roots`, without the roots.
fn below(all: &[Stat], roots: HashSet<u32>, own: &OwnProcesses) -> Descendants {
    let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut below = Descendants::default();
    let mut seen = roots.clone();
    let mut next: Vec<u32> = roots.into_iter().collect();
    while let Some(parent) = next.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if !seen.insert(child.pid) || child.zombie {
                continue;
            }
            if own.contains(child.pid) {
                below.skipped = true;
            } else {
                next.push(child.pid);
                below.found.push(**child);
            }
        }
    }
    below
}

/// Sends a signal to each of `processes` whose pid was not reused.
pub fn signal_all(processes: &[Stat], signal: Signal) {
    for process in processes {
        let Some(pidfd) = open_pid(process.pid) else { continue };
        if stat(process.pid).is_some_and(|now| now.start == process.start) {
            // The process may end between the two calls, which is harmless.
            let _ended = pidfd_send_signal(&pidfd, signal);
        }
    }
}

/// Returns the remaining processes of a pane whose keeper has ended: those that carry the pane's id
/// in their environment or belong to its terminal session, and their descendants, without the
/// processes of ccmux and of other state roots.
///
/// A process that left the session and also cleared its environment is not found (the keeper, while
/// it lives, finds those too). The calling process and its descendants are never included, even if
/// it was started in the pane: its children are the keepers of other panes.
#[must_use]
pub fn of_pane(pane: PaneId, head: Option<u32>, own: &OwnProcesses) -> Vec<Stat> {
    let us = std::process::id();
    let all: Vec<Stat> = all().into_iter().filter(|p| p.pid != us).collect();
    let is_of_pane = |process: &&Stat| {
        let environ = environ(process.pid);
        let is_marked = Some(process.session) == head || marks_in(&environ).contains(&pane);
        is_marked && !own.is_of_other_root(&environ)
    };
    let mut found: Vec<Stat> = all
        .iter()
        .filter(|p| !p.zombie)
        .filter(is_of_pane)
        .filter(|p| !own.contains(p.pid))
        .copied()
        .collect();
    let roots = found.iter().map(|p| p.pid).collect();
    found.extend(below(&all, roots, own).found);
    found
}

/// The processes that end with a live pane: its keeper and those of its program.
#[derive(Clone, Copy, Debug)]
pub struct PaneProcesses {
    /// The pane.
    pub pane: PaneId,
    /// The process id of its keeper.
    pub keeper: u32,
    /// The process id of its program, which leads the terminal session.
    pub head: u32,
}

impl PaneProcesses {
    /// Returns whether a process is known to end with the pane. In contrast to [`of_pane`], does not
    /// look for descendants that left the session and cleared their environment.
    #[must_use]
    pub fn contain(&self, process: &Stat) -> bool {
        process.pid == self.keeper
            || process.session == self.head
            || marks_of(process.pid).contains(&self.pane)
    }
}

/// Returns the processes whose working directory is in a tree, with their names.
#[must_use]
pub fn working_in(tree: &Path) -> Vec<(Stat, String)> {
    let tree = fs::canonicalize(tree).unwrap_or_else(|_| tree.to_owned());
    let is_in = |process: &Stat| {
        let cwd = fs::read_link(format!("/proc/{}/cwd", process.pid));
        !process.zombie && cwd.is_ok_and(|cwd| cwd.starts_with(&tree))
    };
    let name = |process: Stat| {
        let name = fs::read_to_string(format!("/proc/{}/comm", process.pid)).unwrap_or_default();
        (process, name.trim_end().to_owned())
    };
    all().into_iter().filter(is_in).map(name).collect()
}

/// Returns the panes whose id is in the environment of a running process.
#[must_use]
pub fn marked_panes() -> HashSet<PaneId> {
    let living = all().into_iter().filter(|process| !process.zombie);
    living.flat_map(|process| marks_of(process.pid)).collect()
}

/// Returns the panes whose ids are in the environment of a process: one, unless it was altered.
pub(crate) fn marks_of(pid: u32) -> Vec<PaneId> {
    marks_in(&environ(pid))
}

fn environ(pid: u32) -> Vec<u8> {
    proc_file::read(pid, "environ").unwrap_or_default()
}

fn marks_in(environ: &[u8]) -> Vec<PaneId> {
    let variables = environ.split(|&byte| byte == 0);
    let marks = variables.filter_map(|variable| variable.strip_prefix(PANE_MARK));
    marks.filter_map(|mark| std::str::from_utf8(mark).ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn parse_stat_name_with_parentheses_is_skipped() {
        let text = b"42 (a) b (c) S 7 42 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9001 0 \
            24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 7050 51 0";

        let stat = parse_stat(42, text).unwrap();

        let foreground = false;
        let expected = Stat {
            pid: 42,
            parent: 7,
            session: 5,
            start: 9001,
            zombie: false,
            foreground,
            image: 7050,
        };
        assert_eq!(stat, expected);
    }

    #[test]
    fn identity_same_pid_with_other_start_or_boot_is_not_alive() {
        let us = identify(std::process::id()).unwrap();
        let earlier = ProcessIdentity { start: us.start - 1, ..us.clone() };
        let other_boot = ProcessIdentity { boot: "x".to_owned(), ..us.clone() };

        assert!(is_alive(&us));
        assert!(!is_alive(&earlier));
        assert!(!is_alive(&other_boot));
    }

    #[test]
    fn descendants_include_grandchildren() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 1000 & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();

        let found = descendants(std::process::id(), &OwnProcesses::none()).found;
        let sleep = found.iter().find(|p| p.parent == child.id());

        signal_all(sleep.map(std::slice::from_ref).unwrap_or_default(), Signal::KILL);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(sleep.is_some(), "{found:?}");
    }

    #[test]
    fn marked_process_is_found_by_its_pane() {
        let pane = PaneId::from_random([7; 16]);
        let mut child = Command::new("sh")
            .args(["-c", "echo; exec sleep 1000"])
            .env("CCMUX_PANE_ID", pane.to_string())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();

        let marked = marked_panes();
        let found = of_pane(pane, None, &OwnProcesses::none());

        child.kill().unwrap();
        child.wait().unwrap();
        assert!(marked.contains(&pane));
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [child.id()]);
        assert!(!marked_panes().contains(&pane));
    }
}
