//! B8: whatever is removed is examined first, and nothing is lost that was not discarded.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test writes its files in place")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testkit::soak::{Dice, repetitions};
use testkit::{Home, Invocation, put, wait_until};

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

/// Returns the contents of all files in a tree that can be read, by path.
fn contents(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else {
                found.insert(entry.path(), fs::read(entry.path()).unwrap_or_default());
            }
        }
    }
    found
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

/// What happens to a pane with work in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Close,
    Purge,
    PurgeNow,
    Gc,
    CloseAfterMove,
}

impl Operation {
    fn random(dice: &mut Dice) -> Self {
        let all = [Self::Close, Self::Purge, Self::PurgeNow, Self::Gc, Self::CloseAfterMove];
        all[usize::try_from(dice.roll(5)).unwrap()]
    }

    /// Returns whether the operation succeeded, and its messages.
    fn run(self, place: &Place, pane: &str, session: &str) -> (bool, String) {
        let root = place.home.state_root().to_owned();
        let moved = root.with_extension("moved");
        let words: &[&str] = match self {
            Self::Close => &["close", pane],
            Self::Purge => &["purge", session, "--yes"],
            Self::PurgeNow => &["purge", session, "--yes", "--now"],
            Self::Gc => &["gc"],
            Self::CloseAfterMove => &["--home", moved.to_str().unwrap(), "close", pane],
        };
        if self == Self::CloseAfterMove {
            place.ccmux(&["daemon", "stop"]).ok();
            wait_for_exit(&root);
            fs::rename(&root, &moved).unwrap();
        }
        let said = place.ccmux(words).run();
        if self == Self::CloseAfterMove {
            place.ccmux(&["--home", moved.to_str().unwrap(), "daemon", "stop"]).ok();
            wait_for_exit(&moved);
            fs::rename(&moved, &root).unwrap();
        }
        (said.status.success(), said.stderr)
    }
}

/// Random work and random operations: work that was not discarded stays as it was, in its place, and
/// work that was discarded is in the trash. `CCMUX_SOAK_WORK` sets the number of cases.
#[test]
fn heavy_random_work_survives_random_operations() {
    let cases = repetitions("CCMUX_SOAK_WORK", 100);
    let place = Place::new();
    let mut dice = Dice::default();
    for case in 0..cases {
        let name = format!("p{case}");
        let kind = ["worktree", "clone"][usize::try_from(dice.roll(2)).unwrap()];
        let pane = place.ended_pane(&name, kind);
        let (tree, id) = (workspace(&pane), pane["id"].as_str().unwrap());
        let mut classes = BTreeSet::new();
        for _ in 0..dice.roll(4) {
            classes.insert(usize::try_from(dice.roll(CLASSES.len() as u64)).unwrap());
        }
        for at in &classes {
            (CLASSES[*at].1)(&place, &tree, &format!("case {case} class {at}\n"));
        }
        let session = tree.ancestors().nth(2).unwrap().file_name().unwrap().to_str().unwrap();
        let before = contents(&tree);
        let operation = Operation::random(&mut dice);

        let (succeeded, said) = operation.run(&place, &name, session);

        let context = format!("case {case}, {kind}: {operation:?} with {classes:?}: {said}");
        if classes.is_empty() && operation != Operation::Gc {
            assert!(succeeded, "{context}");
            continue;
        }
        assert_eq!(succeeded, operation == Operation::Gc, "{context}");
        assert!(contents(&tree) == before, "{context}");
        if classes.is_empty() {
            continue;
        }
        let token = place.assert_refused(&name, "");
        place.ccmux(&["close", &name, "--discard", &token]).ok();
        assert!(!tree.exists(), "{context}");
        let kept = places(&place, &tree, id);
        for (path, content) in before {
            let file = path.strip_prefix(&tree).unwrap();
            let is_kept =
                |place: &PathBuf| fs::read(place.join(file)).is_ok_and(|now| now == content);
            assert!(
                content.is_empty() || kept.iter().any(is_kept),
                "{}: {context}",
                path.display()
            );
        }
    }
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
