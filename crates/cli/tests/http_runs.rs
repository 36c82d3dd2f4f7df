//! R29, R31, R33: many concurrent runs over HTTP: none lost, mixed up or duplicated, nothing left
//! behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::Answer;
use testkit::soak::repetitions;
use testkit::wait::wait_for;
use testkit::{Home, Http, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline on a machine with a hundred concurrent runs.
const LONG: Duration = Duration::from_secs(240);

/// Sends a request until it is not refused for too many connections.
fn send_with_retry(http: &Http, method: &str, path: &str, body: Option<&Value>) -> Answer {
    wait_for(&format!("{method} {path} is let in"), LONG, || {
        let answer = http.ask(method, path, body);
        (answer.status != 429).then_some(answer)
    })
}

/// Runs `work` for each item concurrently, and returns the results in order.
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

/// Returns the names of an agent's transcripts.
fn transcripts(projects: &Path) -> Vec<String> {
    let projects = fs::read_dir(projects).into_iter().flatten().flatten();
    let files = projects.flat_map(|project| fs::read_dir(project.path()).unwrap().flatten());
    files.map(|file| file.file_name().into_string().unwrap()).collect()
}

/// Returns the directories in a part of the state root.
fn directories(home: &Home, part: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.state_root().join(part)).unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Returns the sessions of the responses, and their panes with their conversations. Asserts that
/// each was created once and has its own directories.
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
            let dir = text(pane, "temp");
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
fn heavy_http_runs_at_once_are_complete_and_leave_nothing() {
    let mut home = Home::new(CCMUX);
    home.install_fake_agent("claude");
    let http = &home.serve();
    let numbers: Vec<usize> = (0..repetitions("CCMUX_SOAK_RUNS", 12)).collect();
    let make = |n: &usize| {
        let claude = ["claude", "--keep-session", "--said", "--stay"];
        let pane = |name: &str| json!({"name": name, "command": claude});
        let run = json!({"name": format!("run{n}"), "agents": [pane("a"), pane("b"), pane("c")]});
        let keyed = http.with_header("idempotency-key", &format!("key-{n}"));
        send_with_retry(&keyed, "POST", "/v1/runs", Some(&run))
    };

    // Each request twice at once by independent clients, and once more.
    let twice = [&numbers[..], &numbers[..]].concat();
    let made = at_once(&twice, make);
    let again = at_once(&numbers, make);

    let (first, second) = made.split_at(numbers.len());
    let (sessions, panes) = made_once(first, second, &again);
    let conversations: BTreeSet<&String> = panes.values().collect();
    assert_eq!(conversations.len(), panes.len(), "two panes share a conversation");
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
            send_with_retry(http, "POST", &format!("/v1/sessions/{id}/{verb}"), Some(&body))
        })
    };
    all_are(call("stop", stop), "exited");
    all_are(call("restore", json!({})), "running");
    for (pane, conversation) in &panes {
        let config = home.state_root().join(format!("claude-configs/pane-{pane}/projects"));
        let kept = [format!("{conversation}.jsonl")];
        wait_until("each has its own transcript", LONG, || transcripts(&config) == kept);
    }
    let purged = at_once(&sessions, |id| {
        send_with_retry(http, "DELETE", &format!("/v1/sessions/{id}?graceMs=30000&now=true"), None)
    });
    assert!(purged.iter().all(|answer| answer.status == 204), "{purged:?}");
    assert_eq!(home.ccmux(&["ls", "--json"]).json()["sessions"], json!([]));
    // Purged sessions are in the trash until they are deleted, and nowhere else.
    for holder in ["sessions", "claude-configs", "codex-configs", "gemini-configs", "tmp"] {
        assert_eq!(directories(&home, holder), [] as [PathBuf; 0]);
    }
    wait_until("the trash is empty", LONG, || directories(&home, "trash").is_empty());
    home.ccmux(&["daemon", "stop"]).ok();
    home.no_processes_left_within(LONG);
}
