//! R14: when the daemon is killed while directories are created, retired, swept or deleted, no live
//! directory is touched, none is lost, and none is half created.
//!
//! `CCMUX_SOAK_INTERRUPTIONS` sets the number of kills; `make soak` uses five hundred.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::ProcessIdentity;
use serde_json::Value;
use testkit::soak::repetitions;
use testkit::tree::Entry;
use testkit::{DEADLINE, Dice, Finished, Home, Hooks, Pane, process, put, tree, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Number of panes that must survive all of it.
const LIVE: usize = 4;

/// Operations during which the daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Create,
    CreateWithHome,
    Close,
    Purge,
    Restore,
    Sweep,
    Empty,
}

const WORKS: [Work; 7] = [
    Work::Create,
    Work::CreateWithHome,
    Work::Close,
    Work::Purge,
    Work::Restore,
    Work::Sweep,
    Work::Empty,
];

/// Points at which it is killed, besides random ones.
const POINTS: [(Work, &str); 19] = [
    (Work::Create, "new.entered"),
    (Work::Create, "new.directories"),
    (Work::Create, "new.isolation_dirs"),
    (Work::CreateWithHome, "new.isolation_dirs"),
    (Work::Create, "new.recorded"),
    (Work::CreateWithHome, "new.recorded"),
    (Work::Create, "new.started"),
    (Work::Close, "close.stopped"),
    (Work::Close, "retire.isolation_dirs"),
    (Work::Close, "close.retired"),
    (Work::Sweep, "sweep.found"),
    (Work::Sweep, "sweep.moved"),
    (Work::Purge, "purge.stopped"),
    (Work::Purge, "retire.isolation_dirs"),
    (Work::Purge, "purge.retired"),
    (Work::Restore, "restore.claimed"),
    (Work::Restore, "restore.recorded"),
    (Work::Restore, "restore.started"),
    (Work::Empty, "gc.deleting"),
];

impl Work {
    /// Returns the command line.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Create => &["new", "-d", "-n", "victim", "--", "sleep", "1000"],
            Self::CreateWithHome => {
                &["new", "-d", "-n", "victim", "--isolation", "home", "--", "sleep", "1000"]
            }
            Self::Close => &["close", "victim", "--grace", "0"],
            Self::Purge => &["purge", "doomed", "--yes", "--now", "--grace", "0"],
            Self::Restore => &["restore", "spare"],
            Self::Sweep => &["gc"],
            Self::Empty => &["gc", "--empty-trash"],
        }
    }

    /// Creates what the operation needs.
    fn prepare(self, home: &Home) {
        match self {
            Self::Create | Self::CreateWithHome => {
                // Removes a remainder of an earlier round, if there is one.
                home.ccmux(&["close", "victim", "--grace", "0"]).run();
            }
            Self::Close => start_if_missing(home, "victim", &["-n", "victim"]),
            Self::Purge => {
                start_if_missing(home, "doomed/one", &["--session", "doomed", "-n", "one"]);
                start_if_missing(home, "doomed/two", &["--session", "doomed", "-n", "two"]);
            }
            Self::Restore => drop(home.ccmux(&["stop", "spare", "--grace", "0"]).ok()),
            Self::Sweep => {
                for holder in ["claude-configs", "codex-configs", "claude-homes", "tmp"] {
                    create_orphan(home, &format!("{holder}/pane-{}", new_id()));
                }
            }
            Self::Empty => create_orphan(home, &format!("trash/1000-pane-{}", new_id())),
        }
    }
}

fn start_if_missing(home: &Home, target: &str, options: &[&str]) {
    if home.ccmux(&["show", target]).run().status.code() == Some(3) {
        let words = ["new", "-d"].iter().chain(options).chain(&["--", "sleep", "1000"]);
        home.ccmux(&words.copied().collect::<Vec<_>>()).ok();
    }
}

/// Returns a pane id that is not in use.
fn new_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned()
}

