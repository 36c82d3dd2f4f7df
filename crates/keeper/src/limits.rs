//! The limits of the pane, and who sees to it that they are kept.
//!
//! Where the system has groups to give, it keeps memory, processes and processor by itself. What it
//! does not keep is measured, and the pane's policy says what follows. Measuring is done only
//! while it can tell something new; a pane without a limit that has to be measured sets no timer.

mod look;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use host::cgroup::{self, Groups};
use host::file::Survive;
use host::household::Household;
use host::{appetite, clock, record};
use model::limits::gauge::{Gauge, Level, RARELY, SOON};
use model::limits::means::nice;
use model::limits::{Frozen, LimitNews, Limits, Means, Resource};
use model::{LaunchRecord, PaneId};
use protocol::client::{CONTROL_SOCKET, Connection};
use protocol::control::Request;
use protocol::limits::{LimitView, LimitsView};
use protocol::pane::{FROZEN, GROUPS, NEWS};
use rustix::process::{Pid, Resource as Rlimited, Rlimit, getrlimit, prlimit};

use crate::pane::complain;
use crate::pty::Confinement;
use look::{Found, Look};

/// How often processes and their memory are looked at where nobody else keeps them.
const TREE: Duration = Duration::from_millis(500);

/// How many questions about its processes the keeper's loop may ask: well below a millisecond.
const GLANCE: usize = 64;

/// The stack of a thread that looks: it goes down no deeper with the directories.
const STACK: usize = 256 << 10;

/// How long the daemon may take to hear of news. It finds them anyhow.
const HEARING: Duration = Duration::from_secs(10);

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Warden {
    pane: PaneId,
    limits: Limits,
    groups: Groups,
    gauge: Option<Gauge>,
    dirs: Vec<PathBuf>,
    household: Household,
    /// Where the daemon listens.
    daemon: Option<PathBuf>,
    looked: Instant,
    /// When to look next; none while somebody looks, or if there is nothing to look for.
    due: Option<Instant>,
    /// Looks of former rounds are about limits that no longer hold.
    round: u64,
    looks: (Sender<Found>, Receiver<Found>),
    /// A look that is over writes to the second and so wakes who waits for the first.
    bell: (UnixStream, UnixStream),
    memory: Option<u64>,
    processes: Option<u64>,
    levels: [Level; 2],
    frozen: Option<Frozen>,
    resting: bool,
    out_of_memory: u64,
    refused: u64,
    told: u64,
}

/// Something that a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) resource: Resource,
    pub(crate) used: u64,
    pub(crate) limit: u64,
    pub(crate) level: Level,
}

impl Warden {
    /// Makes what the limits need before the pane's program is started.
    pub(crate) fn new(launch: &LaunchRecord, household: Household) -> io::Result<Self> {
        let bell = UnixStream::pair()?;
        bell.0.set_nonblocking(true)?;
        bell.1.set_nonblocking(true)?;
        let socket = launch.env.iter().find(|(name, _)| *name == "CCMUX_SOCKET");
        let limits = launch.limits;
        // What a former keeper of this pane left is not about us.
        let _missing = fs::remove_file(FROZEN);
        Ok(Self {
            pane: launch.pane,
            limits,
            groups: make_groups(launch.pane, &limits),
            gauge: limits.disk.map(|disk| Gauge::new(disk.0)),
            dirs: own_dirs(launch),
            household,
            daemon: socket.and_then(|(_, path)| Some(Path::new(path).parent()?.to_owned())),
            looked: Instant::now(),
            due: None,
            round: 0,
            looks: channel(),
            bell,
            memory: None,
            processes: None,
            levels: [Level::Fine; 2],
            frozen: None,
            resting: false,
            out_of_memory: 0,
            refused: 0,
            told: 0,
        })
    }

