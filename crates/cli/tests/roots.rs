//! A state root that was moved or copied: a copy never touches the panes of its original, and panes
//! are restored at the path where the root is.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::{DEADLINE, Home, Invocation, Pane, process, put, wait_for, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// A home with a repository, and commands in any state root.
struct Roots {
    home: Home,
    repo: PathBuf,
}

impl Roots {
    fn new() -> Self {
        let home = Home::new(CCMUX);
        let repo = home.dir().join("repo");
        fs::create_dir(&repo).unwrap();
        put(&repo.join("file"), "one\n");
        let roots = Self { home, repo };
        roots.git(&roots.repo, &["init", "--quiet", "--initial-branch=main"]);
        roots.git(&roots.repo, &["add", "."]);
        roots.git(&roots.repo, &["commit", "--quiet", "-m", "first"]);
        roots
    }

    fn git(&self, dir: &Path, words: &[&str]) -> String {
        let who = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
        let words: Vec<&str> = who.into_iter().chain(words.iter().copied()).collect();
        self.home.program("git", &words).dir(dir).ok()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.dir().join("home").join(name)
    }

    /// Returns an invocation in the state root of this name.
    fn ccmux(&self, root: &str, words: &[&str]) -> Invocation {
        self.home.ccmux(words).dir(&self.repo).env("CCMUX_HOME", self.path(root))
    }

    /// Starts a shell in a worktree.
    fn start(&self, root: &str, name: &str) -> Pane {
        let words = ["new", "-d", "--json", "-n", name, "--workspace", "worktree", "--", "sh"];
        Pane::from_json(&self.ccmux(root, &words).json()["pane"])
    }

    fn show(&self, root: &str, pane: &str) -> Value {
        self.ccmux(root, &["show", "--json", pane]).json()["pane"].take()
    }

    fn copy(&self, from: &str, to: &str) {
        let (from, to) = (self.path(from), self.path(to));
        self.home.program("cp", &[Path::new("-a"), &from, &to]).ok();
    }

    /// Runs a shell command in a pane and waits for its last word.
    fn run(&self, root: &str, pane: &str, command: &str) {
        self.ccmux(root, &["send", pane, &format!("{command}; echo ran-$((1+1))"), "--enter"]).ok();
        let text = ["wait", pane, "--for", "text=ran-2", "--timeout", "30"];
        self.ccmux(root, &text).ok();
    }

    fn finding(&self, root: &str, what: &str) -> String {
        let report = self.ccmux(root, &["doctor", "--json"]).run().stdout;
        let report: Value = serde_json::from_str(&report).unwrap();
        let all = report["findings"].as_array().unwrap().iter();
        let found = all.filter(|finding| finding["what"] == what);
        found.map(|finding| finding["evidence"].as_str().unwrap()).collect()
    }

    fn stop_daemon(&self, root: &str) {
        self.ccmux(root, &["daemon", "stop"]).ok();
    }
}

#[test]
fn copied_root_leaves_live_panes_of_its_original_alone() {
    let roots = Roots::new();
    let panes = ["one", "two", "three", "four"].map(|name| roots.start(".ccmux", name));
    // A process that left the terminal session is found by its variables only.
    roots.run(".ccmux", "one", "setsid sleep 1000 & :");
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let loose = wait_for("the process in its own session", DEADLINE, || {
        let tree = process::descendants(panes[0].keeper().pid);
        process::identity(tree.into_iter().find(|pid| name(pid) == "sleep\n")?)
    });
    roots.copy(".ccmux", "copy");

    let listed = roots.ccmux("copy", &["ls", "--json", "--all"]).run().stdout;
    assert!(!listed.contains("\"running\""), "{listed}");
    assert_eq!(roots.show("copy", "one")["state"], "lost");
    roots.ccmux("copy", &["stop", "one"]).ok();
    roots.ccmux("copy", &["restore", "two"]).ok();
    // The restored pane has the id of the original: only its own processes die with its keeper.
    let restored = Pane::from_json(&roots.show("copy", "two"));
    process::kill_and_wait(&restored.keeper(), DEADLINE);
    wait_until("the copy is lost", DEADLINE, || roots.show("copy", "two")["state"] == "lost");
    roots.ccmux("copy", &["close", "three"]).ok();
    roots.ccmux("copy", &["gc"]).ok();
    let shown = roots.ccmux("copy", &["show", "--json", "four"]).json();
    roots.ccmux("copy", &["purge", "--yes", shown["session"]["name"].as_str().unwrap()]).ok();
    roots.stop_daemon("copy");

    assert!(process::is_alive(&loose), "{loose:?}");
    for pane in &panes {
        assert!(process::is_alive(&pane.head) && process::is_alive(&pane.keeper()));
        assert_eq!(roots.show(".ccmux", &pane.name)["state"], "running");
    }
    roots.run(".ccmux", "three", "git status");
    let copied = roots.finding("copy", "state root copied");
    assert!(copied.contains(roots.path(".ccmux").to_str().unwrap()), "{copied}");
    assert_eq!(roots.finding(".ccmux", "state root copied"), "");
    roots.stop_daemon("copy");
}

