//! B22: the usual day of an agent, from every directory that people start one in.
//!
//! Scripted agents are started, prompted, stopped, restored after a stop and after a reboot, and
//! closed with unsaved work. No step is refused except the last one, which would lose work.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::{Home, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for anything that is waited for; generous for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the scripted agent keep a conversation and answer every line, as claude does.
const BEHAVIOUR: [&str; 4] = ["--keep-session", "--said", "--prompt", "ready> "];

/// A user with scripted agents in the PATH.
struct User(Home);

impl User {
    fn new() -> Self {
        let mut home = Home::new(CCMUX);
        home.install_fake_agent("claude");
        Self(home)
    }

    fn home_dir(&self) -> PathBuf {
        self.0.dir().join("home")
    }

    /// Makes a directory with a file in the home.
    fn directory(&self, name: &str) -> PathBuf {
        let dir = self.home_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        put(&dir.join("todo.txt"), "one\n");
        dir
    }

    fn git(&self, dir: &Path, words: &[&str]) {
        let who = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
        self.0.program("git", &[&who, words].concat()).dir(dir).timeout(PATIENCE).ok();
    }

    /// Makes a repository with one commit in the home.
    fn repository(&self, name: &str) -> PathBuf {
        let dir = self.directory(name);
        self.git(&dir, &["init", "--quiet", "--initial-branch=main"]);
        self.git(&dir, &["add", "."]);
        self.git(&dir, &["commit", "--quiet", "-m", "first"]);
        dir
    }

    fn start(&self, pane: &str, dir: &Path) -> Value {
        let words = ["new", "-d", "--session", "day", "-n", pane, "--", "claude"];
        self.0.ccmux(&[&words, &BEHAVIOUR[..]].concat()).dir(dir).timeout(PATIENCE).ok();
        self.0.show(pane)
    }

    fn command(&self, words: &[&str]) -> String {
        self.0.ccmux(words).dir(&self.home_dir()).timeout(PATIENCE).ok()
    }

    /// Stops the daemon and verifies that no process is left.
    #[track_caller]
    fn end(&self) {
        self.command(&["daemon", "stop"]);
        self.0.no_processes_left_within(PATIENCE);
    }

    /// Types a prompt and waits for its answer.
    #[track_caller]
    fn prompt(&self, pane: &str, text: &str) {
        self.wait_for(pane, "ready>");
        self.command(&["send", pane, text, "--enter"]);
        self.wait_for(pane, &format!("answer: {text}"));
    }

    #[track_caller]
    fn wait_for(&self, pane: &str, text: &str) {
        let text = format!("text={text}");
        self.command(&["wait", pane, "--for", &text, "--timeout", "60"]);
    }

    /// Prompts, stops and restores a pane, also after a reboot, and verifies that it continues the
    /// same conversation in the same directory.
    #[track_caller]
    fn spend_the_day(&self, panes: &[&str]) {
        let of = |pane: &str| {
            let shown = self.0.show(pane);
            (shown["conversation"].clone(), shown["cwd"].clone(), shown["workspace"].clone())
        };
        panes.iter().for_each(|pane| self.prompt(pane, "good morning"));
        let before: Vec<_> = panes.iter().map(|pane| of(pane)).collect();
        assert!(before.iter().all(|(conversation, ..)| conversation.is_string()), "{before:?}");

        self.command(&[&["stop"], panes].concat());
        self.command(&[&["restore"], panes].concat());
        panes.iter().for_each(|pane| self.prompt(pane, "after lunch"));
        self.0.kill_everything();
        self.0.start_daemon();
        wait_until("the panes are found interrupted", PATIENCE, || {
            panes.iter().all(|pane| self.0.show(pane)["state"] == "lost")
        });
        self.command(&[&["restore"], panes].concat());
        panes.iter().for_each(|pane| self.prompt(pane, "after the reboot"));

        assert_eq!(panes.iter().map(|pane| of(pane)).collect::<Vec<_>>(), before);
    }
}

#[test]
fn agent_outside_repositories_works_on_the_files_of_the_user() {
    let user = User::new();
    let plain = user.directory("notes");
    for (pane, dir) in [("inhome", user.home_dir()), ("plain", plain.clone())] {
        let shown = user.start(pane, &dir);
        assert_eq!(shown["workspace_kind"], "shared", "{shown}");
        assert_eq!(shown["cwd"].as_str().map(Path::new), Some(dir.as_path()));
    }

    user.spend_the_day(&["inhome", "plain"]);
    put(&plain.join("todo.txt"), "two\n");
    user.command(&["close", "inhome", "plain"]);

    assert_eq!(fs::read_to_string(plain.join("todo.txt")).unwrap(), "two\n");
    user.end();
}

#[test]
fn agent_in_repository_keeps_its_work_until_it_is_named() {
    let user = User::new();
    let repository = user.repository("app");
    let shown = user.start("dev", &repository);
    let tree = PathBuf::from(shown["workspace"].as_str().unwrap());
    assert_eq!(shown["workspace_kind"], "worktree");

    user.spend_the_day(&["dev"]);
    put(&tree.join("todo.txt"), "changed by the agent\n");
    let refused = user.0.ccmux(&["close", "dev", "--json"]).timeout(PATIENCE).fails_with(4);

    let refused: Value = serde_json::from_str(&refused).unwrap();
    assert!(refused["error"]["message"].as_str().unwrap().contains("todo.txt"), "{refused}");
    assert_eq!(fs::read_to_string(tree.join("todo.txt")).unwrap(), "changed by the agent\n");
    assert_eq!(fs::read_to_string(repository.join("todo.txt")).unwrap(), "one\n");
    let token = refused["error"]["details"]["panes"][0]["discard"].as_str().unwrap();
    user.command(&["close", "dev", "--discard", token]);
    assert!(!tree.exists());
    user.git(&repository, &["diff", "--quiet", "HEAD"]);
    user.end();
}

#[test]
fn heavy_seven_agents_in_one_repository_survive_a_reboot() {
    let user = User::new();
    let repository = user.repository("app");
    let panes = ["dev1", "dev2", "dev3", "qa1", "qa2", "ux", "pm"];
    let trees: Vec<Value> =
        panes.iter().map(|pane| user.start(pane, &repository)["workspace"].clone()).collect();
    assert!(trees.iter().enumerate().all(|(n, tree)| !trees[..n].contains(tree)), "{trees:?}");

    user.spend_the_day(&panes);
    user.command(&[&["close"], &panes[..]].concat());

    assert_eq!(fs::read_dir(repository.join(".git/worktrees")).map_or(0, Iterator::count), 0);
    user.end();
}
