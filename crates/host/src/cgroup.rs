//! Linux control groups, which limit the processes of a pane.
//!
//! Groups are created below the group of this process or, with version 2, below its nearest
//! writable ancestor; never elsewhere, so limits on the daemon apply to its panes too. Version 1 has
//! one tree per controller, version 2 a single tree. Groups that cannot be created are omitted; the
//! caller falls back to weaker means.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::proc_file;
use model::PaneId;
use model::limits::{Enforcement, Limits, Resource};

/// Resources that groups can limit.
const RESOURCES: [Resource; 3] = [Resource::Memory, Resource::Processes, Resource::Cpu];

/// The prefix of the names of groups of panes.
const PREFIX: &str = "ccmux-";

/// The file that lists the processes of a group.
const PROCS_FILE: &str = "cgroup.procs";

/// How long to wait for ended processes to leave their group.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two attempts to remove a group.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// The groups of one pane.
#[derive(Clone, Debug, Default)]
pub struct Groups(BTreeMap<Resource, Group>);

#[derive(Clone, Debug)]
struct Group {
    dir: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Returns the name of the groups of a pane.
#[must_use]
pub fn name_of(pane: PaneId) -> String {
    format!("{PREFIX}{pane}")
}

/// Returns the pane in whose group a process is, if it has one. A process that may write to the
/// group tree can leave its group, so `None` does not mean that it belongs to no pane.
#[must_use]
pub fn pane_of(pid: u32) -> Option<PaneId> {
    let text = proc_file::read(pid, "cgroup").ok()?;
    String::from_utf8_lossy(&text).lines().find_map(pane_of_line)
}

/// The innermost group of a pane in a line of `/proc/PID/cgroup`.
fn pane_of_line(line: &str) -> Option<PaneId> {
    let path = line.splitn(3, ':').nth(2)?;
    path.rsplit('/').find_map(|part| part.strip_prefix(PREFIX)?.parse().ok())
}

/// Returns where the groups called `name` would be created for the resources that `limits` limit.
#[must_use]
pub fn plan(name: &str, limits: &Limits) -> Groups {
    let wanted: Vec<Resource> =
        RESOURCES.into_iter().filter(|resource| limits.of(*resource).is_some()).collect();
    if wanted.is_empty() || !limits.groups {
        return Groups::default();
    }
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (mounts, own_groups) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    let found = wanted.into_iter().filter_map(|resource| {
        let (parent, version) = parent_dir(resource, &mounts, &own_groups)?;
        Some((resource, Group { dir: parent.join(name), version }))
    });
    Groups(found.collect())
}

/// Returns the directory below which a group for this resource can be created.
fn parent_dir(resource: Resource, mounts: &str, own_groups: &str) -> Option<(PathBuf, Version)> {
    let controller = controller(resource)?;
    if let Some(dir) = own_dir(mounts, own_groups, Some(controller)) {
        return Some((dir, Version::One));
    }
    let own = own_dir(mounts, own_groups, None)?;
    let usable = own.ancestors().take_while(|dir| dir.join("cgroup.controllers").exists());
    for dir in usable {
        let has = |file: &str| {
            let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
            text.split_ascii_whitespace().any(|word| word == controller)
        };
        if !has("cgroup.controllers") {
            return None;
        }
        // Controllers are enabled only in our own group; groups above it must not be changed.
        let is_enabled = has("cgroup.subtree_control")
            || dir == own
                && put(&dir.join("cgroup.subtree_control"), &format!("+{controller}")).is_ok();
        if is_enabled && is_writable(dir) {
            return Some((dir.to_owned(), Version::Two));
        }
    }
    None
}

fn is_writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Returns the directory of our own group: of this controller in version 1, or in version 2.
fn own_dir(mounts: &str, own_groups: &str, controller: Option<&str>) -> Option<PathBuf> {
    let names = |list: &str, name: &str| list.split(',').any(|word| word == name);
    let group = own_groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let matches = controller.map_or(controllers.is_empty(), |name| names(controllers, name));
        matches.then_some(path)
    })?;
    let (root, mount) = mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let matches = match controller {
            Some(name) => system.next()? == "cgroup" && names(system.nth(1)?, name),
            None => system.next()? == "cgroup2",
        };
        let mut fields = mount.split(' ').skip(3);
        matches.then_some((fields.next()?, fields.next()?))
    })?;
    // In a container the mount may start at our own group or at one of its ancestors.
    let below = group.strip_prefix(root.trim_end_matches('/')).unwrap_or_default();
    let dir = Path::new(mount).join(below.trim_start_matches('/'));
    dir.is_dir().then_some(dir)
}

