//! Enforcement of the pane's resource limits.
//!
//! Where control groups are available, the kernel enforces the limits on memory, processes and
//! processor. Other usage is measured, and the pane's policy decides what happens when it exceeds a
//! limit. Measurements are made only when they can yield new information; a pane without measured
//! limits sets no timer.

mod measurement;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ::client::Connection;
use host::cgroup::{self, Groups};
use host::disk_usage::Counted;
use host::file::Durability;
use host::own_processes::OwnProcesses;
use host::{clock, process_usage, record};
use model::limits::enforcement::nice;
use model::limits::gauge::{Gauge, Level, RARELY, SOON};
use model::limits::{Enforcement, Frozen, LimitEvent, Limits, OverLimit, Policy, Resource, event};
use model::{LaunchRecord, PaneId};
use protocol::control::Request;
use protocol::control::SOCKET as CONTROL_SOCKET;
use protocol::limits::{LimitView, LimitsView};
use protocol::pane::{FROZEN, GROUPS, NEWS, OVER_LIMIT};
use rustix::process::{Pid, Resource as RlimitResource, Rlimit, getrlimit, prlimit};

use crate::event_log;
use crate::pty::Confinement;
use measurement::{Measurement, Usage};

/// Interval between measurements of processes and memory where no control group limits them.
const TREE_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of `/proc` reads for the quick check on the event loop; this takes well below a
/// millisecond.
const MAX_QUICK_READS: usize = 64;

/// Stack size of a helper thread. Walking directories does not recurse.
const THREAD_STACK: usize = 256 << 10;

/// Time limit for notifying the daemon, which otherwise finds the news file later.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// Monitor of the pane's resource limits. See the module documentation.
#[derive(Debug)]
pub(crate) struct LimitMonitor {
    pane: PaneId,
    limits: Limits,
    groups: Groups,
    gauge: Option<Gauge>,
    dirs: Vec<PathBuf>,
    own_processes: OwnProcesses,
    /// Directory of the daemon's socket.
    daemon: Option<PathBuf>,
    last_measured: Instant,
    /// Time of the next measurement; `None` while one is running or if none is needed.
    due: Option<Instant>,
    /// Results of earlier generations refer to limits that no longer apply.
    generation: u64,
    results: (Sender<Usage>, Receiver<Usage>),
    /// A finished measurement writes to the second stream and so makes the first readable.
    wakeup: (UnixStream, UnixStream),
    memory: Option<u64>,
    processes: Option<u64>,
    /// Last reported levels of memory and processes.
    levels: [Level; 2],
    frozen: Option<Frozen>,
    /// The recorded phrase about exceeded limits.
    over: Option<String>,
    /// Whether the pane is terminating.
    inactive: bool,
    /// Number of processes killed by the kernel for exceeding the memory limit.
    oom_kills: u64,
    /// Number of forks refused by the kernel.
    refused_forks: u64,
    /// Number of news files written.
    published: u64,
}

/// A resource whose usage has reached a higher level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) resource: Resource,
    pub(crate) used: u64,
    pub(crate) limit: u64,
    pub(crate) level: Level,
}

impl LimitMonitor {
    /// Creates the monitor and the control groups, before the pane's program is started.
    pub(crate) fn new(launch: &LaunchRecord, own_processes: OwnProcesses) -> io::Result<Self> {
        let wakeup = UnixStream::pair()?;
        wakeup.0.set_nonblocking(true)?;
        wakeup.1.set_nonblocking(true)?;
        let socket = launch.env.iter().find(|(name, _)| *name == "CCMUX_SOCKET");
        let limits = launch.limits;
        // Record of a previous keeper of this pane.
        let _missing = fs::remove_file(FROZEN);
        let _missing = fs::remove_file(OVER_LIMIT);
        Ok(Self {
            pane: launch.pane,
            limits,
            groups: create_groups(launch.pane, &limits),
            gauge: limits.disk.map(|disk| Gauge::new(disk.0)),
            dirs: measured_dirs(launch),
            own_processes,
            daemon: socket.and_then(|(_, path)| Some(Path::new(path).parent()?.to_owned())),
            last_measured: Instant::now(),
            due: None,
            generation: 0,
            results: channel(),
            wakeup,
            memory: None,
            processes: None,
            levels: [Level::Fine; 2],
            frozen: None,
            over: None,
            inactive: false,
            oom_kills: 0,
            refused_forks: 0,
            published: 0,
        })
    }

