//! B22: names of panes are unique among live panes, and identify them in every command.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::Home;
use testkit::home::pane_ids;

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for anything that is waited for; generous for a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// Starts a pane in a session and returns its description.
fn start(home: &Home, session: &str, name: &str, command: &[&str]) -> Value {
    let options = ["new", "-d", "--json", "--session", session, "-n", name, "--"];
    home.ccmux(&[&options[..], command].concat()).timeout(LONG).json()["pane"].take()
}

fn id(pane: &Value) -> &str {
    pane["id"].as_str().unwrap()
}

fn wait_exit(home: &Home, pane: &str) {
    home.ccmux(&["wait", pane, "--for", "exit", "--timeout", "120"]).timeout(LONG).ok();
}

#[test]
fn new_with_the_name_of_a_live_pane_is_refused_with_a_suggestion() {
    let home = Home::new(CCMUX);
    home.start_pane("dev", &["sleep", "1000"]);
    start(&home, "web", "dev", &["sleep", "1000"]);

    for session in [None, Some("web")] {
        let named = session.map(|session| ["--session", session]);
        let options = named.iter().flatten().copied();
        let words: Vec<&str> = ["new", "-d", "-n", "dev"].into_iter().chain(options).collect();
        let refused = home.ccmux(&[&words[..], &["--", "cat"]].concat()).fails_with(4);

        assert!(refused.contains("there is already a pane named dev\n"), "{refused}");
        assert!(refused.contains("such as dev-2"), "{refused}");
    }
    assert_eq!(pane_ids(&home.ccmux(&["ls", "--json"]).json()).len(), 2);
    // Without a name, a free one is chosen.
    home.ccmux(&["new", "-d", "--", "sleep", "1000"]).ok();
    home.ccmux(&["new", "-d", "--", "sleep", "1000"]).ok();
    assert_eq!(home.show("sleep-2")["state"], "running");
}

#[test]
fn two_panes_with_one_name_at_once_leave_exactly_one() {
    let home = Home::new(CCMUX);
    home.start_daemon();

    for options in [&["--session", "web"][..], &[]] {
        let words = [&["new", "-d", "-n", "dev"], options, &["--", "sleep", "1000"]].concat();
        let codes = thread::scope(|scope| {
            let start = || home.ccmux(&words).timeout(LONG).run().status.code().unwrap();
            let started: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
            let mut codes: Vec<i32> =
                started.into_iter().map(|thread| thread.join().unwrap()).collect();
            codes.sort_unstable();
            codes
        });

        assert_eq!(codes, [0, 4, 4, 4]);
    }
}

#[test]
fn ended_pane_gives_its_name_to_a_new_one_and_is_renamed() {
    let home = Home::new(CCMUX);
    let old = start(&home, "web", "dev", &["true"]);
    wait_exit(&home, "dev");

    let words = ["new", "-d", "--session", "web", "-n", "dev", "--", "sleep", "1000"];
    let started = home.ccmux(&words).run();

    assert!(started.status.success(), "{started:?}");
    let warning = "warning: the ended pane dev is now named dev-old\n";
    assert!(started.stderr.contains(warning), "{}", started.stderr);
    assert_eq!(home.show("web/dev")["state"], "running");
    assert_eq!(home.show("dev-old")["id"], old["id"]);
    // The record in its directory has the new name, too.
    home.kill_daemon();
    home.ccmux(&["restore", "dev-old"]).ok();
    wait_exit(&home, "dev-old");
}

#[test]
fn shared_name_means_the_live_pane_or_lists_the_candidates() {
    let home = Home::new(CCMUX);
    start(&home, "a", "dev", &["true"]);
    let live = start(&home, "b", "dev", &["cat"]);
    wait_exit(&home, "a/dev");

    assert_eq!(home.show("dev")["id"], live["id"]);
    home.ccmux(&["stop", "dev"]).ok();

    for word in ["show", "stop", "env"] {
        let refused = home.ccmux(&[word, "dev"]).fails_with(4);
        assert!(refused.contains("a/dev") && refused.contains("b/dev"), "{word}: {refused}");
    }
    assert_eq!(home.show(id(&live))["state"], "exited");
}

#[test]
fn rename_to_a_taken_name_is_refused_with_a_suggestion() {
    let home = Home::new(CCMUX);
    start(&home, "web", "dev", &["sleep", "1000"]);
    start(&home, "web", "dev-2", &["true"]);
    start(&home, "web", "qa", &["sleep", "1000"]);
    start(&home, "api", "dev", &["sleep", "1000"]);

    let refused = home.ccmux(&["rename", "qa", "dev"]).fails_with(4);
    assert!(refused.contains("there is already a pane named dev\n"), "{refused}");
    assert!(refused.contains("such as dev-3"), "{refused}");
    let refused = home.ccmux(&["rename", "api", "web"]).fails_with(4);
    assert!(refused.contains("there is already a session named web\n"), "{refused}");
    assert!(refused.contains("such as web-2"), "{refused}");

    home.ccmux(&["rename", "web/qa", "dev-3"]).ok();
    assert_eq!(home.show("web/dev-3")["state"], "running");
}

/// Every command that takes a pane takes `SESSION/PANE`.
#[test]
fn session_and_pane_identify_a_pane_in_every_command() {
    let home = Home::new(CCMUX);
    for session in ["web", "api"] {
        start(&home, session, "dev", &["cat"]);
    }
    home.ccmux(&["message", "--raw", "--to", "web/dev", "hello"]).ok();
    let other = ["message", "--session", "api", "--to", "web/dev", "hello"];
    home.ccmux(&other).fails_with(2);
    home.ccmux(&["message", "--to", "web/qa", "hello"]).fails_with(3);

    for words in [
        &["show", "web/dev"][..],
        &["send", "web/dev", "typed", "--enter"],
        &["wait", "web/dev", "--for", "text=^typed", "--timeout", "60"],
        &["wait", "web/dev", "--for", "text=^hello", "--timeout", "60"],
        &["read", "web/dev", "--lines", "5"],
        &["limit", "web/dev"],
        &["env", "web/dev"],
        &["message", "ls", "--pane", "web/dev"],
        &["lock", "acquire", "x", "--pane", "web/dev"],
        &["lock", "ls", "--pane", "web/dev"],
        &["stop", "web/dev"],
        &["restore", "web/dev"],
        &["rename", "web/dev", "dev2"],
        &["close", "web/dev2"],
    ] {
        home.ccmux(words).timeout(LONG).ok();
    }
    let thawed = home.ccmux(&["thaw", "api/dev"]).fails_with(4);
    assert!(thawed.contains("not frozen"), "{thawed}");
    assert_eq!(home.show("api/dev")["state"], "running");
    let log = home.ccmux(&["read", "api/dev", "--log"]).ok();
    assert_eq!(log, "", "nothing reached the other pane");
}

#[test]
fn session_and_pane_identify_a_pane_over_http() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let dev = start(&home, "web", "dev", &["cat"]);
    start(&home, "api", "dev", &["cat"]);

    assert_eq!(http.get("/v1/panes/dev").status, 409);
    assert_eq!(http.get("/v1/panes/web%2Fdev").expect(200)["pane"]["id"], dev["id"]);
    let typed = json!({"text": "x", "enter": true});
    assert_eq!(http.post("/v1/panes/web%2Fdev/input", &typed).status, 204);
    assert_eq!(http.delete("/v1/panes/web%2Fdev?graceMs=100").status, 204);
    assert_eq!(http.get("/v1/panes/dev").expect(200)["session"]["name"], "api");
}
