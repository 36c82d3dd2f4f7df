//! The real claude in panes (R1, R11, B1, B2, B4, B11), with a stub of its service.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod real;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use real::{LONG, User, path};
use serde_json::Value;
use testkit::stub::Answer;
use testkit::{Agent, DEADLINE, agents, process, put, tree, wait_until};

/// Numbers of panes to start at once.
const PANE_COUNTS: [usize; 3] = [2, 7, 20];

fn conversation_id(seen: &testkit::stub::RecordedRequest) -> &str {
    seen.conversation().expect("claude names its conversation")
}

/// Returns the user's own agent files with their contents.
fn user_files(user: &User) -> impl PartialEq + std::fmt::Debug + use<> {
    let home = user.home_dir();
    (tree(&home.join(".claude")), fs::read(home.join(".claude.json")).unwrap())
}

#[test]
fn heavy_claude_conversation_resumes_after_every_kind_of_exit() {
    let user = User::new(Agent::Claude);
    let own = user.home_dir().join(".claude");
    for dir in ["commands", "agents", "skills", "plugins"] {
        fs::create_dir_all(own.join(dir)).unwrap();
    }
    put(&own.join("settings.json"), r#"{"includeCoAuthoredBy": false}"#);
    put(&own.join("CLAUDE.md"), "Be brief.");
    let before = user_files(&user);

    // From the start to the first answer without a dialog.
    let pane = user.new_pane("dev", &[], &[]);
    user.wait_ready("dev");
    let id = pane["conversation"].as_str().unwrap().to_owned();
    let first = user.ask("dev", "word-one");
    assert_eq!(conversation_id(&first), id);

    let goes_on = |text: &str, earlier: &[&str]| {
        user.wait_state("dev", "running");
        user.wait_ready("dev");
        let seen = user.ask("dev", text);
        let said = seen.user_texts();
        assert_eq!(conversation_id(&seen), id, "{text}: another conversation");
        assert!(earlier.iter().all(|word| said.iter().any(|text| text.contains(word))), "{said:?}");
    };
    let pid = || u32::try_from(user.show("dev")["pid"].as_u64().unwrap()).unwrap();

    user.home.ccmux(&["stop", "dev"]).ok();
    user.home.ccmux(&["restore", "dev"]).ok();
    goes_on("word-two", &["word-one"]);

    user.home.kill_daemon();
    user.home.start_daemon();
    goes_on("word-three", &["word-one", "word-two"]);

    user.wait_written("dev", "word-three");
    process::kill_and_wait(&process::identity(pid()).unwrap(), DEADLINE);
    user.wait_state("dev", "exited");
    user.home.ccmux(&["restore", "dev"]).ok();
    goes_on("word-four", &["word-one", "word-three"]);

    user.wait_written("dev", "word-four");
    // As after a reboot: daemon, keeper and agent are dead.
    user.home.kill_everything();
    user.home.start_daemon();
    user.wait_state("dev", "lost");
    user.home.ccmux(&["restore", "dev"]).ok();
    goes_on("word-five", &["word-one", "word-four"]);

    user.home.ccmux(&["close", "dev"]).ok();
    assert_eq!(user_files(&user), before, "the user's files have changed");
    assert_eq!(user.stub.refused(), [] as [String; 0], "no other host was contacted");
}

#[test]
fn heavy_claude_conversation_change_is_recorded() {
    let user = User::new(Agent::Claude);
    let pane = user.new_pane("dev", &[], &[]);
    let first = pane["conversation"].as_str().unwrap().to_owned();
    user.wait_ready("dev");
    user.ask("dev", "word-one");

    user.home.ccmux(&["send", "dev", "/clear", "--enter"]).ok();
    wait_until("the change is recorded", DEADLINE, || user.show("dev")["conversation"] != *first);
    let second = user.show("dev")["conversation"].as_str().unwrap().to_owned();
    user.home.ccmux(&["stop", "dev"]).ok();
    user.home.ccmux(&["restore", "dev"]).ok();
    user.wait_ready("dev");
    let seen = user.ask("dev", "word-two");

    assert_eq!(conversation_id(&seen), second);
    assert!(!seen.user_texts().iter().any(|text| text.contains("word-one")), "{seen}");
    let record = testkit::pane::read_record(&path(&pane, "dir").join("pane.json"));
    assert_eq!(record["earlier"][0], first.as_str(), "the first conversation is kept");
    // Resuming the open conversation by hand is refused; the first one, not open anywhere, is moved
    // to the pane.
    let resume = ["new", "-d", "--", "claude", "--resume", &second];
    let refused = user.home.ccmux(&resume).dir(&user.project).fails_with(4);
    assert!(refused.contains("pane dev"), "{refused}");
    user.new_pane("old", &[], &["--resume", &first]);
    user.wait_ready("old");
    let seen = user.ask("old", "word-three");
    assert_eq!(conversation_id(&seen), first);
    assert!(seen.user_texts().iter().any(|text| text.contains("word-one")), "{seen}");
}

#[test]
fn heavy_claude_unknown_conversation_fails_and_keeps_its_id() {
    let user = User::new(Agent::Claude);
    let pane = user.new_pane("dev", &[], &[]);
    let id = pane["conversation"].as_str().unwrap().to_owned();
    user.wait_ready("dev");
    user.ask("dev", "word-one");
    user.home.ccmux(&["stop", "dev"]).ok();
    // An empty file: it looks like a transcript but is not one.
    let projects = path(&pane, "config_dir").join("projects");
    let transcript = tree(&projects).into_keys().find(|path| path.ends_with(format!("{id}.jsonl")));
    fs::File::create(projects.join(transcript.unwrap())).unwrap();

    user.home.ccmux(&["restore", "dev"]).ok();
    user.wait_state("dev", "exited");
    wait_until("the problem is reported", DEADLINE, || user.show("dev")["problem"].is_string());

    let shown = user.show("dev");
    let problem = shown["problem"].as_str().unwrap();
    assert!(problem.contains("No conversation found"), "{problem}");
    assert_eq!(shown["conversation"], id.as_str());
}

/// No question at the start, with each permission mode that a user may have set, and with and
/// without earlier answers. A pane changes none of the user's files, and keeps its own settings.
#[test]
fn heavy_claudes_of_all_kinds_of_users_start_without_a_question() {
    let users = [
        (None, false),
        (None, true),
        (Some("acceptEdits"), false),
        (Some("acceptEdits"), true),
        (Some("plan"), false),
    ];
    for (mode, answered) in users {
        let user = User::new(Agent::Claude);
        set_up(&user, mode, answered);
        let before = user_files(&user);

        let panes: Vec<Value> = ["a", "b", "c", "d"]
            .map(|name| user.new_pane(name, &["--session", "team"], &[]))
            .into();
        for name in ["a", "b", "c", "d"] {
            user.wait_text(name, "shift\\+tab|\\? for shortcuts");
        }
        user.ask("a", "word-one");
        change_setting(&path(&panes[1], "config_dir").join("settings.json"));
        user.home.ccmux(&["stop", "b"]).ok();
        user.home.ccmux(&["restore", "b"]).ok();
        user.wait_state("b", "running");
        user.ask("b", "word-two");

        for pane in &panes {
            let dir = path(pane, "config_dir");
            let settings = json(&dir.join("settings.json"));
            assert_eq!(settings["permissions"]["defaultMode"].as_str(), mode, "{settings}");
        }
        let kept = json(&path(&panes[1], "config_dir").join("settings.json"));
        assert_eq!(kept["verbose"], true, "the pane's own setting is lost");
        assert_eq!(
            user_files(&user),
            before,
            "{mode:?}, {answered}: the user's files have changed"
        );
    }
}

/// Writes the settings of a user with this permission mode, who may have answered questions.
fn set_up(user: &User, mode: Option<&str>, answered: bool) {
    let own = user.home_dir().join(".claude");
    for dir in ["commands", "agents", "skills/one", "plugins"] {
        fs::create_dir_all(own.join(dir)).unwrap();
    }
    put(&own.join("skills/one/SKILL.md"), "---\nname: one\ndescription: a skill\n---\n");
    let mut settings = serde_json::json!({"includeCoAuthoredBy": false});
    if let Some(mode) = mode {
        settings["permissions"]["defaultMode"] = mode.into();
    }
    put(&own.join("settings.json"), settings.to_string());
    if answered {
        let file = user.home_dir().join(".claude.json");
        let mut state = json(&file);
        for key in ["hasSeenAutoDefaultNudge", "hasSeenTasksHint"] {
            state[key] = true.into();
        }
        put(&file, state.to_string());
    }
}

/// Changes a setting as the agent in a pane does.
fn change_setting(file: &Path) {
    let mut settings = json(file);
    settings["verbose"] = true.into();
    put(file, settings.to_string());
}

#[test]
fn heavy_send_into_a_dialog_of_claude_is_refused_with_its_question() {
    let user = User::new(Agent::Claude);
    user.new_pane("dev", &[], &[]);
    user.wait_ready("dev");
    user.home.ccmux(&["send", "dev", "/model", "--enter"]).ok();
    user.wait_text("dev", "Select model");

    let refused = user.home.ccmux(&["send", "dev", "fix it", "--enter"]).fails_with(4);

    assert!(refused.contains("asks: ") && refused.contains("--force"), "{refused}");
    user.wait_text("dev", "Select model");
    user.home.ccmux(&["send", "dev", "--key", "esc", "--force"]).ok();
    user.wait_ready("dev");
    user.ask("dev", "word-two");
}

/// Returns whether a pane of this name has a running program.
fn runs(user: &User, name: &str) -> bool {
    let shown = user.home.ccmux(&["show", "--json", name]).run();
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
    shown["pane"]["pid"].is_u64()
}

#[test]
fn heavy_pane_started_inside_claude_or_tmux_has_clean_environment() {
    let user = User::new(Agent::Claude);
    let ccmux = env!("CARGO_BIN_EXE_ccmux");
    let plain = user.home.start_pane("plain", &["sleep", "1000"]);
    let outer = user.new_pane(
        "outer",
        &[],
        &["--permission-mode", "acceptEdits", "--allowedTools", "Bash"],
    );
    user.wait_ready("outer");
    let command = format!("env > seen; {ccmux} new -d -n inner -- sleep 1000");
    user.stub.script([Answer::tool("Bash", serde_json::json!({"command": command}))]);

    user.home.ccmux(&["send", "outer", "start-one", "--enter"]).ok();
    wait_until("claude has started a pane", DEADLINE, || runs(&user, "inner"));
    let socket = user.home.dir().join("tmux");
    let new = format!("{ccmux} new -d -n in-tmux -- sleep 1000");
    let tmux = ["-f", "/dev/null", "-S", socket.to_str().unwrap(), "new-session", "-d", &new];
    user.home.program("tmux", &tmux).ok();
    wait_until("tmux has started a pane", LONG, || runs(&user, "in-tmux"));

    let seen = fs::read_to_string(path(&outer, "workspace").join("seen")).unwrap();
    assert!(seen.contains("CLAUDECODE=1"), "claude set no variables: {seen}");
    let names = |pid: u64| -> BTreeSet<String> {
        process::environment(u32::try_from(pid).unwrap()).into_keys().collect()
    };
    let expected = names(plain.head.pid.into());
    for name in ["inner", "in-tmux"] {
        let shown = user.show(name);
        let pid = shown["pid"].as_u64().unwrap();
        let extra: Vec<_> = names(pid).difference(&expected).cloned().collect();
        assert!(extra.is_empty(), "{name} also has {extra:?}");
        assert_ne!(shown["config_dir"], outer["config_dir"]);
    }
}

/// R1, the reason for isolation: claudes that share one directory lose each other's updates
/// although each exits with 0. How many are lost depends on the version, so the count is printed,
/// not asserted. With separate directories none is lost.
#[test]
fn heavy_claudes_in_panes_lose_no_updates() {
    for number in PANE_COUNTS {
        let kept = servers_added_to_one_directory(number);
        println!("{number} claudes sharing a directory: {kept} of {number} servers kept");

        let user = User::new(Agent::Claude);
        let panes: Vec<Value> = (0..number)
            .map(|n| user.new_pane(&format!("dev{n}"), &[], &["mcp", "add", &server(n), "true"]))
            .collect();
        for (n, pane) in panes.iter().enumerate() {
            assert_eq!(user.wait_exit(&format!("dev{n}")), 0);
            let state = fs::read_to_string(path(pane, "config_dir").join(".claude.json")).unwrap();
            let added: Vec<usize> = (0..number).filter(|n| state.contains(&server(*n))).collect();
            assert_eq!(added, [n], "of {number}");
        }
        println!("{number} claudes in panes: {number} of {number} servers kept");
    }
}

fn server(n: usize) -> String {
    format!("server-{n:02}-end")
}

/// Adds that many servers at once with an older claude in one directory, and returns the number
/// that remain.
fn servers_added_to_one_directory(number: usize) -> usize {
    let user = User::new(Agent::Claude);
    let claude = agents::installed_old_claude();
    let shared = user.home.dir().join("shared");
    fs::create_dir(&shared).unwrap();
    thread::scope(|scope| {
        for n in 0..number {
            let name = server(n);
            let add = user.home.program(&claude, &["mcp", "add", &name, "true"]);
            let add = add.env("CLAUDE_CONFIG_DIR", shared.as_os_str()).dir(&user.project);
            scope.spawn(move || add.timeout(LONG).ok());
        }
    });
    let state = fs::read_to_string(shared.join(".claude.json")).unwrap();
    (0..number).filter(|n| state.contains(&server(*n))).count()
}

#[test]
fn heavy_claudes_started_at_once_keep_conversations_apart() {
    for number in PANE_COUNTS {
        println!("{number} sharing a directory: {} starts counted", shared_starts(number));

        let user = User::new(Agent::Claude);
        let before = fs::read(user.home_dir().join(".claude.json")).unwrap();
        let name = |n: usize| format!("dev{n:02}");
        let word = |n: usize| format!("only-for-{n:02}-end");
        let panes: Vec<Value> =
            (0..number).map(|n| user.new_pane(&name(n), &["--session", "team"], &[])).collect();
        (0..number).for_each(|n| user.wait_ready(&name(n)));
        for n in 0..number {
            user.home.ccmux(&["send", &name(n), &word(n), "--enter"]).ok();
        }

        for (n, pane) in panes.iter().enumerate() {
            user.wait_text(&name(n), &format!("stub answer \\d+: .*{}", word(n)));
            let id = pane["conversation"].as_str().unwrap();
            let turns = user.stub.turns();
            let own: Vec<_> = turns.iter().filter(|seen| conversation_id(seen) == id).collect();
            let said: BTreeSet<&str> = own
                .iter()
                .flat_map(|seen| seen.user_texts())
                .filter(|t| t.contains("only-for"))
                .collect();
            assert_eq!(said.into_iter().collect::<Vec<_>>(), [word(n)], "in {}", name(n));
            let dir = path(pane, "config_dir");
            assert_eq!(json(&dir.join(".claude.json"))["numStartups"], 1, "{}", name(n));
            // Claude shows an answer shortly before it writes it to the transcript.
            wait_until("the transcript is written", DEADLINE, || transcripts(&dir).len() == 1);
            let transcripts = transcripts(&dir);
            assert!(transcripts[0].ends_with(format!("{id}.jsonl")), "{transcripts:?}");
        }
        println!("{number} in panes: {number} starts and {number} turns, each its own");
        if number == 7 {
            assert_team_restores_at_once(&user, &panes);
        }
        assert!(!user.home_dir().join(".claude").exists(), "the user's directory has changed");
        assert_eq!(fs::read(user.home_dir().join(".claude.json")).unwrap(), before);
    }
}

/// Returns the transcripts in a configuration directory.
fn transcripts(dir: &Path) -> Vec<PathBuf> {
    let projects = dir.join("projects");
    let all = if projects.is_dir() { tree(&projects) } else { BTreeMap::new() };
    all.into_keys().filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect()
}

/// Stops and restores all panes of a session with one command each: every pane resumes its own
/// conversation, and the daemon answers other requests meanwhile.
fn assert_team_restores_at_once(user: &User, panes: &[Value]) {
    user.home.ccmux(&["stop", "team"]).ok();
    thread::scope(|scope| {
        let restore = scope.spawn(|| user.home.ccmux(&["restore", "team"]).timeout(LONG).ok());
        while !restore.is_finished() {
            user.home.ccmux(&["ls"]).ok();
        }
        restore.join().unwrap();
    });
    for pane in panes {
        let name = pane["name"].as_str().unwrap();
        user.wait_ready(name);
        let seen = user.ask(name, &format!("again-{name}"));
        assert_eq!(conversation_id(&seen), pane["conversation"].as_str().unwrap());
        let said: Vec<&str> =
            seen.user_texts().into_iter().filter(|text| text.contains("only-for")).collect();
        assert_eq!(said.len(), 1, "{said:?}");
    }
}

/// Starts that many claudes in one directory and returns the number of starts that it records.
fn shared_starts(number: usize) -> u64 {
    let user = User::new(Agent::Claude);
    agents::trust(Agent::Claude, &user.home_dir(), &user.project);
    let name = |n: usize| format!("dev{n:02}");
    for n in 0..number {
        user.new_pane(&name(n), &["--isolation", "none", "--workspace", "shared"], &[]);
    }
    (0..number).for_each(|n| user.wait_ready(&name(n)));
    (0..number).for_each(|n| drop(user.home.ccmux(&["stop", &name(n)]).ok()));
    json(&user.home_dir().join(".claude.json"))["numStartups"].as_u64().unwrap_or(0)
}

#[test]
fn heavy_shared_login_refreshed_by_twenty_panes_stays_valid() {
    let mut user = User::new(Agent::Claude);
    user.home.set_env("ANTHROPIC_API_KEY", "");
    let store = user.home_dir().join(".claude");
    fs::create_dir(&store).unwrap();
    let credentials = store.join(".credentials.json");
    // Expired, so that the first pane has to refresh it.
    put(&credentials, user.stub.login(1_000).to_string());
    let old = token(&json(&credentials));
    let name = |n: usize| format!("dev{n:02}");

    for n in 0..20 {
        let pane = user.new_pane(&name(n), &[], &["-p", "hello"]);
        assert_eq!(pane["isolation"]["login"]["from"], "store", "{pane}");
    }

    let good = (0..20).filter(|n| user.wait_exit(&name(*n)) == 0).count();
    let new = token(&json(&credentials));
    assert_eq!(good, 20, "of 20 were answered");
    assert_ne!(new, old, "the shared store has the new login");
    let came_with: BTreeSet<String> = user
        .stub
        .turns()
        .iter()
        .map(|seen| seen.authorization().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(came_with.into_iter().collect::<Vec<_>>(), [format!("Bearer {new}")]);
    let copies: Vec<_> = tree(user.home.state_root())
        .into_keys()
        .filter(|path| path.file_name().is_some_and(|name| name == ".credentials.json"))
        .collect();
    assert!(copies.is_empty(), "copies of the login: {copies:?}");
}

fn json(file: &Path) -> Value {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn token(credentials: &Value) -> String {
    credentials["claudeAiOauth"]["accessToken"].as_str().unwrap().to_owned()
}
