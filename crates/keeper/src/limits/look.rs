//! Looking at what a pane takes, beside the keeper's loop: a directory may be large, and no key may
//! wait for it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use host::household::Household;
use host::{appetite, process, usage};
use model::limits::gauge::{Gauge, Level};

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
