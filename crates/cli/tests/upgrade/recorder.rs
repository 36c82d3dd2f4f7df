//! Makes a recording: `scripts/record-upgrade-fixtures`.
//!
//! The home is recorded as a machine that lost power leaves it: some panes ended before, the others
//! have a keeper on record that is not there any more. Then a daemon starts on it, and every verb is
//! run while its frames are recorded.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::json;
use testkit::{Home, wait_until};

use crate::frames::{
    ATTACH, ATTACHED, DETACH, DETACHED, Frame, HELLO, INPUT, PAINT, Tap, WELCOME, connect,
};
use crate::recording::{CONTROL, KEEPER, Recording};
use crate::release::{PATIENCE, Release, text};
use crate::workload::{self, ANSWERER, KEYED, RUNNING, STAND_INS, wait_for_text};

/// The pane whose keeper is listened to.
pub(crate) const TALKER: &str = "talk/first";

/// Waits until the daemon knows that the panes that ran are lost.
pub(crate) fn wait_until_settled(release: &Release<'_>) {
    for pane in RUNNING {
        wait_until(&format!("{pane} is lost"), PATIENCE, || release.state(pane) == "lost");
    }
}

#[test]
#[ignore = "writes a recording; run by scripts/record-upgrade-fixtures"]
fn record() {
    let variable = |wanted: &str| {
        let found = std::env::vars().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value).unwrap_or_else(|| panic!("{wanted} is not set"))
    };
    let binary = PathBuf::from(variable("CCMUX_RECORD_BINARY")).canonicalize().unwrap();
    let recording = Recording::create(&variable("CCMUX_RECORD_NAME"));
    let home = workload::new_home();
    let installed = install(&home, &binary);
    workload::write_files(&home);
    let release = Release::other(&home, &installed);
    workload::start(&release);

    home.kill_everything();
    recording.save(&home);
    release.ok(&["daemon", "start"]);
    wait_until_settled(&release);
    let control = Tap::on(&home.state_root().join("run"), "control.sock");
    run_every_verb(&release, &control);
    recording.write_conversations(CONTROL, &home, &control.recorded());

    let keeper = record_keeper(&release);
    recording.write_conversations(KEEPER, &home, &keeper.recorded());
}

/// Puts copies in the place of links to programs: releases record the paths of programs, and these
/// are to be paths in the home.
fn install(home: &Home, binary: &Path) -> PathBuf {
    let bin = home.dir().join("bin");
    let stand_ins = STAND_INS.map(|name| (name, home.fake_agent()));
    for (name, program) in stand_ins.into_iter().chain([("ccmux", binary.to_owned())]) {
        fs::remove_file(bin.join(name)).unwrap();
        fs::copy(program, bin.join(name)).unwrap();
    }
    bin.join("ccmux")
}

/// Verbs that change nothing come first, so that each one finds the recorded home.
fn run_every_verb(release: &Release<'_>, tap: &Tap) {
    let work = release.home.work();
    let path = |name: &str| work.join(name).to_str().unwrap().to_owned();
    let run = |words: &[&str]| {
        tap.set_title(&words.join(" "));
        release.command(&[&["--json"], words].concat()).run()
    };
    let ok = |words: &[&str]| {
        let finished = run(words);
        assert!(finished.status.success(), "{words:?}: {finished:#?}");
        finished.stdout
    };
    look(&ok, &path);
    let refused: [&[&str]; 4] = [
        &["show", "no-such-pane"],
        &["send", "misc/finished", "to a pane that has ended"],
        &["close", "no-such-pane"],
        &["message", "--session", "talk", "--to", "no-such-pane", "hello"],
    ];
    for words in refused {
        assert!(!run(words).status.success(), "{words:?}");
    }
    ok(&["rename", "misc/finished", "ended"]);
    ok(&["restore", TALKER]);
    ok(&["wait", TALKER, "--for", "text=^ask>", "--timeout", "60"]);
    ok(&["send", TALKER, "typed", "--enter"]);
    ok(&["wait", TALKER, "--for", "text=^answer: typed", "--timeout", "60"]);
    ok(&["read", TALKER]);
    ok(&["read", TALKER, "--log"]);
    ok(&["show", TALKER]);
    ok(&["limit", TALKER, "files=600"]);
    let send = ["message", "--session", "talk", "--to", "first", "--wait", "delivered"];
    ok(&[&send[..], &["--timeout", "60", "--key", "recorded", "--raw", "said"]].concat());
    ok(&["wait", TALKER, "--for", "text=^answer: said", "--timeout", "60"]);
    let acquired = ok(&["lock", "acquire", &path("notes"), "--pane", TALKER]);
    let lock: serde_json::Value = serde_json::from_str(&acquired).unwrap();
    let lock = &lock["lock"];
    let token = lock["token"].to_string();
    ok(&["lock", "check", &path("notes"), "--token", &token]);
    assert!(!run(&["lock", "acquire", &path("notes"), "--pane", "web/dev"]).status.success());
    ok(&["lock", "renew", &text(lock, "id")]);
    ok(&["lock", "release", &text(lock, "id")]);
    let pane = text(&release.pane(TALKER), "id");
    let edit = format!("{{\"tool_input\":{{\"file_path\":\"{}\"}}}}", path("notes"));
    tap.set_title("hook pre-edit");
    release.command(&["hook", "pre-edit", "--pane", &pane]).stdin(edit).ok();
    ok(&["hook", "turn-end", "--pane", &pane]);
    ok(&KEYED);
    let new = ["new", "-d", "--session", "made", "-n", "one", "--workspace", "empty", "--"];
    ok(&[&new[..], &[ANSWERER, "--prompt", "ask> "]].concat());
    ok(&["stop", "made/one", "--grace", "0"]);
    ok(&["close", "made/one", "--grace", "0"]);
    ok(&["purge", "before", "--yes", "--grace", "0"]);
}

