//! Cooperation between agents through hooks, and the record of conflicts (R21).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests use more of it")]
mod real;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use real::{LONG, User};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::soak::repetitions;
use testkit::stub::{Answer, RecordedRequest, ToolResult};
use testkit::wait::wait_for;
use testkit::{Agent, Home, process, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for operations that are immediate on an idle machine.
const SOON: Duration = Duration::from_secs(90);

/// Part of the message about a refused edit.
const REFUSED: &str = "is being edited by";

/// Creates a directory that panes share and a file in it.
fn shared(home: &Home) -> (PathBuf, PathBuf) {
    let dir = home.dir().join("shared");
    fs::create_dir(&dir).unwrap();
    let file = dir.join("notes.txt");
    put(&file, "one\n");
    (dir, file)
}

/// Starts a shell in `dir` and returns its pane id.
fn shell(home: &Home, dir: &Path, name: &str) -> String {
    let words = ["new", "-d", "--json", "-n", name, "--workspace", "shared", "--", "/bin/sh"];
    home.ccmux(&words).dir(dir).json()["pane"]["id"].as_str().unwrap().to_owned()
}

/// Runs a pane's agent hook and returns its exit code and its message to the agent.
fn hook(home: &Home, event: &str, pane: &str, file: &Path, more: &[&str]) -> (i32, String) {
    let input = json!({"cwd": "/", "tool_input": {"file_path": file}}).to_string();
    let words = [&["hook", event, "--pane", pane], more].concat();
    let said = home.ccmux(&words).stdin(input).run();
    assert_eq!(said.stdout, "", "agents interpret standard output as commands");
    (said.status.code().unwrap(), said.stderr)
}

/// Returns the recorded conflicts.
fn conflicts(home: &Home) -> Vec<Value> {
    let events = home.ccmux(&["events", "--json"]).ok();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == "conflict").collect()
}

fn locked(home: &Home) -> Vec<Value> {
    home.ccmux(&["lock", "ls", "--json"]).json()["locks"].as_array().unwrap().clone()
}

#[test]
fn edit_lock_is_held_until_turn_or_pane_ends() {
    let home = Home::new(CCMUX);
    let (dir, file) = shared(&home);
    let (dev1, dev2) = (shell(&home, &dir, "dev1"), shell(&home, &dir, "dev2"));

    assert_eq!(hook(&home, "pre-edit", &dev1, &file, &[]), (0, String::new()));
    assert_eq!(hook(&home, "pre-edit", &dev1, &file, &[]).0, 0, "the holder may edit again");
    assert_eq!(hook(&home, "post-edit", &dev1, &file, &[]).0, 0);
    let (code, said) = hook(&home, "pre-edit", &dev2, &file, &[]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains(&format!("{} {REFUSED} pane dev1", file.display())), "{said}");
    assert!(said.contains("try again later") && said.contains("ccmux lock ls"), "{said}");
    assert_eq!(hook(&home, "pre-edit", &dev2, &dir.join("other"), &[]).0, 0);

    let recorded = conflicts(&home);
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(
        (&recorded[0]["name"], &recorded[0]["held_by"]),
        (&json!("dev2"), &json!("pane dev1"))
    );
    assert_eq!(
        (&recorded[0]["outcome"], &recorded[0]["holder"]),
        (&json!("refused"), &json!(dev1))
    );
    let events = home.ccmux(&["events"]).ok();
    assert!(events.contains("pane dev2 was refused"), "{events}");

    assert_eq!(hook(&home, "turn-end", &dev1, &file, &[]).0, 0);
    assert_eq!(hook(&home, "pre-edit", &dev2, &file, &[]).0, 0, "the turn has ended");
    home.ccmux(&["stop", "dev2"]).ok();
    assert_eq!(hook(&home, "pre-edit", &dev1, &file, &["--wait", "60"]).0, 0, "the pane is closed");
    assert_eq!(hook(&home, "session-end", &dev1, &file, &[]).0, 0);
    assert_eq!(locked(&home), [] as [Value; 0]);
}

