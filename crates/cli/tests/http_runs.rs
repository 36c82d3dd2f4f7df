//! R29, R31, R33: many runs at once over HTTP: none lost, none mixed, none made twice, nothing left.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::Answer;
use testkit::soak::how_often;
use testkit::wait::wait_for;
use testkit::{Home, Http, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// How long anything may take on a machine that is busy with a hundred others of its kind.
const LONG: Duration = Duration::from_secs(240);

/// Asks until it is not turned away because others ask as well.
fn patiently(http: &Http, method: &str, path: &str, body: Option<&Value>) -> Answer {
    wait_for(&format!("{method} {path} is let in"), LONG, || {
        let answer = http.ask(method, path, body);
        (answer.status != 429).then_some(answer)
    })
}

/// Does something for each of them, all at the same time; what came of it, in order.
fn at_once<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = all.iter().map(|each| scope.spawn(move || work(each))).collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn text(of: &Value, field: &str) -> String {
    of[field].as_str().unwrap_or_else(|| panic!("no {field} in {of}")).to_owned()
}

/// The names of what an agent has kept of its conversations.
fn transcripts(projects: &Path) -> Vec<String> {
    let projects = fs::read_dir(projects).into_iter().flatten().flatten();
    let files = projects.flat_map(|project| fs::read_dir(project.path()).unwrap().flatten());
    files.map(|file| file.file_name().into_string().unwrap()).collect()
}

/// The directories in a part of the state root.
fn directories(home: &Home, part: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.state_root().join(part)).unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// The sessions of three answers each, and their panes with their conversations; each of them made
/// once, and with directories of its own.
fn made_once(
    first: &[Answer],
    second: &[Answer],
    again: &[Answer],
) -> (Vec<String>, BTreeMap<String, String>) {
    let mut sessions = BTreeSet::new();
    let mut panes = BTreeMap::new();
    let mut dirs = BTreeSet::new();
    for ((one, other), later) in first.iter().zip(second).zip(again) {
        let statuses = BTreeSet::from([one.status, other.status]);
        assert_eq!(statuses, BTreeSet::from([200, 201]), "{} {}", one.text(), other.text());
        assert_eq!(later.status, 200, "{}", later.text());
        let id = one.json()["sessionId"].as_str().unwrap().to_owned();
        for repeated in [other, later] {
            assert_eq!(repeated.json()["sessionId"], id.as_str());
        }
        let answer = one.json();
        let own = answer["panes"].as_array().unwrap();
        let names: Vec<&str> = own.iter().map(|pane| pane["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "b", "c"], "{answer}");
        for pane in own {
            let dir = text(pane, "workspace");
            assert!(dir.contains(&id), "{dir} is not of {id}");
            for dir in ["workspace", "temp", "output", "config_dir"] {
                assert!(dirs.insert(text(pane, dir)), "{dir} of two panes: {answer}");
            }
            let before = panes.insert(text(pane, "id"), text(pane, "conversation"));
            assert_eq!(before, None, "a pane of two sessions: {answer}");
        }
        assert!(sessions.insert(id), "made twice");
    }
    (sessions.into_iter().collect(), panes)
}

#[test]
fn heavy_http_runs_at_once_are_whole_and_leave_nothing() {
    let mut home = Home::new(CCMUX);
    home.play("claude");
    let http = &home.serve();
    let numbers: Vec<usize> = (0..how_often("CCMUX_SOAK_RUNS", 12)).collect();
    let make = |n: &usize| {
        let claude = ["claude", "--keep-session", "--said", "--stay"];
        let pane = |name: &str| json!({"name": name, "command": claude});
        let run = json!({"name": format!("run{n}"), "agents": [pane("a"), pane("b"), pane("c")]});
        let keyed = http.with_header("idempotency-key", &format!("key-{n}"));
        patiently(&keyed, "POST", "/v1/runs", Some(&run))
    };

    // Each of them twice at once, by callers that do not know of each other, and once more.
    let twice = [&numbers[..], &numbers[..]].concat();
    let made = at_once(&twice, make);
    let again = at_once(&numbers, make);

    let (first, second) = made.split_at(numbers.len());
    let (sessions, panes) = made_once(first, second, &again);
    let conversations: BTreeSet<&String> = panes.values().collect();
    assert_eq!(conversations.len(), panes.len(), "a conversation in two panes");
    let listed = home.ccmux(&["ls", "--json"]).json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), numbers.len());

    let all_are = |answers: Vec<Answer>, state: &str| {
        for answer in answers {
            let answer = answer.expect(200);
            let own = answer["panes"].as_array().unwrap();
            assert!(own.len() == 3 && own.iter().all(|pane| pane["state"] == state), "{answer}");
            for pane in own {
                assert_eq!(panes[&text(pane, "id")], text(pane, "conversation"), "{answer}");
            }
        }
    };
    let stop = json!({"graceMs": 30_000});
    let call = |verb: &'static str, body: Value| {
        at_once(&sessions, move |id| {
            patiently(http, "POST", &format!("/v1/sessions/{id}/{verb}"), Some(&body))
        })
    };
    all_are(call("stop", stop), "exited");
    all_are(call("restore", json!({})), "running");
    for (pane, conversation) in &panes {
        let config = home.state_root().join(format!("claude-configs/pane-{pane}/projects"));
        let kept = [format!("{conversation}.jsonl")];
        wait_until("each keeps its own conversation", LONG, || transcripts(&config) == kept);
    }
    let purged = at_once(&sessions, |id| {
        patiently(http, "DELETE", &format!("/v1/sessions/{id}?graceMs=30000"), None)
    });
    assert!(purged.iter().all(|answer| answer.status == 204), "{purged:?}");
    assert_eq!(home.ccmux(&["ls", "--json"]).json()["sessions"], json!([]));
    // What was purged is in the trash until it is deleted, and nowhere else.
    for holder in ["sessions", "claude-configs", "codex-configs", "gemini-configs", "tmp"] {
        assert_eq!(directories(&home, holder), [] as [PathBuf; 0]);
    }
    wait_until("the trash is empty", LONG, || directories(&home, "trash").is_empty());
    home.ccmux(&["daemon", "stop"]).ok();
    home.no_processes_left_within(LONG);
}
