//! A long time in short: panes are created and closed, write continuously, take and release locks,
//! and resource use does not grow.
//!
//! `CCMUX_SOAK_SECONDS` sets the duration; `make soak` runs ten minutes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::soak::repetitions;
use testkit::{DEADLINE, Dice, Home, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Number of panes at a time.
const PANES: usize = 50;

/// Number of concurrent clients.
const CLIENTS: usize = 4;

/// Registry bytes per pane ever created: its events, which are kept for a long time. More would be
/// a leak.
const BYTES_PER_PANE: u64 = 8 << 10;

/// Size of an idle registry, with its write-ahead log.
const REGISTRY_AT_REST: u64 = 16 << 20;

/// Allowed growth of the daemon's memory: caches fill up, and the allocator keeps peak memory.
const MEMORY_GROWTH: u64 = 48 << 20;

/// Allowed growth of descriptors: connections that are just closing.
const DESCRIPTOR_GROWTH: usize = 16;

/// Measured values.
#[derive(Debug)]
struct Size {
    descriptors: usize,
    memory: u64,
    registry: u64,
    /// Directories of sessions and isolation.
    directories: usize,
    locks: usize,
}

#[test]
fn heavy_resource_use_does_not_grow_under_churn() {
    let home = Arc::new(Home::new(CCMUX));
    home.start_daemon();
    let before_any = directories(&home);
    for number in 0..PANES {
        start(&home, number, 0);
    }
    let first = measure(&home);
    let seconds = u64::try_from(repetitions("CCMUX_SOAK_SECONDS", 8)).unwrap();
    let (over, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(PANES)));

    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (home, over, made) = (Arc::clone(&home), Arc::clone(&over), Arc::clone(&made));
            thread::spawn(move || churn(&home, client, &over, &made))
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(seconds);
    wait_until("the time has elapsed", Duration::from_secs(seconds) + DEADLINE, || {
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
    assert_eq!(last.directories, first.directories, "the number of directories has changed");
    assert_eq!(last.locks, 0, "locks are left");

    let panes: Vec<String> = (0..PANES).map(name).collect();
    let close: Vec<&str> =
        ["close", "--grace", "0"].into_iter().chain(panes.iter().map(String::as_str)).collect();
    home.ccmux(&close).timeout(Duration::from_secs(120)).ok();
    empty_trash(&home);
    assert_eq!(directories(&home), before_any, "directories of {made} panes are left");
}

/// Deletes the directories of thousands of panes, which takes as long as the disk needs.
fn empty_trash(home: &Home) {
    home.ccmux(&["gc", "--empty-trash"]).timeout(Duration::from_secs(900)).ok();
}

fn name(number: usize) -> String {
    format!("churn{number}")
}

/// Starts a pane that sleeps, floods or exits by itself, by turns.
fn start(home: &Home, number: usize, turn: u64) {
    let script = match turn % 4 {
        0 => "exec sleep 1000",
        1 => "yes flood | head -c 2000000; exec sleep 1000",
        2 => "echo scratch > \"$TMPDIR/scratch\"; exec sleep 1000",
        _ => "exit 3",
    };
    let words = ["new", "-d", "-n", &name(number), "--workspace", "shared", "--", "sh", "-c"];
    let words: Vec<&str> = words.into_iter().chain([script]).collect();
    home.ccmux(&words).timeout(Duration::from_secs(120)).ok();
}

/// Closes panes, starts others in their place, and takes locks for them. Each client has its own
/// panes.
fn churn(home: &Home, client: usize, over: &AtomicBool, made: &AtomicUsize) {
    let mut dice = Dice::default();
    let mut turn = 0;
    while !over.load(Ordering::Relaxed) {
        turn += 1;
        let mine = u64::try_from(PANES / CLIENTS).unwrap();
        let number = usize::try_from(dice.roll(mine)).unwrap() * CLIENTS + client;
        let pane = name(number);
        // The pane may have exited, and then nothing can be locked for it.
        let file = format!("file{}", dice.roll(8));
        let lock = ["lock", "acquire", &file, "--mode", "write", "--pane", &pane];
        home.ccmux(&lock).timeout(Duration::from_secs(120)).run();
        let close = ["close", "--grace", "0", &pane];
        home.ccmux(&close).timeout(Duration::from_secs(120)).ok();
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

/// Returns the number of directories for sessions and panes.
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
