//! Processes as the kernel shows them under `/proc`.
//!
//! A number alone is never trusted: whatever is killed or waited for is named by a
//! [`ProcessIdentity`], which no other process had or will have.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use model::ProcessIdentity;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::wait::{try_wait_for, wait_until};

/// How long a process may be without an environment while it is given its program.
const MOMENT: Duration = Duration::from_secs(1);

/// One line of `/proc/PID/stat`, as far as tests need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The number.
    pub pid: u32,
    /// The name of the executable, shortened by the kernel.
    pub name: String,
    /// `R`, `S`, `Z` and so on.
    pub state: char,
    /// The parent's number.
    pub parent: u32,
    /// User and system time so far, in clock ticks, of all its threads.
    pub cpu_ticks: u64,
    /// When it started, in clock ticks since boot.
    pub start: u64,
}

impl Stat {
    /// Whether it ended and waits for its parent to notice.
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// What the kernel says about `pid` now, or nothing if there is no such process.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Names the process that has this number now.
#[must_use]
pub fn identity(pid: u32) -> Option<ProcessIdentity> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
    Some(ProcessIdentity { pid, start: stat(pid)?.start, boot })
}

/// Whether that very process still runs. A zombie does not.
#[must_use]
pub fn is_alive(process: &ProcessIdentity) -> bool {
    stat(process.pid).is_some_and(|now| now.start == process.start && !now.is_zombie())
}

/// Sends a signal to that very process; answers whether it was there to get it.
pub fn signal(process: &ProcessIdentity, signal: Signal) -> bool {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return false };
    // The descriptor pins the process, so the start time is compared with the one it will reach.
    let Ok(pinned) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    stat(process.pid).is_some_and(|now| now.start == process.start)
        && pidfd_send_signal(pinned, signal).is_ok()
}

/// Kills that very process and waits until it is gone.
///
/// # Panics
///
/// When it is still there after `deadline`.
#[track_caller]
pub fn kill_and_wait(process: &ProcessIdentity, deadline: Duration) {
    signal(process, Signal::KILL);
    wait_until(&format!("process {} is gone", process.pid), deadline, || !is_alive(process));
}

/// Every process there is.
#[must_use]
pub fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect()
}

/// The children of `pid`, their children, and so on, at this moment; zombies included.
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

/// The processes whose initial environment contains `text`, without zombies.
#[must_use]
pub fn with_environment(text: &Path) -> Vec<u32> {
    let wanted = memchr::memmem::Finder::new(text.as_os_str().as_encoded_bytes());
    let carries = |process: &Stat| {
        fs::read(format!("/proc/{}/environ", process.pid))
            .is_ok_and(|environment| wanted.find(&environment).is_some())
    };
    all().into_iter().filter(carries).map(|process| process.pid).collect()
}

/// The environment that a process was started with.
///
/// # Panics
///
/// When it cannot be read.
#[must_use]
#[track_caller]
pub fn environment(pid: u32) -> BTreeMap<String, String> {
    let read = || fs::read(format!("/proc/{pid}/environ")).expect("the environment of a process");
    // A process that is just being given its program has none for a moment.
    let bytes = try_wait_for(MOMENT, || Some(read()).filter(|bytes| !bytes.is_empty()));
    let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The memory that `pid` costs, in bytes: its own pages and its share of the shared ones.
#[must_use]
pub fn proportional_set_size(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may itself contain parentheses and blanks.
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // `man proc` counts from 1 and the state is its third field.
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
    fn a_name_with_parentheses_does_not_shift_the_fields() {
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
    fn a_killed_process_is_not_alive_even_before_it_is_reaped() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let named = identity(child.id()).unwrap();
        assert!(is_alive(&named));
        assert!(descendants(std::process::id()).contains(&child.id()));

        kill_and_wait(&named, DEADLINE);

        assert!(!is_alive(&named));
        child.wait().unwrap();
        assert!(!signal(&named, Signal::KILL), "there is nobody left to signal");
    }

    #[test]
    fn the_number_of_another_process_is_not_that_process() {
        let mut stranger = identity(std::process::id()).unwrap();
        stranger.start += 1;

        assert!(!is_alive(&stranger));
        assert!(!signal(&stranger, Signal::CONT));
    }

    #[test]
    fn a_process_is_found_by_its_environment() {
        let marker = format!("/marker-of-{}", std::process::id());
        let mut child =
            Command::new("cat").env("MARKER", &marker).stdin(Stdio::piped()).spawn().unwrap();

        // Until it has executed `cat`, the child still shows our environment.
        wait_until("the child is found", DEADLINE, || {
            with_environment(Path::new(&marker)) == [child.id()]
        });

        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(with_environment(Path::new(&marker)), [0; 0]);
    }

    #[test]
    fn this_process_costs_memory() {
        assert!(proportional_set_size(std::process::id()).unwrap() > 0);
    }
}