/// Runs the verbs that change nothing.
fn look(ok: &dyn Fn(&[&str]) -> String, path: &dyn Fn(&str) -> String) {
    let team = path("team.toml");
    let messages: serde_json::Value = serde_json::from_str(&ok(&["message", "ls"])).unwrap();
    let message = text(&messages["messages"][0], "id");
    let verbs: [&[&str]; 23] = [
        &["daemon", "status"],
        &["ls"],
        &["show", "web"],
        &["show", "web/lead"],
        &["show", "web/dev"],
        &["show", "talk/second"],
        &["show", "misc/finished"],
        &["show", "before/shared"],
        &["env", "web/dev"],
        &["limit", "web/dev"],
        &["read", "talk/first"],
        &["read", "misc/finished", "--log"],
        &["message", "ls", "--session", "talk"],
        &["message", "show", &message],
        &["lock", "ls"],
        &["template", "ls"],
        &["template", "show", "review-squad"],
        &["trust", "--list"],
        &["share", "--list"],
        &["token", "--scope", "read"],
        &["events"],
        &["gc", "--dry-run"],
        &["up", &team, "--dry-run"],
    ];
    for words in verbs {
        ok(words);
    }
    ok(&["migrate", "before", "--dry-run"]);
}

/// Listens while a daemon adopts a pane and uses it.
fn record_keeper(release: &Release<'_>) -> Tap {
    let dir = text(&release.pane(TALKER), "dir");
    release.ok(&["daemon", "stop"]);
    let tap = Tap::on(Path::new(&dir), "keeper.sock");
    tap.set_title("adoption");
    release.ok(&["daemon", "start"]);
    let run = |words: &[&str]| {
        tap.set_title(&words.join(" "));
        release.ok(words);
    };
    run(&["show", TALKER]);
    run(&["send", TALKER, "to-the-keeper", "--enter"]);
    wait_for_text(release, TALKER, "^answer: to-the-keeper");
    run(&["read", TALKER]);
    run(&["limit", TALKER, "files=700"]);
    let message = ["message", "--session", "talk", "--to", "first", "--raw"];
    run(&[&message[..], &["--wait", "delivered", "--timeout", "60", "once"]].concat());
    tap.set_title("attach, as a client does that has no terminal to pass on");
    attach_without_terminal(Path::new(&dir)).unwrap();
    run(&["stop", TALKER, "--grace", "0"]);
    tap
}

fn attach_without_terminal(dir: &Path) -> io::Result<()> {
    let mut keeper = connect(dir, "keeper.sock")?;
    keeper.set_read_timeout(Some(PATIENCE))?;
    let hello = json!({"protocol": {"min": 1, "max": 1}, "version": "0.1.0"});
    Frame::json(HELLO, &hello).write(&mut keeper)?;
    skip_to(&mut keeper, |frame| frame.kind == WELCOME)?;
    let attach = json!({"view": "relay", "size": {"cols": 80, "rows": 24}, "read_only": false});
    Frame::json(ATTACH, &attach).write(&mut keeper)?;
    skip_to(&mut keeper, |frame| frame.kind == ATTACHED)?;
    Frame { kind: INPUT, body: b"by-frames\r".to_vec() }.write(&mut keeper)?;
    let painted =
        |frame: &Frame| String::from_utf8_lossy(&frame.body).contains("answer: by-frames");
    skip_to(&mut keeper, |frame| frame.kind == PAINT && painted(frame))?;
    Frame { kind: DETACH, body: Vec::new() }.write(&mut keeper)?;
    skip_to(&mut keeper, |frame| frame.kind == DETACHED)
}

fn skip_to(keeper: &mut UnixStream, is_it: impl Fn(&Frame) -> bool) -> io::Result<()> {
    while let Some(frame) = Frame::read(keeper)? {
        if is_it(&frame) {
            return Ok(());
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}
