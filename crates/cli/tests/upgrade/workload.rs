//! The workload that is upgraded: sessions, panes, a team, locks and messages.
//!
//! | session | pane     | program                | state when [`start`] returns            |
//! |---------|----------|------------------------|-----------------------------------------|
//! | web     | lead     | stand-in for `claude`  | running, has a conversation             |
//! | web     | dev      | `sh` in a git worktree | running, holds a lock                   |
//! | web     | db       | `sleep`                | running                                 |
//! | talk    | first    | answers every line     | running, holds a lock, got a message |
//! | talk    | second   | answers every line     | stopped, two messages queued            |
//! | misc    | finished | `sh`                   | exited with code 3                      |
//! | misc    | keyed    | `sleep`                | running, made with an idempotency key   |
//! | before  | shared   | `sh`, legacy session   | running                                 |
//! | over    | closed   | `sleep`                | closed, in the trash                    |
//!
//! The session `web` is a team, made from a team file with a template.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;
use testkit::{Home, put, wait_until};

use crate::CCMUX;
use crate::release::{PATIENCE, Release, text};

/// A program that answers every line with `answer: LINE`.
pub(crate) const ANSWERER: &str = "answerer";

/// The key with which `misc/keyed` was made.
pub(crate) const KEY: &str = "upgrade-key";

/// The command that made it. Its directory is the same on every machine, because the registry knows
/// the request again by a digest.
pub(crate) const KEYED: [&str; 15] = [
    "new",
    "-d",
    "--session",
    "misc",
    "-n",
    "keyed",
    "--workspace",
    "empty",
    "--cwd",
    "/",
    "--key",
    KEY,
    "--",
    "sleep",
    "100000",
];

/// Messages that wait for `talk/second`.
pub(crate) const QUEUED: [&str; 2] = ["queued-one", "queued-two"];

/// Panes that run when [`start`] returns.
pub(crate) const RUNNING: [&str; 6] =
    ["web/lead", "web/dev", "web/db", "talk/first", "misc/keyed", "before/shared"];

const TEAM: &str = r#"session = "web"
template = "review-squad"

[env]
STAGE = "test"

[[pane]]
name = "lead"
role = "lead"
agent = "claude"
args = ["--keep-session", "--said", "--prompt", "> "]
workspace = "empty"

[[pane]]
name = "dev"
role = "dev"
unit = "core"
command = ["sh"]
cwd = "project"
limits = ["files=512"]

[[pane]]
name = "db"
command = ["sleep", "100000"]
workspace = "empty"
after = ["dev"]
"#;

const CONFIG: &str = r#"resume_fallback = "fresh"

[env]
FROM_CONFIG = "yes"
PS1 = "ready> "

[cleanup]
retention = "3650d"
"#;

/// A lock as it was granted.
#[derive(Clone)]
pub(crate) struct Lock {
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) path: String,
}

impl Lock {
    /// The token as a number: later locks have higher ones.
    pub(crate) fn number(&self) -> u64 {
        self.token.parse().unwrap()
    }
}

/// Ids and tokens of what [`start`] has made.
pub(crate) struct Workload {
    /// Held by `web/dev` and `talk/first`.
    pub(crate) locks: Vec<Lock>,
    /// Ids of the messages to `talk/second`.
    pub(crate) queued: Vec<String>,
    /// Id of the message that `talk/first` has.
    pub(crate) delivered: String,
}

/// Programs that are stand-ins for agents.
pub(crate) const STAND_INS: [&str; 2] = ["claude", ANSWERER];

/// Makes a home in which stand-ins for agents and this ccmux are installed, and nothing else.
pub(crate) fn new_home() -> Home {
    let mut home = Home::new(CCMUX);
    STAND_INS.iter().for_each(|name| home.install_fake_agent(name));
    symlink(CCMUX, home.dir().join("bin/ccmux")).unwrap();
    home.set_env("USER", "tester");
    home.set_env("LOGNAME", "tester");
    home
}

/// Makes the files of the user: a repository, a template, a team file and a configuration.
pub(crate) fn write_files(home: &Home) {
    let work = home.work();
    put(&work.join("team.toml"), TEAM);
    put(&work.join("guide.md"), "# Guide\n");
    put(&work.join("review-squad/template.toml"), "description = \"Two reviewers\"\n");
    put(&work.join("review-squad/unit/core/brief.md"), "# Brief\n");
    put(&home.state_root().join("config/ccmux.toml"), CONFIG);
    let project = work.join("project");
    put(&project.join("main.txt"), "first line\n");
    put(&project.join(".ccmux.toml"), "[workspace]\nsetup = [[\"touch\", \"set-up.ignored\"]]\n");
    put(&project.join(".gitignore"), "*.ignored\n");
    let git = |words: &[&str]| home.program("git", words).dir(&project).ok();
    git(&["init", "--quiet", "--template=", "--initial-branch=main"]);
    git(&["config", "user.name", "Tester"]);
    git(&["config", "user.email", "tester@example.invalid"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "first"]);
}

