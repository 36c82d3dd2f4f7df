//! The previous release is replaced while its agents run.
//!
//! `CCMUX_SOAK_PREVIOUS` is the path of its binary, which `make soak` builds with
//! `scripts/build-previous-release`. Without the variable these tests do nothing: the recorded form
//! covers the same formats.

use std::path::PathBuf;

use model::Size;
use serde_json::{Value, json};
use testkit::{Finished, Pane, process, wait_until};

use crate::CCMUX;
use crate::recorder::wait_until_settled;
use crate::release::{PATIENCE, Release, text};
use crate::workload::{self, ANSWERER, Lock, QUEUED, RUNNING, Workload, answers, wait_for_text};

/// How the daemon of the previous release ends before this one takes over.
#[derive(Clone, Copy, Debug)]
enum End {
    Stop,
    Kill,
}

/// Returns the binary of the previous release.
fn previous() -> PathBuf {
    let set = std::env::vars().find(|(name, _)| name == "CCMUX_SOAK_PREVIOUS");
    let (_, path) = set.expect("CCMUX_SOAK_PREVIOUS names the binary of the previous release");
    PathBuf::from(path).canonicalize().expect("the binary in CCMUX_SOAK_PREVIOUS exists")
}

/// The panes that run, as the processes they are.
fn running(release: &Release<'_>) -> Vec<Pane> {
    RUNNING.iter().map(|target| Pane::from_json(&release.pane(target))).collect()
}

fn end_daemon(release: &Release<'_>, end: End) {
    match end {
        End::Stop => drop(release.ok(&["daemon", "stop"])),
        End::Kill => release.home.kill_daemon(),
    }
}

#[test]
#[ignore = "needs the binary of the previous release; `make soak` builds it"]
fn heavy_upgrade_running_panes_are_used_by_this_release() {
    let previous = previous();
    for end in [End::Stop, End::Kill] {
        let home = workload::new_home();
        workload::write_files(&home);
        let old = Release::other(&home, &previous);
        let new = Release::this(&home);
        let workload = workload::start(&old);
        let colleague = ["new", "-d", "--session", "talk", "-n", "colleague", "--workspace"];
        old.ok(&[&colleague[..], &["shared", "--", "/bin/sh"]].concat());
        let panes = running(&old);
        let keepers: Vec<_> = panes.iter().map(Pane::keeper).collect();
        let attached = old.command(&["attach", "talk/first"]).screen(Size::new(80, 24).unwrap());
        attached.wait_for("ask>");
        let before = old.json(&["ls"]);

        end_daemon(&old, end);
        new.ok(&["daemon", "start"]);

        // Listed and shown as before, with the same processes.
        assert_eq!(identities(&new.json(&["ls"])), identities(&before), "{end:?}");
        for (pane, keeper) in panes.iter().zip(&keepers) {
            assert!(process::is_alive(&pane.head), "the program of {} has ended", pane.name);
            assert!(process::is_alive(keeper), "the keeper of {} has ended", pane.name);
            let shown = new.pane(&pane.id);
            assert_eq!(shown["live"]["keeper_pid"], keeper.pid, "{shown}");
        }
        // The client of the previous release is still attached to its keeper.
        attached.send("still-attached\r");
        attached.wait_for("answer: still-attached");
        attached.send("\x02d");
        assert_eq!(attached.wait_exit(), 0);

        panes_are_attached_and_typed_into(&new);
        messages_are_delivered(&new, &workload);
        locks_are_held(&new, &workload.locks);
        the_team_is_recognised(&new);
        panes_are_stopped_restored_and_closed(&new, &panes);
        workload::assert_nothing_damaged(&new);
    }
}