/// A daemon that does not answer counts as absent; the configuration decides what the hook does
/// then.
#[test]
fn hook_without_daemon_follows_configuration() {
    let home = Home::new(CCMUX);
    let (dir, file) = shared(&home);
    let pane = shell(&home, &dir, "dev1");
    let daemon = home.daemon();
    let check = |why: &str| {
        let (code, said) = hook(&home, "pre-edit", &pane, &file, &[]);
        assert!(code == 0 && said.contains(why) && said.contains("is allowed"), "{code} {said}");
        let (code, said) = hook(&home, "pre-edit", &pane, &file, &["--when-away", "deny"]);
        assert!(code == 2 && said.contains(why) && said.contains("was refused"), "{code} {said}");
        assert_eq!(hook(&home, "turn-end", &pane, &file, &["--when-away", "deny"]).0, 0);
    };

    process::signal(&daemon, Signal::STOP);
    check("does not answer");
    process::signal(&daemon, Signal::CONT);
    home.kill_daemon();
    check("is not running");

    assert_eq!(
        home.ccmux(&["daemon", "status"]).run().status.code(),
        Some(6),
        "the hook started a daemon"
    );
}

#[test]
fn hook_accepts_any_agent_input() {
    let home = Home::new(CCMUX);
    let (dir, _) = shared(&home);
    let pane = shell(&home, &dir, "dev1");
    let said = |bytes: Vec<u8>| {
        let words = ["hook", "pre-edit", "--pane", &pane];
        let ended = home.ccmux(&words).stdin(bytes).run();
        (ended.status.code().unwrap(), ended.stderr)
    };
    let garbage = [
        Vec::new(),
        b"\xff\xfe\x00".to_vec(),
        vec![b'['; 1 << 20],
        br#"{"tool_input":{"file_path":["x"]}}"#.to_vec(),
        br#"{"tool_input":{"file_path":"relative"}}"#.to_vec(),
        json!({"tool_input": {"file_path": "/a\u{0}b"}}).to_string().into(),
        json!({"tool_input": {"file_path": format!("/{}", "x/".repeat(10_000))}})
            .to_string()
            .into(),
    ];
    for bytes in garbage {
        let beginning = String::from_utf8_lossy(&bytes).chars().take(40).collect::<String>();
        let (code, said) = said(bytes);
        assert!(code == 0 && said.contains("is allowed"), "{beginning:?}: {code} {said}");
    }
    let unknown = home.ccmux(&["hook", "pre-edit", "--pane", "nobody"]).fails_with(2);
    assert!(unknown.contains("nobody"), "{unknown}");
    home.ccmux(&["hook", "fly"]).fails_with(2);
    assert_eq!(locked(&home), [] as [Value; 0]);
}

#[test]
fn change_of_locked_file_by_another_pane_is_recorded() {
    let home = Home::new(CCMUX);
    let (dir, file) = shared(&home);
    let (dev1, _) = (shell(&home, &dir, "dev1"), shell(&home, &dir, "ops"));
    assert_eq!(hook(&home, "pre-edit", &dev1, &file, &[]).0, 0);
    // The holder's own edit, and a write that changes nothing, are no conflicts.
    put(&file, "two\n");
    assert_eq!(hook(&home, "post-edit", &dev1, &file, &[]).0, 0);
    put(&file, "two\n");

    // Keeps the file open, so that the writer can be identified.
    let line = format!("exec 3>>{}; echo by ops >&3", file.display());
    home.ccmux(&["send", "ops", &line, "--enter"]).ok();

    let changed = || conflicts(&home).into_iter().find(|event| event["outcome"] == "changed");
    let recorded = wait_for("the change is recorded", SOON, changed);
    assert_eq!(
        (&recorded["name"], &recorded["held_by"]),
        (&json!("ops"), &json!("pane dev1")),
        "{recorded}"
    );
    assert_eq!(&recorded["path"], &json!(file), "{recorded}");
    // Only root gets the writer from the kernel.
    let evidence = recorded["evidence"].as_str().unwrap();
    assert!(["kernel", "open_file"].contains(&evidence), "{recorded}");
    let all = conflicts(&home);
    assert!(all.iter().all(|event| event["name"] == "ops"), "only ops is recorded: {all:?}");
    let line = format!("pane ops changed {}, locked by pane dev1", file.display());
    for pane in ["dev1", "ops"] {
        let shown = home.ccmux(&["show", pane]).ok();
        assert!(shown.contains(&line), "{shown}");
    }
    let found = home.ccmux(&["doctor", "--json"]).run().stdout;
    assert!(found.contains("was changed by another"), "{found}");
    assert_eq!(hook(&home, "turn-end", &dev1, &file, &[]).0, 0);
}