/// Starts everything with `release`, whose daemon need not run yet.
pub(crate) fn start(release: &Release<'_>) -> Workload {
    let work = release.home.work();
    let path = |name: &str| work.join(name).to_str().unwrap().to_owned();
    release.ok(&["template", "add", &path("review-squad")]);
    release.ok(&["share", &path("guide.md")]);
    release.ok(&["trust", &path("project")]);
    release.ok(&["token"]);
    release.ok(&["token", "--scope", "read"]);
    release.ok(&["up", &path("team.toml")]);
    for name in ["first", "second"] {
        let new = ["new", "-d", "--session", "talk", "-n", name, "--role", "dev"];
        let program = ["--workspace", "empty", "--", ANSWERER, "--prompt", "ask> "];
        release.ok(&[&new[..], &program].concat());
        wait_for_text(release, &format!("talk/{name}"), "^ask>");
    }
    let finished = ["new", "-d", "--session", "misc", "-n", "finished", "--workspace", "empty"];
    release.ok(&[&finished[..], &["--", "sh", "-c", "echo finished; exit 3"]].concat());
    release.ok(&["wait", "misc/finished", "--for", "exit", "--timeout", "60"]);
    release.ok(&KEYED);
    let legacy = ["new", "-d", "--session", "before", "--mode", "legacy", "-n", "shared"];
    release.ok(&[&legacy[..], &["--cwd", &path("project"), "--", "sh"]].concat());
    let closed = ["new", "-d", "--session", "over", "-n", "closed", "--workspace", "empty"];
    release.ok(&[&closed[..], &["--", "sleep", "100000"]].concat());
    release.ok(&["close", "over/closed", "--grace", "0"]);
    for pane in ["web/dev", "before/shared"] {
        wait_for_text(release, pane, "^ready>");
    }

    let locks = vec![
        acquire(release, &path("project/main.txt"), "web/dev"),
        acquire(release, &path("notes"), "talk/first"),
    ];
    let delivered = message(release, "first", "hello", &["--wait", "delivered", "--timeout", "60"]);
    wait_for_text(release, "talk/first", "^answer: hello");
    release.ok(&["stop", "talk/second", "--grace", "0"]);
    let queued = QUEUED.map(|text| message(release, "second", text, &["--key", text]));
    Workload { locks, queued: queued.into(), delivered }
}

/// Locks a file for a pane.
#[track_caller]
pub(crate) fn acquire(release: &Release<'_>, path: &str, pane: &str) -> Lock {
    let lock = release.json(&["lock", "acquire", path, "--pane", pane, "--tag", "upgrade"]);
    let lock = &lock["lock"];
    Lock { id: text(lock, "id"), token: lock["token"].to_string(), path: text(lock, "path") }
}

/// Sends a message to a pane of the session `talk`; returns its id.
#[track_caller]
pub(crate) fn message(release: &Release<'_>, to: &str, text: &str, options: &[&str]) -> String {
    let words = ["message", "--session", "talk", "--raw", "--to", to];
    let sent = release.json(&[&words[..], options, &[text]].concat());
    crate::release::text(&sent["messages"][0], "id")
}

/// Waits until a message has this state.
#[track_caller]
pub(crate) fn wait_for_message(release: &Release<'_>, id: &str, state: &str) {
    wait_until(&format!("message {id} is {state}"), PATIENCE, || {
        let shown = release.json(&["message", "show", id]);
        shown["message"]["state"] == state
    });
}

/// Waits until a line of a pane matches.
#[track_caller]
pub(crate) fn wait_for_text(release: &Release<'_>, pane: &str, expression: &str) {
    let until = format!("text={expression}");
    release.ok(&["wait", pane, "--for", &until, "--timeout", "60"]);
}

/// Counts how often `pane` has answered `line`.
#[track_caller]
pub(crate) fn answers(release: &Release<'_>, pane: &str, line: &str) -> usize {
    release.ok(&["read", pane, "--log"]).matches(&format!("answer: {line}")).count()
}

/// Fails if a file of the state root was set aside as damaged or the daemon reports a problem.
#[track_caller]
pub(crate) fn assert_nothing_damaged(release: &Release<'_>) {
    let status = release.json(&["daemon", "status"]);
    assert!(status["problems"].as_array().is_none_or(Vec::is_empty), "{status}");
    let listed = release.json(&["ls"]);
    assert!(listed["problems"].as_array().is_none_or(Vec::is_empty), "{listed}");
    let problems: Vec<Value> =
        release.panes().iter().filter(|pane| !pane["problem"].is_null()).cloned().collect();
    assert!(problems.is_empty(), "{problems:#?}");
    let files = testkit::tree(release.home.state_root());
    let is_damaged = |path: &&PathBuf| path.to_string_lossy().contains("damaged");
    let damaged: Vec<_> = files.keys().filter(is_damaged).collect();
    assert!(damaged.is_empty(), "{damaged:?}");
}

/// Purges the session `web`. One of its workspaces has an ignored file that exists nowhere else: a
/// daemon that counts this as unsaved work refuses, and gets the token that it names.
pub(crate) fn purge_web(release: &Release<'_>) {
    let purge = ["purge", "web", "--yes", "--grace", "0"];
    let done = release.command(&purge).run();
    if done.status.code() == Some(4) {
        let token = done.stderr.split("--discard ").nth(1).and_then(|rest| rest.split('`').next());
        release.ok(&[&purge[..], &["--discard", token.unwrap()]].concat());
    } else {
        assert!(done.status.success(), "{done:?}");
    }
}
