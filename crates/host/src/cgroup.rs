//! Control groups: the system's own means to keep processes within limits.
//!
//! Groups are made below the one that we are in, or, with version 2, below the nearest one above
//! that we may use; never elsewhere, so that whoever limits us limits the panes with us. Version 1
//! has a tree of groups per controller, version 2 one tree for all. What cannot be had is reported
//! as not had: the caller has weaker means.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::limits::{Limits, Means, Resource};

/// What groups can limit.
const RESOURCES: [Resource; 3] = [Resource::Memory, Resource::Processes, Resource::Cpu];

/// The file with the processes of a group.
const MEMBERS: &str = "cgroup.procs";

/// How long the processes of a group may take to be gone once they have ended.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked whether they are.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

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

/// Where the groups of a pane called `name` would be made for what `limits` limit.
#[must_use]
pub fn plan(name: &str, limits: &Limits) -> Groups {
    let wanted: Vec<Resource> =
        RESOURCES.into_iter().filter(|resource| limits.of(*resource).is_some()).collect();
    if wanted.is_empty() || !limits.groups {
        return Groups::default();
    }
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (mounts, ours) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    let found = wanted.into_iter().filter_map(|resource| {
        let (parent, version) = place(resource, &mounts, &ours)?;
        Some((resource, Group { dir: parent.join(name), version }))
    });
    Groups(found.collect())
}

/// Where a group for this can be made.
fn place(resource: Resource, mounts: &str, ours: &str) -> Option<(PathBuf, Version)> {
    let controller = controller(resource)?;
    if let Some(dir) = own_dir(mounts, ours, Some(controller)) {
        return Some((dir, Version::One));
    }
    let own = own_dir(mounts, ours, None)?;
    let usable = own.ancestors().take_while(|dir| dir.join("cgroup.controllers").exists());
    for dir in usable {
        let has = |file: &str| {
            let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
            text.split_ascii_whitespace().any(|word| word == controller)
        };
        if !has("cgroup.controllers") {
            return None;
        }
        // What groups above us hand on is for others to decide.
        let handed_on = has("cgroup.subtree_control")
            || dir == own
                && put(&dir.join("cgroup.subtree_control"), &format!("+{controller}")).is_ok();
        if handed_on && is_writable(dir) {
            return Some((dir.to_owned(), Version::Two));
        }
    }
    None
}

fn is_writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The directory of the group that we are in: of this controller in version 1, or in version 2.
fn own_dir(mounts: &str, ours: &str, controller: Option<&str>) -> Option<PathBuf> {
    let names = |list: &str, name: &str| list.split(',').any(|word| word == name);
    let group = ours.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = controller.map_or(controllers.is_empty(), |name| names(controllers, name));
        is_it.then_some(path)
    })?;
    let (root, mount) = mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let is_it = match controller {
            Some(name) => system.next()? == "cgroup" && names(system.nth(1)?, name),
            None => system.next()? == "cgroup2",
        };
        let mut fields = mount.split(' ').skip(3);
        is_it.then_some((fields.next()?, fields.next()?))
    })?;
    // In a container the mount may begin at our own group, or at one above it.
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
    /// Where they are.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = self.0.values().map(|group| group.dir.clone()).collect();
        dirs.dedup();
        dirs
    }

    /// Whether there is no group at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes them with these limits. Those that cannot be made are left out.
    pub fn make(&mut self, limits: &Limits) {
        self.0.retain(|resource, group| {
            let made = match fs::create_dir(&group.dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => false,
                _ => set(*resource, group, limits.of(*resource)).is_ok(),
            };
            if !made {
                // Nobody is in it yet.
                let _missing = fs::remove_dir(&group.dir);
            }
            made
        });
    }

    /// Takes over those of `others` that are for something that these are not for.
    pub fn add(&mut self, others: Self) {
        for (resource, group) in others.0 {
            self.0.entry(resource).or_insert(group);
        }
    }

    /// Changes the limits.
    pub fn change(&self, limits: &Limits) {
        for (resource, group) in &self.0 {
            // A limit below what is taken now may be refused; the next measurement shows it.
            let _refused = set(*resource, group, limits.of(*resource));
        }
    }

    /// The files through which a process joins by writing `0`.
    #[must_use]
    pub fn doors(&self) -> Vec<File> {
        let open = |dir: PathBuf| File::options().write(true).open(dir.join(MEMBERS)).ok();
        self.paths().into_iter().filter_map(open).collect()
    }

    /// Puts a process into them.
    pub fn enter(&self, pid: u32) {
        for dir in self.paths() {
            // It may have ended.
            let _ended = put(&dir.join(MEMBERS), &pid.to_string());
        }
    }

    /// Leaves out those that this process is not in.
    pub fn keep_those_with(&mut self, pid: u32) {
        self.0.retain(|_, group| members(&group.dir).contains(&pid));
    }

    /// Whether a group keeps this, and of which kind it is.
    #[must_use]
    pub fn means(&self, resource: Resource) -> Option<Means> {
        self.0.get(&resource).map(|group| match group.version {
            Version::One => Means::GroupV1,
            Version::Two => Means::GroupV2,
        })
    }

    /// What is taken now.
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

    /// How often the system had to end a process for want of memory.
    #[must_use]
    pub fn out_of_memory(&self) -> u64 {
        let Some(group) = self.0.get(&Resource::Memory) else { return 0 };
        let file = match group.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        count(&group.dir.join(file), "oom_kill")
    }

    /// How often the system refused a new process.
    #[must_use]
    pub fn refused_processes(&self) -> u64 {
        let Some(group) = self.0.get(&Resource::Processes) else { return 0 };
        count(&group.dir.join("pids.events"), "max")
    }
}