/// R21: a locked directory tree is watched wherever it is.
#[test]
fn change_in_locked_tree_by_another_pane_is_recorded() {
    let home = Home::new(CCMUX);
    let (dir, _) = shared(&home);
    let (elsewhere, tree) = (home.dir().join("elsewhere"), home.dir().join("tree"));
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir_all(tree.join("src/deep")).unwrap();
    let file = tree.join("src/deep/notes.txt");
    let (dev1, _) = (shell(&home, &dir, "dev1"), shell(&home, &elsewhere, "ops"));
    let idle = descriptors(&home, "inotify");
    let acquire = ["lock", "acquire", "--json", "--tree", "--pane", "dev1"];
    let lock = home.ccmux(&acquire).arg(&tree).json()["lock"].clone();
    let mut turn = 0;
    let mut writes = |name: &str| {
        turn += 1;
        let text = format!("{name} {turn}");
        // Keeps the file open, so that the writer can be identified.
        let line = format!("exec 3>{}; echo {text} >&3", file.display());
        home.ccmux(&["send", name, &line, "--enter"]).ok();
        wait_until("the pane has written", SOON, || {
            fs::read_to_string(&file).is_ok_and(|now| now.trim() == text)
        });
    };

    writes("dev1");
    let recorded = wait_for("the change is recorded", SOON, || {
        writes("ops");
        conflicts(&home).into_iter().next()
    });

    assert_eq!(
        (&recorded["name"], &recorded["held_by"]),
        (&json!("ops"), &json!("pane dev1")),
        "{recorded}"
    );
    assert_eq!(
        (&recorded["path"], &recorded["outcome"]),
        (&json!(file), &json!("changed")),
        "{recorded}"
    );
    assert_eq!(recorded["holder"], json!(dev1));
    let all = conflicts(&home);
    assert!(all.iter().all(|event| event["name"] == "ops"), "only ops is recorded: {all:?}");
    home.ccmux(&["lock", "release", lock["id"].as_str().unwrap()]).ok();
    wait_until("no directory is watched", SOON, || descriptors(&home, "inotify") == idle);
}

/// R20, R21: a pane stopped for longer than its lease loses the locks its hooks took, and its token
/// is rejected when it continues.
#[test]
fn lease_of_a_stopped_pane_expires_and_its_token_is_rejected() {
    let home = Home::new(CCMUX);
    let (dir, file) = shared(&home);
    let (dev1, dev2) = (shell(&home, &dir, "dev1"), shell(&home, &dir, "dev2"));
    let head =
        process::identity(u32::try_from(home.show("dev1")["pid"].as_u64().unwrap()).unwrap());
    let head = head.unwrap();
    assert_eq!(hook(&home, "pre-edit", &dev1, &file, &[]).0, 0);
    let stale = locked(&home)[0].clone();
    assert_eq!(stale["automatic"], true, "{stale}");

    process::signal(&head, Signal::STOP);
    assert_eq!(hook(&home, "pre-edit", &dev2, &file, &[]).0, 2, "the lease has not expired");
    wait_until("the lease has expired", SOON * 2, || {
        hook(&home, "pre-edit", &dev2, &file, &[]).0 == 0
    });
    process::signal(&head, Signal::CONT);

    let fresh = locked(&home)[0].clone();
    let token = |lock: &Value| lock["token"].to_string().trim_matches('"').to_owned();
    assert_eq!(fresh["name"], "dev2", "{fresh}");
    assert_ne!(token(&fresh), token(&stale));
    let check = |token: &str| {
        let words = ["lock", "check", file.to_str().unwrap(), "--token", token];
        home.ccmux(&words).run().status.code()
    };
    assert_eq!(check(&token(&stale)), Some(4), "the old token is rejected");
    assert_eq!(check(&token(&fresh)), Some(0));
    assert_eq!(hook(&home, "pre-edit", &dev1, &file, &[]).0, 2, "the first pane is refused");
    assert_eq!(hook(&home, "turn-end", &dev1, &file, &[]).0, 0);
    assert_eq!(
        locked(&home)[0]["name"],
        "dev2",
        "ending its turn releases no lock of another pane"
    );
}

/// Returns the number of the daemon's descriptors of this kind.
fn descriptors(home: &Home, kind: &str) -> usize {
    let all = fs::read_dir(format!("/proc/{}/fd", home.daemon().pid)).unwrap();
    let links = all.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().contains(kind)).count()
}