/// Id, name, state and process of every pane, by session.
fn identities(listed: &Value) -> Vec<String> {
    let sessions = listed["sessions"].as_array().unwrap().iter();
    let of_session = |session: &Value| {
        let panes = session["panes"].as_array().unwrap().clone();
        let session = text(session, "id");
        panes.into_iter().map(move |pane| {
            let fields = ["id", "name", "state", "pid", "conversation", "created", "ending"];
            format!("{session} {:?}", fields.map(|field| pane[field].to_string()))
        })
    };
    sessions.flat_map(of_session).collect()
}

fn panes_are_attached_and_typed_into(new: &Release<'_>) {
    let screen = new.command(&["attach", "talk/first"]).screen(Size::new(90, 30).unwrap());
    screen.wait_for("ask>");
    screen.send("typed-by-hand\r");
    screen.wait_for("answer: typed-by-hand");
    screen.send("\x02d");
    assert_eq!(screen.wait_exit(), 0);

    new.ok(&["send", "web/dev", "echo sum-$((40 + 2))", "--enter"]);
    wait_for_text(new, "web/dev", "^sum-42");
    assert!(new.ok(&["read", "web/dev"]).contains("sum-42"));
    let limits = new.json(&["limit", "web/dev", "files=600"]);
    assert!(limits["limits"].is_array(), "{limits}");
    assert!(new.ok(&["env", "web/dev"]).contains("STAGE"));
    let hook = new.command(&["hook", "turn-end", "--pane", &text(&new.pane("web/lead"), "id")]);
    hook.stdin("{}").ok();
}

fn messages_are_delivered(new: &Release<'_>, workload: &Workload) {
    workload::wait_for_message(new, &workload.delivered, "delivered");
    let wait = ["--wait", "delivered", "--timeout", "60"];
    workload::message(new, "first", "from-outside", &wait);
    wait_for_text(new, "talk/first", "^answer: from-outside");
    // From panes that the previous release started, with the program of this one. Only a pane of
    // the same session may send messages.
    let id = text(&new.pane("talk/first"), "id");
    let line = format!("{CCMUX} message --session talk --to {id} --raw from-a-pane");
    new.ok(&["send", "before/shared", &line, "--enter"]);
    wait_for_text(new, "before/shared", "access to session .* denied");
    new.ok(&["send", "talk/colleague", &line, "--enter"]);
    wait_for_text(new, "talk/first", "^answer: from-a-pane");
    for id in &workload.queued {
        workload::wait_for_message(new, id, "queued");
    }
    // A key of the previous release is still known.
    let again = workload::message(new, "second", QUEUED[0], &["--key", QUEUED[0]]);
    assert_eq!(again, workload.queued[0]);
    new.ok(&["restore", "talk/second"]);
    for (id, text) in workload.queued.iter().zip(QUEUED) {
        workload::wait_for_message(new, id, "delivered");
        wait_until("it is answered", PATIENCE, || answers(new, "talk/second", text) == 1);
    }
}

fn locks_are_held(new: &Release<'_>, locks: &[Lock]) {
    for lock in locks {
        let listed = new.json(&["lock", "ls", &lock.path]);
        assert_eq!(listed["locks"][0]["id"], lock.id.as_str(), "{listed}");
        new.ok(&["lock", "check", &lock.path, "--token", &lock.token]);
        new.command(&["lock", "acquire", &lock.path, "--pane", "misc/keyed"]).fails_with(4);
        new.ok(&["lock", "renew", &lock.id]);
    }
    let [given_back, kept] = locks else { panic!("two locks") };
    new.ok(&["lock", "release", &given_back.id]);
    let next = workload::acquire(new, &given_back.path, "misc/keyed");
    assert!(next.number() > kept.number(), "tokens increase across releases");
}

fn the_team_is_recognised(new: &Release<'_>) {
    let file = new.home.work().join("team.toml");
    let plan = new.json(&["up", file.to_str().unwrap(), "--dry-run"]);
    let steps = plan["plan"].as_array().unwrap();
    let actions: Vec<String> = steps.iter().map(|step| text(step, "action")).collect();
    assert_eq!(actions, ["keep", "keep", "keep"], "{plan}");
}

