//! Processes, told apart by more than their numbers.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::household::Household;
use model::{PaneId, ProcessIdentity};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable by which every process of a pane is known.
const PANE_MARK: &[u8] = b"CCMUX_PANE_ID=";

/// How far up the parents of a process are looked at.
const MOST_PARENTS: usize = 64;

/// What `/proc` says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// The session it belongs to.
    pub session: u32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
    /// It has ended and waits to be reaped.
    pub zombie: bool,
    /// It is in the foreground of its terminal, where what is typed goes: a shell that waits for a
    /// command of its own is not.
    pub foreground: bool,
}

/// The boot we are in.
///
/// # Errors
///
/// The system's.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Who the process with this number is now.
///
/// # Errors
///
/// The system's; `NotFound` if there is none.
pub fn identify(pid: u32) -> io::Result<ProcessIdentity> {
    let start = stat(pid).ok_or(io::ErrorKind::NotFound)?.start;
    Ok(ProcessIdentity { pid, start, boot: boot_id()? })
}

/// A descriptor of exactly this process, or none if it has ended, whoever has its number now.
#[must_use]
pub fn open(identity: &ProcessIdentity) -> Option<OwnedFd> {
    let pidfd = open_pid(identity.pid)?;
    // Asked after the descriptor was opened, so the answer is about the process it refers to.
    let now = identify(identity.pid).ok()?;
    (now == *identity && !stat(identity.pid)?.zombie).then_some(pidfd)
}

/// Whether exactly this process is stopped, by a signal or a debugger.
#[must_use]
pub fn is_stopped(identity: &ProcessIdentity) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", identity.pid)).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    matches!(state, Some('T' | 't')) && is_alive(identity)
}

/// Whether exactly this process is alive.
#[must_use]
pub fn is_alive(identity: &ProcessIdentity) -> bool {
    open(identity).is_some()
}

/// Sends a signal to exactly this process. One that has ended needs none.
pub fn signal(identity: &ProcessIdentity, signal: Signal) {
    if let Some(pidfd) = open(identity) {
        // It may end between the two calls, which is what was wanted or does not matter.
        let _ended = pidfd_send_signal(&pidfd, signal);
    }
}

fn open_pid(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// What `/proc` says of this process.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    // One read of a line that is never this long: ending a pane looks at every process there is.
    let mut line = [0; 1024];
    let length = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse_stat(pid, &line[..length])
}

/// The fields after the program's name, which may itself contain anything, parentheses included.
fn parse_stat(pid: u32, text: &[u8]) -> Option<Stat> {
    let after_name = text.iter().rposition(|&byte| byte == b')')? + 2;
    let mut fields = std::str::from_utf8(text.get(after_name..)?).ok()?.split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?;
    let session = fields.next()?.parse().ok()?;
    let foreground = fields.nth(1)? == group;
    let start = fields.nth(13)?.parse().ok()?;
    Some(Stat { pid, parent, session, start, zombie, foreground })
}

/// Every process there is.
#[must_use]
pub fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| stat(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

/// A process, its parent, and so on, as far as there is one.
pub(crate) fn lineage(pid: u32) -> impl Iterator<Item = u32> {
    let parent = |pid: &u32| stat(*pid).map(|found| found.parent);
    std::iter::successors(Some(pid), parent).take_while(|pid| *pid > 1).take(MOST_PARENTS)
}

/// What descends from a process.
#[derive(Clone, Debug, Default)]
pub struct Below {
    /// The processes, zombies excepted.
    pub found: Vec<Stat>,
    /// Some were left out, with everything below them, because they belong to the household.
    pub spared: bool,
}

/// Everything that descends from `root`, without `root` itself and without the household.
#[must_use]
pub fn descendants(root: u32, household: &Household) -> Below {
    below(&all(), [root].into(), household)
}

/// Every process of `all` that descends from one of `roots`, without the roots.
fn below(all: &[Stat], roots: HashSet<u32>, household: &Household) -> Below {
    let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut below = Below::default();
    let mut seen = roots.clone();
    let mut next: Vec<u32> = roots.into_iter().collect();
    while let Some(parent) = next.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if !seen.insert(child.pid) || child.zombie {
                continue;
            }
            if household.contains(child.pid) {
                below.spared = true;
            } else {
                next.push(child.pid);
                below.found.push(**child);
            }
        }
    }
    below
}

