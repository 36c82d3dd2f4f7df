//! The start of the daemon is bounded: whatever blocks it, clients get an answer with the reason.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Finished, Home, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// A client that gets no answer gives up after ten seconds; a loaded machine needs more.
const BOUND: Duration = Duration::from_secs(60);

/// Deadline for operations that take a second on an idle machine.
const LONG: Duration = Duration::from_secs(180);

/// A home with a running pane `live`, an ended pane `ended`, and no daemon.
struct Crashed {
    home: Home,
    live: PathBuf,
    ended: PathBuf,
}

impl Crashed {
    fn new() -> Self {
        let home = Home::new(CCMUX);
        let live = home.start_pane("live", &["sleep", "1000"]).dir;
        let ended = home.start_pane("ended", &["sleep", "1000"]).dir;
        home.ccmux(&["stop", "ended", "--grace", "0"]).ok();
        home.kill_daemon();
        Self { home, live, ended }
    }

    fn ls(&self) -> Finished {
        self.home.ccmux(&["ls"]).timeout(BOUND).run()
    }
}

/// Replaces a file by a named pipe, on which opening and reading blocks, and keeps the file.
fn plant_pipe(home: &Home, path: &Path) -> PathBuf {
    let kept = home.work().join("kept");
    if path.exists() {
        fs::rename(path, &kept).unwrap();
    }
    home.program("mkfifo", &[path]).ok();
    kept
}

fn restore(path: &Path, kept: &Path) {
    // It may have been set aside or replaced.
    let _gone = fs::remove_file(path);
    if kept.exists() {
        fs::rename(kept, path).unwrap();
    }
}

#[test]
fn named_pipe_in_place_of_any_file_does_not_block_the_start() {
    let crashed = Crashed::new();
    let (home, root) = (&crashed.home, crashed.home.state_root().to_owned());
    let session = |pane: &Path| pane.parent().unwrap().parent().unwrap().to_owned();
    // The path, and whether the reason is shown: a file that can be done without is not mentioned.
    let cases = [
        (crashed.live.join("pane.json"), true),
        (crashed.ended.join("pane.json"), true),
        (crashed.ended.join("exit.json"), false),
        (crashed.live.join("keeper.json"), false),
        (crashed.ended.join("workspace.json"), false),
        (crashed.ended.join("state.json"), false),
        (session(&crashed.live).join(".session"), true),
        (root.join("root.json"), true),
        (root.join("config/ccmux.toml"), false),
        (root.join("ccmux.db"), false),
        (root.join("locks/locks.db"), false),
        (root.join("run/daemon.log"), true),
        (root.join("run/daemon.lock"), true),
    ];

    for (path, is_shown) in cases {
        let kept = plant_pipe(home, &path);

        let listed = crashed.ls();

        let said = format!("{}{}", listed.stdout, listed.stderr);
        let name = path.file_name().unwrap().to_str().unwrap();
        // SQLite does not name its file.
        let is_explained = said.contains(name) || said.contains("disk I/O error");
        assert!(listed.status.success() || is_explained, "{}: {said}", path.display());
        if is_shown {
            let status = home.ccmux(&["daemon", "status", "--json"]).timeout(BOUND).run();
            let said = format!("{said}{}{}", status.stdout, status.stderr);
            assert!(said.contains(name), "{}: {said}", path.display());
        }
        assert!(!said.contains("not ready in time"), "{}: {said}", path.display());
        if listed.status.success() {
            home.kill_daemon();
        }
        restore(&path, &kept);
    }
    let listed = crashed.ls();

    assert!(listed.status.success(), "{}", listed.stderr);
    assert!(listed.stdout.contains("live") && listed.stdout.contains("ended"), "{}", listed.stdout);
}

/// A git that outlived the last daemon can hold the lock of a repository for minutes.
#[test]
fn recovery_that_waits_for_a_lock_tells_clients_and_goes_on() {
    let home = Home::new(CCMUX);
    let repo = home.dir().join("repo");
    fs::create_dir(&repo).unwrap();
    put(&repo.join("file"), "one\n");
    let who = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
    for words in [
        &["init", "--quiet", "--initial-branch=main"] as &[&str],
        &["add", "."],
        &["commit", "--quiet", "-m", "first"],
    ] {
        home.program("git", &[&who[..], words].concat()).dir(&repo).ok();
    }
    let moved = home.dir().join("home/moved");
    let new = ["new", "-d", "-n", "work", "--workspace", "worktree", "--", "sleep", "1000"];
    home.ccmux(&new).dir(&repo).timeout(LONG).ok();
    home.ccmux(&["stop", "work", "--grace", "0"]).ok();
    home.kill_daemon();
    fs::rename(home.state_root(), &moved).unwrap();
    let locks = fs::read_dir(moved.join("locks")).unwrap().map(|entry| entry.unwrap().path());
    let of_git = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("git-");
    let held: Vec<File> = locks.filter(of_git).map(|path| File::open(path).unwrap()).collect();
    held.iter().for_each(|file| file.lock().unwrap());
    assert!(!held.is_empty());
    let in_moved = |words: &[&str]| home.ccmux(words).env("CCMUX_HOME", &moved).timeout(BOUND);

    for _ in 0..2 {
        let refused = in_moved(&["ls"]).fails_with(6);
        assert!(refused.contains("still recovering"), "{refused}");
        assert!(refused.contains("reading the records"), "{refused}");
    }
    drop(held);

    wait_until("recovery is complete", LONG, || in_moved(&["ls"]).run().status.success());
    let shown = in_moved(&["show", "work", "--json"]).json();
    assert!(shown["pane"]["problem"].is_null(), "{shown}");
    in_moved(&["daemon", "stop"]).ok();
}