    /// What the pane's first process takes on before it becomes the program.
    pub(crate) fn confinement(&self) -> Confinement {
        let without_group = |resource| self.groups.means(resource).is_none();
        let memory = self.limits.memory.filter(|_| without_group(Resource::Memory));
        let cpu = self.limits.cpu.filter(|_| without_group(Resource::Cpu));
        Confinement {
            doors: self.groups.doors(),
            files: self.limits.files.map(|files| capped(Rlimited::Nofile, files)),
            data: memory.map(|memory| capped(Rlimited::Data, memory.0)),
            nice: cpu.map(nice).filter(|nice| *nice > 0),
            goes_last: self.limits.cpu.is_some_and(|share| nice(share) > 0),
            closing: None,
        }
    }

    /// The pane's first process runs.
    pub(crate) fn started(&mut self, head: u32) {
        self.groups.keep_those_with(head);
        if self.limits.cpu.is_some() {
            self.stand_back();
        }
        self.looked = Instant::now();
        self.due = self.interval().map(|wait| self.looked + wait);
    }

    /// Keeping a pane that floods takes as much as flooding does: the keeper of one that may have
    /// less of the processor takes less, too. It cannot join the pane's group, whose memory and
    /// processes are counted.
    fn stand_back(&self) {
        let nice = self.limits.cpu.map_or(0, nice);
        // Not everybody may come forward again.
        let _refused = rustix::process::setpriority_process(None, nice);
    }

    /// How long to the next look; none if there is nothing to look for.
    fn interval(&self) -> Option<Duration> {
        if self.resting {
            return None;
        }
        let tree = self.measures_tree().then_some(TREE);
        // Whom the system ended is not always our own child, so it has to be asked.
        let group = (!self.groups.is_empty()).then_some(RARELY);
        let disk = self.gauge.map(|gauge| gauge.interval());
        disk.into_iter().chain(tree).chain(group).min()
    }

    /// Whether processes or memory are limited and the system does not see to it.
    fn measures_tree(&self) -> bool {
        [Resource::Memory, Resource::Processes].into_iter().any(|resource| self.measures(resource))
    }

    fn measures(&self, resource: Resource) -> bool {
        self.limits.of(resource).is_some() && self.groups.means(resource).is_none()
    }

    /// What becomes readable when a look is over.
    pub(crate) fn bell(&self) -> &UnixStream {
        &self.bell.0
    }