fn controller(resource: Resource) -> Option<&'static str> {
    match resource {
        Resource::Memory => Some("memory"),
        Resource::Processes => Some("pids"),
        Resource::Cpu => Some("cpu"),
        Resource::Disk | Resource::Files => None,
    }
}

impl Groups {
    /// Returns the directories of the groups.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = self.0.values().map(|group| group.dir.clone()).collect();
        dirs.dedup();
        dirs
    }

    /// Returns whether there is no group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Creates the groups with these limits. Groups that cannot be created are dropped.
    pub fn make(&mut self, limits: &Limits) {
        self.0.retain(|resource, group| {
            let made = match fs::create_dir(&group.dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => false,
                _ => set(*resource, group, limits.of(*resource)).is_ok(),
            };
            if !made {
                // The group is still empty.
                let _missing = fs::remove_dir(&group.dir);
            }
            made
        });
    }

    /// Adds the groups of `others` for resources without a group.
    pub fn add(&mut self, others: Self) {
        for (resource, group) in others.0 {
            self.0.entry(resource).or_insert(group);
        }
    }

    /// Changes the limits.
    pub fn change(&self, limits: &Limits) {
        for (resource, group) in &self.0 {
            // A limit below the current usage may be refused; the next measurement shows it.
            let _refused = set(*resource, group, limits.of(*resource));
        }
    }

    /// Opens the files through which a process joins the groups by writing `0`.
    #[must_use]
    pub fn join_files(&self) -> Vec<File> {
        let open = |dir: PathBuf| File::options().write(true).open(dir.join(PROCS_FILE)).ok();
        self.paths().into_iter().filter_map(open).collect()
    }

    /// Moves a process into the groups.
    pub fn enter(&self, pid: u32) {
        for dir in self.paths() {
            // The process may have ended.
            let _ended = put(&dir.join(PROCS_FILE), &pid.to_string());
        }
    }

    /// Drops the groups that this process is not a member of.
    pub fn retain_containing(&mut self, pid: u32) {
        self.0.retain(|_, group| members(&group.dir).contains(&pid));
    }

    /// Returns the version of the group that limits a resource, if there is one.
    #[must_use]
    pub fn means(&self, resource: Resource) -> Option<Enforcement> {
        self.0.get(&resource).map(|group| match group.version {
            Version::One => Enforcement::GroupV1,
            Version::Two => Enforcement::GroupV2,
        })
    }

    /// Returns the current usage.
    #[must_use]
    pub fn used(&self, resource: Resource) -> Option<u64> {
        let group = self.0.get(&resource)?;
        let file = match (resource, group.version) {
            (Resource::Memory, Version::One) => "memory.usage_in_bytes",
            (Resource::Memory, Version::Two) => "memory.current",
            (Resource::Processes, _) => "pids.current",
            (Resource::Cpu | Resource::Disk | Resource::Files, _) => return None,
        };
        fs::read_to_string(group.dir.join(file)).ok()?.trim().parse().ok()
    }

    /// Returns how often the kernel killed a process because the group was out of memory.
    #[must_use]
    pub fn out_of_memory(&self) -> u64 {
        let Some(group) = self.0.get(&Resource::Memory) else { return 0 };
        let file = match group.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        count(&group.dir.join(file), "oom_kill")
    }

    /// Returns how often the kernel refused a new process.
    #[must_use]
    pub fn refused_processes(&self) -> u64 {
        let Some(group) = self.0.get(&Resource::Processes) else { return 0 };
        count(&group.dir.join("pids.events"), "max")
    }
}

