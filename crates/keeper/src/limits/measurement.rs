//! Measurement of the resource usage of a pane.
//!
//! Measuring a large directory takes long, so it runs on a separate thread: keys must not wait for
//! it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use host::disk_usage::Counted;
use host::own_processes::OwnProcesses;
use host::{disk_usage, process, process_usage};
use model::limits::gauge::{Gauge, Level};

/// Maximum number of files and processes that are measured on the event loop; this takes well below
/// a millisecond.
const MAX_INLINE: usize = 128;

/// A measurement to be made. Owns its data, so that it can move to a thread.
#[derive(Debug)]
pub(super) struct Measurement {
    pub(super) gauge: Option<Gauge>,
    /// Whether the gauge has already requested a measurement of the disk.
    pub(super) disk_due: bool,
    /// Time since the previous measurement.
    pub(super) elapsed: Duration,
    pub(super) dirs: Vec<PathBuf>,
    pub(super) counted: Counted,
    pub(super) own_processes: OwnProcesses,
    pub(super) generation: u64,
}

/// Result of a [`Measurement`].
#[derive(Debug)]
pub(super) struct Usage {
    pub(super) gauge: Option<Gauge>,
    /// The new level of disk usage, if it has risen.
    pub(super) disk: Option<Level>,
    pub(super) memory: u64,
    pub(super) processes: u64,
    pub(super) generation: u64,
}

impl Measurement {
    /// Makes the first measurement of a pane without a thread: a new pane is small, and an idle one
    /// needs no second measurement. Returns `None` if the pane is too large.
    pub(super) fn run_inline(&self) -> Option<Usage> {
        let mut gauge = self.gauge.filter(|gauge| self.disk_due && gauge.used().is_none())?;
        let is_own = |pid| self.own_processes.contains(pid);
        let members = process_usage::descendants_within(std::process::id(), MAX_INLINE, is_own)?;
        let (started, mut left) = (Instant::now(), MAX_INLINE);
        let used =
            self.dirs.iter().map(|dir| disk_usage::bytes_within(dir, self.counted, &mut left));
        let used = used.sum::<Option<u64>>()?;
        Some(Usage {
            disk: gauge.measure(used, started.elapsed()),
            gauge: Some(gauge),
            memory: members.iter().map(|pid| process_usage::private_memory(*pid)).sum(),
            processes: u64::try_from(members.len()).unwrap_or(u64::MAX),
            generation: self.generation,
        })
    }

    /// Makes the measurement on the current thread, at low priority.
    pub(super) fn run(mut self) -> Usage {
        // Affects only this thread.
        let _failed = rustix::process::setpriority_process(None, 10);
        let keeper = std::process::id();
        let members: Vec<u32> = process::descendants(keeper, &self.own_processes)
            .found
            .iter()
            .map(|member| member.pid)
            .collect();
        let memory = members.iter().map(|pid| process_usage::private_memory(*pid)).sum();
        let processes = u64::try_from(members.len()).unwrap_or(u64::MAX);
        // The kernel adds the bytes written by reaped processes to those of the keeper.
        let written = members.iter().chain([&keeper]).map(|pid| process_usage::written(*pid)).sum();
        let disk = self.gauge.as_mut().and_then(|gauge| {
            if !self.disk_due && !gauge.look(written, self.elapsed) {
                return None;
            }
            let started = Instant::now();
            let mut all = usize::MAX;
            let used = self.dirs.iter();
            let used = used.map(|dir| disk_usage::bytes_within(dir, self.counted, &mut all));
            let used = used.sum::<Option<u64>>().unwrap_or(u64::MAX);
            gauge.measure(used, started.elapsed())
        });
        Usage { gauge: self.gauge, disk, memory, processes, generation: self.generation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(dirs: Vec<PathBuf>, disk_due: bool) -> Measurement {
        Measurement {
            gauge: Some(Gauge::new(1 << 20)),
            disk_due,
            elapsed: Duration::from_secs(1),
            dirs,
            counted: Counted::All,
            own_processes: OwnProcesses::none(),
            generation: 3,
        }
    }

    #[test]
    fn run_inline_measures_a_small_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs_write(dir.path(), "file", 4 << 20);

        let usage = measurement(vec![dir.path().to_owned()], true).run_inline().unwrap();

        assert_eq!((usage.disk, usage.generation), (Some(Level::Over), 3));
        assert!(usage.gauge.unwrap().used().unwrap() >= 4 << 20);
    }

    #[test]
    fn run_inline_declines_a_large_directory() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=MAX_INLINE {
            fs_write(dir.path(), &number.to_string(), 0);
        }

        let due = measurement(vec![dir.path().to_owned()], true);
        let not_due = measurement(Vec::new(), false);

        assert!(due.run_inline().is_none());
        assert!(not_due.run_inline().is_none());
    }

    fn fs_write(dir: &std::path::Path, name: &str, length: usize) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(dir.join(name)).unwrap();
        file.write_all(&vec![b'x'; length]).unwrap();
    }
}
