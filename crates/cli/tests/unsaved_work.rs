//! B8: whatever is removed is examined first, and nothing is lost that was not discarded.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test writes its files in place")]

#[path = "unsaved_work/generator.rs"]
mod generator;
#[path = "unsaved_work/writer.rs"]
mod writer;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testkit::soak::repetitions;
use testkit::{Home, Invocation, put, wait_until};

use crate::generator::{Generator, find_files, is_due};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for anything that is waited for; generous for a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// A home with a repository, and a library that it can have as a submodule.
struct Place {
    home: Home,
    repo: PathBuf,
    library: PathBuf,
}

impl Place {
    fn new() -> Self {
        Self::of(Home::new(CCMUX))
    }

    fn of(home: Home) -> Self {
        let (repo, library) = (home.dir().join("repo"), home.dir().join("library"));
        let place = Self { home, repo: repo.clone(), library: library.clone() };
        for (dir, file) in [(&library, "lib"), (&repo, "README")] {
            fs::create_dir_all(dir).unwrap();
            put(&dir.join(file), "text\n");
            put(&dir.join(".gitignore"), "*.log\ntarget/\n");
            place.git(dir, &["init", "--quiet", "--initial-branch=main"]);
            place.git(dir, &["add", "."]);
            place.git(dir, &["commit", "--quiet", "-m", "first"]);
        }
        place
    }

    fn git(&self, dir: &Path, words: &[&str]) -> String {
        let settings = "user.name=me user.email=me@example.com protocol.file.allow=always";
        let settings = settings.split(' ').flat_map(|setting| ["-c", setting]);
        let words: Vec<&str> = settings.chain(words.iter().copied()).collect();
        self.home.program("git", &words).dir(dir).timeout(LONG).ok()
    }

    fn ccmux(&self, words: &[&str]) -> Invocation {
        self.home.ccmux(words).dir(&self.repo).timeout(LONG)
    }

    /// Creates an ended pane with its own workspace, and returns its description.
    fn ended_pane(&self, name: &str, kind: &str) -> Value {
        let words = ["new", "-d", "--json", "-n", name, "--workspace", kind, "--isolation", "home"];
        let words: Vec<&str> = words.into_iter().chain(["--", "true"]).collect();
        let pane = self.ccmux(&words).json()["pane"].take();
        self.ccmux(&["wait", name, "--for", "exit", "--timeout", "120"]).ok();
        pane
    }

    /// Asserts that closing is refused with this text, and returns the token.
    #[track_caller]
    fn assert_refused(&self, pane: &str, named: &str) -> String {
        let refused = self.ccmux(&["close", "--json", pane]).fails_with(4);
        let refused: Value = serde_json::from_str(&refused).unwrap();
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(named), "{named:?} is not in: {message}");
        refused["error"]["details"]["panes"][0]["discard"].as_str().unwrap().to_owned()
    }
}

fn workspace(pane: &Value) -> PathBuf {
    PathBuf::from(pane["workspace"].as_str().unwrap())
}

/// Returns the directory of the pane whose `workspace` leads to a tree.
fn pane_dir(place: &Place, tree: &Path) -> PathBuf {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let sessions = entries(place.home.state_root().join("sessions")).map(|entry| entry.path());
    let panes = sessions.flat_map(|dir| entries(dir.join("panes"))).map(|entry| entry.path());
    let tree = fs::canonicalize(tree).unwrap();
    let mut panes = panes
        .filter(|dir| fs::canonicalize(dir.join("workspace")).is_ok_and(|leads| leads == tree));
    panes.next().unwrap()
}

/// A class of work, made in a workspace.
type Class = (&'static str, fn(&Place, &Path, &str), &'static str);

