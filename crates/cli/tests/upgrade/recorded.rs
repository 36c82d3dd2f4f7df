//! What earlier releases wrote and said, read by this one.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::pane::read_record;
use testkit::{Home, wait_until};

use crate::compare::{Ids, compare};
use crate::frames::{
    ATTACHED, Conversation, DETACHED, EVENT, Frame, HELLO, Line, REFUSED, REPLY, REQUEST, WELCOME,
    connect,
};
use crate::recorded_keeper::RecordedKeeper;
use crate::recorder::{TALKER, wait_until_settled};
use crate::recording::{CONTROL, KEEPER, Recording};
use crate::release::{PATIENCE, Release, text};
use crate::workload::{self, KEYED, QUEUED, RUNNING, answers, wait_for_message, wait_for_text};

/// Calls `test` with each recording, loaded into a home in which this daemon runs.
#[expect(clippy::print_stdout, reason = "a failure is that of the recording named last")]
fn each_recording(test: impl Fn(&Recording, &Release<'_>)) {
    for recording in Recording::all() {
        println!("recording {}", recording.name());
        let home = workload::new_home();
        recording.load(&home);
        let release = Release::this(&home);
        release.ok(&["daemon", "start"]);
        wait_until_settled(&release);
        test(&recording, &release);
    }
}

#[test]
fn heavy_recorded_state_root_is_listed_and_shown() {
    each_recording(|_, release| {
        let listed = release.json(&["ls"]);

        let sessions: Vec<String> =
            listed["sessions"].as_array().unwrap().iter().map(|one| text(one, "name")).collect();
        for name in ["web", "talk", "misc", "before"] {
            assert!(sessions.contains(&name.to_owned()), "{name} is not in {sessions:?}");
        }
        for target in RUNNING {
            let pane = release.pane(target);
            assert_eq!(pane["state"], "lost", "{pane}");
        }
        assert_eq!(release.pane("misc/finished")["ending"]["code"], 3);
        assert_eq!(release.state("talk/second"), "exited");
        assert!(release.ok(&["read", "misc/finished"]).contains("finished"));
        assert!(release.ok(&["read", TALKER, "--log"]).contains("answer: hello"));
        assert!(release.pane("web/dev")["branch"].is_string());
        assert!(release.pane("web/lead")["conversation"].is_string());
        // A lock ends with its owner, and this daemon knows that the owner has ended.
        assert_eq!(release.json(&["lock", "ls"])["locks"], json!([]));
        workload::assert_nothing_damaged(release);
    });
}

#[test]
fn heavy_recorded_panes_are_restored_messaged_and_closed() {
    each_recording(|_, release| {
        let conversation = release.pane("web/lead")["conversation"].clone();
        let queued = release.json(&["message", "ls", "--pane", "talk/second"]);
        let queued = queued["messages"].as_array().unwrap().clone();
        assert_eq!(queued.len(), QUEUED.len(), "{queued:?}");

        release.ok(&["restore", "web", "talk", "before", "misc/keyed"]);

        for target in RUNNING {
            assert_eq!(release.state(target), "running", "{target}");
        }
        assert_eq!(release.pane("web/lead")["conversation"], conversation);
        for (message, line) in queued.iter().zip(QUEUED) {
            wait_for_message(release, &text(message, "id"), "delivered");
            wait_until("it is answered", PATIENCE, || answers(release, "talk/second", line) == 1);
        }
        wait_for_text(release, TALKER, "^ask>");
        release.ok(&["send", TALKER, "after-restore", "--enter"]);
        wait_for_text(release, TALKER, "^answer: after-restore");
        wait_for_text(release, "web/dev", "^ready>");
        release.ok(&["send", "web/dev", "git rev-parse --abbrev-ref HEAD", "--enter"]);
        wait_for_text(release, "web/dev", "^ccmux/web/dev");
        assert!(release.ok(&["env", "web/dev"]).contains("FROM_CONFIG"));
        // The key of a recorded request still stands for the pane that it made.
        let again = release.json(&KEYED);
        assert_eq!(again["repeated"], true, "{again}");

        release.ok(&["close", "misc/finished", "misc/keyed", "talk/second", "--grace", "0"]);
        workload::purge_web(release);
        release.command(&["show", "misc/finished"]).fails_with(3);
        release.command(&["show", "web"]).fails_with(3);
        workload::assert_nothing_damaged(release);
    });
}

#[test]
fn heavy_recorded_settings_are_in_force() {
    each_recording(|_, release| {
        let templates = release.json(&["template", "ls"]);
        let names: Vec<String> = templates["templates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|template| text(template, "name"))
            .collect();
        assert!(names.contains(&"review-squad".to_owned()), "{names:?}");
        let trusted = release.json(&["trust", "--list"]);
        assert_eq!(trusted["files"][0]["trusted"], true, "{trusted}");
        assert_eq!(release.json(&["share", "--list"])["files"][0]["name"], "guide.md");
        release.ok(&["config", "--check"]);
        let token = release.ok(&["token"]);
        let file = release.home.state_root().join("run/token");
        assert_eq!(token.trim(), std::fs::read_to_string(file).unwrap().trim());
        let team = release.home.work().join("team.toml");
        let plan = release.json(&["up", team.to_str().unwrap(), "--dry-run"]);
        let actions: Vec<String> =
            plan["plan"].as_array().unwrap().iter().map(|step| text(step, "action")).collect();
        assert_eq!(actions, ["restore", "restore", "restore"], "{plan}");
    });
}

#[test]
fn heavy_recorded_requests_of_clients_are_answered() {
    each_recording(|recording, release| {
        let mut ids = Ids::default();
        let mut faults = Vec::new();

        for conversation in recording.conversations(CONTROL, release.home) {
            let server = connect(&release.home.state_root().join("run"), "control.sock").unwrap();
            faults.extend(replay(&conversation, server, &mut ids));
        }

        assert!(faults.is_empty(), "{}:\n{}", recording.name(), faults.join("\n"));
        workload::assert_nothing_damaged(release);
    });
}

#[test]
fn heavy_recorded_requests_of_a_daemon_are_answered_by_this_keeper() {
    each_recording(|recording, release| {
        release.ok(&["restore", TALKER]);
        wait_for_text(release, TALKER, "^ask>");
        // The recorded keeper had this limit, too.
        release.ok(&["limit", TALKER, "files=600"]);
        let dir = text(&release.pane(TALKER), "dir");
        let mut ids = Ids::default();
        let mut faults = Vec::new();

        for conversation in recording.conversations(KEEPER, release.home) {
            let server = connect(Path::new(&dir), "keeper.sock").unwrap();
            faults.extend(replay(&conversation, server, &mut ids));
        }

        assert!(faults.is_empty(), "{}:\n{}", recording.name(), faults.join("\n"));
        wait_until("the pane has stopped", PATIENCE, || release.state(TALKER) == "exited");
    });
}

#[test]
fn heavy_recorded_keeper_is_used_by_this_daemon() {
    for recording in Recording::all() {
        let home = workload::new_home();
        recording.load(&home);
        let release = Release::this(&home);
        let pane = pane_dir(&home, "first");
        let keeper = RecordedKeeper::start(&recording, &home, &pane, &pane_dir(&home, "second"));

        release.ok(&["daemon", "start"]);

        assert_eq!(release.state(TALKER), "running", "{}", recording.name());
        let live = release.pane(TALKER)["live"].take();
        assert!(live["size"].is_object() && live["log_end"].is_u64(), "{live}");
        assert!(release.ok(&["read", TALKER]).contains("ask>"));
        release.ok(&["send", TALKER, "typed", "--enter"]);
        release.ok(&["limit", TALKER, "files=700"]);
        release.ok(&["stop", TALKER, "--grace", "0"]);
        assert_eq!(release.state(TALKER), "exited");
        assert_eq!(keeper.unknown(), [] as [String; 0], "{}", recording.name());
        workload::assert_nothing_damaged(&release);
    }
}

/// The directory of a recorded pane, found without a daemon.
fn pane_dir(home: &Home, name: &str) -> PathBuf {
    let files = testkit::tree(home.state_root());
    let is_it = |path: &&PathBuf| {
        path.ends_with("pane.json") && read_record(&home.state_root().join(path))["name"] == name
    };
    let found = files.keys().find(is_it).unwrap();
    home.state_root().join(found.parent().unwrap())
}

#[test]
fn requests_of_other_releases_are_refused_with_a_hint() {
    let home = Home::new(crate::CCMUX);
    home.start_daemon();
    let connect = || {
        let server = connect(&home.state_root().join("run"), "control.sock").unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        server
    };
    let hello = |min: u32, max: u32| {
        Frame::json(HELLO, &json!({"protocol": {"min": min, "max": max}, "version": "9.9.9"}))
    };
    let receive = |server: &mut UnixStream| Frame::read(server).unwrap().unwrap();

    let mut server = connect();
    hello(90, 99).write(&mut server).unwrap();
    let refused = receive(&mut server);
    assert_eq!(refused.kind, REFUSED, "{refused:?}");
    let refused = refused.value();
    assert!(refused["protocol"]["max"].is_u64() && refused["version"].is_string(), "{refused}");
    assert!(text(&refused, "message").contains("9.9.9"), "{refused}");

    let mut server = connect();
    hello(1, 99).write(&mut server).unwrap();
    assert_eq!(receive(&mut server).kind, WELCOME);
    Frame::json(REQUEST, &json!({"do": "fly", "to": "the moon"})).write(&mut server).unwrap();
    let error = receive(&mut server).value()["error"].take();
    assert!(text(&error, "message").contains("fly") && error["hint"].is_string(), "{error}");
    // The connection is still good for what both releases know.
    Frame::json(REQUEST, &json!({"do": "list"})).write(&mut server).unwrap();
    assert_eq!(receive(&mut server).value()["ok"]["answer"], "sessions");
}

/// Sends what the client said and compares what the server answers; returns the faults.
fn replay(conversation: &Conversation, mut server: UnixStream, ids: &mut Ids) -> Vec<String> {
    let mut faults = Vec::new();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut events = BTreeMap::new();
    let mut compared_events = 0;
    for Line { from_client, frame } in &conversation.lines {
        if *from_client {
            let body = match String::from_utf8(frame.body.clone()) {
                Ok(text) => ids.translate(&text).into_bytes(),
                Err(_) => frame.body.clone(),
            };
            Frame { kind: frame.kind, body }.write(&mut server).unwrap();
            continue;
        }
        match frame.kind {
            WELCOME | REPLY | ATTACHED | DETACHED => {
                let Some(now) = answer(&mut server, frame.kind, &mut events) else {
                    faults.push(format!("{}: no answer like {frame:?}", conversation.title));
                    break;
                };
                let found = compare(&frame.value(), &now, ids);
                faults.extend(
                    found
                        .into_iter()
                        .map(|fault| format!("{}: {fault}\n    in {now}", conversation.title)),
                );
            }
            EVENT => compared_events += 1,
            // Output comes in other pieces each time.
            _ => {}
        }
    }
    if compared_events > 0 {
        faults.extend(compare_events(conversation, &events));
    }
    faults
}

/// The next frame of this kind; events before it are collected by number, output is skipped.
fn answer(server: &mut UnixStream, kind: u8, events: &mut BTreeMap<u64, Value>) -> Option<Value> {
    loop {
        let frame = Frame::read(server).ok()??;
        if frame.kind == EVENT {
            let event = frame.value();
            events.insert(event["seq"].as_u64()?, event);
        } else if frame.kind == kind {
            return Some(frame.value());
        } else if [WELCOME, REFUSED, REPLY, ATTACHED, DETACHED].contains(&frame.kind) {
            return None;
        }
    }
}

/// Compares the events that were in the recorded registry. Old ones may have been deleted since.
fn compare_events(conversation: &Conversation, now: &BTreeMap<u64, Value>) -> Vec<String> {
    let recorded = conversation.lines.iter().filter(|line| line.frame.kind == EVENT);
    let mut compared = 0;
    let mut faults = Vec::new();
    for event in recorded.map(|line| line.frame.value()) {
        let same = event["seq"].as_u64().and_then(|number| now.get(&number));
        // Another time of day is another event: those after the start of this daemon.
        let Some(same) = same.filter(|same| same["at"] == event["at"]) else { continue };
        compared += 1;
        let found = compare(&event, same, &mut Ids::default());
        faults.extend(found.into_iter().map(|fault| format!("event {event}: {fault}")));
    }
    if compared == 0 {
        faults.push(format!("{}: none of the recorded events is there", conversation.title));
    }
    faults
}
