//! B22, B8: a refused removal changes nothing, and interrupted panes are offered for restoring.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use model::Size;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{DEADLINE, Home, Pane, process, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for anything that is waited for; generous for a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// Starts a program in an empty workspace in session `web`.
fn start(home: &Home, name: &str, command: &[&str]) -> Value {
    let options = ["new", "-d", "--json", "--session", "web", "-n", name, "--workspace", "empty"];
    let words = [&options[..], &["--"], command].concat();
    home.ccmux(&words).timeout(LONG).json()["pane"].take()
}

/// Starts a pane that runs and has a file in its workspace. Also returns that file.
fn pane_with_work(home: &Home, name: &str) -> (Pane, PathBuf) {
    let pane = start(home, name, &["sleep", "1000"]);
    let file = PathBuf::from(pane["workspace"].as_str().unwrap()).join("thesis");
    put(&file, "one\n");
    (Pane::from_json(&pane), file)
}

/// Returns the token of the only work that a refusal lists.
fn token(refusal: &str) -> String {
    let refusal: Value = serde_json::from_str(refusal).unwrap();
    let panes = &refusal["error"]["details"]["panes"];
    assert_eq!(panes.as_array().unwrap().len(), 1, "{refusal}");
    panes[0]["discard"].as_str().unwrap().to_owned()
}

/// Kills the keeper of a pane and waits until the pane is lost.
fn interrupt(home: &Home, pane: &Pane) {
    process::kill_and_wait(&pane.keeper(), DEADLINE);
    wait_until("the pane is lost", LONG, || home.show(&pane.id)["state"] == "lost");
}

#[test]
fn close_of_a_running_pane_with_work_is_refused_and_stops_nothing() {
    let home = Home::new(CCMUX);
    let (pane, file) = pane_with_work(&home, "dev");

    let refused = home.ccmux(&["close", "dev"]).fails_with(4);

    assert!(refused.contains("pane dev keeps running, because it has unsaved work"), "{refused}");
    assert!(refused.contains("thesis") && refused.contains("ccmux stop"), "{refused}");
    assert!(process::is_alive(&pane.head), "the program was not stopped");
    assert_eq!(home.show("dev")["state"], "running");
    let events = home.ccmux(&["events"]).ok();
    assert!(!events.contains("ended by signal"), "{events}");

    let token = token(&home.ccmux(&["close", "dev", "--json"]).fails_with(4));
    put(&file, "two\n");
    home.ccmux(&["close", "dev", "--discard", &token]).fails_with(4);
    assert!(process::is_alive(&pane.head), "the token stands for other work");
    put(&file, "one\n");
    home.ccmux(&["close", "dev", "--discard", &token]).ok();
    assert!(!process::is_alive(&pane.head));
    home.ccmux(&["show", "dev"]).fails_with(3);
}

#[test]
fn purge_of_a_session_with_work_is_refused_and_stops_nothing() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let (dev, _) = pane_with_work(&home, "dev");
    let other = Pane::from_json(&start(&home, "other", &["sleep", "1000"]));

    let refused = home.ccmux(&["purge", "web", "--yes"]).fails_with(4);
    assert!(refused.contains("session web keeps running"), "{refused}");
    let refused = http.delete("/v1/sessions/web").expect(409);
    assert!(refused["detail"].as_str().unwrap().contains("keeps running"), "{refused}");
    let refused = http.delete("/v1/panes/dev").expect(409);
    assert!(refused["detail"].as_str().unwrap().contains("keeps running"), "{refused}");

    for pane in [&dev, &other] {
        assert!(process::is_alive(&pane.head), "{} was stopped", pane.name);
    }
    let token = token(&home.ccmux(&["purge", "web", "--yes", "--json"]).fails_with(4));
    home.ccmux(&["purge", "web", "--yes", "--discard", &token]).ok();
    home.ccmux(&["show", "web"]).fails_with(3);
}

/// ADR 0027: what is written after the first examination is kept.
#[test]
fn work_written_between_examination_and_removal_is_kept() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    let pane = start(&home, "dev", &["sleep", "1000"]);
    let file = PathBuf::from(pane["workspace"].as_str().unwrap()).join("late");
    hooks.pause("close.examined");
    let mut closing = home.ccmux(&["close", "dev"]).timeout(LONG).spawn();
    hooks.wait_reached("close.examined", 1);

    put(&file, "late\n");
    hooks.release("close.examined");

    assert_eq!(closing.wait().unwrap().code(), Some(4));
    assert_eq!(fs::read_to_string(&file).unwrap(), "late\n");
    let refused = home.ccmux(&["close", "dev"]).fails_with(4);
    assert!(refused.contains("pane dev has ended and is kept"), "{refused}");
}

