//! The registry on disk: deleted secrets are overwritten, and another program that has locked the
//! database is waited for.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::time::{Duration, Instant};

use client::Connection;
use protocol::control::{Request, SOCKET};
use rusqlite::Connection as Database;
use serde_json::{Value, json};
use testkit::{Home, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for operations that take a second on an idle machine.
const LONG: Duration = Duration::from_secs(120);

const SECRET: &str = "sk-stored-and-deleted-0123456789";

/// Returns the files of the database that contain a text.
fn files_with(home: &Home, text: &str) -> Vec<String> {
    let entries = fs::read_dir(home.state_root()).unwrap().map(|entry| entry.unwrap());
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let contains = |name: &String| {
        let bytes = fs::read(home.state_root().join(name)).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    names.filter(|name| name.starts_with("ccmux.db")).filter(contains).collect()
}

#[test]
fn deleted_secrets_of_a_session_are_overwritten_in_the_database() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let work = home.work();
    let request: Request = serde_json::from_value(json!({
        "do": "new", "session": "s", "name": "a", "command": ["sleep", "1000"], "cwd": work,
        "workspace": "shared", "session_env": { "DEPLOY_KEY": SECRET },
        "client_env": { "PATH": "/usr/bin:/bin", "HOME": work },
    }))
    .unwrap();
    Connection::open(&home.state_root().join("run"), SOCKET).unwrap().ask(&request).unwrap();
    assert!(!files_with(&home, SECRET).is_empty(), "the test cannot find what is stored");

    home.ccmux(&["purge", "s", "--yes", "--now"]).ok();
    home.ccmux(&["daemon", "stop"]).ok();
    // SQLite does so by itself after a thousand changed pages.
    let database = Database::open(home.state_root().join("ccmux.db")).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();

    assert_eq!(files_with(&home, SECRET), Vec::<String>::new());
}

#[test]
fn locked_database_is_waited_for_and_reported_after_a_time() {
    let home = Home::new(CCMUX);
    home.start_pane("a", &["sleep", "1000"]);
    let other = Database::open(home.state_root().join("ccmux.db")).unwrap();
    let rename = |from: &str, to: &str| home.ccmux(&["rename", from, to]).timeout(LONG);
    let name = || -> Value {
        home.ccmux(&["ls", "--json"]).json()["sessions"][0]["panes"][0]["name"].take()
    };

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut client = rename("a", "b").spawn();
    let started = Instant::now();
    wait_until("the database was locked for a while", LONG, || {
        started.elapsed() > Duration::from_millis(700)
    });
    let was_waiting = client.try_wait().unwrap().is_none();
    other.execute_batch("COMMIT").unwrap();
    wait_until("the request has ended", LONG, || client.try_wait().unwrap().is_some());

    assert!(was_waiting, "the request did not wait");
    assert!(client.wait().unwrap().success());
    assert_eq!(name(), "b");

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = rename("b", "c").run();
    other.execute_batch("COMMIT").unwrap();

    assert!(!refused.status.success());
    assert!(refused.stderr.contains("locked"), "{}", refused.stderr);
    assert_eq!(name(), "b");
    rename("b", "c").ok();
}