/// R21: in a directory shared by two panes, a change of a file that another pane has just changed
/// is recorded although it is not locked. Without a shared directory nothing is watched.
#[test]
fn change_of_file_just_changed_by_another_pane_is_recorded() {
    let home = Home::new(CCMUX);
    let (dir, _) = shared(&home);
    let nested = dir.join("src");
    fs::create_dir(&nested).unwrap();
    let file = nested.join("main.rs");
    shell(&home, &dir, "dev1");
    let idle = descriptors(&home, "inotify");
    shell(&home, &dir, "ops");
    wait_until("the directory is watched", SOON, || descriptors(&home, "inotify") > idle);

    // Created before the other pane.
    if descriptors(&home, "fanotify") > 0 {
        let mut turn = 0;
        let recorded = wait_for("the conflict is recorded", SOON, || {
            turn += 1;
            // A file that stays open long enough to be inspected is attributed to one pane, then to
            // the other.
            let names = if turn % 2 == 0 { ["dev1", "ops"] } else { ["ops", "dev1"] };
            for name in names {
                let text = format!("{name} {turn}");
                let line = format!("echo {text} > {}", file.display());
                home.ccmux(&["send", name, &line, "--enter"]).ok();
                wait_until("the pane has written", SOON, || {
                    fs::read_to_string(&file).is_ok_and(|now| now.trim() == text)
                });
            }
            conflicts(&home).into_iter().next()
        });
        let (name, before) =
            (recorded["name"].as_str().unwrap(), recorded["held_by"].as_str().unwrap());
        assert!(
            [("dev1", "pane ops"), ("ops", "pane dev1")].contains(&(name, before)),
            "both are named: {recorded}"
        );
        assert_eq!(
            (&recorded["path"], &recorded["outcome"]),
            (&json!(file), &json!("changed_too"))
        );
        assert_eq!(recorded["evidence"], "kernel", "{recorded}");
        let line = format!("changed {} shortly after a change by {before}", file.display());
        let shown = home.ccmux(&["show", "ops"]).ok();
        assert!(shown.contains(&line), "{shown}");
        let found = home.ccmux(&["doctor", "--json"]).run().stdout;
        assert!(found.contains("had just changed was changed by another"), "{found}");
    } else {
        println!("who it was is not tried: the kernel tells that to root only");
    }

    home.ccmux(&["stop", "ops"]).ok();
    wait_until("no directory is watched", SOON, || descriptors(&home, "inotify") == idle);
    wait_until("fanotify is closed", SOON, || descriptors(&home, "fanotify") == 0);
}

/// R21: panes that lock before they write do not conflict, even on the same file.
#[test]
fn successive_edits_of_one_file_are_no_conflict() {
    let home = Home::new(CCMUX);
    let (dir, file) = shared(&home);
    let dev1 = shell(&home, &dir, "dev1");
    let idle = descriptors(&home, "inotify");
    let panes = [("dev1", dev1), ("dev2", shell(&home, &dir, "dev2"))];
    wait_until("the directory is watched", SOON, || descriptors(&home, "inotify") > idle);

    for turn in 0..4 {
        for (name, id) in &panes {
            assert_eq!(hook(&home, "pre-edit", id, &file, &[]), (0, String::new()));
            let text = format!("{name} {turn}");
            let line = format!("echo {text} > {}", file.display());
            home.ccmux(&["send", name, &line, "--enter"]).ok();
            wait_until("the pane has written", SOON, || {
                fs::read_to_string(&file).is_ok_and(|now| now.trim() == text)
            });
            assert_eq!(hook(&home, "post-edit", id, &file, &[]).0, 0);
            assert_eq!(hook(&home, "turn-end", id, &file, &[]).0, 0);
        }
    }

    assert_eq!(conflicts(&home), [] as [Value; 0]);
}

#[test]
fn agents_get_hooks_unless_disabled() {
    let mut home = Home::new(CCMUX);
    home.install_fake_agent("claude");
    let (dir, _) = shared(&home);
    let start = |name: &str| {
        let words =
            ["new", "-d", "--json", "-n", name, "--workspace", "shared", "--", "claude", "--stay"];
        home.ccmux(&words).dir(&dir).json()["pane"].clone()
    };

    let hooked = start("hooked");
    put(&home.state_root().join("config/ccmux.toml"), "[locks]\nhooks = false\n");
    let plain = start("plain");

    let words = |pane: &Value, field: &str| pane[field].as_array().unwrap().clone();
    assert_eq!(words(&hooked, "asked"), ["claude", "--stay"]);
    let settings = words(&hooked, "command")[2].as_str().unwrap().to_owned();
    assert_eq!(words(&hooked, "command")[1], "--settings");
    assert!(settings.starts_with(hooked["dir"].as_str().unwrap()), "{settings}");
    let settings: Value = serde_json::from_slice(&fs::read(settings).unwrap()).unwrap();
    assert!(settings["hooks"]["PreToolUse"][0].to_string().contains("hook pre-edit"), "{settings}");
    assert!(!words(&plain, "command").contains(&json!("--settings")), "{plain}");
    let listed = home.ccmux(&["ls"]).ok();
    assert!(!listed.contains("--settings"), "the listed command is the user's: {listed}");
}