/// The number after `word` in a file of words and numbers.
fn count(path: &Path, word: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Sets, or takes away, one limit.
fn set(resource: Resource, group: &Group, limit: Option<u64>) -> io::Result<()> {
    let put = |file: &str, value: String| put(&group.dir.join(file), &value);
    let or = |none: &str| limit.map_or_else(|| none.to_owned(), |limit| limit.to_string());
    match (resource, group.version) {
        (Resource::Memory, Version::One) => {
            // Never below the one with swap, which is there only where swap is counted.
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
            // Version 1 counts from 1024 where everybody else counts from 100.
            put("cpu.shares", (limit.unwrap_or(100) * 1024 / 100).max(2).to_string())
        }
        (Resource::Cpu, Version::Two) => put("cpu.weight", limit.unwrap_or(100).to_string()),
        (Resource::Disk | Resource::Files, _) => Ok(()),
    }
}

/// Writes to a file of the kernel's, which takes each piece as a command.
fn put(path: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(value.as_bytes())
}

fn members(dir: &Path) -> Vec<u32> {
    let text = fs::read_to_string(dir.join(MEMBERS)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Removes a group whose processes have been ended, as soon as the last of them is gone; whether
/// it is gone now. What is left in it belongs to somebody else and goes one group up. Blocks.
pub fn remove(dir: &Path) -> bool {
    let begun = Instant::now();
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) if begun.elapsed() > PATIENCE => return false,
            Err(_) => {}
        }
        if begun.elapsed() > PATIENCE / 2
            && let Some(parent) = dir.parent()
        {
            for pid in members(dir) {
                let _ended = put(&parent.join(MEMBERS), &pid.to_string());
            }
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_that_we_are_in_is_found_below_its_mount() {
        let dir = tempfile::tempdir().unwrap();
        let mount = dir.path().join("memory");
        fs::create_dir_all(mount.join("a/b")).unwrap();
        let at = mount.display();
        let ours = "4:memory:/a/b\n3:cpu,cpuacct:/\n0::/\n";
        let line = |root: &str| format!("1 2 0:3 {root} {at} rw - cgroup cgroup rw,memory\n");

        let whole = own_dir(&line("/"), ours, Some("memory"));
        let part = own_dir(&line("/a"), ours, Some("memory"));

        assert_eq!(whole, Some(mount.join("a/b")));
        assert_eq!(part, None, "`b` is not below that mount");
        assert_eq!(own_dir(&line("/"), ours, Some("pids")), None);
        assert_eq!(own_dir(&line("/"), ours, None), None);
    }

    #[test]
    fn without_a_limit_no_group_is_planned() {
        assert!(plan("x", &Limits::default()).is_empty());
        let off = Limits {
            memory: Some(model::limits::Amount(1 << 30)),
            groups: false,
            ..Limits::default()
        };
        assert!(plan("x", &off).is_empty());
    }

    #[test]
    fn a_group_that_is_not_there_is_removed_already() {
        let dir = tempfile::tempdir().unwrap();

        assert!(remove(&dir.path().join("none")));
    }
}
