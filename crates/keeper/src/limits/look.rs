//! Looking at what a pane takes, beside the keeper's loop: a directory may be large, and no key may
//! wait for it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use host::household::Household;
use host::{appetite, process, usage};
use model::limits::gauge::{Gauge, Level};

/// How many files and processes the keeper's loop itself looks at: well below a millisecond.
const AT_ONCE: usize = 128;

/// What is to be looked at. Copies, so that the loop can go on.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) gauge: Option<Gauge>,
    /// The gauge has been looked at already, and wants a measurement.
    pub(super) wanted: bool,
    pub(super) waited: Duration,
    pub(super) dirs: Vec<PathBuf>,
    pub(super) household: Household,
    pub(super) round: u64,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) gauge: Option<Gauge>,
    pub(super) disk: Option<Level>,
    pub(super) memory: u64,
    pub(super) processes: u64,
    pub(super) round: u64,
}

impl Look {
    /// The first look at a pane, without a thread: a new pane has next to nothing, and an idle one
    /// never needs another. None if there is more of it than can be looked at in passing.
    pub(super) fn at_once(&self) -> Option<Found> {
        let mut gauge = self.gauge.filter(|gauge| self.wanted && gauge.used().is_none())?;
        let spared = |pid| self.household.contains(pid);
        let members = appetite::descendants_within(std::process::id(), AT_ONCE, spared)?;
        let (begun, mut left) = (Instant::now(), AT_ONCE);
        let used = self.dirs.iter().map(|dir| usage::bytes_within(dir, &mut left));
        let used = used.sum::<Option<u64>>()?;
        Some(Found {
            disk: gauge.measure(used, begun.elapsed()),
            gauge: Some(gauge),
            memory: members.iter().map(|pid| appetite::private(*pid)).sum(),
            processes: u64::try_from(members.len()).unwrap_or(u64::MAX),
            round: self.round,
        })
    }

    pub(super) fn run(mut self) -> Found {
        // Of this thread alone: what the pane does comes first.
        let _unchanged = rustix::process::setpriority_process(None, 10);
        let keeper = std::process::id();
        let members: Vec<u32> = process::descendants(keeper, &self.household)
            .found
            .iter()
            .map(|member| member.pid)
            .collect();
        let memory = members.iter().map(|pid| appetite::private(*pid)).sum();
        let processes = u64::try_from(members.len()).unwrap_or(u64::MAX);
        // The keeper takes leave of orphans, and what they wrote is counted with it.
        let written = members.iter().chain([&keeper]).map(|pid| appetite::written(*pid)).sum();
        let disk = self.gauge.as_mut().and_then(|gauge| {
            if !self.wanted && !gauge.look(written, self.waited) {
                return None;
            }
            let begun = Instant::now();
            let used = self.dirs.iter().map(|dir| usage::bytes(dir)).sum();
            gauge.measure(used, begun.elapsed())
        });
        Found { gauge: self.gauge, disk, memory, processes, round: self.round }
    }
}
