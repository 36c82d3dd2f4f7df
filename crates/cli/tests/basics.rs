//! The basic commands, with the real binary in a hermetic home.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use testkit::{DEADLINE, Home, process, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

#[test]
fn pane_is_created_listed_typed_into_read_and_closed() {
    let home = Home::new(CCMUX);

    let made = home.ccmux(&["new", "-d", "--json", "-n", "work", "--", "sh"]).json();
    home.ccmux(&["send", "work", "echo one-$((1+1))", "--enter"]).ok();
    home.ccmux(&["wait", "work", "--for", "text=one-2", "--timeout", "20"]).ok();

    let pane = &made["pane"];
    assert_eq!(pane["state"], "running");
    assert_eq!(pane["name"], "work");
    assert_eq!(pane["agent"], "shell");
    assert!(made["session"]["name"].as_str().unwrap().starts_with("ccmux-"));
    assert!(home.ccmux(&["read", "work"]).ok().contains("one-2"));
    assert!(home.ccmux(&["read", "work", "--log"]).ok().contains("one-2"));
    assert!(home.ccmux(&["ls"]).ok().contains("work"));
    home.ccmux(&["close", "work"]).ok();
    let listed = home.ccmux(&["ls", "--json"]).json();
    assert_eq!(
        listed["sessions"].as_array().unwrap().len(),
        0,
        "the session was closed with its last pane"
    );
}

