//! R20: file locks through the command line: granting, waiting and releasing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::process::Child;
use std::time::Duration;

use client::{Connection, ConnectionError};
use model::ProcessIdentity;
use protocol::control::SOCKET as CONTROL_SOCKET;
use protocol::control::{Request, Response};
use protocol::locks::{LockRefusal, LockRequest};
use protocol::{ErrorBody, ErrorCode};
use rustix::process::Signal;
use serde_json::Value;
use testkit::{Home, Invocation, process, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process that holds locks.
struct Owner(Child);

impl Owner {
    fn new(home: &Home) -> Self {
        Self(home.program("sleep", &["100000"]).spawn())
    }

    fn identity(&self) -> ProcessIdentity {
        process::identity(self.0.id()).unwrap()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Returns `lock acquire` on behalf of this process.
    fn acquire<A: AsRef<OsStr>>(&self, home: &Home, args: &[A]) -> Invocation {
        let acquire = home.ccmux(&["lock", "acquire", "--json", "--process"]);
        let acquire = acquire.arg(self.0.id().to_string()).timeout(PATIENCE);
        args.iter().fold(acquire, |acquire, arg| acquire.arg(arg.as_ref()))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // It may have been killed already.
        let _dead = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn locks(home: &Home) -> Vec<Value> {
    home.ccmux(&["lock", "ls", "--json"]).json()["locks"].as_array().unwrap().clone()
}

/// Waits until this many wait for the only lock.
fn wait_for_waiters(home: &Home, count: u64) {
    wait_until("the waiters are queued", PATIENCE, || {
        locks(home).first().is_some_and(|lock| lock["waiting"] == count)
    });
}

/// Waits for a waiting `lock acquire` and returns its lock.
fn granted(mut waiter: Child) -> Value {
    let mut printed = String::new();
    waiter.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(waiter.wait().unwrap().success(), "{printed}");
    serde_json::from_str::<Value>(&printed).unwrap()["lock"].clone()
}

fn refusal(stderr: &str) -> (ErrorBody, LockRefusal) {
    let error = serde_json::from_str::<Value>(stderr).unwrap()["error"].clone();
    let body: ErrorBody = serde_json::from_value(error).unwrap();
    let refusal = LockRefusal::of(&body).unwrap();
    (body, refusal)
}

/// R20: the commands and their JSON.
#[test]
fn lock_is_acquired_listed_renewed_checked_and_released() {
    let home = Home::new(CCMUX);
    let pane = home.start_pane("dev1", &["sleep", "1000"]);
    let file = home.dir().join("a.rs");
    let file = file.to_str().unwrap();

    let taken =
        home.ccmux(&["lock", "acquire", file, "--pane", "dev1", "--ttl", "600", "--json"]).json();
    let lock = &taken["lock"];
    let id = text(&lock["id"]);
    let token = lock["token"].to_string();

    assert_eq!(lock["path"], file);
    assert_eq!((&lock["mode"], &lock["pane"]), (&"write".into(), &pane.id.as_str().into()));
    assert!(lock["expires"].as_i64().unwrap() > lock["acquired"].as_i64().unwrap() + 500_000);
    assert_eq!(home.show("dev1")["locks"][0]["path"], file);
    let listed = home.ccmux(&["lock", "ls", file]).ok();
    assert!(listed.contains("pane dev1") && listed.contains(&id), "{listed}");
    let snapshot = home.state_root().join("locks/active-locks.json");
    wait_until("the snapshot shows it", PATIENCE, || {
        let snapshot: Value =
            serde_json::from_slice(&fs::read(&snapshot).unwrap_or_default()).unwrap_or_default();
        snapshot["locks"][0]["id"] == id.as_str()
    });
    home.ccmux(&["lock", "check", file, "--token", &token]).ok();
    home.ccmux(&["lock", "check", file, "--token", "4711"]).fails_with(4);
    let renewed = home.ccmux(&["lock", "renew", &id, "--token", &token, "--json"]).json();
    assert_eq!(renewed["lock"]["token"].to_string(), token);

    home.ccmux(&["lock", "release", &id, "--token", "4711"]).fails_with(3);
    home.ccmux(&["lock", "release", &id, "--token", &token]).ok();

    home.ccmux(&["lock", "check", file, "--token", &token]).fails_with(4);
    home.ccmux(&["lock", "renew", &id]).fails_with(3);
    assert_eq!(locks(&home), Vec::<Value>::new());
}

/// R20: conflict with the holder, timeout; readers share.
#[test]
fn lock_conflict_names_holder_and_time() {
    let home = Home::new(CCMUX);
    home.start_pane("dev1", &["sleep", "1000"]);
    let other = Owner::new(&home);
    let file = home.dir().join("a.rs");
    let file = file.to_str().unwrap();
    home.ccmux(&["lock", "acquire", file, "--pane", "dev1", "--mode", "read"]).ok();

    other.acquire(&home, &[file, "--mode", "read"]).ok();
    let (error, conflict) = refusal(&other.acquire(&home, &[file]).fails_with(4));
    let (late, timeout) = refusal(&other.acquire(&home, &[file, "--wait", "0.05"]).fails_with(5));

    assert!(error.message.contains("pane dev1 has `"), "{error}");
    assert!(error.message.contains("(read) since 20"), "{error}");
    assert!(error.hint.unwrap().contains("--wait"));
    let LockRefusal::Conflict { holders } = conflict else { panic!("{conflict:?}") };
    assert_eq!(holders[0].name.as_ref().unwrap().as_str(), "dev1");
    assert_eq!(late.code, ErrorCode::TimedOut);
    assert!(matches!(timeout, LockRefusal::Timeout { .. }));
}

/// R20: waiters are served in order; a waiter that gave up gets nothing.
#[test]
fn lock_waiters_are_served_in_order() {
    let home = Home::new(CCMUX);
    let mut first = Owner::new(&home);
    first.acquire(&home, &["a.rs"]).ok();
    let mut waiting = Vec::new();
    for count in 1..=4 {
        let owner = Owner::new(&home);
        let waiter = owner.acquire(&home, &["a.rs", "--wait", "600"]).spawn();
        wait_for_waiters(&home, count);
        waiting.push((owner, waiter));
    }
    let (_, mut impatient) = waiting.remove(1);
    impatient.kill().unwrap();
    impatient.wait().unwrap();
    wait_for_waiters(&home, 3);

    first.kill();

    let mut last = 0;
    for (mut owner, waiter) in waiting {
        let lock = granted(waiter);
        let token = lock["token"].as_u64().unwrap();
        assert_eq!(lock["process"].as_u64().unwrap(), u64::from(owner.0.id()));
        assert!(token > last, "{token} after {last}");
        last = token;
        owner.kill();
    }
    wait_until("nothing is locked", PATIENCE, || locks(&home).is_empty());
}

/// R20: a lease that is not renewed expires, and the fencing token is rejected.
#[test]
fn token_of_expired_lease_is_rejected() {
    let home = Home::new(CCMUX);
    let (stopped, next) = (Owner::new(&home), Owner::new(&home));
    let file = home.dir().join("a.rs");
    let file = file.to_str().unwrap();
    let old = stopped.acquire(&home, &[file, "--ttl", "0.2"]).json()["lock"].clone();
    process::signal(&stopped.identity(), Signal::STOP);

    let new = next.acquire(&home, &[file, "--wait", "600"]).json()["lock"].clone();
    process::signal(&stopped.identity(), Signal::CONT);

    assert!(new["token"].as_u64() > old["token"].as_u64());
    let stale = home.ccmux(&["lock", "check", file, "--token", &old["token"].to_string()]);
    assert!(stale.fails_with(4).contains("acquire it again"));
    home.ccmux(&["lock", "renew", &text(&old["id"])]).fails_with(3);
    home.ccmux(&["lock", "release", &text(&old["id"])]).fails_with(3);
    home.ccmux(&["lock", "check", file, "--token", &new["token"].to_string()]).ok();
}

/// R20: locks are released when their pane, or process outside of panes, dies.
#[test]
fn locks_are_released_when_owner_is_killed() {
    let home = Home::new(CCMUX);
    let panes = ["dev1", "dev2"].map(|name| home.start_pane(name, &["sleep", "1000"]));
    let (mut outside, next) = (Owner::new(&home), Owner::new(&home));
    for (pane, file) in panes.iter().zip(["a", "b"]) {
        // As from inside the pane.
        let acquire = home.ccmux(&["lock", "acquire", file]);
        acquire.env("CCMUX_PANE_ID", &pane.id).ok();
    }
    outside.acquire(&home, &["c"]).ok();

    let head = home.show("dev1")["pid"].as_u64().unwrap().try_into().unwrap();
    process::kill_and_wait(&process::identity(head).unwrap(), PATIENCE);
    process::kill_and_wait(&panes[1].keeper(), PATIENCE);
    outside.kill();

    next.acquire(&home, &["a", "b", "c", "--wait", "600"]).ok();
    assert_eq!(locks(&home).len(), 3);
    home.ccmux(&["lock", "acquire", "d", "--pane", "dev1"]).fails_with(4);
}

/// R20: locks and waiters do not depend on the daemon process.
#[test]
fn locks_and_waiters_survive_daemon_kill() {
    let home = Home::new(CCMUX);
    let (mut holder, mut short, waiter) = (Owner::new(&home), Owner::new(&home), Owner::new(&home));
    let held = holder.acquire(&home, &["a"]).json()["lock"].clone();
    short.acquire(&home, &["b"]).ok();
    let waiting = waiter.acquire(&home, &["a", "--wait", "600"]).spawn();
    wait_until("the request is queued", PATIENCE, || locks(&home)[0]["waiting"] == 1);

    home.kill_daemon();
    short.kill();

    wait_until("the request is queued by the next daemon", PATIENCE, || {
        locks(&home)[0]["waiting"] == 1
    });
    // The owner of the other lock is dead.
    wait_until("one lock is left", PATIENCE, || locks(&home).len() == 1);
    let left = locks(&home);
    assert_eq!((&left[0]["id"], &left[0]["token"]), (&held["id"], &held["token"]));
    holder.kill();
    let lock = granted(waiting);
    assert!(lock["token"].as_u64() > held["token"].as_u64());
}

/// R20: several paths at once, trees, and deadlocks.
#[test]
fn several_paths_are_locked_atomically_and_deadlocks_are_refused() {
    let home = Home::new(CCMUX);
    let (one, two) = (Owner::new(&home), Owner::new(&home));
    one.acquire(&home, &["a/b", "--tree"]).ok();
    two.acquire(&home, &["c"]).ok();

    let together = two.acquire(&home, &["x", "a/b/deep/file", "y"]).fails_with(4);
    assert!(together.contains("and everything below"), "{together}");
    assert_eq!(locks(&home).len(), 2, "some of the three were locked");
    two.acquire(&home, &["a", "a/bc"]).ok();
    two.acquire(&home, &["a", "--tree"]).fails_with(4);

    let waiting = one.acquire(&home, &["c", "--wait", "600"]).spawn();
    wait_until("the request is queued", PATIENCE, || {
        locks(&home).iter().any(|lock| lock["waiting"] == 1)
    });
    let circle = two.acquire(&home, &["a/b/file", "--wait", "600"]).fails_with(4);

    let (error, refusal) = refusal(&circle);
    let LockRefusal::Deadlock { cycle } = refusal else { panic!("{refusal:?}") };
    assert_eq!(cycle.len(), 2);
    assert_eq!(cycle[0].who, format!("process {}", two.0.id()));
    assert_eq!(cycle[0].held_by, format!("process {}", one.0.id()));
    assert_eq!(cycle[1].who, cycle[0].held_by);
    assert!(error.message.contains("deadlock"), "{error}");
    drop(two);
    granted(waiting);
}

/// R20: an invalid path is an error that names it.
#[test]
fn invalid_lock_paths_are_refused() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let (ten_kilobytes, not_text) = ("x/".repeat(5000), OsString::from_vec(b"a\xff".into()));
    let cases: [(&OsStr, &str); 3] = [
        (OsStr::new("a\nb"), "control character '\\n'"),
        (OsStr::new(&ten_kilobytes), "4096"),
        (&not_text, "not valid UTF-8"),
    ];
    for (path, why) in cases {
        let said = home.ccmux(&["lock", "acquire"]).arg(path).fails_with(2);
        assert!(said.contains(why), "{path:?}: {said}");
    }

    let mut daemon = Connection::open(&home.state_root().join("run"), CONTROL_SOCKET).unwrap();
    for path in ["a/b", "../b", "/a\0b", ""] {
        let list = LockRequest::List { pane: None, path: Some(path.to_owned()) };
        let Err(ConnectionError::Remote(error)) = daemon.ask(&Request::Lock(list)) else {
            panic!("{path:?}")
        };
        assert_eq!(error.code, ErrorCode::Usage, "{error}");
    }
    let all = LockRequest::List { pane: None, path: None };
    let Ok(Response::Locks(locks)) = daemon.ask(&Request::Lock(all)) else { panic!() };
    assert_eq!(locks.locks, []);
}

/// R20: a path is the same lock through links, relative names and worktrees of a repository.
#[test]
fn file_is_one_lock_under_every_name() {
    let home = Home::new(CCMUX);
    let (one, two) = (Owner::new(&home), Owner::new(&home));
    let (main, tree) = (home.dir().join("main"), home.dir().join("tree"));
    // A repository with a linked worktree, as git lays them out.
    fs::create_dir_all(main.join(".git/worktrees/tree")).unwrap();
    fs::create_dir_all(main.join("src")).unwrap();
    fs::create_dir_all(tree.join("src")).unwrap();
    put(&tree.join(".git"), format!("gitdir: {}\n", main.join(".git/worktrees/tree").display()));
    put(&main.join(".git/worktrees/tree/commondir"), "../..\n");
    symlink(&main, home.dir().join("link")).unwrap();
    let here = |owner: &Owner, path: &str| owner.acquire(&home, &[path]).dir(&main);

    here(&one, "src/a.rs").ok();

    let link = home.dir().join("link/src/../src/a.rs");
    let in_tree = tree.join("src/a.rs");
    for same in ["./src//a.rs", link.to_str().unwrap(), in_tree.to_str().unwrap()] {
        here(&two, same).fails_with(4);
        here(&one, same).ok();
    }
    // By policy, every worktree is separate.
    two.acquire(&home, &[in_tree.to_str().unwrap(), "--scope", "worktree"]).fails_with(4);
    let only_here = ["--scope", "worktree", "src/b.rs"];
    one.acquire(&home, &only_here).dir(&main).ok();
    two.acquire(&home, &only_here).dir(&tree).ok();

    // A lock is on the name: a renamed directory leaves its locks behind.
    one.acquire(&home, &["src", "--tree", "--scope", "worktree"]).dir(&main).ok();
    fs::rename(main.join("src"), main.join("renamed")).unwrap();
    here(&two, "renamed/new.rs").ok();
    here(&two, "src/new.rs").fails_with(4);
}
