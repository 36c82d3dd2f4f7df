//! A day in short: panes come and go, write without end, take locks and give them back, and nothing
//! grows that should not.
//!
//! `CCMUX_SOAK_SECONDS` says for how long; `make soak` says ten minutes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::soak::how_often;
use testkit::{DEADLINE, Dice, Home, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// How many panes there are at a time.
const PANES: usize = 50;

/// How many clients ask at once.
const CLIENTS: usize = 4;

/// What the daemon takes for each pane that was ever made, in the registry: its events, which are
/// kept for long. More would be a leak.
const BYTES_PER_PANE: u64 = 8 << 10;

/// What a registry may take besides, its write-ahead log included.
const REGISTRY_AT_REST: u64 = 16 << 20;

/// By how much the daemon's memory may grow from the first look to the last: caches fill up, and
/// the allocator keeps what a busy moment needed.
const MEMORY_GROWTH: u64 = 48 << 20;

/// By how many descriptors: connections that are just ending.
const DESCRIPTOR_GROWTH: usize = 16;

/// What is looked at.
#[derive(Debug)]
struct Size {
    descriptors: usize,
    memory: u64,
    registry: u64,
    /// Directories of sessions and of what keeps panes apart.
    directories: usize,
    locks: usize,
}

#[test]
fn heavy_nothing_grows_while_panes_come_and_go() {
    let home = Arc::new(Home::new(CCMUX));
    home.start_daemon();
    let before_any = directories(&home);
    for number in 0..PANES {
        start(&home, number, 0);
    }
    let first = measure(&home);
    let seconds = u64::try_from(how_often("CCMUX_SOAK_SECONDS", 8)).unwrap();
    let (over, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(PANES)));

    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (home, over, made) = (Arc::clone(&home), Arc::clone(&over), Arc::clone(&made));
            thread::spawn(move || churn(&home, client, &over, &made))
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(seconds);
    wait_until("the time is over", Duration::from_secs(seconds) + DEADLINE, || {
        until <= Instant::now() || clients.iter().any(thread::JoinHandle::is_finished)
    });
    over.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());

    empty_trash(&home);
    let last = measure(&home);
    let made = u64::try_from(made.load(Ordering::Relaxed)).unwrap();
    println!("{made} panes in {seconds} s: {first:?} -> {last:?}");
    assert!(last.descriptors <= first.descriptors + DESCRIPTOR_GROWTH, "{first:?} -> {last:?}");
    assert!(last.memory <= first.memory + MEMORY_GROWTH, "{first:?} -> {last:?}");
    assert!(last.registry <= REGISTRY_AT_REST + made * BYTES_PER_PANE, "{first:?} -> {last:?}");
    assert_eq!(last.directories, first.directories, "as many panes as in the beginning");
    assert_eq!(last.locks, 0, "every lock was given back, or went with its pane");

    let panes: Vec<String> = (0..PANES).map(name).collect();
    let close: Vec<&str> =
        ["close", "--grace", "0"].into_iter().chain(panes.iter().map(String::as_str)).collect();
    home.ccmux(&close).patience(Duration::from_secs(120)).ok();
    empty_trash(&home);
    assert_eq!(directories(&home), before_any, "nothing is left of {made} panes");
}

/// Deletes what thousands of panes have left, which takes as long as the disk takes.
fn empty_trash(home: &Home) {
    home.ccmux(&["gc", "--empty-trash"]).patience(Duration::from_secs(900)).ok();
}

fn name(number: usize) -> String {
    format!("churn{number}")
}

/// A pane that does something else each time: sleeps, floods, or ends by itself.
fn start(home: &Home, number: usize, turn: u64) {
    let script = match turn % 4 {
        0 => "exec sleep 1000",
        1 => "yes flood | head -c 2000000; exec sleep 1000",
        2 => "echo scratch > \"$TMPDIR/scratch\"; exec sleep 1000",
        _ => "exit 3",
    };
    let words = ["new", "-d", "-n", &name(number), "--workspace", "shared", "--", "sh", "-c"];
    let words: Vec<&str> = words.into_iter().chain([script]).collect();
    home.ccmux(&words).patience(Duration::from_secs(120)).ok();
}

/// Closes panes and starts others in their place, and takes locks for them. Each client has panes
/// of its own.
fn churn(home: &Home, client: usize, over: &AtomicBool, made: &AtomicUsize) {
    let mut dice = Dice::default();
    let mut turn = 0;
    while !over.load(Ordering::Relaxed) {
        turn += 1;
        let mine = u64::try_from(PANES / CLIENTS).unwrap();
        let number = usize::try_from(dice.roll(mine)).unwrap() * CLIENTS + client;
        let pane = name(number);
        // The pane may have ended by itself, and then nothing can be locked for it.
        let file = format!("file{}", dice.roll(8));
        let lock = ["lock", "acquire", &file, "--mode", "write", "--pane", &pane];
        home.ccmux(&lock).patience(Duration::from_secs(120)).run();
        let close = ["close", "--grace", "0", &pane];
        home.ccmux(&close).patience(Duration::from_secs(120)).ok();
        start(home, number, turn);
        made.fetch_add(1, Ordering::Relaxed);
    }
}

fn measure(home: &Home) -> Size {
    let daemon = home.daemon_pid();
    let status = fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    let registry = ["ccmux.db", "ccmux.db-wal"].map(|name| home.state_root().join(name));
    let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let locks = home.ccmux(&["lock", "ls", "--json"]).json();
    Size {
        descriptors: fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().count(),
        memory: kilobytes * 1024,
        registry: registry.iter().map(|path| length(path)).sum(),
        directories: directories(home),
        locks: locks["locks"].as_array().map_or(0, Vec::len),
    }
}

/// How many directories there are for sessions and panes.
fn directories(home: &Home) -> usize {
    let kinds = fs::read_dir(home.state_root()).unwrap().map(|kind| kind.unwrap().path());
    let count = |kind: &Path| {
        fs::read_dir(kind).map_or(0, |entries| {
            entries.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
        })
    };
    let of_panes = |kind: &PathBuf| kind.is_dir() && !kind.ends_with("shared");
    kinds.filter(of_panes).map(|kind| count(&kind)).sum()
}