#[test]
fn files_on_disk_are_accessible_to_owner_only() {
    let home = Home::new(CCMUX);
    home.start_pane("work", &["sh"]);

    let mut looked_at = 0;
    let mut dirs = vec![home.state_root().to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let found = entry.metadata().unwrap();
            let mode = found.permissions().mode() & 0o777;
            // Shared files are read-only.
            let writing = if dir.ends_with("shared") { 0 } else { 0o200 };
            let expected = if found.is_dir() { 0o500 | writing } else { 0o400 | writing };
            assert_eq!(mode, expected, "{:?} has mode {mode:o}", entry.path());
            looked_at += 1;
            if found.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    assert!(looked_at > 12, "only {looked_at} entries");
}

#[test]
fn pane_environment_comes_from_client_allowlist_not_from_daemon() {
    let home = Home::new(CCMUX);
    home.ccmux(&["daemon", "start"]).env("LANG", "daemon").env("EDITOR", "daemon").ok();

    home.ccmux(&[
        "new",
        "-d",
        "-n",
        "work",
        "--env",
        "MINE=1",
        "--",
        "sh",
        "-c",
        "env; sleep 1000",
    ])
    .env("LANG", "client")
    .env("TMUX", "outer")
    .env("CLAUDECODE", "1")
    .ok();
    home.ccmux(&["wait", "work", "--for", "text=TERM_PROGRAM=ccmux", "--timeout", "20"]).ok();

    let log = home.ccmux(&["read", "work", "--log"]).ok();
    let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
    for expected in ["LANG=client", "MINE=1", "CCMUX=1", "TERM=xterm-256color"] {
        assert!(lines.contains(&expected), "{expected} is missing from {log}");
    }
    for name in ["EDITOR=", "TMUX=", "CLAUDECODE=", "CCMUX_TEST_HOOKS=", "CCMUX_HOME="] {
        assert!(!lines.iter().any(|line| line.starts_with(name)), "{name} is in {log}");
    }
}

#[test]
fn daemon_does_not_inherit_environment_of_starting_shell() {
    let home = Home::new(CCMUX);
    home.ccmux(&["ls"]).env("CCMUX_PANE_ID", "x").env("GITHUB_TOKEN", "hunter2").ok();

    let environ = fs::read(format!("/proc/{}/environ", home.daemon_pid())).unwrap();

    let environ = String::from_utf8_lossy(&environ).into_owned();
    assert!(!environ.contains("hunter2") && !environ.contains("CCMUX_PANE_ID"), "{environ}");
}

#[test]
fn ended_pane_screen_lines_and_log_are_readable() {
    let home = Home::new(CCMUX);
    let script = "i=1; while [ $i -le 500 ]; do echo row-$i; i=$((i+1)); done; exit 4";
    home.ccmux(&["new", "-d", "-n", "short", "--", "sh", "-c", script]).ok();

    home.ccmux(&["wait", "short", "--for", "exit", "--timeout", "20"]).ok();

    let screen = home.ccmux(&["read", "short", "--screen"]).ok();
    assert!(screen.contains("row-500") && !screen.contains("row-400"), "{screen}");
    let lines = home.ccmux(&["read", "short", "--lines", "300"]).ok();
    assert!(lines.contains("row-250") && !lines.contains("row-150\n"), "{lines}");
    let log = home.ccmux(&["read", "short", "--log"]).ok();
    assert!(log.starts_with("row-1\r\n") && log.ends_with("row-500\r\n"));
    let piece = home.ccmux(&["read", "short", "--log", "--from", "7", "--json"]).json();
    assert!(piece["text"].as_str().unwrap().starts_with("row-2\r\n"), "{piece}");
    let shown = home.show("short");
    assert_eq!(
        (shown["state"].as_str(), shown["ending"]["code"].as_i64()),
        (Some("exited"), Some(4))
    );
}

#[test]
fn sent_text_is_pasted_before_enter() {
    let home = Home::new(CCMUX);
    let agent = home.fake_agent();
    home.start_pane("work", &[agent.to_str().unwrap(), "--bracketed-paste", "--stay"]);
    home.ccmux(&["wait", "work", "--for", "text=.", "--timeout", "20"]).ok();
    let long = "x".repeat(2000);

    home.ccmux(&["send", "work", &long, "--enter"]).ok();
    home.ccmux(&["send", "work", "a\u{1b}[201~b"]).ok();
    home.ccmux(&["send", "work", "--key", "up", "--key", "ctrl-c"]).ok();

    let pane = home.show("work");
    let dir = pane["dir"].as_str().unwrap().to_owned();
    wait_until("the keys arrived", DEADLINE, || received(Path::new(&dir)).contains("\\u{3}"));
    let received = received(Path::new(&dir));
    assert!(received.contains("\\u{1b}[200~xxx"), "{received}");
    assert!(received.contains("\\u{1b}[200~a[201~b\\u{1b}[201~"), "{received}");
    assert!(received.contains("\\u{1b}[A"), "{received}");
}

/// Returns the scripted agent's report of its input, without its line breaks.
fn received(pane: &Path) -> String {
    let log = fs::read(pane.join("log/00000000000000000000.out")).unwrap();
    String::from_utf8_lossy(&log).replace(['\r', '\n'], "")
}

#[test]
fn panes_are_found_by_name_id_and_prefix_ambiguity_is_an_error() {
    let home = Home::new(CCMUX);
    let one =
        home.ccmux(&["new", "-d", "--json", "--session", "a", "-n", "dev", "--", "sh"]).json();
    home.ccmux(&["new", "-d", "--session", "b", "-n", "dev", "--", "sh"]).ok();
    let id = one["pane"]["id"].as_str().unwrap().to_owned();

    for target in [id.as_str(), &id[..8], "a/dev"] {
        assert_eq!(home.show(target)["id"], id.as_str(), "{target}");
    }
    let ambiguous = home.ccmux(&["show", "dev"]).fails_with(4);
    assert!(ambiguous.contains("a/dev") && ambiguous.contains("b/dev"), "{ambiguous}");
    let unknown = home.ccmux(&["show", "nobody"]).fails_with(3);
    assert!(unknown.contains("nobody") && unknown.contains("hint:"), "{unknown}");
    let taken = home.ccmux(&["new", "-d", "--session", "a", "-n", "dev", "--", "sh"]).fails_with(4);
    assert!(taken.contains("dev"), "{taken}");
}

#[test]
fn renamed_pane_and_session_keep_their_names() {
    let home = Home::new(CCMUX);
    let made =
        home.ccmux(&["new", "-d", "--json", "--session", "s", "-n", "old", "--", "sh"]).json();

    home.ccmux(&["rename", "old", "new"]).ok();
    home.ccmux(&["rename", "s", "t"]).ok();
    home.kill_daemon();

    assert_eq!(home.show("t/new")["id"], made["pane"]["id"]);
    home.ccmux(&["show", "old"]).fails_with(3);
    home.ccmux(&["rename", "new", "../x"]).fails_with(2);
}

#[test]
fn command_that_cannot_start_reports_reason_and_leaves_nothing() {
    let home = Home::new(CCMUX);

    let missing = home.ccmux(&["new", "-d", "--", "no-such-program"]).fails_with(1);
    let nowhere = home.ccmux(&["new", "-d", "--cwd", "/no/such/dir", "--", "sh"]).fails_with(2);
    home.ccmux(&["new", "-d", "--size", "1x1", "--", "sh"]).fails_with(2);

    assert!(
        missing.contains("no-such-program") && missing.contains("program not found"),
        "{missing}"
    );
    assert!(nowhere.contains("/no/such/dir"), "{nowhere}");
    assert_eq!(home.ccmux(&["ls", "--json"]).json()["sessions"].as_array().unwrap().len(), 0);
    let sessions = fs::read_dir(home.state_root().join("sessions")).unwrap();
    let left: Vec<_> = sessions
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn wait_returns_on_text_exit_or_timeout() {
    let home = Home::new(CCMUX);
    home.start_pane("work", &["sh"]);

    home.ccmux(&["wait", "work", "--for", "text=never", "--timeout", "0.2"]).fails_with(5);
    home.ccmux(&["wait", "work", "--for", "text=("]).fails_with(2);
    home.ccmux(&["send", "work", "exit 9", "--enter"]).ok();
    let waited = home.ccmux(&["wait", "work", "--for", "exit", "--timeout", "20", "--json"]).json();

    assert_eq!(waited["ending"]["code"], 9, "{waited}");
    home.ccmux(&["send", "work", "too late"]).fails_with(4);
}

#[test]
fn daemon_stop_leaves_panes_running() {
    let home = Home::new(CCMUX);
    let pane = home.start_pane("work", &["sh"]);

    home.ccmux(&["daemon", "stop"]).ok();

    home.ccmux(&["daemon", "status"]).fails_with(6);
    assert!(process::is_alive(&pane.head) && process::is_alive(&pane.keeper()));
    assert_eq!(home.show("work")["state"], "running", "any command starts the daemon again");
}

#[test]
fn concurrent_commands_start_one_daemon() {
    let home = Home::new(CCMUX);

    let all: Vec<_> = (0..20).map(|_| home.ccmux(&["ls", "--json"]).spawn()).collect();
    for child in all {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    let daemons = home.processes();
    assert_eq!(daemons, [home.daemon_pid()]);
}

#[test]
fn event_numbers_have_no_gaps_across_daemons() {
    let home = Home::new(CCMUX);
    home.start_pane("one", &["sh"]);
    home.kill_daemon();
    home.start_pane("two", &["sh"]);
    home.ccmux(&["close", "two"]).ok();

    let events = home.ccmux(&["events", "--json"]).ok();

    let events: Vec<serde_json::Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    let expected: Vec<u64> = (numbers[0]..).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "daemon_started").count(), 2, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "pane_created").count(), 2, "{kinds:?}");
    assert!(kinds.contains(&"pane_closed") && kinds.contains(&"pane_exited"), "{kinds:?}");
    let after = numbers[numbers.len() - 2].to_string();
    let rest = home.ccmux(&["events", "--json", "--after", &after]).ok();
    assert_eq!(rest.lines().count(), 1, "{rest}");
}