#[test]
fn pane_restored_in_a_copy_works_in_directories_of_the_copy() {
    let roots = Roots::new();
    let original = roots.start(".ccmux", "work");
    let tree = original.dir.join("workspace");
    put(&tree.join("draft"), "of both\n");
    roots.copy(".ccmux", "copy");

    roots.ccmux("copy", &["restore", "work"]).ok();
    let commit = "git add draft; git -c user.name=a -c user.email=a@b commit -qm copy";
    roots.run("copy", "work", &format!("echo copy > draft; env > variables; {commit}"));

    let copied = roots.path("copy");
    let shown = roots.show("copy", "work");
    let cwd = PathBuf::from(shown["cwd"].as_str().unwrap());
    assert!(cwd.starts_with(&copied), "{}", cwd.display());
    assert_eq!(fs::read_to_string(cwd.join("draft")).unwrap(), "copy\n");
    let variables = fs::read_to_string(cwd.join("variables")).unwrap();
    let old = format!("{}/", roots.path(".ccmux").display());
    assert!(!variables.contains(&old), "{variables}");
    // Work tree and branch of the original are as they were.
    assert_eq!(fs::read_to_string(tree.join("draft")).unwrap(), "of both\n");
    assert_eq!(roots.git(&tree, &["status", "--porcelain"]), "?? draft\n");
    assert_eq!(roots.git(&tree, &["log", "--format=%s"]), "first\n");
    assert_eq!(roots.git(&cwd, &["log", "--format=%s"]), "copy\nfirst\n");
    roots.ccmux("copy", &["stop", "work"]).ok();
    roots.stop_daemon("copy");
}

#[test]
fn panes_of_a_moved_root_are_restored_at_its_new_path() {
    let mut roots = Roots::new();
    roots.home.install_fake_agent("claude");
    roots.home.set_env("ANTHROPIC_API_KEY", "sk-ant-test-0123456789abcdef");
    roots.start(".ccmux", "work");
    roots.run(".ccmux", "work", "echo draft > draft");
    let words = ["new", "-d", "-n", "agent", "--", "claude", "--keep-session", "--said", "--stay"];
    roots.ccmux(".ccmux", &words).ok();
    let kept = ["wait", "agent", "--for", "text=session kept", "--timeout", "30"];
    roots.ccmux(".ccmux", &kept).ok();
    let conversation = roots.show(".ccmux", "agent")["conversation"].clone();
    roots.ccmux(".ccmux", &["stop", "work", "agent", "--grace", "0"]).ok();
    roots.stop_daemon(".ccmux");

    fs::rename(roots.path(".ccmux"), roots.path("moved")).unwrap();
    roots.ccmux("moved", &["restore", "work", "agent"]).ok();
    roots.run("moved", "work", "cat draft > seen; env > variables");

    let cwd = PathBuf::from(roots.show("moved", "work")["cwd"].as_str().unwrap());
    assert!(cwd.starts_with(roots.path("moved")), "{}", cwd.display());
    assert_eq!(fs::read_to_string(cwd.join("seen")).unwrap(), "draft\n");
    let variables = fs::read_to_string(cwd.join("variables")).unwrap();
    assert!(!variables.contains(roots.path(".ccmux").to_str().unwrap()), "{variables}");
    let agent = roots.show("moved", "agent");
    assert_eq!(agent["conversation"], conversation);
    assert!(agent["command"].to_string().contains("--resume"), "{agent}");
    assert!(agent["problem"].is_null(), "{agent}");
    let trees = roots.git(&roots.repo, &["worktree", "list", "--porcelain"]);
    assert!(trees.contains(cwd.to_str().unwrap()) && !trees.contains("prunable"), "{trees}");
    let moved = roots.finding("moved", "state root moved");
    assert!(moved.contains(roots.path(".ccmux").to_str().unwrap()), "{moved}");
    assert!(!roots.path(".ccmux").exists());
    roots.ccmux("moved", &["stop", "work", "agent", "--grace", "0"]).ok();
    roots.stop_daemon("moved");
}

#[test]
fn live_panes_of_a_moved_root_continue_and_are_adopted() {
    let roots = Roots::new();
    let pane = roots.start(".ccmux", "work");
    let daemon = roots.home.daemon();

    fs::rename(roots.path(".ccmux"), roots.path("moved")).unwrap();
    let shown = roots.show("moved", "work");

    assert_eq!(shown["state"], "running", "{shown}");
    assert!(shown["problem"].as_str().unwrap_or_default().contains("restore it"), "{shown}");
    assert!(process::is_alive(&pane.head) && !process::is_alive(&daemon));
    roots.run("moved", "work", "echo alive");
    roots.ccmux("moved", &["stop", "work", "--grace", "1"]).ok();
    assert!(!process::is_alive(&pane.head));
    roots.ccmux("moved", &["restore", "work"]).ok();
    let restored = roots.show("moved", "work");
    assert!(restored["problem"].is_null(), "{restored}");
    assert!(!roots.path(".ccmux").exists());
    roots.ccmux("moved", &["stop", "work", "--grace", "0"]).ok();
    roots.stop_daemon("moved");
}