fn panes_are_stopped_restored_and_closed(new: &Release<'_>, panes: &[Pane]) {
    let keepers: Vec<_> = panes.iter().map(Pane::keeper).collect();
    let conversation = new.pane("web/lead")["conversation"].clone();

    new.ok(&["stop", "web", "talk/first", "before", "--grace", "1"]);
    for (pane, keeper) in panes.iter().zip(&keepers).filter(|(pane, _)| pane.name != "keyed") {
        assert_eq!(new.state(&pane.id), "exited", "{}", pane.name);
        assert!(!process::is_alive(&pane.head), "the program of {} runs", pane.name);
        wait_until("its keeper has ended", PATIENCE, || !process::is_alive(keeper));
    }
    assert!(new.ok(&["read", "talk/first", "--log"]).contains("answer: hello"));

    new.ok(&["restore", "web", "talk/first", "before"]);
    for pane in RUNNING {
        assert_eq!(new.state(pane), "running", "{pane}");
    }
    assert_eq!(new.pane("web/lead")["conversation"], conversation);
    wait_for_text(new, "talk/first", "^ask>");
    new.ok(&["send", "talk/first", "after-restore", "--enter"]);
    wait_for_text(new, "talk/first", "^answer: after-restore");

    // One that was never stopped by this release, and still has the keeper of the previous one.
    new.ok(&["close", "misc/keyed", "misc/finished", "talk/second", "--grace", "0"]);
    new.command(&["show", "misc/keyed"]).fails_with(3);
    workload::purge_web(new);
    new.command(&["show", "web"]).fails_with(3);
    let branches = new.home.program("git", &["branch", "--list", "ccmux/*"]);
    assert_eq!(branches.dir(&new.home.work().join("project")).ok(), "");
    let closed: Vec<&Pane> = panes.iter().filter(|pane| !pane.dir.exists()).collect();
    assert_eq!(closed.len(), 4, "{closed:?}");
}

#[test]
#[ignore = "needs the binary of the previous release; `make soak` builds it"]
fn heavy_upgrade_previous_client_understands_this_daemon() {
    let previous = previous();
    let home = workload::new_home();
    workload::write_files(&home);
    let new = Release::this(&home);
    new.ok(&["daemon", "start"]);
    let workload = workload::start(&new);

    client_understands_daemon(&Release::other(&home, &previous), &workload);

    workload::assert_nothing_damaged(&new);
}

#[test]
#[ignore = "needs the binary of the previous release; `make soak` builds it"]
fn heavy_upgrade_this_client_understands_previous_daemon() {
    let previous = previous();
    let home = workload::new_home();
    workload::write_files(&home);
    let old = Release::other(&home, &previous);
    old.ok(&["daemon", "start"]);
    let workload = workload::start(&old);

    client_understands_daemon(&Release::this(&home), &workload);

    workload::assert_nothing_damaged(&old);
}