    /// Returns the restrictions for the pane's first process.
    pub(crate) fn confinement(&self) -> Confinement {
        let without_group = |resource| self.groups.means(resource).is_none();
        let memory = self.limits.memory.filter(|_| without_group(Resource::Memory));
        let cpu = self.limits.cpu.filter(|_| without_group(Resource::Cpu));
        Confinement {
            cgroup_procs: self.groups.join_files(),
            files: self.limits.files.map(|files| capped(RlimitResource::Nofile, files)),
            data: memory.map(|memory| capped(RlimitResource::Data, memory.0)),
            nice: cpu.map(nice).filter(|nice| *nice > 0),
            batch_scheduling: self.limits.cpu.is_some_and(|share| nice(share) > 0),
            read_only: None,
        }
    }

    /// Starts monitoring; `head` is the pane's first process.
    pub(crate) fn started(&mut self, head: u32) {
        self.groups.retain_containing(head);
        if self.limits.cpu.is_some() {
            self.set_own_priority();
        }
        self.last_measured = Instant::now();
        self.due = self.interval().map(|wait| self.last_measured + wait);
    }

    /// Adjusts the keeper's priority to the pane's processor share: handling a flood takes as much
    /// processor time as producing it. The keeper cannot join the pane's group, where its memory
    /// and process would be counted.
    fn set_own_priority(&self) {
        let nice = self.limits.cpu.map_or(0, nice);
        // Raising the priority may require privileges.
        let _refused = rustix::process::setpriority_process(None, nice);
    }

    /// Returns the policy for exceeded limits.
    pub(crate) fn policy(&self) -> Policy {
        self.limits.policy
    }

    /// Returns the time to the next measurement; `None` if none is needed.
    fn interval(&self) -> Option<Duration> {
        if self.inactive {
            return None;
        }
        let tree = self.measures_tree().then_some(TREE_INTERVAL);
        // The events of the groups must be polled: a process killed by the kernel is not always a
        // child of the keeper.
        let group = (!self.groups.is_empty()).then_some(RARELY);
        let disk = self.gauge.map(|gauge| gauge.interval());
        disk.into_iter().chain(tree).chain(group).min()
    }

    /// Returns whether memory or processes have a limit that must be measured.
    fn measures_tree(&self) -> bool {
        [Resource::Memory, Resource::Processes].into_iter().any(|resource| self.measures(resource))
    }

    /// Returns whether the resource has a limit that no control group enforces.
    fn measures(&self, resource: Resource) -> bool {
        self.limits.of(resource).is_some() && self.groups.means(resource).is_none()
    }

    /// Returns the stream that becomes readable when a measurement is finished.
    pub(crate) fn wakeup(&self) -> &UnixStream {
        &self.wakeup.0
    }