/// How each class of work comes about, and the text that names it. The file with the work contains
/// the given text.
const CLASSES: [Class; 13] = [
    ("untracked", |_, tree, text| put(&tree.join("new"), text), "not committed: new"),
    (
        "committed",
        |place, tree, text| {
            put(&tree.join("done"), text);
            place.git(tree, &["add", "-A"]);
            place.git(tree, &["commit", "--quiet", "-m", text]);
        },
        "commit",
    ),
    (
        "assume-unchanged",
        |place, tree, text| {
            place.git(tree, &["update-index", "--assume-unchanged", "README"]);
            put(&tree.join("README"), text);
        },
        "hidden from git: README",
    ),
    (
        "skip-worktree",
        |place, tree, text| {
            place.git(tree, &["update-index", "--skip-worktree", ".gitignore"]);
            put(&tree.join(".gitignore"), text);
        },
        "hidden from git: .gitignore",
    ),
    ("ignored", |_, tree, text| put(&tree.join("a.log"), text), "1 ignored file"),
    (
        "tool with its own .gitignore",
        |_, tree, text| {
            put(&tree.join("tool/.gitignore"), "*\n");
            put(&tree.join("tool/notes"), text);
        },
        "2 ignored files",
    ),
    (
        "embedded repository",
        |place, tree, text| {
            let inner = tree.join("inner");
            fs::create_dir_all(&inner).unwrap();
            place.git(&inner, &["init", "--quiet"]);
            put(&inner.join("file"), text);
            place.git(&inner, &["add", "."]);
            place.git(&inner, &["commit", "--quiet", "-m", text]);
        },
        "`inner`: 1 commit",
    ),
    (
        "branch of a submodule that the project ignores",
        |place, tree, text| {
            let library = place.library.to_str().unwrap();
            place.git(tree, &["submodule", "--quiet", "add", library, "sub"]);
            place.git(tree, &["config", "-f", ".gitmodules", "submodule.sub.ignore", "all"]);
            let sub = tree.join("sub");
            place.git(&sub, &["checkout", "--quiet", "-b", "side"]);
            put(&sub.join("lib"), text);
            place.git(&sub, &["commit", "--quiet", "-am", text]);
            place.git(&sub, &["checkout", "--quiet", "main"]);
        },
        "`sub`: 1 commit",
    ),
    (
        "stash in an ignored repository",
        |place, tree, text| {
            let library = place.library.to_str().unwrap();
            place.git(tree, &["clone", "--quiet", library, "target/dep"]);
            put(&tree.join("target/dep/lib"), text);
            place.git(&tree.join("target/dep"), &["stash", "--quiet"]);
        },
        "`target/dep`: stashed",
    ),
    (
        "unreadable directory",
        |_, tree, text| {
            put(&tree.join("closed/file"), text);
            fs::set_permissions(tree.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        },
        "closed",
    ),
    (
        "file beside the workspace",
        |_, tree, text| put(&tree.with_file_name("notes"), text),
        "beside the workspace: notes",
    ),
    (
        "directory beside the workspace",
        |_, tree, text| put(&tree.with_file_name("extra").join("notes"), text),
        "files in extra/: notes",
    ),
    (
        "private home",
        |place, tree, text| {
            let pane = pane_dir(place, tree);
            let id = pane.file_name().unwrap().to_str().unwrap();
            let homes = place.home.state_root().join("claude-homes");
            put(&homes.join(format!("pane-{id}")).join("thesis"), text);
        },
        "private home: thesis",
    ),
];

/// Every class of work is named, kept, and discarded only with the token for its exact content.
#[test]
fn every_class_of_work_blocks_close_until_its_exact_token_is_given() {
    let place = Place::new();
    for kind in ["worktree", "clone"] {
        for (at, (class, make, named)) in CLASSES.iter().enumerate() {
            let name = format!("{kind}-{at}");
            let tree = workspace(&place.ended_pane(&name, kind));

            make(&place, &tree, "one\n");
            let token = place.assert_refused(&name, named);
            assert_eq!(place.assert_refused(&name, named), token, "{kind}: {class}");
            put(&pane_dir(&place, &tree).join("output/later"), "more\n");
            place.ccmux(&["close", &name, "--discard", &token]).fails_with(4);
            let token = place.assert_refused(&name, "output/: later");
            place.ccmux(&["close", &name, "--discard", &token]).ok();
        }
    }
}

/// The token is a hash of the content: equal size and time do not make equal work.
#[test]
fn token_differs_for_content_of_equal_size_and_time() {
    let place = Place::new();
    let tree = workspace(&place.ended_pane("dev", "worktree"));
    let file = tree.join("new");
    put(&file, "one");
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    let token = place.assert_refused("dev", "new");

    put(&file, "two");
    let times = fs::FileTimes::new().set_modified(time);
    fs::File::options().write(true).open(&file).unwrap().set_times(times).unwrap();

    place.ccmux(&["close", "dev", "--discard", &token]).fails_with(4);
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
}

/// A clone is the only place of its notes, tags and branches, unless a repository that stays has
/// them.
#[test]
fn refs_of_a_clone_that_exist_nowhere_else_are_work() {
    let place = Place::new();
    let tree = workspace(&place.ended_pane("dev", "clone"));
    let temp = pane_dir(&place, &tree).join("temp/remote");
    fs::create_dir_all(&temp).unwrap();
    place.git(&temp, &["init", "--quiet", "--bare"]);

    place.git(&tree, &["notes", "add", "-m", "note"]);
    place.assert_refused("dev", "1 commit");
    place.git(&tree, &["remote", "add", "mine", temp.to_str().unwrap()]);
    place.git(&tree, &["push", "--quiet", "mine", "refs/notes/*:refs/notes/*"]);
    place.assert_refused("dev", "1 commit");
    place.git(&tree, &["push", "--quiet", "origin", "refs/notes/*:refs/notes/*"]);
    place.git(&tree, &["tag", "-a", "-m", "message", "v1"]);
    place.assert_refused("dev", "refs/tags/v1");
    place.git(&tree, &["push", "--quiet", "origin", "v1"]);

    place.ccmux(&["close", "dev"]).ok();
}

/// Puts a file into the Git LFS store of a repository, as `git lfs` does. Returns its id.
fn put_lfs_object(git_dir: &Path, id: char) -> String {
    let id: String = [id; 64].iter().collect();
    put(&git_dir.join("lfs/objects").join(&id[..2]).join(&id[2..4]).join(&id), "content");
    id
}

/// The content of a file in Git LFS is only in the local store until it is pushed. `git lfs` is not
/// needed to find it.
#[test]
fn lfs_objects_of_a_clone_that_exist_nowhere_else_are_work() {
    let place = Place::new();
    let tree = workspace(&place.ended_pane("dev", "clone"));

    let pushed = put_lfs_object(&tree.join(".git"), 'a');
    place.assert_refused("dev", &format!("Git LFS objects only here: {}", &pushed[..12]));
    put_lfs_object(&place.repo.join(".git"), 'a');
    place.git(&tree, &["config", "lfs.storage", "store"]);
    let moved = tree.join(".git/store/objects/bb/bb");
    put(&moved.join("b".repeat(64)), "content");
    place.assert_refused("dev", "Git LFS objects only here: bbbbbbbbbbbb");
    // A remote on another machine has the commit with the pointer, hence also the object.
    let remote = "https://example.invalid/project.git";
    place.git(&tree, &["remote", "add", "far", remote]);
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 7\n",
        "b".repeat(64)
    );
    put(&tree.join("big"), &pointer);
    place.git(&tree, &["add", "big"]);
    place.git(&tree, &["commit", "--quiet", "-m", "big"]);
    place.git(&tree, &["update-ref", "refs/remotes/far/main", "HEAD"]);

    place.ccmux(&["close", "dev"]).ok();
}