    /// When [`Warden::look`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.filter(|_| self.frozen.is_none())
    }

    /// Something happens in the pane.
    pub(crate) fn stir(&mut self, now: Instant) {
        if let Some(due) = &mut self.due {
            *due = (*due).min(now + SOON);
        }
    }

    /// Looks at what the pane takes, if it is time; in a thread of its own if that may take long.
    pub(crate) fn look(&mut self, now: Instant) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        self.ask_groups();
        let waited = now.saturating_duration_since(self.looked);
        let Some(wanted) = self.glance(waited, now) else { return };
        let look = Look {
            gauge: self.gauge,
            wanted,
            waited,
            dirs: self.dirs.clone(),
            household: self.household.clone(),
            round: self.round,
        };
        self.looked = now;
        if let Some(found) = look.at_once() {
            self.due = None;
            return ring(&self.looks.0, found, &self.bell.1);
        }
        let found = self.looks.0.clone();
        let started = self.bell.1.try_clone().and_then(|bell| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            thread.spawn(move || ring(&found, look.run(), &bell)).map(drop)
        });
        // Without a thread to give, the system is in trouble already.
        self.due = started.is_err().then(|| now + SOON * 10);
    }

    /// What can be told at once of a small pane: none if there is nothing to look for now,
    /// otherwise whether the disk is to be measured for certain.
    fn glance(&mut self, waited: Duration, now: Instant) -> Option<bool> {
        let written = appetite::written_below(std::process::id(), GLANCE);
        let wanted = match (&mut self.gauge, written) {
            (None, _) => false,
            (Some(_), None) => return Some(false),
            (Some(gauge), written) => gauge.look(written, waited),
        };
        if wanted || self.measures_tree() {
            return Some(wanted);
        }
        self.looked = now;
        self.due = self.interval().map(|wait| now + wait);
        None
    }

    /// What looks have found that is new.
    pub(crate) fn hear(&mut self, now: Instant) -> Vec<Reading> {
        let mut readings = Vec::new();
        while let Ok(found) = self.looks.1.try_recv() {
            if found.round != self.round {
                continue;
            }
            self.gauge = found.gauge;
            (self.memory, self.processes) = (Some(found.memory), Some(found.processes));
            if let (Some(level), Some(gauge)) = (found.disk, self.gauge) {
                let used = gauge.used().unwrap_or_default();
                let limit = gauge.limit();
                readings.push(Reading { resource: Resource::Disk, used, limit, level });
            }
            let tree = [(Resource::Memory, found.memory), (Resource::Processes, found.processes)];
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
        readings
    }

    /// Tells what the system did by itself to keep the limits.
    pub(crate) fn ask_groups(&mut self) {
        let (memory, processes) = (self.groups.out_of_memory(), self.groups.refused_processes());
        // Each end of a process is told, but of the refusals, which may be thousands, the first.
        let ended = memory > self.out_of_memory;
        let refused = processes > 0 && self.refused == 0;
        (self.out_of_memory, self.refused) = (memory, processes);
        let kept = [(Resource::Memory, ended), (Resource::Processes, refused)];
        for (resource, _) in kept.into_iter().filter(|(_, kept)| *kept) {
            if let Some(limit) = self.limits.of(resource) {
                self.tell(&LimitNews::Kept { resource, limit });
            }
        }
    }

    /// Why the head of the pane was killed, if it was because of a limit.
    pub(crate) fn why_killed(&self) -> Option<String> {
        let limit = self.limits.memory.filter(|_| self.out_of_memory > 0)?;
        Some(format!("the system ended a process of it: it may take {limit} of memory"))
    }

    /// Puts on record that the processes stand still.
    pub(crate) fn froze(&mut self, why: String) {
        let frozen = Frozen { why, at: clock::now() };
        if let Err(error) = record::write(Path::new(FROZEN), &frozen, Survive::Kill) {
            complain(&error.to_string());
        }
        self.frozen = Some(frozen);
    }

    /// Puts on record that they go on; whether they stood still.
    pub(crate) fn thawed(&mut self, now: Instant) -> bool {
        if self.frozen.take().is_none() {
            return false;
        }
        let _missing = fs::remove_file(FROZEN);
        self.begin_again(now);
        true
    }

    /// The pane is being ended: from now on nothing is looked at, and nobody stands still.
    pub(crate) fn rest(&mut self) {
        self.resting = true;
        self.round += 1;
        self.due = None;
        if self.frozen.take().is_some() {
            let _missing = fs::remove_file(FROZEN);
        }
    }

    /// What is known is about other limits, or about a time that is over.
    fn begin_again(&mut self, now: Instant) {
        self.round += 1;
        self.levels = [Level::Fine; 2];
        self.gauge = self.limits.disk.map(|disk| {
            self.gauge.map_or_else(|| Gauge::new(disk.0), |gauge| gauge.with_limit(disk.0))
        });
        self.due = self.interval().map(|wait| now + wait.min(SOON));
    }

    /// From now on the pane may take this. `members` are its processes.
    pub(crate) fn change(&mut self, limits: Limits, members: &[u32], now: Instant) {
        let had = self.limits;
        self.limits = limits;
        let missing = Resource::ALL.into_iter().any(|resource| self.measures(resource));
        if missing {
            self.groups.add(make_groups(self.pane, &limits));
            members.iter().for_each(|pid| self.groups.enter(*pid));
            if let Some(head) = members.first() {
                self.groups.keep_those_with(*head);
            }
        }
        self.groups.change(&limits);
        for pid in members.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
            if let Some(files) = limits.files.filter(|_| limits.files != had.files) {
                let files = Some(capped(Rlimited::Nofile, files));
                // It may have ended.
                let _ended =
                    prlimit(Some(pid), Rlimited::Nofile, Rlimit { current: files, maximum: files });
            }
            if limits.cpu != had.cpu && self.groups.means(Resource::Cpu).is_none() {
                let nice = limits.cpu.map_or(0, nice);
                let _refused = rustix::process::setpriority_process(Some(pid), nice);
            }
        }
        if limits.cpu != had.cpu {
            self.stand_back();
        }
        self.begin_again(now);
    }

    /// What the pane may take and takes.
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

    fn means(&self, resource: Resource) -> Means {
        let group = self.groups.means(resource);
        match resource {
            _ if self.limits.of(resource).is_none() => Means::None,
            Resource::Disk => Means::Measured,
            Resource::Memory => group.unwrap_or(Means::ProcessAndMeasured),
            Resource::Processes => group.unwrap_or(Means::Measured),
            Resource::Cpu => group.unwrap_or(Means::Priority),
            Resource::Files => Means::Process,
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

    /// Leaves news where the daemon finds them, and tells it that there are some.
    pub(crate) fn tell(&mut self, news: &LimitNews) {
        self.told += 1;
        let name = format!("{NEWS}{:013}-{:06}.json", clock::now().0, self.told);
        if let Err(error) = record::write(Path::new(&name), news, Survive::Kill) {
            return complain(&error.to_string());
        }
        let (Some(dir), pane) = (self.daemon.clone(), self.pane) else { return };
        let told = std::thread::Builder::new().stack_size(STACK).spawn(move || {
            // Whoever is daemon next looks for news by itself.
            let Ok(mut daemon) = Connection::open(&dir, CONTROL_SOCKET) else { return };
            let _endless = daemon.set_patience(Some(HEARING));
            let _unheard = daemon.ask(&Request::LimitNews { pane });
        });
        if let Err(error) = told {
            complain(&format!("the daemon is not told: {error}"));
        }
    }

    /// Removes the groups. No process of the pane is left.
    pub(crate) fn leave(&self) {
        for dir in self.groups.paths() {
            if !cgroup::remove(&dir) {
                complain(&format!("the group `{}` is still there", dir.display()));
            }
        }
        if !self.groups.is_empty() {
            let _missing = fs::remove_file(GROUPS);
        }
    }
}

/// Says what a look has found.
fn ring(looks: &Sender<Found>, found: Found, mut bell: &UnixStream) {
    // The keeper is leaving if nobody listens.
    let _unheard = looks.send(found);
    let _unheard = bell.write_all(b"!");
}

/// The groups that the limits need, as far as they can be had. Where they will be is on record
/// first: whoever has to remove them in our stead must know.
fn make_groups(pane: PaneId, limits: &Limits) -> Groups {
    let mut groups = cgroup::plan(&format!("ccmux-{pane}"), limits);
    if groups.is_empty() {
        return groups;
    }
    let paths = groups.paths();
    let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    if let Err(error) = record::write(Path::new(GROUPS), &paths, Survive::Kill) {
        complain(&error.to_string());
        return Groups::default();
    }
    groups.make(limits);
    groups
}

/// A limit of a process cannot be above the one that we have ourselves.
fn capped(resource: Rlimited, limit: u64) -> u64 {
    getrlimit(resource).maximum.map_or(limit, |most| limit.min(most))
}

/// The directories that count: what is the pane's own, and not what it shares with others. Not the
/// log of its output, whose size is bounded anyhow.
fn own_dirs(launch: &LaunchRecord) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = ["workspace", "temp", "output"].map(PathBuf::from).into();
    dirs.extend(launch.isolation.paths().map(PathBuf::from));
    dirs
}