    /// Returns the time at which [`LimitMonitor::measure_if_due`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.filter(|_| self.frozen.is_none())
    }

    /// Records activity in the pane, which brings the next measurement forward.
    pub(crate) fn note_activity(&mut self, now: Instant) {
        if let Some(due) = &mut self.due {
            *due = (*due).min(now + SOON);
        }
    }

    /// Starts a measurement if one is due, on a separate thread if it may take long.
    pub(crate) fn measure_if_due(&mut self, now: Instant) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        self.check_group_events();
        let elapsed = now.saturating_duration_since(self.last_measured);
        let Some(disk_due) = self.quick_check(elapsed, now) else { return };
        let measurement = Measurement {
            gauge: self.gauge,
            disk_due,
            elapsed,
            dirs: self.dirs.clone(),
            counted: if self.limits.count_ignored { Counted::All } else { Counted::NotIgnored },
            own_processes: self.own_processes.clone(),
            generation: self.generation,
        };
        self.last_measured = now;
        if let Some(usage) = measurement.run_inline() {
            self.due = None;
            return send_result(&self.results.0, usage, &self.wakeup.1);
        }
        let results = self.results.0.clone();
        let started = self.wakeup.1.try_clone().and_then(|wakeup| {
            let thread = std::thread::Builder::new().stack_size(THREAD_STACK);
            thread.spawn(move || send_result(&results, measurement.run(), &wakeup)).map(drop)
        });
        // Retry later: the system is out of threads or descriptors.
        self.due = started.is_err().then(|| now + SOON * 10);
    }

    /// Checks cheaply whether a measurement can yield new information: `None` if it cannot,
    /// otherwise whether the disk must be measured.
    fn quick_check(&mut self, elapsed: Duration, now: Instant) -> Option<bool> {
        let written = process_usage::written_below(std::process::id(), MAX_QUICK_READS);
        let disk_due = match (&mut self.gauge, written) {
            (None, _) => false,
            (Some(_), None) => return Some(false),
            (Some(gauge), written) => gauge.look(written, elapsed),
        };
        if disk_due || self.measures_tree() {
            return Some(disk_due);
        }
        self.last_measured = now;
        self.due = self.interval().map(|wait| now + wait);
        None
    }

    /// Returns the readings of finished measurements.
    pub(crate) fn take_readings(&mut self, now: Instant) -> Vec<Reading> {
        let mut readings = Vec::new();
        while let Ok(usage) = self.results.1.try_recv() {
            if usage.generation != self.generation {
                continue;
            }
            self.gauge = usage.gauge;
            (self.memory, self.processes) = (Some(usage.memory), Some(usage.processes));
            if let (Some(level), Some(gauge)) = (usage.disk, self.gauge) {
                let used = gauge.used().unwrap_or_default();
                let limit = gauge.limit();
                readings.push(Reading { resource: Resource::Disk, used, limit, level });
            }
            let tree = [(Resource::Memory, usage.memory), (Resource::Processes, usage.processes)];
            for (at, (resource, used)) in tree.into_iter().enumerate() {
                let Some(limit) = self.limits.of(resource).filter(|_| self.measures(resource))
                else {
                    continue;
                };
                let level = Level::of(used, limit);
                let before = std::mem::replace(&mut self.levels[at], level);
                if level > before {
                    readings.push(Reading { resource, used, limit, level });
                }
            }
            self.due = self.interval().map(|wait| now + wait);
        }
        self.record_over();
        readings
    }

    /// Records which measured limits are exceeded, if this has changed.
    fn record_over(&mut self) {
        let [memory, processes] = self.levels;
        let disk = self.gauge.filter(Gauge::is_over).map(|_| Resource::Disk);
        let memory = (memory == Level::Over).then_some(Resource::Memory);
        let processes = (processes == Level::Over).then_some(Resource::Processes);
        let exceeded: Vec<(Resource, u64)> = [disk, memory, processes]
            .into_iter()
            .flatten()
            .filter_map(|resource| Some((resource, self.limits.of(resource)?)))
            .collect();
        let over = event::over_limits(&exceeded);
        if over == self.over {
            return;
        }
        let recorded = match &over {
            Some(why) => {
                let over = OverLimit { why: why.clone(), at: clock::now() };
                record::write(Path::new(OVER_LIMIT), &over, Durability::ProcessCrash)
                    .map_err(|error| error.to_string())
            }
            None => fs::remove_file(OVER_LIMIT).map_err(|error| error.to_string()),
        };
        if let Err(error) = recorded {
            event_log::report("exceeded limit not recorded", &[("error", &error)]);
        }
        self.over = over;
    }

    /// Publishes limits that the kernel has enforced since the last call.
    pub(crate) fn check_group_events(&mut self) {
        let (kills, refusals) = (self.groups.out_of_memory(), self.groups.refused_processes());
        // Every kill is published, but only the first refused fork: there may be thousands.
        let killed = kills > self.oom_kills;
        let refused = refusals > 0 && self.refused_forks == 0;
        (self.oom_kills, self.refused_forks) = (kills, refusals);
        let enforced = [(Resource::Memory, killed), (Resource::Processes, refused)];
        for (resource, _) in enforced.into_iter().filter(|(_, enforced)| *enforced) {
            if let Some(limit) = self.limits.of(resource) {
                self.publish(&LimitEvent::Kept { resource, limit });
            }
        }
    }

    /// Returns a description of the exceeded memory limit if the kernel killed a process for it.
    pub(crate) fn out_of_memory(&self) -> Option<String> {
        let limit = self.limits.memory.filter(|_| self.oom_kills > 0)?;
        Some(format!("killed by the kernel: the pane exceeded its memory limit of {limit}"))
    }

    /// Records that the processes were frozen.
    pub(crate) fn record_frozen(&mut self, why: String) {
        let frozen = Frozen { why, at: clock::now() };
        if let Err(error) = record::write(Path::new(FROZEN), &frozen, Durability::ProcessCrash) {
            event_log::report("freeze record not written", &[("error", &error)]);
        }
        self.frozen = Some(frozen);
    }

    /// Records that the processes were thawed; returns whether they were frozen.
    pub(crate) fn record_thawed(&mut self, now: Instant) -> bool {
        if self.frozen.take().is_none() {
            return false;
        }
        let _missing = fs::remove_file(FROZEN);
        self.restart_measuring(now);
        true
    }

    /// Stops all measurements, because the pane is terminating. Terminating also thaws it.
    pub(crate) fn deactivate(&mut self) {
        self.inactive = true;
        self.generation += 1;
        self.due = None;
        if self.frozen.take().is_some() {
            let _missing = fs::remove_file(FROZEN);
        }
    }

    /// Discards running measurements and reported levels, which may refer to other limits.
    fn restart_measuring(&mut self, now: Instant) {
        self.generation += 1;
        self.levels = [Level::Fine; 2];
        self.gauge = self.limits.disk.map(|disk| {
            self.gauge.map_or_else(|| Gauge::new(disk.0), |gauge| gauge.with_limit(disk.0))
        });
        self.due = self.interval().map(|wait| now + wait.min(SOON));
    }

    /// Changes the limits. `members` are the processes of the pane.
    pub(crate) fn change(&mut self, limits: Limits, members: &[u32], now: Instant) {
        let before = self.limits;
        self.limits = limits;
        let needs_groups = Resource::ALL.into_iter().any(|resource| self.measures(resource));
        if needs_groups {
            self.groups.add(create_groups(self.pane, &limits));
            members.iter().for_each(|pid| self.groups.enter(*pid));
            if let Some(head) = members.first() {
                self.groups.retain_containing(*head);
            }
        }
        self.groups.change(&limits);
        for pid in members.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
            if let Some(files) = limits.files.filter(|_| limits.files != before.files) {
                let files = Some(capped(RlimitResource::Nofile, files));
                let limit = Rlimit { current: files, maximum: files };
                // The process may have exited.
                let _exited = prlimit(Some(pid), RlimitResource::Nofile, limit);
            }
            if limits.cpu != before.cpu && self.groups.means(Resource::Cpu).is_none() {
                let nice = limits.cpu.map_or(0, nice);
                let _refused = rustix::process::setpriority_process(Some(pid), nice);
            }
        }
        if limits.cpu != before.cpu {
            self.set_own_priority();
        }
        if limits.count_ignored != before.count_ignored {
            // What was measured does not tell how much counts now.
            self.gauge = None;
        }
        self.restart_measuring(now);
    }

    /// Returns the limits and the current usage.
    pub(crate) fn view(&self) -> LimitsView {
        let of = |resource| {
            let means = self.means(resource);
            LimitView {
                resource,
                limit: self.limits.of(resource),
                used: self.used(resource),
                means,
                exactness: means.exactness(resource).to_owned(),
                refused: match resource {
                    Resource::Memory => self.groups.out_of_memory(),
                    Resource::Processes => self.groups.refused_processes(),
                    Resource::Disk | Resource::Cpu | Resource::Files => 0,
                },
            }
        };
        let limits = Resource::ALL.map(of).into();
        LimitsView { policy: self.limits.policy, limits, frozen: self.frozen.clone() }
    }

    /// Returns how the limit of a resource is enforced.
    fn means(&self, resource: Resource) -> Enforcement {
        let group = self.groups.means(resource);
        match resource {
            _ if self.limits.of(resource).is_none() => Enforcement::None,
            Resource::Disk => Enforcement::Measured,
            Resource::Memory => group.unwrap_or(Enforcement::ProcessAndMeasured),
            Resource::Processes => group.unwrap_or(Enforcement::Measured),
            Resource::Cpu => group.unwrap_or(Enforcement::Priority),
            Resource::Files => Enforcement::Process,
        }
    }

    fn used(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Disk => self.gauge.and_then(|gauge| gauge.used()),
            Resource::Memory => self.groups.used(resource).or(self.memory),
            Resource::Processes => self.groups.used(resource).or(self.processes),
            Resource::Cpu | Resource::Files => None,
        }
    }

    /// Writes a news file for the daemon and notifies it on a separate thread.
    pub(crate) fn publish(&mut self, news: &LimitEvent) {
        self.published += 1;
        let name = format!("{NEWS}{:013}-{:06}.json", clock::now().0, self.published);
        if let Err(error) = record::write(Path::new(&name), news, Durability::ProcessCrash) {
            return event_log::report("limit news not written", &[("error", &error)]);
        }
        let (Some(dir), pane) = (self.daemon.clone(), self.pane) else { return };
        let started = std::thread::Builder::new().stack_size(THREAD_STACK).spawn(move || {
            // A daemon that is not running looks for news when it starts.
            let Ok(mut daemon) = Connection::open(&dir, CONTROL_SOCKET) else { return };
            let _without_timeout = daemon.set_timeout(Some(NOTIFY_TIMEOUT));
            let _unanswered = daemon.ask(&Request::LimitEvent { pane });
        });
        if let Err(error) = started {
            event_log::report("daemon not notified", &[("news", &name), ("error", &error)]);
        }
    }

    /// Removes the control groups. The pane must have no processes left.
    pub(crate) fn remove_groups(&self) {
        for dir in self.groups.paths() {
            if !cgroup::remove(&dir) {
                event_log::report("control group not removed", &[("path", &dir.display())]);
            }
        }
        if !self.groups.is_empty() {
            let _missing = fs::remove_file(GROUPS);
        }
    }
}

