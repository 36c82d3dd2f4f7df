//! Every change over the control socket leaves an event with its caller (B20).
//!
//! The table names every kind of request. A kind that the protocol has and the table does not is a
//! failure, so a new request cannot be forgotten.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use client::Connection;
use protocol::control::{Request, SOCKET};
use serde_json::{Value, json};
use testkit::{Home, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for anything that is waited for; generous for a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// Tags of requests with several kinds.
const KINDS: [(&str, &str); 5] = [
    ("lock", "lock"),
    ("message", "message"),
    ("share", "share"),
    ("template", "what"),
    ("trust", "trust"),
];

/// Requests that change nothing.
const READING: [&str; 18] = [
    "daemon_status",
    "doctor",
    "env",
    "events",
    "list",
    "locate",
    "lock check",
    "lock list",
    "message list",
    "message show",
    "message wait",
    "read",
    "share list",
    "show",
    "template list",
    "template show",
    "trust list",
    "wait",
];

/// Requests that change something and leave no event, as documented in docs/authority.md.
const EXEMPT: [&str; 3] = ["hook", "limit_news", "lock renew"];

/// Returns the name of a request with its kind.
fn name(request: &Value) -> String {
    let request_name = request["do"].as_str().unwrap();
    let kind = KINDS.iter().find(|(of, _)| *of == request_name);
    match kind.and_then(|(_, tag)| request[tag].as_str()) {
        Some(kind) => format!("{request_name} {kind}"),
        None => request_name.to_owned(),
    }
}

/// Returns the values that the tag of an invalid request may have, from the error.
fn known_values(request: &Value) -> Vec<String> {
    let error = serde_json::from_value::<Request>(request.clone()).unwrap_err().to_string();
    let (_, listed) = error.split_once("expected one of").unwrap();
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the names of all requests of the protocol.
fn all_names() -> BTreeSet<String> {
    let requests = known_values(&json!({ "do": "?" })).into_iter();
    let with_kinds = requests.flat_map(|request| {
        let Some((_, tag)) = KINDS.iter().find(|(of, _)| *of == request) else {
            return vec![request];
        };
        let kinds = known_values(&json!({ "do": request, *tag: "?" }));
        kinds.into_iter().map(|kind| format!("{request} {kind}")).collect()
    });
    with_kinds.collect()
}

/// A home, and a connection of the test to its daemon.
struct Audit {
    home: Home,
    connection: Connection,
    seen: BTreeSet<String>,
}

impl Audit {
    fn events_after(&self, seq: u64) -> Vec<Value> {
        let events = self.home.ccmux(&["events", "--json"]).ok();
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["seq"].as_u64() > Some(seq)).collect()
    }

    /// Makes a request and returns its response.
    fn ask(&mut self, request: &Value) -> Value {
        let parsed: Request = serde_json::from_value(request.clone())
            .unwrap_or_else(|error| panic!("{request}: {error}"));
        let response = self.connection.ask(&parsed);
        self.seen.insert(name(request));
        serde_json::to_value(response.unwrap_or_else(|error| panic!("{request}: {error}"))).unwrap()
    }

    /// Makes a request that changes something, and checks that it leaves the event `expected` with
    /// its caller.
    fn change(&mut self, request: &Value, expected: &str) -> Value {
        let seq = self.events_after(0).last().map_or(0, |event| event["seq"].as_u64().unwrap());
        let response = self.ask(request);
        let mut found = None;
        wait_until(&format!("{request} leaves {expected}"), LONG, || {
            let is_it = |event: &Value| event["event"] == expected || event["request"] == expected;
            found = self.events_after(seq).into_iter().find(is_it);
            found.is_some()
        });
        assert_eq!(found.unwrap()["caller"]["kind"], "local_user", "{request}");
        response
    }
}

#[expect(clippy::too_many_lines, reason = "one line per request")]
#[test]
fn every_request_that_changes_something_leaves_an_event_with_its_caller() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let work = home.work().to_str().unwrap().to_owned();
    put(&home.work().join(".ccmux.toml"), "[workspace]\nsetup = [[\"true\"]]\n");
    fs::create_dir_all(home.work().join("plan/unit")).unwrap();
    put(&home.work().join("plan/template.toml"), "description = \"a plan\"\n");
    put(&home.work().join("plan/unit/note"), "text\n");
    let connection = Connection::open(&home.state_root().join("run"), SOCKET).unwrap();
    let user_home = home.state_root().parent().unwrap().to_owned();
    let mut audit = Audit { home, connection, seen: BTreeSet::new() };
    let client_env = json!({ "PATH": "/usr/bin:/bin", "HOME": user_home });
    let new = |session: &str, name: &str, mode: &str| {
        json!({ "do": "new", "session": session, "name": name, "command": ["sleep", "1000"],
                "cwd": work, "workspace": "shared", "client_env": client_env, "mode": mode })
    };
    let team = |name: &str| {
        let pane = json!({ "name": "p", "command": ["sleep", "1000"], "workspace": "shared" });
        json!({ "name": name, "panes": [pane], "cwd": work, "client_env": client_env })
    };
    let run = |name: &str| {
        let mut request = team(name);
        request["do"] = json!("run");
        request
    };

    audit.change(&new("s", "a", "isolated"), "pane_created");
    audit.change(&new("old", "b", "legacy"), "session_created");
    audit.change(&run("r"), "session_created");
    audit.change(&json!({ "do": "up", "run": team("t") }), "session_created");
    audit.change(&json!({ "do": "rename", "target": "s/a", "name": "c" }), "pane_renamed");
    audit.change(&json!({ "do": "rename", "target": "r", "name": "q" }), "session_renamed");
    audit.change(
        &json!({ "do": "send", "target": "s/c", "timeout_ms": 60_000,
                 "typing": { "text": "x", "keys": [], "enter": true } }),
        "send",
    );
    let size = json!({ "cols": 90, "rows": 30 });
    audit.change(&json!({ "do": "resize", "target": "s/c", "size": size }), "resize");
    audit.change(&json!({ "do": "limit", "target": "s/c", "wishes": ["files=100"] }), "limit");
    audit.change(
        &json!({ "do": "message", "message": "send", "to": "c", "session": "s", "text": "hello" }),
        "message_queued",
    );
    let lock = json!({ "do": "lock", "lock": "acquire", "paths": [format!("{work}/file")],
                       "mode": "write", "pane": "s/c", "ttl_ms": 600_000 });
    let held = audit.change(&lock, "lock");
    let id = held["locks"][0]["id"].clone();
    audit.ask(&json!({ "do": "lock", "lock": "renew", "id": id }));
    audit.change(&json!({ "do": "lock", "lock": "release", "id": id }), "lock_release");
    let release = json!({ "do": "lock", "lock": "release_owner", "pane": "s/c" });
    audit.change(&release, "lock_release");
    audit.change(&json!({ "do": "trust", "trust": "add", "dir": work }), "trust");
    audit.change(&json!({ "do": "trust", "trust": "revoke", "dir": work }), "trust_revoke");
    let share = json!({ "do": "share", "share": "add", "paths": ["/etc/hostname"],
                        "templates": false });
    audit.change(&share, "share");
    let unshare = json!({ "do": "share", "share": "remove", "names": ["hostname"] });
    audit.change(&unshare, "share_remove");
    let template = json!({ "do": "template", "what": "add", "path": format!("{work}/plan"),
                           "name": "plan" });
    audit.change(&template, "template_add");
    let remove = json!({ "do": "template", "what": "remove", "name": "plan" });
    audit.change(&remove, "template_remove");
    let token = |rotate: bool| json!({ "do": "token", "scope": "read", "rotate": rotate });
    audit.change(&token(false), "token");
    audit.change(&token(true), "token_rotate");
    let serve = json!({ "do": "serve", "listen": "127.0.0.1:0", "hold": false, "client_env": {} });
    audit.change(&serve, "serve");
    let pane = audit.home.show("s/c")["id"].clone();
    audit.ask(&json!({ "do": "hook", "pane": pane, "event": "turn_end" }));
    audit.ask(&json!({ "do": "limit_news", "pane": pane }));
    freeze(&audit.home);
    audit.change(&json!({ "do": "thaw", "target": "frozen" }), "pane_thawed");
    audit.change(&json!({ "do": "stop", "target": "s/c", "grace_ms": 0 }), "pane_exited");
    audit.change(&json!({ "do": "restore", "target": "s/c" }), "pane_restored");
    audit.change(&json!({ "do": "close", "target": "s/c", "grace_ms": 0 }), "pane_closed");
    audit.change(&json!({ "do": "stop", "target": "old/b", "grace_ms": 0 }), "pane_exited");
    audit.change(&json!({ "do": "migrate", "target": "old" }), "session_migrated");
    audit.change(&json!({ "do": "purge", "target": "q", "grace_ms": 0 }), "session_closed");
    audit.change(&json!({ "do": "gc", "dry_run": false }), "gc");
    audit.change(&json!({ "do": "daemon_stop" }), "daemon_stop");

    let reading = READING.map(str::to_owned);
    let covered: BTreeSet<String> = audit.seen.iter().cloned().chain(reading).collect();
    assert_eq!(covered, all_names());
    assert!(EXEMPT.iter().all(|exempt| audit.seen.contains(*exempt)));
}

/// Starts the pane `frozen`, which exceeds its limit and is frozen.
fn freeze(home: &Home) {
    let limit = "processes=2,groups=off,policy=freeze";
    let forks = "for n in 1 2 3 4 5; do sleep 1000 & done; wait";
    let words = ["new", "-d", "-n", "frozen", "--workspace", "shared", "--limit", limit, "--"];
    home.ccmux(&[&words[..], &["sh", "-c", forks]].concat()).ok();
    wait_until("the pane is frozen", LONG, || home.show("frozen")["state"] == "frozen");
}
