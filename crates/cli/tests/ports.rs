//! Ports of panes (B9): each pane has its own and keeps them as long as it exists.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use testkit::{Home, Pane, process, put};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

fn configure(home: &Home, text: &str) {
    put(&home.state_root().join("config/ccmux.toml"), text);
    for dir in [home.state_root().to_owned(), home.state_root().join("config")] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

/// Returns the command for a sleeping pane of this name.
fn new(home: &Home, name: &str, options: &[&str]) -> testkit::Invocation {
    let words: Vec<&str> = ["new", "-d", "--json", "--isolation", "none", "-n", name]
        .iter()
        .chain(options)
        .chain(&["--", "sleep", "1000"])
        .copied()
        .collect();
    home.ccmux(&words)
}

/// Returns the ports in the environment of a pane's process.
fn ports_of(pane: &Value) -> Option<(u16, u16)> {
    let env = process::environment(Pane::from_json(pane).head.pid);
    let number = |name: &str| env.get(name).map(|text| text.parse::<u16>().unwrap());
    let ports = (number("CCMUX_PORT_BASE")?, number("CCMUX_PORT_COUNT")?);
    let record = &pane["ports"];
    assert_eq!((&record["base"], &record["count"]), (&ports.0.into(), &ports.1.into()), "{pane}");
    Some(ports)
}

/// Returns the first of `count` consecutive free ports that no other test uses: each test has its
/// own part of the range.
fn free_ports(part: u16, count: u16) -> u16 {
    let start = 30_000 + part * 1300;
    let first = start + u16::try_from(std::process::id() % 60).unwrap() * 20;
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    let mut bases = (first..start + 1290).chain(start..first);
    bases.find(|base| (*base..base + count).all(is_free)).unwrap()
}

fn range(base: u16, end: u16, count: u16) -> String {
    format!("[ports]\nbase = {base}\nend = {end}\ncount = {count}\n")
}

/// B9: forty panes at once; then the daemon is killed and the database deleted; the next pane gets
/// other ports.
#[test]
fn heavy_panes_created_at_once_have_distinct_ports() {
    let home = Home::new(CCMUX);
    home.start_daemon();

    let panes: Vec<Value> = std::thread::scope(|scope| {
        let home = &home;
        let made: Vec<_> = (0..40)
            .map(|n| scope.spawn(move || new(home, &format!("p{n}"), &[]).json()["pane"].take()))
            .collect();
        made.into_iter().map(|one| one.join().unwrap()).collect()
    });
    home.kill_daemon();
    for name in ["ccmux.db", "ccmux.db-wal", "ccmux.db-shm"] {
        // The last two may have been lost with the daemon.
        let _gone = fs::remove_file(home.state_root().join(name));
    }
    let late = new(&home, "late", &[]).json()["pane"].take();

    let mut seen = BTreeSet::new();
    for pane in panes.iter().chain([&late]) {
        let (base, count) = ports_of(pane).unwrap();
        assert_eq!(count, 10);
        for port in base..base + count {
            assert!(seen.insert(port), "port {port} was assigned twice, the second time to {pane}");
        }
        let env = process::environment(Pane::from_json(pane).head.pid);
        assert_eq!(env["PORT"], base.to_string());
    }
    assert_eq!(seen.len(), 410);
}

/// B9: only free ports are assigned, and they are free again when the pane is closed, not when it
/// exits.
#[test]
fn ports_in_use_are_skipped_and_reused_after_close() {
    let home = Home::new(CCMUX);
    let base = free_ports(0, 2);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, base)).unwrap();
    configure(&home, &range(base, base + 1, 1));

    let first = ports_of(&new(&home, "first", &[]).json()["pane"]);
    let none = new(&home, "second", &[]).fails_with(4);
    home.ccmux(&["stop", "first", "--grace", "0"]).ok();
    let still_none = new(&home, "second", &[]).fails_with(4);
    home.ccmux(&["close", "first", "--grace", "0"]).ok();
    let second = ports_of(&new(&home, "second", &[]).json()["pane"]);

    assert_eq!(first, Some((base + 1, 1)));
    assert!(none.contains("ports are free"), "{none}");
    assert!(still_none.contains("[ports]"), "{still_none}");
    assert_eq!(second, Some((base + 1, 1)));
    assert_eq!(home.ccmux(&["ls", "--json"]).json()["sessions"].as_array().map(Vec::len), Some(1));
    drop(listener);
}

/// B9: a restored pane keeps its ports even if another process uses them, and that is reported.
#[test]
fn restored_pane_keeps_its_ports() {
    let home = Home::new(CCMUX);
    let base = free_ports(1, 4);
    configure(&home, &range(base, base + 3, 2));
    let before = ports_of(&new(&home, "dev", &[]).json()["pane"]).unwrap();
    home.ccmux(&["stop", "dev", "--grace", "0"]).ok();
    home.kill_daemon();
    let other = ports_of(&new(&home, "other", &[]).json()["pane"]).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, before.0)).unwrap();

    home.ccmux(&["restore", "dev"]).ok();

    assert_ne!(before.0, other.0);
    assert_eq!(ports_of(&home.show("dev")), Some(before));
    let events = home.ccmux(&["events", "--json"]).ok();
    let recorded = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let taken: Vec<Value> = recorded.filter(|event| event["event"] == "ports_taken").collect();
    assert_eq!(taken.len(), 1, "{events}");
    assert_eq!(taken[0]["ports"], serde_json::json!([before.0]));
    drop(listener);
}

/// B9: the user's `PORT` overrides only `PORT`, and ports can be disabled.
#[test]
fn ports_are_configurable() {
    let home = Home::new(CCMUX);
    let pane = new(&home, "own", &["--env", "PORT=9999", "--env", "CCMUX_PORT_BASE=1"]).json();
    let env = process::environment(Pane::from_json(&pane["pane"]).head.pid);
    assert_eq!(env["PORT"], "9999");
    assert!(ports_of(&pane["pane"]).is_some_and(|(base, count)| base >= 1024 && count == 10));

    configure(&home, "[ports]\ncount = 0\n");
    let pane = new(&home, "none", &[]).json()["pane"].take();
    assert_eq!(ports_of(&pane), None);
    assert!(!process::environment(Pane::from_json(&pane).head.pid).contains_key("PORT"));

    configure(&home, "[ports]\nbase = 80\ncount = 5000\n");
    let refused = home.ccmux(&["config", "--check"]).fails_with(2);
    assert!(refused.contains("80 is not between 1024 and 65535"), "{refused}");
    assert!(refused.contains("5000 is not between 0 and 1000"), "{refused}");
}