/// Sends the result of a measurement to the event loop.
fn send_result(results: &Sender<Usage>, usage: Usage, mut wakeup: &UnixStream) {
    // Both fail only while the keeper exits.
    let _closed = results.send(usage);
    let _closed = wakeup.write_all(b"!");
}

/// Creates the control groups for the limits, as far as the system permits. Their paths are recorded
/// first, so that they can be removed if the keeper is killed.
fn create_groups(pane: PaneId, limits: &Limits) -> Groups {
    let mut groups = cgroup::plan(&format!("ccmux-{pane}"), limits);
    if groups.is_empty() {
        return groups;
    }
    let paths = groups.paths();
    let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    if let Err(error) = record::write(Path::new(GROUPS), &paths, Durability::ProcessCrash) {
        event_log::report("control groups not recorded", &[("error", &error)]);
        return Groups::default();
    }
    groups.make(limits);
    groups
}

/// Caps a limit at the keeper's own, which an unprivileged process cannot exceed.
fn capped(resource: RlimitResource, limit: u64) -> u64 {
    getrlimit(resource).maximum.map_or(limit, |maximum| limit.min(maximum))
}

/// Returns the directories that count towards the disk limit: those of the pane alone, without the
/// log, whose size is bounded.
fn measured_dirs(launch: &LaunchRecord) -> Vec<PathBuf> {
    // With the dot, a link to the tree is followed.
    let mut dirs: Vec<PathBuf> = ["workspace/.", "temp", "output"].map(PathBuf::from).into();
    dirs.extend(launch.isolation.paths().map(PathBuf::from));
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capped_never_exceeds_the_keepers_own_limit() {
        let own = getrlimit(RlimitResource::Nofile).maximum.unwrap_or(u64::MAX);

        assert_eq!(capped(RlimitResource::Nofile, 1), 1);
        assert_eq!(capped(RlimitResource::Nofile, u64::MAX), own);
    }
}