/// A model that reads its file and then replaces the text in it.
fn replaces(
    file: &Path,
    by: &'static str,
) -> impl FnMut(&RecordedRequest) -> Answer + Send + 'static {
    let file = file.to_owned();
    move |seen: &RecordedRequest| {
        let results = seen.tool_results();
        let write = Answer::tool("Write", json!({"file_path": file, "content": by}));
        match results.as_slice() {
            [] => Answer::tool("Read", json!({"file_path": file})),
            [_] => write,
            [.., last] if last.text.contains(REFUSED) => write,
            [..] => Answer::text("all done"),
        }
    }
}

/// R21: two real claudes and one file. The second is told who holds it, and gets it afterwards.
#[test]
fn heavy_second_claude_is_told_the_holder_and_gets_file_afterwards() {
    let user = User::new(Agent::Claude);
    let (file, marks) = (user.project.join("notes.txt"), user.home.dir().join("marks"));
    put(&file, "nothing\n");
    fs::create_dir(&marks).unwrap();
    // Hooks that the user has in the settings and on the command line.
    let touch = |event: &str, mark: &str| {
        let command = format!("touch '{}'", marks.join(mark).display());
        json!({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}})
    };
    let own = user.home_dir().join(".claude");
    fs::create_dir_all(&own).unwrap();
    put(&own.join("settings.json"), touch("PreToolUse", "from-settings").to_string());
    let given = touch("Stop", "from-arguments").to_string();
    let with_result = |word: &'static str, count: usize| {
        move |seen: &RecordedRequest| {
            let is_it = seen.user_texts().iter().any(|text| text.contains(word));
            is_it && seen.is_turn() && seen.tool_results().len() == count
        }
    };
    user.stub.play("task-one", replaces(&file, "one\n"));
    user.stub.play("task-two", replaces(&file, "two\n"));
    let first_goes_on = user.stub.hold_when(with_result("task-one", 2));
    let second_goes_on = user.stub.hold_when(with_result("task-two", 2));
    let start = |name: &str, args: &[&str]| {
        let args = [args, &["--permission-mode", "acceptEdits"]].concat();
        user.new_pane(name, &["--workspace", "shared"], &args)
    };
    let seen = |word: &'static str, count: usize| {
        let wanted = with_result(word, count);
        wait_for(&format!("{count} results of {word}"), LONG, || {
            user.stub.turns().into_iter().find(&wanted)
        })
    };

    start("dev1", &["-p", "task-one", "--settings", &given]);
    seen("task-one", 2);
    start("dev2", &["-p", "task-two"]);
    let refused = seen("task-two", 2).tool_results().pop().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    drop(first_goes_on);
    let first = user.wait_exit("dev1");
    drop(second_goes_on);
    let second = user.wait_exit("dev2");

    assert!(refused.is_error && refused.text.contains("pane dev1"), "{refused:?}");
    assert!(refused.text.contains(file.to_str().unwrap()), "{refused:?}");
    assert_eq!(text, "one\n", "only the first edit was made");
    assert_eq!((first, second), (0, 0));
    assert_eq!(fs::read_to_string(&file).unwrap(), "two\n");
    for mark in ["from-settings", "from-arguments"] {
        assert!(marks.join(mark).exists(), "the user's hook did not run: {mark}");
    }
    let recorded = conflicts(&user.home);
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(
        (&recorded[0]["name"], &recorded[0]["held_by"]),
        (&json!("dev2"), &json!("pane dev1"))
    );
    assert_eq!(locked(&user.home), [] as [Value; 0]);
}

