//! Processes as the kernel shows them under `/proc`.
//!
//! Signals and waits use a [`ProcessIdentity`], because a pid can be reused.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use model::ProcessIdentity;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::wait::{try_wait_for, wait_until};

/// Time for a process to have an environment while it executes its program.
const EXEC_TIMEOUT: Duration = Duration::from_secs(1);

/// The fields of `/proc/PID/stat` that tests need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The pid.
    pub pid: u32,
    /// The name of the executable, truncated by the kernel.
    pub name: String,
    /// `R`, `S`, `Z` and so on.
    pub state: char,
    /// The parent's pid.
    pub parent: u32,
    /// User and system time of all threads, in clock ticks.
    pub cpu_ticks: u64,
    /// Start time in clock ticks since boot.
    pub start: u64,
}

impl Stat {
    /// Whether it has exited and was not reaped yet.
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Returns the current state of `pid`, or `None` if there is no such process.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the identity of the process that has this pid now.
#[must_use]
pub fn identity(pid: u32) -> Option<ProcessIdentity> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
    Some(ProcessIdentity { pid, start: stat(pid)?.start, boot })
}

/// Whether this process still runs. A zombie does not.
#[must_use]
pub fn is_alive(process: &ProcessIdentity) -> bool {
    stat(process.pid).is_some_and(|now| now.start == process.start && !now.is_zombie())
}

/// Sends a signal to this process, and returns whether it was delivered.
pub fn signal(process: &ProcessIdentity, signal: Signal) -> bool {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return false };
    // The descriptor pins the process, so the start time is that of the process it signals.
    let Ok(pinned) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    stat(process.pid).is_some_and(|now| now.start == process.start)
        && pidfd_send_signal(pinned, signal).is_ok()
}

/// Kills this process and waits until it is gone.
///
/// # Panics
///
/// When it is not gone after `deadline`.
#[track_caller]
pub fn kill_and_wait(process: &ProcessIdentity, deadline: Duration) {
    signal(process, Signal::KILL);
    wait_until(&format!("process {} is gone", process.pid), deadline, || !is_alive(process));
}

/// Returns all processes.
#[must_use]
pub fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect()
}

/// Returns all descendants of `pid`, zombies included.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    let all = all();
    let mut found = BTreeSet::new();
    let mut ancestors = vec![pid];
    while let Some(ancestor) = ancestors.pop() {
        for child in all.iter().filter(|process| process.parent == ancestor) {
            if found.insert(child.pid) {
                ancestors.push(child.pid);
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the processes whose initial environment contains `text`, without zombies.
#[must_use]
pub fn with_environment(text: &Path) -> Vec<u32> {
    let wanted = memchr::memmem::Finder::new(text.as_os_str().as_encoded_bytes());
    let carries = |process: &Stat| {
        fs::read(format!("/proc/{}/environ", process.pid))
            .is_ok_and(|environment| wanted.find(&environment).is_some())
    };
    all().into_iter().filter(carries).map(|process| process.pid).collect()
}

/// Returns the environment that a process was started with.
///
/// # Panics
///
/// When it cannot be read.
#[must_use]
#[track_caller]
pub fn environment(pid: u32) -> BTreeMap<String, String> {
    let read = || fs::read(format!("/proc/{pid}/environ")).expect("the environment of a process");
    // Empty for a moment while a process executes its program.
    let bytes = try_wait_for(EXEC_TIMEOUT, || Some(read()).filter(|bytes| !bytes.is_empty()));
    let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns the memory of `pid` in bytes: its private pages and its share of shared ones.
#[must_use]
pub fn proportional_set_size(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may contain parentheses and blanks.
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // `man proc` counts from 1, and the state is field 3.
    let field = |number: usize| fields.get(number - 3);
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    Some(Stat {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        cpu_ticks: number(14)? + number(15)?,
        start: number(22)?,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::wait::DEADLINE;

    #[test]
    fn stat_name_with_parentheses_is_parsed() {
        let line = "42 (a) (b) S 7 42 42 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 12345 1 1";

        let parsed = parse_stat(line).unwrap();

        assert_eq!(
            parsed,
            Stat {
                pid: 42,
                name: "a) (b".to_owned(),
                state: 'S',
                parent: 7,
                cpu_ticks: 11,
                start: 12345
            }
        );
    }

    #[test]
    fn killed_process_is_not_alive_before_it_is_reaped() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let named = identity(child.id()).unwrap();
        assert!(is_alive(&named));
        assert!(descendants(std::process::id()).contains(&child.id()));

        kill_and_wait(&named, DEADLINE);

        assert!(!is_alive(&named));
        child.wait().unwrap();
        assert!(!signal(&named, Signal::KILL), "a reaped process was signalled");
    }

    #[test]
    fn reused_pid_is_not_the_same_process() {
        let mut stranger = identity(std::process::id()).unwrap();
        stranger.start += 1;

        assert!(!is_alive(&stranger));
        assert!(!signal(&stranger, Signal::CONT));
    }

    #[test]
    fn process_is_found_by_its_environment() {
        let marker = format!("/marker-of-{}", std::process::id());
        let mut child =
            Command::new("cat").env("MARKER", &marker).stdin(Stdio::piped()).spawn().unwrap();

        // Until it has executed `cat`, the child has the environment of the test.
        wait_until("the child is found", DEADLINE, || {
            with_environment(Path::new(&marker)) == [child.id()]
        });

        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(with_environment(Path::new(&marker)), [0; 0]);
    }

    #[test]
    fn proportional_set_size_is_positive() {
        assert!(proportional_set_size(std::process::id()).unwrap() > 0);
    }
}