#[test]
fn close_ended_keeps_panes_with_work_and_interrupted_panes() {
    let home = Home::new(CCMUX);
    assert_eq!(home.ccmux(&["close", "--ended"]).ok(), "no pane has ended\n");
    let (work, _) = pane_with_work(&home, "work");
    let lost = Pane::from_json(&start(&home, "lost", &["sleep", "1000"]));
    let live = start(&home, "live", &["sleep", "1000"]);
    home.ccmux(&["stop", "work"]).ok();
    interrupt(&home, &lost);
    for name in ["done", "done2"] {
        start(&home, name, &["true"]);
        home.ccmux(&["wait", name, "--for", "exit", "--timeout", "120"]).timeout(LONG).ok();
    }

    let closed = home.ccmux(&["close", "--ended"]).timeout(LONG).ok();

    for line in ["closed done (", "closed done2 (", "kept work (", "kept lost ("] {
        assert!(closed.contains(line), "{line}: {closed}");
    }
    assert!(closed.contains("it has unsaved work") && closed.contains("it was interrupted"));
    home.ccmux(&["show", "done"]).fails_with(3);
    assert_eq!(home.show("live")["id"], live["id"]);
    let again = home.ccmux(&["close", "--ended", "--json"]).json();
    assert_eq!(again["closed"], json!([]));
    let kept = again["kept"].as_array().unwrap();
    let mut kept: Vec<_> = kept.iter().map(|kept| (&kept["id"], &kept["reason"])).collect();
    kept.sort_by_key(|(_, reason)| reason.as_str());
    assert_eq!(kept[0], (&json!(lost.id), &json!("interrupted")));
    assert_eq!(kept[1], (&json!(work.id), &json!("unsaved_work")));
}

#[test]
fn restore_without_arguments_restores_interrupted_panes_only() {
    let home = Home::new(CCMUX);
    assert_eq!(home.ccmux(&["restore"]).ok(), "no pane was interrupted\n");
    let panes = ["a", "b"].map(|name| Pane::from_json(&start(&home, name, &["sleep", "1000"])));
    start(&home, "stopped", &["sleep", "1000"]);
    home.ccmux(&["stop", "stopped"]).ok();
    start(&home, "exited", &["true"]);
    home.ccmux(&["wait", "exited", "--for", "exit", "--timeout", "120"]).timeout(LONG).ok();
    let listed = home.ccmux(&["ls"]).run();
    assert_eq!(listed.stderr, "");

    panes.iter().for_each(|pane| interrupt(&home, pane));

    let line = "2 panes were interrupted; restore them with `ccmux restore`\n";
    assert_eq!(home.ccmux(&["ls"]).run().stderr, line);
    assert_eq!(home.ccmux::<&str>(&[]).run().stderr, line);
    assert_eq!(home.show("a")["interrupted"], true);
    let restored = home.ccmux(&["restore"]).timeout(LONG).ok();
    assert_eq!(restored, "restored a\nrestored b\n");
    for (name, state) in [("a", "running"), ("b", "running"), ("stopped", "exited")] {
        assert_eq!(home.show(name)["state"], state, "{name}");
    }
    assert_eq!(home.ccmux(&["ls"]).run().stderr, "");

    home.ccmux(&["restore", "--all"]).timeout(LONG).ok();
    assert_eq!(home.show("stopped")["state"], "running");
}

#[test]
fn bare_command_asks_whether_to_restore_interrupted_panes() {
    let home = Home::new(CCMUX);
    let pane = Pane::from_json(&start(&home, "dev", &["sh", "-c", "echo greeting; cat"]));
    interrupt(&home, &pane);
    let question = "1 pane was interrupted; restore it? [Y/n]";
    let bare = || home.ccmux::<&str>(&[]).screen(Size::new(80, 24).unwrap());

    let refused = bare();
    refused.wait_for(question);
    refused.send("n\n");
    // A new pane is shown right after it, on the alternate screen.
    let note = "`ccmux restore` restores interrupted panes later";
    refused.wait_until("the note is printed", |view| {
        String::from_utf8_lossy(view.raw()).contains(note)
    });
    assert_eq!(home.show("dev")["state"], "lost");

    let accepted = bare();
    accepted.wait_for(question);
    accepted.send("\n");
    wait_until("the pane is restored", LONG, || home.show("dev")["state"] == "running");
}

/// As at the shutdown of a machine, which terminates all processes.
#[test]
fn pane_whose_keeper_was_terminated_is_interrupted() {
    let home = Home::new(CCMUX);
    let pane = Pane::from_json(&start(&home, "dev", &["sleep", "1000"]));

    assert!(process::signal(&pane.keeper(), Signal::TERM));

    wait_until("the pane has ended", LONG, || home.show("dev")["state"] == "exited");
    assert_eq!(home.show("dev")["interrupted"], true);
    home.ccmux(&["restore"]).ok();
    let pane = home.show("dev");
    assert_eq!((&pane["state"], &pane["interrupted"]), (&json!("running"), &Value::Null));
}

#[test]
fn restore_on_start_covers_keepers_killed_without_a_reboot() {
    let home = Home::new(CCMUX);
    // Creates the directories.
    home.ccmux(&["config", "--check"]).ok();
    put(&home.state_root().join("config/ccmux.toml"), "restore_on_start = true\n");
    start(&home, "dev", &["sleep", "1000"]);
    start(&home, "stopped", &["sleep", "1000"]);
    home.ccmux(&["stop", "stopped"]).ok();
    home.kill_everything();

    let listed = home.ccmux(&["ls"]).timeout(LONG).run();

    assert!(!listed.stderr.contains("interrupted"), "{}", listed.stderr);
    wait_until("the pane is restored", LONG, || home.show("dev")["state"] == "running");
    assert_eq!(home.show("stopped")["state"], "exited");
}