/// R21: claude's other tools take no locks. A change that its shell makes to a locked file is
/// recorded.
#[test]
fn heavy_claude_shell_changing_locked_file_is_recorded() {
    let user = User::new(Agent::Claude);
    let file = user.project.join("notes.txt");
    put(&file, "nothing\n");
    user.stub.play("task-one", replaces(&file, "one\n"));
    let after_the_edit = |seen: &RecordedRequest| {
        seen.user_texts().contains(&"task-one") && seen.tool_results().len() == 2
    };
    let first_goes_on = user.stub.hold_when(after_the_edit);
    // Keeps the file open for a while, so that the writer can be identified without root.
    let command = format!("exec 3>>'{}'; echo by the shell >&3; sleep 2", file.display());
    user.stub.play("task-two", move |seen: &RecordedRequest| {
        match seen.tool_results().as_slice() {
            [] => Answer::tool("Bash", json!({"command": command})),
            [..] => Answer::text("all done"),
        }
    });
    let start = |name: &str, task: &str| {
        let args = ["-p", task, "--permission-mode", "acceptEdits", "--allowedTools", "Bash"];
        user.new_pane(name, &["--workspace", "shared"], &args)
    };

    start("dev1", "task-one");
    wait_until("the edit is made", LONG, || user.stub.turns().iter().any(after_the_edit));
    start("dev2", "task-two");
    assert_eq!(user.wait_exit("dev2"), 0);
    let recorded = wait_for("the change is recorded", LONG, || {
        conflicts(&user.home).into_iter().find(|event| event["outcome"] == "changed")
    });
    drop(first_goes_on);
    let first = user.wait_exit("dev1");

    assert_eq!(first, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\nby the shell\n");
    assert_eq!(
        (&recorded["name"], &recorded["held_by"]),
        (&json!("dev2"), &json!("pane dev1")),
        "{recorded}"
    );
    assert_eq!(&recorded["path"], &json!(file), "{recorded}");
    assert_eq!(locked(&user.home), [] as [Value; 0]);
}

/// Claude runs no hook when its user interrupts it; the end of the turn is detected from its
/// screen.
#[test]
fn heavy_interrupted_turn_releases_its_locks() {
    let user = User::new(Agent::Claude);
    let file = user.project.join("notes.txt");
    put(&file, "nothing\n");
    user.stub.play("task-one", replaces(&file, "one\n"));
    let after_the_edit = |seen: &RecordedRequest| {
        seen.user_texts().contains(&"task-one") && seen.tool_results().len() == 2
    };
    let _never_answered = user.stub.hold_when(after_the_edit);
    let options = ["--workspace", "shared"];
    user.new_pane("dev1", &options, &["--permission-mode", "acceptEdits", "task-one"]);
    wait_until("the edit is made", LONG, || user.stub.turns().iter().any(after_the_edit));
    let other = shell(&user.home, &user.project, "ops");
    let (code, said) = hook(&user.home, "pre-edit", &other, &file, &[]);
    assert_eq!(code, 2, "the turn has not ended: {said}");

    user.home.ccmux(&["send", "dev1", "--key", "esc"]).ok();

    wait_until("the file is free", LONG, || {
        hook(&user.home, "pre-edit", &other, &file, &[]).0 == 0
    });
    assert_eq!(locked(&user.home)[0]["name"], "ops");
}

/// The agents of the team.
const TEAM: [&str; 7] = ["dev1", "dev2", "dev3", "qa1", "qa2", "ux", "pm"];

/// Number of files that all of them edit.
const FILES: usize = 3;

/// Returns the number of edits per agent.
fn edits() -> usize {
    repetitions("CCMUX_SOAK_EDITS", 4)
}

/// Results of one agent's edits.
#[derive(Clone, Debug, Default)]
struct Tally {
    landed: Vec<(usize, String)>,
    refused: Vec<String>,
    strange: Vec<String>,
    done: bool,
}

/// Returns whether claude reports that the file was replaced since it read it. The last text is the
/// one for a change during reading.
fn is_stale(text: &str) -> bool {
    ["since read", "not been read", "changed after permission was checked"]
        .iter()
        .any(|why| text.contains(why))
}

/// A file that all of them append to.
const BY_SHELL: &str = "by-shell.txt";

type Tallies = Arc<Mutex<BTreeMap<&'static str, Tally>>>;

/// Plays a model that adds a line to one file after the other, reads files again that others
/// changed, and skips files it is refused. Finally it appends to a shared file with its shell.
/// `dir` is known only when its pane exists.
fn adds_lines(
    name: &'static str,
    edits: usize,
    dir: Arc<Mutex<Option<PathBuf>>>,
    tallies: Tallies,
) -> impl FnMut(&RecordedRequest) -> Answer + Send + 'static {
    let mut edit = 0;
    let mut has_read = false;
    let mut seen_results = 0;
    move |seen: &RecordedRequest| {
        let dir = dir.lock().unwrap().clone().expect("its pane exists");
        let mut tallies = tallies.lock().unwrap();
        let tally = tallies.entry(name).or_default();
        let results = seen.tool_results();
        let at = |edit: usize| (edit + name.len() + usize::from(name.as_bytes()[0])) % FILES;
        let line = |edit: usize| format!("{name}-{edit}");
        if results.len() > seen_results {
            seen_results = results.len();
            let ToolResult { text, is_error } = results.last().cloned().unwrap();
            if edit == edits {
                tally.done = true;
                tally.strange.extend(is_error.then_some(text));
            } else if !has_read {
                has_read = !is_error;
                if is_error && !is_stale(&text) {
                    tally.strange.push(text);
                }
            } else if text.contains(REFUSED) {
                tally.refused.push(text);
                (edit, has_read) = (edit + 1, false);
            } else if !is_error {
                tally.landed.push((at(edit), line(edit)));
                (edit, has_read) = (edit + 1, false);
            } else if is_stale(&text) {
                has_read = false;
            } else {
                tally.strange.push(text);
                (edit, has_read) = (edit + 1, false);
            }
        }
        if edit == edits {
            let command = format!("echo {name} >> '{}'", dir.join(BY_SHELL).display());
            return match tally.done {
                true => Answer::text("all done"),
                false => Answer::tool("Bash", json!({"command": command})),
            };
        }
        let file = dir.join(format!("f{}.txt", at(edit)));
        if !has_read {
            return Answer::tool("Read", json!({"file_path": file}));
        }
        let new = format!("top\n{}", line(edit));
        Answer::tool("Edit", json!({"file_path": file, "old_string": "top", "new_string": new}))
    }
}