/// Returns the number after `word` in a file of words and numbers.
fn count(path: &Path, word: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Sets or removes one limit.
fn set(resource: Resource, group: &Group, limit: Option<u64>) -> io::Result<()> {
    let put = |file: &str, value: String| put(&group.dir.join(file), &value);
    let or = |none: &str| limit.map_or_else(|| none.to_owned(), |limit| limit.to_string());
    match (resource, group.version) {
        (Resource::Memory, Version::One) => {
            // The limit with swap must never be the lower one. It exists only if swap is accounted.
            let with_swap = || put("memory.memsw.limit_in_bytes", or("-1"));
            let _uncounted = with_swap();
            put("memory.limit_in_bytes", or("-1"))?;
            let _uncounted = with_swap();
            Ok(())
        }
        (Resource::Memory, Version::Two) => {
            let _uncounted = put("memory.swap.max", limit.map_or("max", |_| "0").to_owned());
            put("memory.max", or("max"))
        }
        (Resource::Processes, _) => put("pids.max", or("max")),
        (Resource::Cpu, Version::One) => {
            // The default is 1024 in version 1 and 100 in our scale.
            put("cpu.shares", (limit.unwrap_or(100) * 1024 / 100).max(2).to_string())
        }
        (Resource::Cpu, Version::Two) => put("cpu.weight", limit.unwrap_or(100).to_string()),
        (Resource::Disk | Resource::Files, _) => Ok(()),
    }
}

/// Writes to a control file, which takes each write as one command.
fn put(path: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(value.as_bytes())
}

fn members(dir: &Path) -> Vec<u32> {
    let text = fs::read_to_string(dir.join(PROCS_FILE)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Removes a group whose processes have been killed, as soon as the last of them is reaped. Returns
/// whether the group is gone. Processes that remain are moved to the parent group. Blocks.
pub fn remove(dir: &Path) -> bool {
    let start = Instant::now();
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) if start.elapsed() > REMOVE_TIMEOUT => return false,
            Err(_) => {}
        }
        if start.elapsed() > REMOVE_TIMEOUT / 2
            && let Some(parent) = dir.parent()
        {
            for pid in members(dir) {
                let _ended = put(&parent.join(PROCS_FILE), &pid.to_string());
            }
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_dir_is_found_below_its_mount() {
        let dir = tempfile::tempdir().unwrap();
        let mount = dir.path().join("memory");
        fs::create_dir_all(mount.join("a/b")).unwrap();
        let at = mount.display();
        let own_groups = "4:memory:/a/b\n3:cpu,cpuacct:/\n0::/\n";
        let line = |root: &str| format!("1 2 0:3 {root} {at} rw - cgroup cgroup rw,memory\n");

        let whole = own_dir(&line("/"), own_groups, Some("memory"));
        let part = own_dir(&line("/a"), own_groups, Some("memory"));

        assert_eq!(whole, Some(mount.join("a/b")));
        assert_eq!(part, None, "`b` is not below that mount");
        assert_eq!(own_dir(&line("/"), own_groups, Some("pids")), None);
        assert_eq!(own_dir(&line("/"), own_groups, None), None);
    }

    #[test]
    fn pane_of_line_finds_innermost_group_of_a_pane() {
        let pane = PaneId::from_random([3; 16]);
        let outer = PaneId::from_random([4; 16]);
        let nested = format!("4:memory:/user/{}/{}/own", name_of(outer), name_of(pane));

        assert_eq!(pane_of_line(&nested), Some(pane));
        assert_eq!(pane_of_line("0::/user.slice/ccmux-x"), None);
        assert_eq!(pane_of_line("0::/"), None);
    }

    #[test]
    fn plan_without_limits_is_empty() {
        assert!(plan("x", &Limits::default()).is_empty());
        let off = Limits {
            memory: Some(model::limits::Amount(1 << 30)),
            groups: false,
            ..Limits::default()
        };
        assert!(plan("x", &off).is_empty());
    }

    #[test]
    fn remove_missing_group_succeeds() {
        let dir = tempfile::tempdir().unwrap();

        assert!(remove(&dir.path().join("none")));
    }
}