/// Sends a signal to each of `processes` that is still the one that was seen.
pub fn signal_all(processes: &[Stat], signal: Signal) {
    for process in processes {
        let Some(pidfd) = open_pid(process.pid) else { continue };
        if stat(process.pid).is_some_and(|now| now.start == process.start) {
            // It may end between the two calls, which is what was wanted or does not matter.
            let _ended = pidfd_send_signal(&pidfd, signal);
        }
    }
}

/// What is left of a pane whose keeper is gone: processes that carry the pane's id in their
/// environment or belong to its terminal session, and everything that descends from them, without
/// the household.
///
/// A process that both left the session and wiped its environment is not found; the keeper, while
/// it lives, finds those too. We ourselves and what descends from us are never among them, even if
/// we were started from within the pane: our children are the keepers of other panes.
#[must_use]
pub fn of_pane(pane: PaneId, head: Option<u32>, household: &Household) -> Vec<Stat> {
    let us = std::process::id();
    let all: Vec<Stat> = all().into_iter().filter(|p| p.pid != us).collect();
    let carries_mark = |pid: u32| marks_of(pid).contains(&pane);
    let mut found: Vec<Stat> = all
        .iter()
        .filter(|p| !p.zombie && (Some(p.session) == head || carries_mark(p.pid)))
        .filter(|p| !household.contains(p.pid))
        .copied()
        .collect();
    let roots = found.iter().map(|p| p.pid).collect();
    found.extend(below(&all, roots, household).found);
    found
}

/// The processes whose working directory is in a tree, with their names.
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

/// The panes whose id some process carries in its environment.
#[must_use]
pub fn marked_panes() -> HashSet<PaneId> {
    let living = all().into_iter().filter(|process| !process.zombie);
    living.flat_map(|process| marks_of(process.pid)).collect()
}

/// The panes whose ids this process carries in its environment: one, if nobody tampered with it.
pub(crate) fn marks_of(pid: u32) -> Vec<PaneId> {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let variables = environ.split(|&byte| byte == 0);
    let marks = variables.filter_map(|variable| variable.strip_prefix(PANE_MARK));
    marks.filter_map(|mark| std::str::from_utf8(mark).ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_reader() {
        let text = b"42 (a) b (c) S 7 42 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9001 0";

        let stat = parse_stat(42, text).unwrap();

        let foreground = false;
        let expected =
            Stat { pid: 42, parent: 7, session: 5, start: 9001, zombie: false, foreground };
        assert_eq!(stat, expected);
    }

    #[test]
    fn the_same_number_at_another_time_is_another_process() {
        let us = identify(std::process::id()).unwrap();
        let earlier = ProcessIdentity { start: us.start - 1, ..us.clone() };
        let other_boot = ProcessIdentity { boot: "x".to_owned(), ..us.clone() };

        assert!(is_alive(&us));
        assert!(!is_alive(&earlier));
        assert!(!is_alive(&other_boot));
    }

    #[test]
    fn children_of_children_are_found() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 1000 & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();

        let found = descendants(std::process::id(), &Household::nobody()).found;
        let sleep = found.iter().find(|p| p.parent == child.id());

        signal_all(sleep.map(std::slice::from_ref).unwrap_or_default(), Signal::KILL);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(sleep.is_some(), "{found:?}");
    }

    #[test]
    fn a_process_is_known_by_every_pane_that_its_environment_names() {
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
        let found = of_pane(pane, None, &Household::nobody());

        child.kill().unwrap();
        child.wait().unwrap();
        assert!(marked.contains(&pane));
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [child.id()]);
        assert!(!marked_panes().contains(&pane));
    }
}