/// Runs the team; returns each agent's results and working directory.
fn run_team(
    user: &User,
    options: &[&str],
) -> (BTreeMap<&'static str, Tally>, BTreeMap<&'static str, PathBuf>) {
    let edits = edits();
    user.stub.remember(100);
    let patience = LONG + Duration::from_secs(2) * u32::try_from(edits * TEAM.len()).unwrap();
    let tallies = Tallies::default();
    let mut dirs = BTreeMap::new();
    for name in TEAM {
        let dir = Arc::new(Mutex::new(None));
        let word = format!("task-of-{name}.");
        user.stub.play(&word, adds_lines(name, edits, Arc::clone(&dir), Arc::clone(&tallies)));
        let wanted = word.clone();
        let not_yet = user
            .stub
            .hold_when(move |seen| seen.user_texts().iter().any(|text| text.contains(&wanted)));
        let args = ["-p", &word, "--permission-mode", "acceptEdits", "--allowedTools", "Bash"];
        let pane = user.new_pane(name, options, &args);
        let workspace = real::path(&pane, "workspace");
        *dir.lock().unwrap() = Some(workspace.clone());
        dirs.insert(name, workspace);
        drop(not_yet);
    }
    for name in TEAM {
        let wait = ["wait", name, "--for", "exit", "--timeout", &patience.as_secs().to_string()];
        let ended = user.home.ccmux(&wait).timeout(patience * 2).run();
        let ended = ended.status.success() && user.show(name)["ending"]["code"] == 0;
        let screen = || user.home.ccmux(&["read", name, "--lines", "40"]).run().stdout;
        assert!(ended, "{name} did not get to the end of its task:\n{}", screen());
    }
    let tallies = tallies.lock().unwrap().clone();
    for name in TEAM {
        let tally = &tallies[name];
        assert!(tally.done && tally.strange.is_empty(), "{name}: {tally:#?}");
        assert_eq!(tally.landed.len() + tally.refused.len(), edits, "{name}: {tally:#?}");
    }
    (tallies, dirs)
}