/// Creates an orphaned directory with a file in it.
fn create_orphan(home: &Home, path: &str) {
    let dir = home.state_root().join(path);
    fs::create_dir_all(dir.join("some/thing")).unwrap();
    fs::set_permissions(dir.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
}

fn interruptions() -> usize {
    repetitions("CCMUX_SOAK_INTERRUPTIONS", 60)
}

/// A pane that must survive all of it, and its state to compare at the end.
struct Survivor {
    pane: Pane,
    /// `None` if it may be stopped and restarted meanwhile.
    processes: Option<[ProcessIdentity; 2]>,
    dirs: BTreeMap<PathBuf, BTreeMap<PathBuf, Entry>>,
}

impl Survivor {
    fn new(home: &Home, pane: Pane, is_left_alone: bool) -> Self {
        for dir in isolation_dirs(home, &pane.id) {
            put(&dir.join("marker"), &pane.id);
        }
        let dirs = isolation_dirs(home, &pane.id).into_iter().map(|dir| (dir.clone(), tree(&dir)));
        let dirs = dirs.collect();
        let processes = is_left_alone.then(|| [pane.head.clone(), pane.keeper()]);
        Self { pane, processes, dirs }
    }

    fn assert_untouched(&self, home: &Home, after: &str) {
        let name = &self.pane.name;
        for process in self.processes.iter().flatten() {
            assert!(process::is_alive(process), "{after}: {name} has ended");
        }
        let there: Vec<PathBuf> = isolation_dirs(home, &self.pane.id);
        assert_eq!(there, self.dirs.keys().cloned().collect::<Vec<_>>(), "{after}: {name}");
        for (dir, before) in &self.dirs {
            let marker = fs::read_to_string(dir.join("marker")).unwrap();
            assert_eq!(marker, self.pane.id, "{after}: {} is another's", dir.display());
            assert!(tree(dir) == *before, "{after}: {} has changed", dir.display());
        }
    }
}

/// Returns the directories that contain pane directories.
fn holders(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.state_root()).unwrap().map(|entry| entry.unwrap());
    let mut holders: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name().into_string().unwrap();
            name.ends_with("-configs") || name == "claude-homes" || name == "tmp"
        })
        .map(|entry| entry.path())
        .collect();
    holders.sort();
    holders
}

/// Returns the isolation directories of a pane.
fn isolation_dirs(home: &Home, id: &str) -> Vec<PathBuf> {
    let places = holders(home).into_iter().map(|holder| holder.join(format!("pane-{id}")));
    places.filter(|place| place.symlink_metadata().is_ok()).collect()
}

fn listed(home: &Home) -> Vec<Value> {
    let listed = home.ccmux(&["ls", "--json"]).json();
    let sessions = listed["sessions"].as_array().unwrap().iter();
    sessions.flat_map(|session| session["panes"].as_array().unwrap().clone()).collect()
}

/// Asserts that every listed pane is complete.
fn assert_listed_panes_are_complete(home: &Home, after: &str) {
    let mut panes = Vec::new();
    wait_until("no pane is starting", DEADLINE, || {
        panes = listed(home);
        panes.iter().all(|pane| pane["state"] != "starting")
    });
    for pane in &panes {
        let name = pane["name"].as_str().unwrap();
        let isolation = &pane["isolation"];
        let dirs = isolation["dirs"].as_array().unwrap_or_else(|| panic!("{after}: {pane}"));
        let dirs = dirs.iter().map(|dir| &dir["path"]);
        let all = dirs.chain([&isolation["temp"], &isolation["home"]]).filter_map(Value::as_str);
        let all: Vec<&str> = all.collect();
        assert!(all.len() >= 4, "{after}: {name} has only {all:?}");
        for dir in all {
            assert!(Path::new(dir).is_dir(), "{after}: {name} has lost {dir}");
        }
        let own = Path::new(pane["dir"].as_str().unwrap());
        for part in ["pane.json", "workspace", "temp", "output", "log"] {
            assert!(own.join(part).exists(), "{after}: {name} has no {part}");
        }
    }
}

/// Asserts that after a sweep every pane directory belongs to a listed pane.
fn assert_no_orphans_left(home: &Home, after: &str) {
    let collected = home.ccmux(&["gc", "--json"]).json();
    for item in collected["items"].as_array().unwrap() {
        let fine = match item["kind"].as_str().unwrap() {
            "trash" => true,
            "orphan" => item["action"] == "trash",
            _ => false,
        };
        assert!(fine, "{after}: {item}");
    }
    let known: BTreeSet<String> =
        listed(home).iter().map(|pane| format!("pane-{}", pane["id"].as_str().unwrap())).collect();
    for holder in holders(home) {
        for entry in fs::read_dir(holder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            assert!(
                known.contains(&name),
                "{after}: {} belongs to no session or pane",
                entry.path().display()
            );
        }
    }
}