/// The commits of a branch that the user deleted are only on the branch of the pane.
#[test]
fn worktree_whose_base_branch_was_deleted_is_kept() {
    let place = Place::new();
    place.git(&place.repo, &["checkout", "--quiet", "-b", "side"]);
    place.git(&place.repo, &["commit", "--quiet", "--allow-empty", "-m", "mine"]);
    place.ended_pane("dev", "worktree");
    place.git(&place.repo, &["checkout", "--quiet", "main"]);
    place.git(&place.repo, &["branch", "--quiet", "-D", "side"]);

    place.assert_refused("dev", "1 commit only on");
}

/// The tree that is removed is examined, not the one on record.
#[test]
fn work_is_found_without_record_and_in_renamed_workspace() {
    let place = Place::new();
    let renamed = workspace(&place.ended_pane("renamed", "worktree"));
    put(&renamed.join("new"), "one\n");
    fs::rename(&renamed, renamed.with_file_name("other")).unwrap();
    let unrecorded = workspace(&place.ended_pane("unrecorded", "worktree"));
    put(&unrecorded.join("new"), "one\n");
    fs::remove_file(pane_dir(&place, &unrecorded).join("workspace.json")).unwrap();

    place.assert_refused("renamed", "not committed: new");
    place.assert_refused("unrecorded", "not committed: new");
}

