//! `session.state` (R22–R24): its content, damaged files that are neither loaded nor overwritten,
//! and isolation between panes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::{Home, Pane, put, wait_for, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for background writes on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

const SECRET: &str = "hunter2-in-the-open";

fn path(pane: &Pane) -> PathBuf {
    pane.dir.join("session.state")
}

/// Returns the state on disk if it is complete; verifies the checksum.
fn saved(pane: &Pane) -> Option<Value> {
    let text = fs::read_to_string(path(pane)).ok()?;
    let (head, record) = text.split_once(r#","record":"#).unwrap();
    let record = record.strip_suffix("}\n").unwrap();
    let checksum = blake3::hash(record.as_bytes()).to_hex();
    assert!(head.contains(checksum.as_str()), "{text}");
    Some(serde_json::from_str(record).unwrap())
}

/// Waits until the state on disk has this value in this field.
fn wait_saved(pane: &Pane, field: &str, expected: &str) -> Value {
    let what = format!("{field} is {expected} in {}", path(pane).display());
    wait_for(&what, SOON, || saved(pane).filter(|state| state[field] == expected))
}

fn start(home: &Home, name: &str) -> Pane {
    let words = ["new", "-d", "--json", "--isolation", "none", "-n", name, "--", "sleep", "1000"];
    Pane::from_json(&home.ccmux(&words).json()["pane"])
}

fn stop(home: &Home, name: &str) {
    home.ccmux(&["stop", name, "--grace", "0"]).ok();
}

fn aside(pane: &Pane) -> Vec<PathBuf> {
    let entries = fs::read_dir(&pane.dir).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut found: Vec<PathBuf> =
        entries.filter(|path| name(path).starts_with("session.state.damaged-")).collect();
    found.sort();
    found
}

/// R22: ids, directory, environment without secrets, life cycle, and a checksum.
#[test]
fn state_file_follows_pane_life_cycle() {
    let home = Home::new(CCMUX);
    let secret = format!("API_TOKEN={SECRET}");
    let words = ["new", "-d", "--json", "-n", "dev", "--role", "qa", "--env", &secret];
    let words: Vec<&str> = words.iter().chain(&["--", "sleep", "1000"]).copied().collect();
    let shown = home.ccmux(&words).json();
    let pane = Pane::from_json(&shown["pane"]);

    let running = wait_saved(&pane, "state", "running");
    let file = home.dir().join("notes").to_str().unwrap().to_owned();
    home.ccmux(&["lock", "acquire", &file, "--pane", "dev", "--mode", "write"]).ok();
    let locked = wait_for("the lock is in the state", SOON, || {
        saved(&pane).filter(|state| state["locks"] != serde_json::json!([]))
    });
    home.ccmux(&["rename", "dev", "frontend"]).ok();
    wait_saved(&pane, "name", "frontend");
    home.kill_daemon();
    home.start_daemon();
    stop(&home, "frontend");
    let ended = wait_saved(&pane, "state", "exited");
    home.ccmux(&["restore", "frontend"]).ok();
    let restored = wait_saved(&pane, "state", "running");

    assert_eq!(running["pane"], pane.id);
    assert_eq!(running["session"], shown["session"]["id"]);
    assert_eq!((&running["name"], &running["role"]), (&"dev".into(), &"qa".into()));
    assert_eq!(running["cwd"], shown["pane"]["cwd"]);
    assert_eq!(running["ports"], shown["pane"]["ports"]);
    assert_eq!(running["env"]["CCMUX_PANE_ID"], pane.id);
    assert_eq!(running["env"]["API_TOKEN"], "********");
    assert_eq!(running["locks"], serde_json::json!([]));
    assert!(running["written"].is_i64() || running["written"].is_string(), "{running}");
    assert!(locked["locks"][0]["path"].as_str().unwrap().ends_with("/notes"), "{locked}");
    assert_eq!(locked["locks"][0]["mode"], "write");
    assert_eq!(ended["locks"], serde_json::json!([]), "locks are released with the process");
    assert_eq!(ended["ending"]["reason"], "stopped", "{ended}");
    assert_eq!(restored["ending"], Value::Null);
    for name in fs::read_dir(&pane.dir).unwrap().map(|entry| entry.unwrap().path()) {
        let text = fs::read(&name).unwrap_or_default();
        let needs_it = name.ends_with("pane.json");
        let has_it = String::from_utf8_lossy(&text).contains(SECRET);
        assert_eq!(has_it, needs_it, "{}", name.display());
    }
    let mode = fs::metadata(path(&pane)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// R22: a damaged state is set aside unchanged and reported, and a new one is written.
#[test]
fn damaged_state_is_set_aside_and_reported() {
    let home = Home::new(CCMUX);
    let pane = start(&home, "dev");
    wait_saved(&pane, "state", "running");
    stop(&home, "dev");
    wait_saved(&pane, "state", "exited");
    let good = fs::read_to_string(path(&pane)).unwrap();
    let damages = [
        good[..good.len() / 2].to_owned(),
        good.replace("\"exited\"", "\"running\""),
        "not JSON at all".to_owned(),
        String::new(),
    ];

    for (at, damage) in damages.iter().enumerate() {
        put(&path(&pane), damage);
        home.ccmux(&["restore", "dev"]).ok();
        wait_saved(&pane, "state", "running");

        let kept = aside(&pane);
        assert_eq!(kept.len(), at + 1, "{kept:?}");
        assert!(kept.iter().any(|path| fs::read_to_string(path).unwrap() == *damage), "{damage}");
        let problem = home.show("dev")["problem"].as_str().unwrap_or_default().to_owned();
        assert!(problem.contains("session.state.damaged-"), "{problem}");
        stop(&home, "dev");
        wait_saved(&pane, "state", "exited");
    }

    let events = home.ccmux(&["events", "--json"]).ok();
    assert_eq!(events.lines().filter(|line| line.contains("\"quarantined\"")).count(), 4);
    let health = home.ccmux(&["doctor", "--json"]).run();
    let health: Value = serde_json::from_str(&health.stdout).unwrap();
    let findings = health["findings"].as_array().unwrap().iter();
    let recorded = findings.filter(|finding| finding["what"] == "saved state damaged").count();
    assert_eq!(recorded, 4, "{health}");
}

/// R22: also by a daemon that has just started.
#[test]
fn daemon_start_checks_existing_states() {
    let home = Home::new(CCMUX);
    let pane = start(&home, "dev");
    wait_saved(&pane, "state", "running");
    home.kill_daemon();
    put(&path(&pane), "{");

    home.start_daemon();

    wait_until("the state is set aside", SOON, || aside(&pane).len() == 1);
    wait_saved(&pane, "state", "running");
    assert_eq!(fs::read_to_string(&aside(&pane)[0]).unwrap(), "{");
}

/// R22: a state of a newer release is neither used nor replaced.
#[test]
fn state_of_newer_release_stays_unchanged() {
    let home = Home::new(CCMUX);
    let pane = start(&home, "dev");
    wait_saved(&pane, "state", "running");
    stop(&home, "dev");
    wait_saved(&pane, "state", "exited");
    let newer = r#"{"format":9,"checksum":"","record":{"new":"things"}}"#;
    put(&path(&pane), newer);

    home.ccmux(&["restore", "dev"]).ok();
    let problem = home.show("dev")["problem"].as_str().unwrap_or_default().to_owned();
    // Background writes are done when the daemon has stopped.
    home.ccmux(&["daemon", "stop"]).ok();

    assert!(problem.contains("format 9"), "{problem}");
    assert_eq!(fs::read_to_string(path(&pane)).unwrap(), newer);
    assert_eq!(aside(&pane), Vec::<PathBuf>::new());
}

/// Puts a script called `claude` into the `PATH` that writes a transcript of its conversation.
fn claude(home: &mut Home) {
    let bin = home.dir().join("bin");
    let script = r#"#!/bin/sh
id=
for word in "$@"; do
  [ "$before" = --session-id ] && id=$word
  [ "$before" = --resume ] && id=$word
  before=$word
done
mkdir -p "$CLAUDE_CONFIG_DIR/projects/p"
echo "said in $CCMUX_PANE_ID" >> "$CLAUDE_CONFIG_DIR/projects/p/$id.jsonl"
exec sleep 1000
"#;
    put(&bin.join("claude"), script);
    fs::set_permissions(bin.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    home.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
}

/// Waits until the transcript of a pane's conversation has this many lines, and returns it.
fn transcript(shown: &Value, lines: usize) -> String {
    let (dir, id) =
        (shown["config_dir"].as_str().unwrap(), shown["conversation"].as_str().unwrap());
    let path = Path::new(dir).join(format!("projects/p/{id}.jsonl"));
    wait_for("the transcript is written", SOON, || {
        fs::read_to_string(&path).ok().filter(|text| text.lines().count() == lines)
    })
}

/// R24: swapped states are detected, and each pane resumes its own conversation.
#[test]
fn swapped_states_do_not_mix_panes() {
    let mut home = Home::new(CCMUX);
    claude(&mut home);
    let new = |name: &str| {
        Pane::from_json(
            &home.ccmux(&["new", "-d", "--json", "-n", name, "--", "claude"]).json()["pane"],
        )
    };
    let panes = [new("one"), new("two")];
    let before = ["one", "two"].map(|name| home.show(name));
    before.iter().for_each(|shown| drop(transcript(shown, 1)));
    home.ccmux(&["stop", "one", "two", "--grace", "0"]).ok();
    let states = [&panes[0], &panes[1]].map(|pane| wait_saved(pane, "state", "exited"));
    home.kill_daemon();
    let texts = [&panes[0], &panes[1]].map(|pane| fs::read_to_string(path(pane)).unwrap());
    put(&path(&panes[0]), &texts[1]);
    put(&path(&panes[1]), &texts[0]);

    home.ccmux(&["restore", "one", "two"]).ok();

    for (at, name) in ["one", "two"].into_iter().enumerate() {
        let (pane, other) = (&panes[at], &panes[1 - at]);
        let shown = home.show(name);
        assert_eq!(shown["conversation"], before[at]["conversation"]);
        let said = transcript(&shown, 2);
        assert!(said.contains(&pane.id) && !said.contains(&other.id), "{said}");
        let own = wait_for("the pane's own state is written again", SOON, || {
            saved(pane).filter(|state| state["pane"] == pane.id && state["state"] == "running")
        });
        let conversation = &own["conversation"];
        assert_eq!(conversation["id"], states[at]["conversation"]["id"]);
        let place = conversation["transcript"].as_str().unwrap();
        assert!(place.contains(&pane.id), "{conversation}");
        assert_eq!(
            fs::read_to_string(&aside(pane)[0]).unwrap(),
            texts[1 - at],
            "set aside unchanged"
        );
    }
}