/// Every verb gets an answer that `client` understands from the daemon that runs.
fn client_understands_daemon(client: &Release<'_>, workload: &Workload) {
    let daemon = client.home.daemon();
    let team = client.home.work().join("team.toml");
    let notes = client.home.work().join("other-notes");
    let (team, notes) = (team.to_str().unwrap(), notes.to_str().unwrap());
    let lock = &workload.locks[0];
    // These are needed to leave a release, so an explanation is not enough.
    let required: [&[&str]; 6] = [
        &["daemon", "status"],
        &["ls"],
        &["show", "web"],
        &["show", "talk/first"],
        &["send", "talk/first", "by-another-release", "--enter"],
        &["wait", "talk/first", "--for", "text=^answer: by-another", "--timeout", "60"],
    ];
    for words in required {
        client.json(words);
    }
    let other: [&[&str]; 28] = [
        &["read", "talk/first"],
        &["read", "talk/first", "--lines", "5"],
        &["read", "misc/finished"],
        &["env", "web/dev"],
        &["limit", "web/dev"],
        &["limit", "web/dev", "files=700"],
        &["thaw", "web/dev"],
        &["rename", "misc/finished", "ended"],
        &["message", "ls"],
        &["message", "show", &workload.delivered],
        &["message", "--session", "talk", "--to", "first", "--wait", "delivered", "hello again"],
        &["lock", "ls"],
        &["lock", "check", &lock.path, "--token", &lock.token],
        &["lock", "acquire", notes, "--pane", "web/dev"],
        &["lock", "renew", &lock.id],
        &["lock", "release", &lock.id],
        &["template", "ls"],
        &["template", "show", "review-squad"],
        &["trust", "--list"],
        &["share", "--list"],
        &["token", "--scope", "read"],
        &["events"],
        &["doctor"],
        &["gc", "--dry-run"],
        &["up", team, "--dry-run"],
        &["serve", "--detach", "--listen", "127.0.0.1:0"],
        &["stop", "before", "--grace", "0"],
        &["migrate", "before", "--dry-run"],
    ];
    for words in other {
        let words = [&["--json"], words].concat();
        answers_or_explains(&words, &client.command(&words).run());
    }
    let made = ["new", "-d", "--session", "made", "-n", "here", "--workspace", "empty"];
    client.json(&[&made[..], &["--", ANSWERER, "--prompt", "ask> "]].concat());
    let screen = client.command(&["attach", "made/here"]).screen(Size::new(80, 24).unwrap());
    screen.wait_for("ask>");
    screen.send("typed-by-hand\r");
    screen.wait_for("answer: typed-by-hand");
    screen.send("\x02d");
    assert_eq!(screen.wait_exit(), 0);
    client.json(&["stop", "made", "--grace", "0"]);
    client.json(&["restore", "made"]);
    client.json(&["close", "made/here", "--grace", "0"]);
    workload::purge_web(client);
    assert!(process::is_alive(&daemon), "the same daemon has answered everything");
}

/// Fails unless the command succeeded with JSON or gave a reason that a person understands.
#[track_caller]
fn answers_or_explains(words: &[&str], finished: &Finished) {
    let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    // The exit code of the doctor says how the machine is, not whether it was understood.
    if finished.status.success() || words.contains(&"doctor") {
        let printed = &finished.stdout;
        let readable = is_json(printed) || printed.lines().all(is_json);
        return assert!(readable && !printed.is_empty(), "{words:?}: {finished:#?}");
    }
    let error = finished.stderr.lines().next().unwrap_or_default();
    let error: Value = serde_json::from_str(error).unwrap_or_default();
    let error = &error["error"];
    // A daemon that understood the request may refuse it. One that did not has to say why.
    let refused = ["conflict", "not_found", "timed_out"].map(Value::from).contains(&error["code"]);
    let names_release = error["message"].as_str().is_some_and(|text| text.contains("ccmux 0."));
    let explained = names_release && error["hint"].is_string();
    assert!(refused || explained, "{words:?}: {finished:#?}");
}

#[test]
#[ignore = "needs the binary of the previous release; `make soak` builds it"]
fn heavy_upgrade_panes_lost_with_the_machine_are_restored() {
    let previous = previous();
    let home = workload::new_home();
    workload::write_files(&home);
    let old = Release::other(&home, &previous);
    let new = Release::this(&home);
    let workload = workload::start(&old);

    home.kill_everything();
    new.ok(&["daemon", "start"]);

    wait_until_settled(&new);
    assert_eq!(new.json(&["lock", "ls"])["locks"], json!([]), "a lock ends with its owner");
    new.ok(&["restore", "talk", "web"]);
    for id in &workload.queued {
        workload::wait_for_message(&new, id, "delivered");
    }
    let again = workload::acquire(&new, &workload.locks[0].path, "talk/second");
    let before = workload.locks.iter().map(Lock::number).max().unwrap();
    assert!(again.number() > before, "tokens increase across releases");
    workload::assert_nothing_damaged(&new);
}
