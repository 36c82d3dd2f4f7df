//! Isolation of panes (R1–R10, B2, B4, B11), with the real binary and real processes; scripts play
//! the agents. Tests with real agents are in `claude.rs` and `agents.rs`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod reboot;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::{DEADLINE, Home, Pane, process, put, tree, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Puts a script of this name into the `PATH` of everything that `home` starts.
fn script(home: &mut Home, name: &str, text: &str) -> PathBuf {
    let bin = home.dir().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let path = bin.join(name);
    put(&path, format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    home.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    path
}

fn configure(home: &Home, text: &str) {
    put(&home.state_root().join("config/ccmux.toml"), text);
    for dir in [home.state_root().to_owned(), home.state_root().join("config")] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

fn user(home: &Home) -> PathBuf {
    home.dir().join("home")
}

fn pane(shown: &Value) -> Pane {
    Pane::from_json(&shown["pane"])
}

fn dir_of(shown: &Value) -> PathBuf {
    shown["pane"]["dir"].as_str().unwrap().into()
}

fn environment(pane: &Pane) -> BTreeMap<String, String> {
    let mut environment = process::environment(pane.head.pid);
    // A shell adds it when it executes its last command, perhaps after it was read here.
    environment.remove("PWD");
    environment
}

/// A claude that prints its arguments and keeps running.
const STAYS: &str = r#"echo "called: $*"; exec sleep 1000"#;

#[test]
fn pane_environment_is_the_same_for_every_way_to_start() {
    let mut home = Home::new(CCMUX);
    script(&mut home, "claude", STAYS);
    configure(&home, "restore_on_start = true\n");
    home.set_env("ANTHROPIC_API_KEY", "sk-ant-test-0123456789abcdef");
    let new = |args: &[&str]| {
        let words: Vec<&str> = ["new", "-d", "--json"].iter().chain(args).copied().collect();
        pane(&home.ccmux(&words).json())
    };

    let plain = new(&["-n", "plain", "--", "claude"]);
    let named = new(&["-n", "named", "--agent", "claude"]);
    let joined = new(&["-n", "joined", "--session", "team", "--", "claude"]);
    // From inside a claude, in tmux, and in another pane with its own home.
    let outer = new(&["-n", "outer", "--isolation", "home", "--", "sleep", "1000"]);
    let mut inner = home.ccmux(&["new", "-d", "--json", "-n", "inner", "--", "claude"]);
    for (name, value) in environment(&outer) {
        inner = inner.env(name, value);
    }
    for (name, value) in [
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_ENTRYPOINT", "cli"),
        ("CLAUDE_CODE_SESSION_ID", "other"),
        ("CLAUDE_CODE_CHILD_SESSION", "1"),
        ("TMUX", "/tmp/tmux-0/default,1,0"),
        ("TMUX_PANE", "%1"),
        ("TERM_PROGRAM", "iTerm.app"),
        ("ITERM_SESSION_ID", "x"),
    ] {
        inner = inner.env(name, value);
    }
    let inner = pane(&inner.json());
    let attached = home.ccmux(&["new", "-n", "attached", "--", "claude"]);
    let screen = attached.screen(model::Size::new(80, 24).unwrap());
    screen.wait_for("called:");
    let attached = pane(&home.ccmux(&["show", "attached", "--json"]).json());
    let first: Vec<_> =
        [&plain, &named, &joined, &inner, &attached].map(environment).into_iter().collect();
    home.ccmux(&["stop", "plain"]).ok();
    home.ccmux(&["restore", "plain"]).ok();
    let restored = pane(&home.ccmux(&["show", "plain", "--json"]).json());
    let second = environment(&restored);
    reboot::reboot(&home);
    home.start_daemon();
    wait_until("the panes are restored", DEADLINE, || {
        let shown = home.ccmux(&["show", "named", "--json"]).json();
        shown["pane"]["state"] == "running"
    });
    let after_reboot = pane(&home.ccmux(&["show", "named", "--json"]).json());

    let panes = [&plain, &named, &joined, &inner, &attached, &restored, &after_reboot];
    let environments = first.into_iter().chain([second, environment(&after_reboot)]);
    let all: Vec<_> = environments.zip(panes).map(|(env, pane)| without_ids(env, pane)).collect();
    for (other, pane) in all.iter().zip(panes) {
        assert_eq!(other, &all[0], "{}", pane.name);
    }
    assert!(all[0]["CLAUDE_CONFIG_DIR"].ends_with("/claude-configs/pane-PANE"));
    assert!(!all[0].contains_key("CLAUDECODE") && !all[0].contains_key("TMUX"), "{:?}", all[0]);
}

/// Replaces values that identify the pane.
fn without_ids(env: BTreeMap<String, String>, pane: &Pane) -> BTreeMap<String, String> {
    let session = env["CCMUX_SESSION_ID"].clone();
    // Each pane has its own ports and containers.
    let replaced = |(name, value): (String, String)| match name.as_str() {
        "PORT" | "CCMUX_PORT_BASE" => (name, "PORT".to_owned()),
        "COMPOSE_PROJECT_NAME" => (name, "COMPOSE".to_owned()),
        _ => (name, value.replace(&pane.id, "PANE").replace(&session, "SESSION")),
    };
    env.into_iter().map(replaced).collect()
}

#[test]
fn fresh_config_directory_has_shared_files_and_user_files_stay_unchanged() {
    let mut home = Home::new(CCMUX);
    script(&mut home, "claude", "echo {} > $CLAUDE_CONFIG_DIR/new.json; exec sleep 1000");
    let user = user(&home);
    put(&user.join(".claude/settings.json"), r#"{"model":"opus"}"#);
    put(&user.join(".claude/CLAUDE.md"), "be brief");
    put(&user.join(".claude/commands/x.md"), "x");
    put(&user.join(".claude/.credentials.json"), "secret");
    let state = r#"{"mcpServers":{"db":{"command":"db"}},"theme":"light","numStartups":9}"#;
    put(&user.join(".claude.json"), state);
    put(&user.join(".codex/config.toml"), "model = \"o3\"\n");
    put(&user.join(".codex/auth.json"), "secret");
    put(&user.join(".gemini/settings.json"), "{}");
    let before = [".claude", ".codex", ".gemini"].map(|dir| tree(&user.join(dir)));

    let pane = home.start_pane("dev", &["claude"]);
    let shown = home.ccmux(&["show", "dev", "--json"]).json();
    let dir = PathBuf::from(shown["pane"]["config_dir"].as_str().unwrap());
    wait_until("claude has started", DEADLINE, || dir.join("new.json").exists());

    let settings: Value =
        serde_json::from_slice(&fs::read(dir.join("settings.json")).unwrap()).unwrap();
    assert_eq!(settings["model"], "opus");
    assert_eq!(settings["disableDeepLinkRegistration"], "disable");
    assert_eq!(fs::read_to_string(dir.join("commands/x.md")).unwrap(), "x");
    for copy in ["settings.json", "CLAUDE.md", "commands"] {
        assert!(!dir.join(copy).is_symlink(), "{copy} is a link to the user's file");
    }
    let seeded: Value =
        serde_json::from_slice(&fs::read(dir.join(".claude.json")).unwrap()).unwrap();
    assert_eq!(seeded["mcpServers"]["db"]["command"], "db");
    assert_eq!(seeded["hasCompletedOnboarding"], true);
    let cwd = shown["pane"]["cwd"].as_str().unwrap();
    assert_eq!(seeded["projects"][cwd]["hasTrustDialogAccepted"], true);
    let login = &shown["pane"]["isolation"]["login"];
    assert_eq!(login["from"], "store", "{login}");
    let codex = PathBuf::from(&environment(&pane)["CODEX_HOME"]);
    assert!(fs::read_to_string(codex.join("config.toml")).unwrap().contains("model = \"o3\""));
    home.ccmux(&["close", "dev"]).ok();
    let after = [".claude", ".codex", ".gemini"].map(|dir| tree(&user.join(dir)));
    assert_eq!(before, after, "the user's files have changed");
    assert_eq!(fs::read_to_string(user.join(".claude.json")).unwrap(), state);
    for (path, entry) in tree(home.state_root()) {
        let secret = matches!(&entry, testkit::tree::Entry::File(_, _, text) if text == b"secret");
        assert!(!secret, "{} is a copy of the login", path.display());
    }
}

#[test]
fn copied_and_shared_files_are_configurable() {
    let mut home = Home::new(CCMUX);
    script(&mut home, "claude", STAYS);
    configure(&home, "[claude.isolation]\ncopy = [\"commands\"]\nshare = [\"CLAUDE.md\"]\n");
    let user = user(&home);
    put(&user.join(".claude/settings.json"), r#"{"model":"opus"}"#);
    put(&user.join(".claude/commands/x.md"), "x");
    put(&user.join(".claude/CLAUDE.md"), "be brief");
    put(&user.join(".claude.json"), r#"{"mcpServers":{"db":{"command":"db"}}}"#);

    home.start_pane("dev", &["claude"]);

    let shown = home.ccmux(&["show", "dev", "--json"]).json();
    let dir = PathBuf::from(shown["pane"]["config_dir"].as_str().unwrap());
    assert_eq!(fs::read_link(dir.join("CLAUDE.md")).unwrap(), user.join(".claude/CLAUDE.md"));
    assert!(dir.join("commands/x.md").exists() && !dir.join("commands").is_symlink());
    assert!(!fs::read_to_string(dir.join("settings.json")).unwrap().contains("opus"));
    assert!(!fs::read_to_string(dir.join(".claude.json")).unwrap().contains("mcpServers"));
}

#[test]
fn isolated_home_has_listed_links_and_works_with_login_shell() {
    let home = Home::new(CCMUX);
    let user = user(&home);
    put(&user.join(".profile"), "export FROM_PROFILE=yes\n");
    put(&user.join(".gitconfig"), "[user]\n\tname = Me\n");
    put(&user.join(".secret"), "x");
    let new = ["new", "-d", "--json", "-n", "dev", "--isolation", "home", "--", "sh", "-l"];

    let shown = home.ccmux(&new).env("XDG_CONFIG_HOME", "/elsewhere").json();
    let ask = "echo $FROM_PROFILE-$(git config user.name)-$(cd && pwd)-end";
    home.ccmux(&["send", "dev", ask, "--enter"]).ok();
    home.ccmux(&["wait", "dev", "--for", "text=yes-Me-", "--timeout", "20"]).ok();

    let own = PathBuf::from(shown["pane"]["isolation"]["home"].as_str().unwrap());
    let env = environment(&pane(&shown));
    assert_eq!(env["HOME"], own.to_str().unwrap());
    assert_eq!(env.get("XDG_CONFIG_HOME"), None, "the variable leads out of the home");
    assert_eq!(fs::read_link(own.join(".gitconfig")).unwrap(), user.join(".gitconfig"));
    assert!(!own.join(".secret").exists());
    home.ccmux(&["close", "dev"]).ok();
    assert!(user.join(".gitconfig").exists(), "only the link is removed");
    assert!(!own.exists());
}

#[test]
fn pane_without_isolation_has_user_environment() {
    let home = Home::new(CCMUX);
    let new = ["new", "-d", "--json", "-n", "dev", "--isolation", "none", "--", "sleep", "1000"];

    let shown = home.ccmux(&new).env("CLAUDE_CONFIG_DIR", "/my/claude").json();

    let env = environment(&pane(&shown));
    assert_eq!(env["CLAUDE_CONFIG_DIR"], "/my/claude", "the user's value");
    assert_eq!(env.get("CODEX_HOME"), None);
    assert_eq!(shown["pane"]["config_dir"], Value::Null);
    assert_eq!(env["HOME"], user(&home).to_str().unwrap());
}

#[test]
fn isolation_option_of_pane_overrides_session_and_configuration() {
    let home = Home::new(CCMUX);
    configure(&home, "[claude.isolation]\nmethod = \"none\"\n");
    let method = |args: &[&str]| {
        let words = ["new", "-d", "--json"].iter().chain(args).chain(&["--", "sleep", "1000"]);
        let shown = home.ccmux(&words.copied().collect::<Vec<_>>()).json();
        shown["pane"]["isolation"]["method"].as_str().unwrap().to_owned()
    };

    assert_eq!(method(&[]), "none");
    assert_eq!(method(&["--session", "team", "--isolation", "home"]), "home");
    assert_eq!(method(&["--session", "team"]), "home", "as in the session");
    assert_eq!(method(&["--session", "team", "--isolation", "config_dir"]), "config_dir");
}

#[test]
fn invalid_configuration_starts_no_pane_and_keeps_running_ones() {
    let home = Home::new(CCMUX);
    home.start_pane("dev", &["sleep", "1000"]);
    configure(&home, "[claude.isolation]\nmetod = \"home\"\n");

    let said = home.ccmux(&["new", "-d", "--", "sleep", "1000"]).fails_with(2);

    assert!(said.contains("ccmux.toml:2:1") && said.contains("`method`"), "{said}");
    assert!(home.ccmux(&["ls"]).ok().contains("running"));
    home.ccmux(&["close", "dev"]).ok();
}

#[test]
fn agent_name_is_a_command_that_starts_it() {
    let mut home = Home::new(CCMUX);
    for name in ["parrot", "codex"] {
        script(&mut home, name, &format!("echo \"{name}: $*\"; exec sleep 1000"));
    }
    configure(&home, "[agents.bird]\ncommand = [\"parrot\", \"-v\"]\n");

    let built_in = home.ccmux(&["codex", "--", "--model", "x"]).ok();
    let defined = home.ccmux(&["--json", "bird", "hello"]).json();
    let unknown = home.ccmux(&["birt"]).fails_with(2);

    assert!(built_in.starts_with("started codex"), "{built_in}");
    assert_eq!(defined["pane"]["agent"], "bird");
    home.ccmux(&["wait", "codex", "--for", "text=codex: --model x", "--timeout", "20"]).ok();
    let pane = defined["pane"]["id"].as_str().unwrap();
    home.ccmux(&["wait", pane, "--for", "text=parrot: -v hello", "--timeout", "20"]).ok();
    assert!(unknown.contains("`birt` is not a ccmux command"), "{unknown}");
}

#[test]
fn user_defined_agent_is_isolated_started_and_resumed() {
    let mut home = Home::new(CCMUX);
    script(
        &mut home,
        "parrot",
        r#"mkdir -p "$PARROT_HOME/talks"
echo "called: $* secret=$PARROT_TOKEN"; echo hi > "$PARROT_HOME/talks/$2.txt"; exec sleep 1000"#,
    );
    put(&user(&home).join(".parrot.conf"), "loud\n");
    configure(
        &home,
        r#"
        [agents.parrot]
        command = ["parrot"]
        config_variables = { PARROT_HOME = "state", PARROT_CACHE = "" }
        new_conversation = ["--as", "{id}"]
        resume = ["--again", "{id}"]
        transcript = "state/talks/{id}.txt"
        seed = { "state/parrot.conf" = "~/.parrot.conf" }
        scrub = ["OPENAI_API_KEY"]
        "#,
    );
    home.set_env("OPENAI_API_KEY", "sk-other");

    let shown =
        home.ccmux(&["new", "-d", "--json", "-n", "dev", "--agent", "parrot", "--", "-v"]).json();
    let id = shown["pane"]["conversation"].as_str().unwrap().to_owned();
    home.ccmux(&["wait", "dev", "--for", &format!("text=called: --as {id} -v"), "--timeout", "20"])
        .ok();
    home.ccmux(&["stop", "dev"]).ok();
    home.ccmux(&["restore", "dev"]).ok();
    home.ccmux(&[
        "wait",
        "dev",
        "--for",
        &format!("text=called: --again {id} -v"),
        "--timeout",
        "20",
    ])
    .ok();

    let env = environment(&pane(&home.ccmux(&["show", "dev", "--json"]).json()));
    let dir = shown["pane"]["config_dir"].as_str().unwrap();
    assert!(dir.contains("/parrot-configs/pane-"), "{dir}");
    assert_eq!(env["PARROT_HOME"], format!("{dir}/state"));
    assert_eq!(env["PARROT_CACHE"], dir);
    assert_eq!(env.get("OPENAI_API_KEY"), None);
    let conf = Path::new(dir).join("state/parrot.conf");
    assert_eq!(fs::read_to_string(conf).unwrap(), "loud\n");
}

#[test]
fn restored_pane_has_same_environment_and_command() {
    let mut home = Home::new(CCMUX);
    script(&mut home, "claude", STAYS);
    let project = home.dir().join("project");
    fs::create_dir(&project).unwrap();
    let cwd = project.to_str().unwrap();
    let new = [
        "new",
        "-d",
        "--json",
        "-n",
        "dev",
        "--workspace",
        "shared",
        "--cwd",
        cwd,
        "--size",
        "91x31",
        "--env",
        "MINE=1",
    ];
    let words: Vec<&str> =
        new.iter().chain(&["--", "claude", "--model", "opus", "first words"]).copied().collect();
    let shown = home.ccmux(&words).env("LANG", "first").json();
    let (first, id) = (pane(&shown), shown["pane"]["conversation"].as_str().unwrap().to_owned());
    let env = environment(&first);
    let transcript =
        PathBuf::from(&env["CLAUDE_CONFIG_DIR"]).join(format!("projects/x/{id}.jsonl"));
    put(&transcript, "{}\n");
    home.ccmux(&["stop", "dev"]).ok();

    home.ccmux(&["restore", "dev"]).env("LANG", "another").env("MINE", "2").ok();

    let shown = home.ccmux(&["show", "dev", "--json"]).json();
    let again = pane(&shown);
    assert_eq!(environment(&again), env);
    assert_eq!(again.id, first.id);
    assert_eq!(fs::read_link(format!("/proc/{}/cwd", again.head.pid)).unwrap(), project);
    assert_eq!(shown["pane"]["live"]["size"]["cols"], 91);
    let command: Vec<&str> =
        shown["pane"]["command"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    let settings = again.dir.join("claude-settings.json");
    let settings = settings.to_str().unwrap();
    let expected = ["claude", "--settings", settings, "--resume", &id, "--model", "opus"];
    assert_eq!(command, expected, "the prompt is not repeated");
    assert_eq!(shown["pane"]["conversation"], id.as_str());
    let said = home.ccmux(&["restore", "dev"]).fails_with(4);
    assert!(said.contains("is running"), "{said}");
}

#[test]
fn conversation_is_never_open_in_two_panes() {
    let mut home = Home::new(CCMUX);
    script(&mut home, "claude", STAYS);
    let shown = home.ccmux(&["new", "-d", "--json", "-n", "dev1", "--", "claude"]).json();
    let id = shown["pane"]["conversation"].as_str().unwrap().to_owned();
    let dir = shown["pane"]["config_dir"].as_str().unwrap();
    put(&Path::new(dir).join(format!("projects/x/{id}.jsonl")), "said\n");
    let resume = ["new", "-d", "--json", "-n", "dev2", "--", "claude", "--resume", &id];

    let refused = home.ccmux(&resume).fails_with(4);
    home.ccmux(&["stop", "dev1"]).ok();
    let moved = home.ccmux(&resume).json();
    let held = home.ccmux(&["restore", "dev1"]).fails_with(4);

    assert!(refused.contains("dev1"), "{refused}");
    assert!(held.contains("dev2"), "{held}");
    let brought = Path::new(moved["pane"]["config_dir"].as_str().unwrap());
    let brought = fs::read_to_string(brought.join(format!("projects/x/{id}.jsonl"))).unwrap();
    assert_eq!(brought, "said\n", "the conversation was moved");
    let kept = home.ccmux(&["show", "dev1", "--json"]).json();
    assert_eq!(kept["pane"]["conversation"], id.as_str(), "the first pane keeps its id");
}

#[test]
fn failed_resume_keeps_id_and_follows_configuration() {
    let refuses = r#"case "$*" in *--resume*) echo "No conversation found"; exit 1;; esac
echo "called: $*"; exec sleep 1000"#;
    for (fallback, then) in [("error", "exited"), ("fresh", "running"), ("shell", "running")] {
        let mut home = Home::new(CCMUX);
        script(&mut home, "claude", refuses);
        configure(&home, &format!("resume_fallback = \"{fallback}\"\n"));
        let shown = home.ccmux(&["new", "-d", "--json", "-n", "dev", "--", "claude"]).json();
        let id = shown["pane"]["conversation"].as_str().unwrap().to_owned();
        let dir = Path::new(shown["pane"]["config_dir"].as_str().unwrap());
        put(&dir.join(format!("projects/x/{id}.jsonl")), "said\n");
        home.ccmux(&["stop", "dev"]).ok();

        home.ccmux(&["restore", "dev"]).ok();
        let failed = wait_failed(&home, &id);
        wait_until("the pane is in the configured state", DEADLINE, || {
            let shown = home.ccmux(&["show", "dev", "--json"]).json();
            let problem = shown["pane"]["problem"].as_str().unwrap_or_default();
            shown["pane"]["state"] == then && problem.contains("No conversation found")
        });

        assert!(failed.contains("No conversation found"), "{failed}");
        let record = testkit::pane::read_record(&dir_of(&shown).join("pane.json"));
        let known = [&record["conversation"], &record["earlier"][0]];
        assert!(known.contains(&&Value::from(id.as_str())), "{fallback}: {record}");
        let argv = record["argv"].to_string();
        match fallback {
            "error" => assert!(argv.contains("--resume"), "{argv}"),
            "fresh" => assert!(argv.contains("--session-id") && !argv.contains(&id), "{argv}"),
            _ => assert_eq!(argv, r#"["/bin/sh"]"#),
        }
    }
}

/// Waits for the event that this conversation could not be resumed, and returns it.
fn wait_failed(home: &Home, id: &str) -> String {
    let mut line = String::new();
    wait_until("the failed resume is an event", DEADLINE, || {
        let events = home.ccmux(&["events"]).ok();
        let found = events
            .lines()
            .find(|line| line.contains(&format!("could not resume conversation {id}")));
        line = found.unwrap_or_default().to_owned();
        !line.is_empty()
    });
    line
}

#[test]
fn missing_transcript_is_reported_before_starting_anew() {
    let mut home = Home::new(CCMUX);
    script(&mut home, "claude", STAYS);
    let shown = home.ccmux(&["new", "-d", "--json", "-n", "dev", "--", "claude"]).json();
    let id = shown["pane"]["conversation"].as_str().unwrap().to_owned();
    let dir = Path::new(shown["pane"]["config_dir"].as_str().unwrap());
    put(&dir.join(format!("projects/x/{id}.jsonl")), "said\n");
    home.ccmux(&["stop", "dev"]).ok();
    fs::remove_dir_all(dir.join("projects")).unwrap();

    let said = home.ccmux(&["restore", "dev"]).fails_with(4);

    assert!(said.contains("cannot be resumed") && said.contains(&id), "{said}");
    let kept = home.ccmux(&["show", "dev", "--json"]).json();
    assert_eq!(kept["pane"]["conversation"], id.as_str());
    assert_eq!(kept["pane"]["state"], "exited");
}

#[test]
fn symlinked_or_open_pane_directory_is_refused() {
    let mut home = Home::new(CCMUX);
    script(&mut home, "claude", STAYS);
    let shown = home.ccmux(&["new", "-d", "--json", "-n", "dev", "--", "claude"]).json();
    let dir = PathBuf::from(shown["pane"]["config_dir"].as_str().unwrap());
    home.ccmux(&["stop", "dev"]).ok();
    let aside = home.dir().join("aside");

    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let open = home.ccmux(&["restore", "dev"]).fails_with(4);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(&dir, &aside).unwrap();
    symlink(&aside, &dir).unwrap();
    let link = home.ccmux(&["restore", "dev"]).fails_with(4);

    assert!(open.contains("0755"), "{open}");
    assert!(link.contains("symbolic link"), "{link}");
    home.ccmux(&["close", "dev"]).ok();
    assert!(aside.join(".claude.json").exists(), "the link's target is unchanged");
}

#[test]
fn symlinked_parent_directory_is_refused_before_creation() {
    let mut home = Home::new(CCMUX);
    script(&mut home, "claude", STAYS);
    home.start_daemon();
    let elsewhere = home.dir().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, home.state_root().join("claude-configs")).unwrap();

    let said = home.ccmux(&["new", "-d", "-n", "dev", "--", "claude"]).fails_with(1);

    assert!(said.contains("claude-configs"), "{said}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    home.ccmux(&["show", "dev"]).fails_with(3);
}