/// Formats the numbers of accepted and refused edits.
fn summary(tallies: &BTreeMap<&str, Tally>) -> String {
    let one = |(name, tally): (&&str, &Tally)| {
        format!("{name}: {} landed, {} refused", tally.landed.len(), tally.refused.len())
    };
    tallies.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Returns the lines of the three files in a directory.
fn lines_in(dir: &Path) -> Vec<(usize, String)> {
    let of = |at: usize| {
        let text = fs::read_to_string(dir.join(format!("f{at}.txt"))).unwrap();
        text.lines().skip(1).map(|line| (at, line.to_owned())).collect::<Vec<_>>()
    };
    let mut lines: Vec<_> = (0..FILES).flat_map(of).collect();
    lines.sort();
    lines
}

/// Returns the lines appended by shells.
fn by_shell(dir: &Path) -> Vec<String> {
    sorted(fs::read_to_string(dir.join(BY_SHELL)).unwrap().lines().map(str::to_owned))
}

fn sorted<T: Ord>(list: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut list: Vec<T> = list.into_iter().collect();
    list.sort();
    list
}

/// Seven real claudes in one directory: every edit is made or refused with the holder's name, no
/// write is lost, and every refusal is recorded.
#[test]
fn heavy_seven_claudes_in_one_directory_lose_no_edit() {
    let user = User::new(Agent::Claude);
    for at in 0..FILES {
        put(&user.project.join(format!("f{at}.txt")), "top\n");
    }

    let (tallies, dirs) = run_team(&user, &["--workspace", "shared"]);
    println!("{}", summary(&tallies));

    assert!(dirs.values().all(|dir| *dir == user.project), "{dirs:?}");
    let landed = sorted(tallies.values().flat_map(|tally| tally.landed.clone()));
    assert_eq!(lines_in(&user.project), landed, "every accepted edit is there once");
    assert_eq!(by_shell(&user.project), sorted(TEAM), "every shell's line is there once");
    let recorded = conflicts(&user.home);
    let refusals: Vec<_> = recorded.iter().filter(|event| event["outcome"] == "refused").collect();
    let refused = |name: &str| refusals.iter().filter(|event| event["name"] == name).count();
    for (name, tally) in &tallies {
        assert_eq!(refused(name), tally.refused.len(), "{name}: {tally:?} {recorded:?}");
        let names_another = |text: &String| {
            TEAM.iter().any(|other| other != name && text.contains(&format!("pane {other}")))
        };
        assert!(tally.refused.iter().all(names_another), "{name}: {tally:?}");
    }
    let changed: Vec<_> = recorded.iter().filter(|event| event["outcome"] == "changed").collect();
    assert!(changed.is_empty(), "a change bypassed the locks: {changed:?}");
    assert_eq!(locked(&user.home), [] as [Value; 0]);
}

/// Seven real claudes in worktrees of one repository: every edit is in its own worktree, and the
/// branches are intact.
#[test]
fn heavy_seven_claudes_in_worktrees_edit_only_their_own() {
    let user = User::new(Agent::Claude);
    let git = |dir: &Path, args: &[&str]| {
        let own = ["-c", "user.name=Test", "-c", "user.email=test@localhost"];
        user.home.program("git", &[&own, args].concat()).dir(dir).ok()
    };
    git(&user.project, &["init", "-q", "-b", "main"]);
    for at in 0..FILES {
        put(&user.project.join(format!("f{at}.txt")), "top\n");
    }
    git(&user.project, &["add", "-A"]);
    git(&user.project, &["commit", "-q", "-m", "files"]);

    let (tallies, dirs) = run_team(&user, &["--workspace", "worktree", "--session", "team"]);
    println!("{}", summary(&tallies));

    assert_eq!(lines_in(&user.project), [], "the user's worktree is unchanged");
    for (name, dir) in &dirs {
        let tally = &tallies[name];
        assert_eq!(tally.refused, [] as [String; 0], "{name}");
        assert_eq!(lines_in(dir), sorted(tally.landed.clone()), "{name}");
        assert_eq!(by_shell(dir), [*name]);
        git(dir, &["commit", "-q", "-a", "-m", "work"]);
    }
    git(&user.project, &["fsck", "--strict"]);
    let branches = git(&user.project, &["branch", "--format=%(refname:short)"]);
    for name in TEAM {
        let branch = format!("ccmux/team/{name}");
        assert!(branches.lines().any(|line| line == branch), "{branch}: {branches}");
        let ahead = git(&user.project, &["rev-list", "--count", &format!("main..{branch}")]);
        assert_eq!(ahead.trim(), "1", "{branch}");
    }
    assert_eq!(conflicts(&user.home), [] as [Value; 0]);
    wait_until("nothing is locked", SOON, || locked(&user.home).is_empty());
}