/// Files in the directories of a session are work when the session is removed.
#[test]
fn files_in_logs_and_unit_of_session_block_purge() {
    let place = Place::new();
    let words = ["new", "-d", "-n", "dev", "--session", "team", "--template", "default"];
    place.ccmux(&words.into_iter().chain(["--", "sleep", "1000"]).collect::<Vec<_>>()).ok();
    let session = fs::read_dir(place.home.state_root().join("sessions")).unwrap().flatten();
    let session = session.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap();
    put(&session.join("logs/result"), "42\n");

    let refused = place.ccmux(&["purge", "team", "--yes"]).fails_with(4);

    assert!(refused.contains("logs/ of the session: result"), "{refused}");
    assert!(!refused.contains("unit/"), "{refused}");
    fs::remove_file(session.join("logs/result")).unwrap();
    place.ccmux(&["purge", "team", "--yes", "--grace", "0"]).ok();
    let trash = fs::read_dir(place.home.state_root().join("trash")).unwrap().flatten();
    let kept = trash.filter(|entry| !entry.file_name().to_string_lossy().starts_with("0-"));
    assert!(kept.count() >= 2, "a purged session stays in the trash");
}

/// Returns the places in which a workspace can be: its own, and those in the trash.
fn places(place: &Place, tree: &Path, pane: &str) -> Vec<PathBuf> {
    let trash = fs::read_dir(place.home.state_root().join("trash")).unwrap().flatten();
    let of_pane =
        trash.map(|entry| entry.path()).filter(|path| path.to_str().unwrap().contains(pane));
    of_pane.flat_map(|path| [path.join("repo"), path]).chain([tree.to_owned()]).collect()
}

/// Waits until no daemon holds the lock of a state root.
fn wait_for_exit(root: &Path) {
    wait_until("the daemon has exited", LONG, || {
        let lock = fs::File::options().write(true).open(root.join("run/daemon.lock"));
        lock.is_ok_and(|lock| lock.try_lock().is_ok())
    });
}

/// Random work, random operations and running writers: all work that was not discarded with its exact
/// token is in its place or in the trash afterwards. `CCMUX_SOAK_WORK` sets the number of cases.
#[test]
fn heavy_random_work_survives_random_operations() {
    let mut generator = Generator::new();
    for case in 0..repetitions("CCMUX_SOAK_WORK", 100) {
        generator.run_case(case);
    }
    println!("{}", generator.summary());
}

/// A write after the examination keeps a directory from being deleted by `purge --now`.
#[test]
fn purge_now_keeps_directories_written_to_after_the_examination() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    let place = Place::of(home);
    let pane = place.ended_pane("dev", "worktree");
    let (tree, id) = (workspace(&pane), pane["id"].as_str().unwrap());
    let session = pane_dir(&place, &tree).ancestors().nth(2).unwrap().to_owned();
    let home_dir = place.home.state_root().join(format!("claude-homes/pane-{id}"));
    let late = [home_dir.join("late-1"), session.join("logs/late-2"), tree.join("late-3")];
    hooks.pause("purge.examined");

    let name = session.file_name().unwrap().to_str().unwrap();
    let purge = place.ccmux(&["purge", name, "--yes", "--now"]).spawn();
    hooks.wait_reached("purge.examined", 1);
    late.iter().for_each(|path| put(path, "late"));
    hooks.release("purge.examined");
    assert!(purge.wait_with_output().unwrap().status.success());

    let trash = place.home.state_root().join("trash");
    wait_until("what is due in the trash is deleted", LONG, || {
        fs::read_dir(&trash).unwrap().flatten().all(|entry| !is_due(&entry.path()))
    });
    for path in late {
        let kept = find_files(&trash, &[path.file_name().unwrap().to_owned()].into());
        assert_eq!(kept.len(), 1, "{}: {kept:?}", path.display());
    }
    let events = place.ccmux(&["events", "--json"]).run().stdout;
    assert!(events.contains("late-1") && events.contains("late-2"), "{events}");
}

/// Files written while a pane is closed are kept: in their place, or in the trash.
#[test]
fn files_written_while_a_pane_is_closed_are_kept() {
    let place = Place::new();
    for case in 0..10 {
        let name = format!("p{case}");
        let pane = place.ended_pane(&name, "worktree");
        let (tree, id) = (workspace(&pane), pane["id"].as_str().unwrap());
        let stop = AtomicBool::new(false);

        let written = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = Vec::new();
                for number in 0..100_000 {
                    let file = format!("file-{number}");
                    if stop.load(Ordering::Relaxed) || fs::write(tree.join(&file), "x").is_err() {
                        break;
                    }
                    written.push(file);
                    // A clean workspace is closed only if nothing was written before.
                    if case % 2 == 0 {
                        thread::yield_now();
                    } else {
                        break;
                    }
                }
                written
            });
            place.ccmux(&["close", &name]).run();
            stop.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });

        let kept = places(&place, &tree, id);
        for file in written {
            assert!(kept.iter().any(|place| place.join(&file).is_file()), "case {case}: {file}");
        }
    }
}