fn begin(home: &Arc<Home>, work: Work) -> JoinHandle<Finished> {
    let home = Arc::clone(home);
    thread::spawn(move || home.ccmux(work.words()).run())
}

/// Kills the daemon at a point.
fn kill_at(home: &Arc<Home>, hooks: &Hooks, work: Work, point: &str) {
    let daemon = home.daemon();
    let seen = hooks.reached(point);
    hooks.pause(point);
    let asking = begin(home, work);
    hooks.wait_reached(point, seen + 1);
    process::kill_and_wait(&daemon, DEADLINE);
    hooks.release(point);
    let code = asking.join().unwrap().status.code();
    // Only idempotent operations are finished by the next daemon.
    let expected = if work == Work::Purge { 0 } else { 6 };
    // After its response, purged directories are deleted, and so are those that an earlier sweep
    // found.
    assert!(code == Some(expected) || work == Work::Empty, "{work:?} at {point}: {code:?}");
}

/// Kills the daemon some time after the request.
fn kill_during(home: &Arc<Home>, work: Work, after: Duration) {
    let daemon = home.daemon();
    let asking = begin(home, work);
    thread::park_timeout(after);
    process::kill_and_wait(&daemon, DEADLINE);
    // Any result is fine: it may have been done before, and a purge is continued by the next
    // daemon.
    asking.join().unwrap();
}

#[test]
fn heavy_directories_survive_daemon_kills_at_any_point() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    put(&home.state_root().join("config/ccmux.toml"), "[cleanup]\norphan_age = \"0s\"\n");
    fs::set_permissions(home.state_root(), fs::Permissions::from_mode(0o700)).unwrap();
    home.start_daemon();
    let agent = home.fake_agent();
    let command = [agent.to_str().unwrap(), "--lines", "endless", "--interval-us", "20000"];
    let mut survivors: Vec<Survivor> = (0..LIVE)
        .map(|n| Survivor::new(&home, home.start_pane(&format!("live{n}"), &command), true))
        .collect();
    let spare = home.start_pane("spare", &["sleep", "1000"]);
    survivors.push(Survivor::new(&home, spare, false));
    let home = Arc::new(home);
    let mut dice = Dice::default();
    let mut slowest = Duration::ZERO;
    let mut at_points: BTreeMap<&str, usize> = BTreeMap::new();

    for count in 0..interruptions() {
        let after = if count % 2 == 0 {
            let (work, point) = POINTS[(count / 2) % POINTS.len()];
            work.prepare(&home);
            kill_at(&home, &hooks, work, point);
            *at_points.entry(point).or_default() += 1;
            format!("interruption {count}, {work:?} at {point}")
        } else {
            let work = WORKS[usize::try_from(dice.roll(WORKS.len() as u64)).unwrap()];
            let moment = Duration::from_micros(dice.roll(40_000));
            work.prepare(&home);
            kill_during(&home, work, moment);
            format!("interruption {count}, {work:?} after {moment:?}")
        };
        let began = Instant::now();
        home.ccmux(&["daemon", "start"]).ok();
        assert_listed_panes_are_complete(&home, &after);
        slowest = slowest.max(began.elapsed());
        survivors.iter().for_each(|survivor| survivor.assert_untouched(&home, &after));
        assert_no_orphans_left(&home, &after);
        survivors.iter().for_each(|survivor| survivor.assert_untouched(&home, &after));
    }

    let kills = interruptions();
    println!("{kills} interruptions, slowest restart to a full listing {slowest:?}");
    println!("at points: {at_points:?}, the rest at random");
    let events = home.ccmux(&["events", "--json"]).ok();
    println!("{} directories swept", events.matches("\"retired\"").count());
    assert_eq!(events.matches("\"cleanup_failed\"").count(), 0);
    let status = home.ccmux(&["daemon", "status", "--json"]).json();
    assert_eq!(status["problems"], Value::Null, "{status}");
    home.ccmux(&["gc", "--empty-trash"]).ok();
    let left = home.ccmux(&["gc", "--dry-run", "--json"]).json();
    assert_eq!(left["items"].as_array().unwrap().len(), 0, "{left}");
    assert_eq!(home.zombies(), []);
}
