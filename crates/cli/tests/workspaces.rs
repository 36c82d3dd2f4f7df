//! R16, R18, B8: panes work in their own worktrees, and work in them is never lost.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use model::Size;
use serde_json::Value;
use testkit::soak::repetitions;
use testkit::{FullDisk, Home, Invocation, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for anything that is waited for; generous for a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// A home with a git repository.
struct Project {
    home: Home,
    repo: PathBuf,
}

impl Project {
    fn new() -> Self {
        Self::of(Home::new(CCMUX))
    }

    fn of(home: Home) -> Self {
        let repo = home.dir().join("repo");
        fs::create_dir_all(repo.join("src/deep")).unwrap();
        put(&repo.join("README"), "read me\n");
        put(&repo.join("src/deep/code"), "code\n");
        put(&repo.join(".gitignore"), ".env\n*.log\ntarget/\n");
        let project = Self { home, repo };
        project.git(&["init", "--quiet", "--initial-branch=main"]);
        project.git(&["add", "."]);
        project.git(&["commit", "--quiet", "-m", "first"]);
        project
    }

    /// Runs git in the repository with an identity.
    fn git(&self, words: &[&str]) -> String {
        self.git_in(&self.repo, words)
    }

    fn git_in(&self, dir: &Path, words: &[&str]) -> String {
        let who = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
        let words: Vec<&str> = who.into_iter().chain(words.iter().copied()).collect();
        self.home.program("git", &words).dir(dir).timeout(LONG).ok()
    }

    fn ccmux(&self, words: &[&str]) -> Invocation {
        self.home.ccmux(words).dir(&self.repo).timeout(LONG)
    }

    /// Creates a sleeping pane with these options, in a worktree unless they choose otherwise.
    fn new_pane(&self, name: &str, options: &[&str]) -> Value {
        let begin = ["new", "-d", "--json", "-n", name];
        let chooses = ["--workspace", "--mode"].iter().any(|option| options.contains(option));
        let kind: &[&str] = if chooses { &[] } else { &["--workspace", "worktree"] };
        let words = [&begin, kind, options, &["--", "sleep", "1000"]].concat();
        self.ccmux(&words).json()["pane"].take()
    }

    fn branches(&self) -> Vec<String> {
        let said = self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        said.lines().map(str::to_owned).collect()
    }

    /// Returns the number of linked worktrees.
    fn entries(&self) -> usize {
        fs::read_dir(self.repo.join(".git/worktrees")).map_or(0, Iterator::count)
    }

    /// Asserts that nothing of a pane is in the repository.
    #[track_caller]
    fn assert_untouched(&self) {
        assert_eq!(self.branches(), ["main"]);
        assert_eq!(self.entries(), 0);
        assert_eq!(self.git(&["status", "--porcelain"]), "");
    }

    /// Closes a pane with unsaved work, and returns the token for that work.
    #[track_caller]
    fn assert_close_refused(&self, pane: &str, named: &str) -> String {
        let refused = self.ccmux(&["close", "--json", pane]).fails_with(4);
        let refused: Value = serde_json::from_str(&refused).unwrap();
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(named), "{message}");
        let token = refused["error"]["details"]["panes"][0]["discard"].as_str().unwrap();
        assert!(refused["error"]["hint"].as_str().unwrap().contains(token), "{refused}");
        token.to_owned()
    }
}

fn path(pane: &Value, field: &str) -> PathBuf {
    PathBuf::from(pane[field].as_str().unwrap_or_else(|| panic!("no {field} in {pane}")))
}

/// R16: in a repository a pane gets a worktree on its own branch, in the same subdirectory.
#[test]
fn pane_in_repository_gets_its_own_worktree_and_branch() {
    let project = Project::new();
    let words = ["new", "-d", "--json", "-n", "dev.lock", "--session", "a..b"];
    let words = words.into_iter().chain(["--workspace", "worktree"]);
    let deep = project.repo.join("src/deep");
    let words: Vec<&str> = words.chain(["--", "sh", "-c", "pwd; exec sleep 1000"]).collect();

    let first = project.ccmux(&words).dir(&deep).json()["pane"].take();
    let second = project.new_pane("two", &["--session", "a..b"]);

    assert_eq!(first["workspace_kind"], "worktree");
    assert_eq!(first["branch"], "ccmux/a.-b/dev-lock");
    let (tree, cwd) = (path(&first, "workspace"), path(&first, "cwd"));
    assert_eq!(cwd, tree.join("src/deep"));
    let pid = first["pid"].as_u64().unwrap();
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), cwd);
    let environ = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let working_dir = format!("WORKING_DIR={}", cwd.display());
    assert!(environ.split('\0').any(|variable| variable == working_dir), "{environ}");
    assert!(environ.contains("CCMUX_SHARED="), "{environ}");
    assert_eq!(fs::read_to_string(cwd.join("code")).unwrap(), "code\n");
    let head = project.git_in(&tree, &["symbolic-ref", "--short", "HEAD"]);
    assert_eq!(head.trim(), "ccmux/a.-b/dev-lock");
    // Changes in one worktree are not visible in the other, nor in the user's.
    put(&cwd.join("code"), "changed\n");
    for other in [&project.repo, &path(&second, "workspace")] {
        assert_eq!(fs::read_to_string(other.join("src/deep/code")).unwrap(), "code\n");
    }
    project.git_in(&tree, &["checkout", "--quiet", "--", "."]);

    project.ccmux(&["close", "dev.lock", "two"]).ok();

    project.assert_untouched();
}

/// R16, B22: the path of a tree is readable, private, and reachable from the pane's directory.
#[test]
fn workspace_path_names_session_pane_and_project() {
    let project = Project::new();
    let work = project.home.state_root().join("work");

    for kind in ["worktree", "clone", "copy", "empty"] {
        let pane = project.new_pane(kind, &["--session", "web", "--workspace", kind]);

        let tree = work.join("web").join(kind).join("repo");
        for field in ["workspace", "cwd"] {
            assert_eq!(pane[field], tree.to_str().unwrap());
        }
        assert_eq!(fs::canonicalize(path(&pane, "dir").join("workspace")).unwrap(), tree);
        for dir in tree.ancestors().take(4) {
            let mode = fs::metadata(dir).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o700, "{}", dir.display());
        }
        let environ = fs::read_to_string(format!("/proc/{}/environ", pane["pid"])).unwrap();
        let id = &pane["id"].as_str().unwrap()[..8];
        let compose = format!("COMPOSE_PROJECT_NAME=web-{kind}-{id}");
        assert!(environ.split('\0').any(|variable| variable == compose), "{environ}");
        project.ccmux(&["close", kind]).ok();
        assert!(!work.join("web").exists(), "{kind}: empty directories are left");
    }
    project.assert_untouched();
}

/// A directory that exists is never used, and a pane keeps its path when it is renamed.
#[test]
fn taken_work_directory_gets_a_suffix_and_renamed_pane_keeps_its_path() {
    let project = Project::new();
    let web = project.home.state_root().join("work/web");
    put(&web.join("dev1/notes"), "of the user\n");

    let pane = project.new_pane("dev1", &["--session", "web"]);
    let tree = path(&pane, "workspace");
    assert_eq!(tree, web.join("dev1-2/repo"));
    project.ccmux(&["rename", "dev1", "qa"]).ok();
    project.ccmux(&["rename", "web", "site"]).ok();
    let again = project.new_pane("dev1", &["--session", "web"]);
    project.ccmux(&["stop", "qa"]).ok();
    project.ccmux(&["restore", "qa"]).ok();

    assert_eq!(path(&again, "workspace"), web.join("dev1-3/repo"));
    assert_eq!(path(&project.home.show("qa"), "cwd"), tree);
    let unknown = project.ccmux(&["gc", "--dry-run", "--json"]).json();
    let items = unknown["items"].as_array().unwrap();
    let item = items.iter().find(|item| {
        item["path"] == "work/web/dev1" || item["path"] == web.join("dev1").to_str().unwrap()
    });
    assert_eq!(item.unwrap()["action"], "keep", "{unknown}");
    project.ccmux(&["close", "qa", "dev1"]).ok();
    assert_eq!(fs::read_to_string(web.join("dev1/notes")).unwrap(), "of the user\n");
    assert_eq!(fs::read_dir(&web).unwrap().count(), 1);
    project.assert_untouched();
}

/// B8: work beside the tree is work, and a daemon that was killed while the tree was moved aside
/// leaves it to the next one, which puts it back.
#[test]
fn tree_that_was_moved_aside_by_a_killed_daemon_is_put_back() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    let project = Project::of(home);
    let tree = path(&project.new_pane("dev", &["--session", "web"]), "workspace");
    project.ccmux(&["stop", "dev"]).ok();
    hooks.pause("removal.aside");
    let asked = project.ccmux(&["close", "dev"]);
    let asker = thread::spawn(move || asked.run());
    hooks.wait_reached("removal.aside", 1);
    assert!(!tree.parent().unwrap().exists(), "the tree was not moved aside");

    project.home.kill_daemon();
    hooks.release("removal.aside");
    asker.join().unwrap();
    project.home.start_daemon();

    assert_eq!(project.home.show("dev")["state"], "exited");
    assert_eq!(fs::read_to_string(tree.join("README")).unwrap(), "read me\n");
    put(&tree.with_file_name("notes"), "beside\n");
    let token = project.assert_close_refused("dev", "beside the workspace: notes");
    project.ccmux(&["close", "dev", "--discard", &token]).ok();
    assert!(!project.home.state_root().join("work/web").exists());
    project.assert_untouched();
}

/// R16: a clone, a copy, an empty directory, the directory itself.
#[test]
fn every_workspace_kind_works() {
    let project = Project::new();
    let plain = project.home.dir().join("plain");
    fs::create_dir_all(plain.join("inner")).unwrap();
    put(&plain.join("inner/run"), "#!/bin/sh\n");
    fs::set_permissions(plain.join("inner/run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("inner/run", plain.join("link")).unwrap();
    let there = ["--workspace", "copy", "--cwd", plain.to_str().unwrap()];

    let clone = project.new_pane("clone", &["--workspace", "clone"]);
    let copy = project.new_pane("copy", &there);
    let empty = project.new_pane("empty", &["--workspace", "empty"]);
    let shared = project.new_pane("shared", &["--workspace", "shared"]);
    let legacy = project.new_pane("legacy", &["--mode", "legacy"]);

    let tree = path(&clone, "workspace");
    assert!(tree.join(".git").is_dir());
    let origin = project.git_in(&tree, &["remote", "get-url", "origin"]);
    assert_eq!(Path::new(origin.trim()), project.repo);
    let head = project.git_in(&tree, &["symbolic-ref", "--short", "HEAD"]);
    assert_eq!(head.trim(), clone["branch"].as_str().unwrap());
    assert_eq!(fs::read_to_string(tree.join("README")).unwrap(), "read me\n");
    assert_eq!(copy["workspace_kind"], "copy");
    let tree = path(&copy, "workspace");
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(tree.join("inner/run")), 0o755);
    assert_eq!(fs::read_link(tree.join("link")).unwrap(), Path::new("inner/run"));
    assert_eq!(fs::read_dir(path(&empty, "workspace")).unwrap().count(), 0);
    for pane in [&shared, &legacy] {
        assert_eq!(pane["workspace_kind"], "shared");
        assert_eq!(path(pane, "cwd"), project.repo);
    }
    project.ccmux(&["close", "clone", "copy", "empty", "shared", "legacy"]).ok();
    project.assert_untouched();
}

/// R16, B22: the default refuses no directory, and a command runs where the user is.
#[test]
fn command_without_workspace_option_runs_in_the_directory_itself() {
    let project = Project::new();
    let home = project.home.dir().join("home");
    let above = project.home.dir().to_owned();
    let large = project.home.work();
    fs::File::create(large.join("sparse")).unwrap().set_len(3 << 30).unwrap();

    for dir in [home.as_path(), Path::new("/"), &above, &large, &project.repo] {
        let new = project.home.ccmux(&["new", "-d", "--json", "--", "sleep", "1000"]).dir(dir);
        let pane = new.json()["pane"].take();
        assert_eq!(pane["workspace_kind"], "shared", "{pane}");
        assert_eq!(path(&pane, "cwd"), dir);
    }
    let quiet = project.ccmux(&["new", "-d", "--", "sleep", "1000"]).run();
    assert_eq!(quiet.stderr, "");
    project.assert_untouched();
}

/// R16, B22: an agent gets a worktree where git can make one, and else shares the directory; one
/// line says which.
#[test]
fn agent_without_workspace_option_gets_worktree_or_shares_and_a_line_says_so() {
    let mut home = Home::new(CCMUX);
    home.install_fake_agent("claude");
    let project = Project::of(home);
    let fresh = project.home.dir().join("fresh");
    fs::create_dir(&fresh).unwrap();
    project.git_in(&fresh, &["init", "--quiet"]);
    put(&project.repo.join("README"), "changed\n");
    put(&project.repo.join("new"), "new\n");
    let start = |name: &str, dir: &Path| {
        let words = ["new", "-d", "-n", name, "--session", "web", "--", "claude", "--stay"];
        let started = project.home.ccmux(&words).dir(dir).timeout(LONG).run();
        assert!(started.status.success(), "{started:?}");
        (project.home.show(name), started.stderr)
    };

    let (pane, said) = start("dev1", &project.repo);

    assert_eq!(
        (&pane["workspace_kind"], &pane["branch"]),
        (&"worktree".into(), &"ccmux/web/dev1".into())
    );
    let line = "dev1 works on branch ccmux/web/dev1 in ~/.ccmux/work/web/dev1/repo; \
                your files are untouched\n";
    assert!(said.contains(line), "{said}");
    let stay = format!("2 uncommitted files stay in {}", project.repo.display());
    assert!(said.contains(&stay), "{said}");
    let home = project.home.dir().join("home");
    let work = project.home.work();
    for (number, dir) in [&home, Path::new("/"), &work, &fresh].into_iter().enumerate() {
        let (pane, said) = start(&format!("plain{number}"), dir);
        assert_eq!(pane["workspace_kind"], "shared", "{pane}");
        assert_eq!(path(&pane, "cwd"), dir);
        assert!(said.contains(&format!("plain{number} works directly in ")), "{said}");
    }
}

/// B22: the uncommitted changes of the user come along on request, and the user's own tree and index
/// stay as they are, byte for byte.
#[test]
fn carry_copies_uncommitted_changes_and_leaves_the_users_tree_alone() {
    let project = Project::new();
    for name in ["deleted", "staged-deleted", "both", "renamed", "becomes-dir"] {
        put(&project.repo.join(name), format!("{name}\n"));
    }
    put(&project.repo.join("becomes-file/inner"), "inner\n");
    project.git(&["add", "."]);
    project.git(&["commit", "--quiet", "-m", "second"]);
    let repo = &project.repo;
    put(&repo.join("README"), "unstaged\n");
    put(&repo.join("both"), "staged\n");
    put(&repo.join("sub/staged new"), "staged\n");
    project.git(&["add", "both", "sub"]);
    put(&repo.join("both"), "staged and changed\n");
    fs::remove_file(repo.join("deleted")).unwrap();
    project.git(&["rm", "--quiet", "staged-deleted"]);
    project.git(&["mv", "renamed", "other-name"]);
    fs::remove_file(repo.join("becomes-dir")).unwrap();
    put(&repo.join("becomes-dir/file"), "untracked\n");
    fs::remove_dir_all(repo.join("becomes-file")).unwrap();
    put(&repo.join("becomes-file"), "untracked\n");
    put(&repo.join("run"), "#!/bin/sh\n");
    fs::set_permissions(repo.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("README", repo.join("link")).unwrap();
    put(&repo.join("binary"), [0, 255, 13, 10]);
    put(&repo.join("ignored.log"), "log\n");
    let status = project.git(&["status", "--porcelain"]);
    let users = testkit::tree(repo);

    for kind in ["worktree", "clone"] {
        let pane = project.new_pane(kind, &["--carry", "--workspace", kind]);

        let tree = path(&pane, "workspace");
        assert_eq!(project.git_in(&tree, &["status", "--porcelain"]), status, "{kind}");
        for name in ["README", "both", "sub/staged new", "becomes-dir/file", "binary", "run"] {
            let contents = |dir: &Path| fs::read(dir.join(name)).unwrap();
            assert_eq!(contents(&tree), contents(repo), "{kind}: {name}");
        }
        let staged = ["show", ":both"];
        assert_eq!(project.git_in(&tree, &staged), "staged\n", "{kind}");
        assert_eq!(fs::read_link(tree.join("link")).unwrap(), Path::new("README"));
        let mode = fs::metadata(tree.join("run")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o755, "{kind}");
        assert!(!tree.join("ignored.log").exists() && !tree.join("deleted").exists(), "{kind}");
        project.assert_close_refused(kind, "not committed: ");
    }
    // `git worktree` and the pane's branch are the only changes.
    let is_own = |path: &Path| !path.starts_with(".git") || path == Path::new(".git/index");
    let mut now = testkit::tree(repo);
    let mut before = users;
    now.retain(|path, _| is_own(path));
    before.retain(|path, _| is_own(path));
    assert_eq!(now, before);
}

/// B22: a merge in progress cannot be carried; nothing is created.
#[test]
fn carry_is_refused_during_a_merge() {
    let project = Project::new();
    project.git(&["checkout", "--quiet", "-b", "side"]);
    put(&project.repo.join("README"), "side\n");
    project.git(&["commit", "--quiet", "-am", "side"]);
    project.git(&["checkout", "--quiet", "main"]);
    put(&project.repo.join("README"), "main\n");
    project.git(&["commit", "--quiet", "-am", "main"]);
    let merge = ["-c", "user.name=me", "-c", "user.email=a@b", "merge", "side"];
    project.home.program("git", &merge).dir(&project.repo).run();

    let words = ["new", "-d", "--carry", "--workspace", "worktree", "--", "sleep", "1000"];
    let refused = project.ccmux(&words).fails_with(4);

    assert!(refused.contains("a merge is unfinished"), "{refused}");
    assert_eq!(project.branches(), ["main", "side"]);
    assert_eq!(project.entries(), 0);
}

/// B22: what a worktree lacks is said once, and not asked.
#[test]
fn ignored_dependencies_that_a_worktree_lacks_are_named_in_one_line() {
    let project = Project::new();
    put(&project.repo.join(".gitignore"), ".env\nnode_modules/\n*.log\n");
    put(&project.repo.join("vendor/lib"), "tracked\n");
    project.git(&["add", "."]);
    project.git(&["commit", "--quiet", "-m", "dependencies"]);
    put(&project.repo.join(".env"), "KEY=1\n");
    put(&project.repo.join("node_modules/lib/index.js"), "x\n");
    put(&project.repo.join("README"), "changed\n");
    let new = |name: &str, options: &[&str]| {
        let begin = ["new", "-d", "-n", name, "--workspace", "worktree"];
        let words = [&begin, options, &["--", "sleep", "1000"]].concat();
        project.ccmux(&words).run().stderr
    };

    let said = new("one", &[]);
    assert!(said.contains("git ignores it: .env, node_modules; "), "{said}");
    let stays = format!("1 uncommitted file stays in {}; --carry", project.repo.display());
    assert!(said.contains(&stays), "{said}");
    put(&project.repo.join(".worktreeinclude"), ".env\nnode_modules/\n");
    let said = new("two", &["--carry"]);
    assert!(!said.contains("git ignores it") && !said.contains("uncommitted"), "{said}");
}

/// B22: after a pane has ended, `stop` and `show` say where its changes are and what to do next.
#[test]
fn changes_of_an_ended_pane_are_counted_and_located() {
    let project = Project::new();
    for kind in ["worktree", "clone"] {
        let pane = project.new_pane(kind, &["--session", "web", "--workspace", kind]);
        let tree = path(&pane, "workspace");
        assert_eq!(project.ccmux(&["show", kind, "--json"]).json()["changes"], Value::Null);
        put(&tree.join("README"), "one\ntwo\n");
        project.git_in(&tree, &["commit", "--quiet", "-am", "work"]);
        put(&tree.join("new"), "three\n");

        let said = project.ccmux(&["stop", kind, "--grace", "0"]).run().stderr;

        let place = format!("~/.ccmux/work/web/{kind}/repo");
        let first =
            format!("{kind} changed 2 files (+3 -1) on branch ccmux/web/{kind} in {place}\n");
        assert!(said.contains(&first), "{said}");
        let repo = project.repo.display();
        let merge = match kind {
            "worktree" => format!("`git -C {repo} merge ccmux/web/worktree`"),
            _ => format!("`git -C {repo} pull {place} ccmux/web/clone`"),
        };
        let next = format!("next: commit 1 file there, then {merge}, `ccmux close {kind}`\n");
        assert!(said.contains(&next), "{said}");
        let shown = project.ccmux(&["show", kind, "--json"]).json();
        assert_eq!(shown["changes"]["files"], 2, "{shown}");
        assert!(project.ccmux(&["show", kind]).ok().contains("2 files (+3 -1)"));
    }
    project.new_pane("idle", &[]);
    let said = project.ccmux(&["stop", "idle", "--grace", "0"]).run().stderr;
    assert!(said.contains("idle changed no files; remove it with `ccmux close idle`"), "{said}");
}

/// A kind that was requested and that the directory does not allow is refused with the choices.
#[test]
fn requested_workspace_that_is_impossible_is_refused_with_choices() {
    let project = Project::new();
    let above = project.home.dir().to_owned();
    let large = project.home.work();
    fs::File::create(large.join("sparse")).unwrap().set_len(3 << 30).unwrap();

    for (kind, dir) in [("copy", &above), ("copy", &large), ("worktree", &large)] {
        let new = project.home.ccmux(&["new", "-d", "--workspace", kind]).dir(dir);
        let refused = new.fails_with(4);
        for choice in ["--workspace", "shared", "empty", "--cwd"] {
            assert!(refused.contains(choice), "{}: {refused}", dir.display());
        }
    }

    let listed = project.ccmux(&["ls", "--json"]).json();
    assert_eq!(testkit::home::pane_ids(&listed).len(), 0, "{listed}");
}

/// `ccmux` without arguments does not ask.
#[test]
fn ccmux_without_arguments_in_home_starts_a_shell_there() {
    let home = Home::new(CCMUX);
    let own = home.dir().join("home");
    let none: [&str; 0] = [];

    let screen = home.ccmux(&none).dir(&own).screen(Size::DEFAULT).timeout(LONG);

    wait_until("a pane exists", LONG, || {
        let listed = home.ccmux(&["ls", "--json"]).json();
        let pane = &listed["sessions"][0]["panes"][0];
        pane["workspace_kind"] == "shared" && pane["cwd"] == own.to_str().unwrap()
    });
    drop(screen);
}

/// R16: listed ignored files are copied, but nothing from outside of the repository.
#[test]
fn listed_ignored_files_are_copied_into_worktree() {
    let project = Project::new();
    let outside = project.home.dir().join("outside");
    put(&outside, "not to be copied\n");
    put(&project.repo.join(".env"), "KEY=1\n");
    put(&project.repo.join("src/a.log"), "log\n");
    put(&project.repo.join("other.log"), "log\n");
    put(&project.repo.join("draft"), "not ignored\n");
    symlink(&outside, project.repo.join("leak.log")).unwrap();
    put(&project.repo.join(".worktreeinclude"), ".env\nsrc/*.log\nleak.log\ndraft\n../outside\n");

    for kind in ["worktree", "clone"] {
        let pane = project.new_pane(kind, &["--workspace", kind]);
        let tree = path(&pane, "workspace");
        assert_eq!(fs::read_to_string(tree.join(".env")).unwrap(), "KEY=1\n", "{kind}");
        assert!(tree.join("src/a.log").is_file(), "{kind}");
        for absent in ["other.log", "leak.log", "draft"] {
            assert!(tree.join(absent).symlink_metadata().is_err(), "{kind}: {absent}");
        }
        project.ccmux(&["stop", kind]).ok();
        put(&tree.join(".env"), "KEY=changed\n");
        let token = project.assert_close_refused(kind, ".env");
        project.ccmux(&["close", kind, "--discard", &token]).ok();
    }
    assert_eq!(fs::read_to_string(project.repo.join(".env")).unwrap(), "KEY=1\n");
}

/// B8: unsaved work is named, kept, and discarded only with its token.
#[test]
fn unsaved_work_blocks_close_until_its_token_is_given() {
    let project = Project::new();
    let pane = project.new_pane("dev", &["--session", "team"]);
    let tree = path(&pane, "workspace");
    project.ccmux(&["stop", "dev"]).ok();

    put(&tree.join("new file"), "one\n");
    let untracked = project.assert_close_refused("dev", "new file");
    assert_eq!(project.home.show("dev")["state"], "exited", "the pane is still listed");
    assert!(tree.join("new file").is_file());
    put(&tree.join("new file"), "another\n");
    project.ccmux(&["close", "dev", "--discard", &untracked]).fails_with(4);
    project.git_in(&tree, &["add", "."]);
    project.assert_close_refused("dev", "new file");
    project.git_in(&tree, &["stash", "--quiet"]);
    let stashed = project.assert_close_refused("dev", "stashed");
    project.git_in(&tree, &["stash", "pop", "--quiet"]);
    project.git_in(&tree, &["commit", "--quiet", "-m", "work"]);
    project.assert_close_refused("dev", "1 commit only on ccmux/team/dev");
    project.ccmux(&["close", "dev", "--discard", &stashed]).fails_with(4);
    let purge = project.ccmux(&["purge", "team", "--yes"]).fails_with(4);
    assert!(purge.contains("1 commit") && purge.contains("--discard"), "{purge}");
    assert!(project.branches().contains(&"ccmux/team/dev".to_owned()));
    assert_eq!(project.git(&["log", "-1", "--format=%s", "ccmux/team/dev"]).trim(), "work");

    // After a merge elsewhere the branch has nothing to lose.
    project.git(&["merge", "--quiet", "--ff-only", "ccmux/team/dev"]);
    project.ccmux(&["close", "dev"]).ok();
    assert_eq!((project.branches(), project.entries()), (vec!["main".to_owned()], 0));

    let pane = project.new_pane("gone", &["--session", "team"]);
    put(&path(&pane, "workspace").join("x"), "x");
    let token = project.assert_close_refused("gone", "not committed: x");
    project.ccmux(&["purge", "team", "--yes", "--discard", &token]).ok();
    assert_eq!((project.branches(), project.entries()), (vec!["main".to_owned()], 0));
}

/// B8: a clone keeps commits that exist nowhere else; copies and output likewise.
#[test]
fn unsaved_work_in_clones_copies_and_output_is_kept() {
    let project = Project::new();
    let clone = project.new_pane("clone", &["--workspace", "clone"]);
    let work = project.home.work();
    let copy = project.new_pane("copy", &["--workspace", "copy", "--cwd", work.to_str().unwrap()]);
    let output = project.new_pane("out", &[]);
    project.ccmux(&["stop", "clone", "copy", "out"]).ok();

    let tree = path(&clone, "workspace");
    project.git_in(&tree, &["commit", "--quiet", "--allow-empty", "-m", "work"]);
    project.assert_close_refused("clone", "1 commit");
    project.git_in(&tree, &["push", "--quiet", "origin", "HEAD"]);
    project.ccmux(&["close", "clone"]).ok();
    assert_eq!(project.branches().len(), 3, "the pushed branch is kept");

    put(&path(&copy, "workspace").join("result"), "42\n");
    let token = project.assert_close_refused("copy", "result");
    let gc = project.ccmux(&["gc", "--dry-run", "--json"]).json();
    let usage = gc["panes"].as_array().unwrap().iter().find(|pane| pane["name"] == "copy").unwrap();
    assert_eq!(usage["frees"], 0);
    assert!(usage["workspace"].as_u64().unwrap() >= 512, "{usage}");
    project.ccmux(&["close", "copy", "--discard", &token]).ok();

    put(&path(&output, "output").join("report"), "done\n");
    let token = project.assert_close_refused("out", "output/: report");
    project.ccmux(&["close", "out", "--discard", &token]).ok();
}

/// B8: a process that still uses a worktree is named.
#[test]
fn worktree_used_by_a_process_is_kept() {
    let project = Project::new();
    let pane = project.new_pane("dev", &[]);
    let tree = path(&pane, "workspace");
    let mut visitor = project.home.program("sleep", &["1000"]).dir(&tree).spawn();

    let refused = project.ccmux(&["close", "dev"]).fails_with(4);
    visitor.kill().unwrap();
    visitor.wait().unwrap();

    assert!(refused.contains(&format!("process {}", visitor.id())), "{refused}");
    assert!(tree.join("README").is_file());
    project.ccmux(&["close", "dev"]).ok();
    project.assert_untouched();
}

/// R24: a pane is restored in its worktree, or reports what is missing.
#[test]
fn restored_pane_uses_same_worktree() {
    let project = Project::new();
    let pane = project.new_pane("dev", &[]);
    let tree = path(&pane, "workspace");
    project.ccmux(&["stop", "dev"]).ok();
    // As left behind by a killed git.
    let git_dir = project.git_in(&tree, &["rev-parse", "--absolute-git-dir"]);
    let lock = Path::new(git_dir.trim()).join("index.lock");
    put(&lock, "");

    project.ccmux(&["restore", "dev"]).ok();

    let again = project.home.show("dev");
    assert_eq!(path(&again, "workspace"), tree);
    let pid = again["pid"].as_u64().unwrap();
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), tree);
    assert!(!lock.exists(), "the stale git lock was not removed");
    project.ccmux(&["stop", "dev"]).ok();
    fs::rename(&tree, tree.with_extension("away")).unwrap();
    let refused = project.ccmux(&["restore", "dev"]).fails_with(4);
    assert!(refused.contains("is missing") && refused.contains("trash"), "{refused}");
    assert!(!tree.exists(), "the worktree was recreated");
    fs::rename(tree.with_extension("away"), &tree).unwrap();
    project.ccmux(&["close", "dev"]).ok();
    project.assert_untouched();
}

/// A project's commands run only if the user trusted exactly these commands.
#[test]
fn trusted_project_commands_set_up_workspaces() {
    let project = Project::new();
    let file = project.repo.join(".ccmux.toml");
    let wishes = |script: &str| {
        let text = format!(
            "[workspace]\nsetup = [[\"sh\", \"-c\", \"{script}\"]]\n\
             teardown = [[\"sh\", \"-c\", \"echo $PANE_ID > ../torn\"]]\n"
        );
        put(&file, text.replace("../torn", project.home.dir().join("torn").to_str().unwrap()));
    };
    wishes("mkdir target; echo $PANE_ID > target/set-up.log");

    let new =
        ["new", "-d", "--json", "-n", "one", "--workspace", "worktree", "--", "sleep", "1000"];
    let untrusted = project.ccmux(&new).json();
    let warning = untrusted["warnings"][0].as_str().unwrap();
    assert!(warning.contains(".ccmux.toml") && warning.contains("ccmux trust"), "{warning}");
    assert!(!path(&untrusted["pane"], "workspace").join("target/set-up.log").exists());

    project.ccmux(&["trust"]).ok();
    let pane = project.new_pane("two", &[]);
    let made = path(&pane, "workspace").join("target/set-up.log");
    assert_eq!(fs::read_to_string(made).unwrap().trim(), pane["id"]);
    project.ccmux(&["close", "two"]).ok();
    let torn = fs::read_to_string(project.home.dir().join("torn")).unwrap();
    assert_eq!(torn.trim(), pane["id"]);

    wishes("echo it went wrong >&2; exit 9");
    let listed = project.ccmux(&["trust", "--list", "--json"]).json();
    assert_eq!(listed["files"][0]["trusted"], false, "{listed}");
    project.ccmux(&["trust"]).ok();
    let fails = ["new", "-d", "-n", "three", "--workspace", "worktree", "--", "sleep", "1000"];
    let failed = project.ccmux(&fails).fails_with(1);
    assert!(failed.contains("it went wrong") && failed.contains('9'), "{failed}");
    project.ccmux(&["show", "three"]).fails_with(3);
    project.ccmux(&["trust", "--revoke"]).ok();
    let listed = project.ccmux(&["trust", "--list", "--json"]).json();
    assert_eq!(listed["files"].as_array().unwrap().len(), 0, "{listed}");
    project.ccmux(&["close", "one"]).ok();
    assert_eq!((project.branches(), project.entries()), (vec!["main".to_owned()], 0));
}

/// R16: without git there is no branch, and the directory that is used instead is explained.
#[test]
fn agent_in_repository_without_git_shares_it_with_a_warning() {
    let project = Project::new();
    let bin = project.home.dir().join("bin");
    fs::create_dir(&bin).unwrap();
    for program in ["sh", "sleep"] {
        let found = ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(program));
        symlink(found.into_iter().find(|path| path.exists()).unwrap(), bin.join(program)).unwrap();
    }
    symlink(project.home.fake_agent(), bin.join("claude")).unwrap();
    let new = |name: &str, options: &[&str]| {
        let words = [&["new", "-d", "--json", "-n", name], options, &["--", "claude", "--stay"]];
        project.ccmux(&words.concat()).env("PATH", &bin)
    };

    let auto = new("auto", &[]).json();
    let wanted = new("wanted", &["--workspace", "copy"]).json();
    let refused = new("refused", &["--workspace", "worktree"]).fails_with(4);

    assert_eq!(auto["pane"]["workspace_kind"], "shared");
    let warning = auto["warnings"][0].as_str().unwrap();
    assert!(warning.contains("git is not on your PATH"), "{warning}");
    assert!(warning.contains("install git"), "{warning}");
    assert_eq!(wanted["warnings"], Value::Null, "{wanted}");
    assert!(refused.contains("git not found in PATH"), "{refused}");
}

/// R18: not even root can write to shared files, and files shared later appear at once. A daemon
/// started inside a pane can share, too.
#[test]
fn root_pane_cannot_write_shared_files() {
    testkit::require!(Root, Mount);
    let project = Project::new();
    let pane = project.new_pane("dev", &["--workspace", "shared"]);
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap();
    assert_ne!(namespace(&pane["pid"].to_string()), namespace("self"));
    let script = "while read line; do eval \"$line\"; done";
    let words = ["new", "-d", "-n", "sh", "--workspace", "shared", "--", "sh", "-c", script];
    project.ccmux(&words).ok();
    let run = |line: &str, shows: &str| {
        project.ccmux(&["send", "sh", line, "--enter"]).ok();
        project.ccmux(&["wait", "sh", "--for", &format!("text={shows}"), "--timeout", "120"]).ok();
    };

    run("touch $CCMUX_SHARED/project-files/x || echo re''fused", "refused");
    run("touch $OUTPUT_DIR/x && echo al''lowed", "allowed");
    project.ccmux(&["share", "README"]).ok();
    run("cat $CCMUX_SHARED/project-files/README", "read me");
    run("rm -f $CCMUX_SHARED/project-files/README || echo ke''pt", "kept");
    assert_eq!(project.ccmux(&["show", "sh", "--json"]).json()["pane"]["shared_note"], Value::Null);

    // The next daemon descends from the pane.
    project.home.kill_daemon();
    let home = project.home.state_root();
    let list = format!("{CCMUX} --home {} ls && echo do''ne", home.display());
    run(&list, "done");
    project.ccmux(&["share", "src"]).ok();
    run("ls $CCMUX_SHARED/project-files/src && echo vis''ible", "visible");
    run("touch $CCMUX_SHARED/project-files/src/x || echo st''ill", "still");
    let daemon = project.home.daemon().pid.to_string();
    assert_eq!(
        namespace(&daemon),
        namespace("self"),
        "the daemon is in the mount namespace of a pane"
    );
}

/// R18: every pane can read shared files.
#[test]
fn shared_files_are_readable_in_every_pane() {
    let project = Project::new();
    let shared = project.ccmux(&["share", "--json", "README"]).json();
    let place = PathBuf::from(shared["files"][0]["path"].as_str().unwrap());
    let script = "cat \"$CCMUX_SHARED/project-files/README\"; exec sleep 1000";

    project.ccmux(&["new", "-d", "-n", "dev", "--", "sh", "-c", script]).ok();

    project.ccmux(&["wait", "dev", "--for", "text=read me", "--timeout", "60"]).ok();
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o222, 0);
    project.ccmux(&["share", "--remove", "README"]).ok();
    assert!(!place.exists());
    project.ccmux(&["share", "--remove", "README"]).fails_with(3);
}

/// R14, R16: killed while a worktree is created or removed, the pane is complete or absent.
#[test]
fn daemon_kill_leaves_no_partial_worktree() {
    const MADE: [&str; 6] = [
        "workspace.locked",
        "workspace.planned",
        "workspace.listed",
        "workspace.made",
        "new.isolation_dirs",
        "new.started",
    ];
    const UNMADE: [&str; 5] = [
        "close.checked",
        "removal.aside",
        "workspace.shelved",
        "workspace.unlisted",
        "workspace.forgotten",
    ];
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    let project = Project::of(home);
    project.home.start_daemon();
    let works = MADE.map(|point| (point, true)).into_iter().chain(UNMADE.map(|p| (p, false)));
    for (point, makes) in works {
        if !makes {
            project.new_pane("dev", &[]);
        }
        let before = hooks.reached(point);
        hooks.pause(point);
        let words: &[&str] = if makes {
            &["new", "-d", "-n", "dev", "--workspace", "worktree", "--", "sleep", "1000"]
        } else {
            &["close", "dev"]
        };
        let asked = project.ccmux(words);
        let asker = thread::spawn(move || asked.run());
        hooks.wait_reached(point, before + 1);

        project.home.kill_daemon();
        hooks.release(point);
        asker.join().unwrap();

        project.home.start_daemon();
        let there = project.ccmux(&["show", "dev"]).run().status.success();
        if there {
            project.ccmux(&["close", "dev"]).ok();
        }
        wait_until(&format!("nothing is left after {point}"), LONG, || {
            project.branches() == ["main"] && project.entries() == 0
        });
        let locks = project.git(&["status", "--porcelain"]);
        assert_eq!(locks, "", "{point}");
        assert!(!project.repo.join(".git/index.lock").exists(), "{point}");
    }
}

/// R16: a git that outlives its daemon is awaited, and its result removed.
#[test]
fn git_outliving_its_daemon_leaves_no_worktree() {
    let mut home = Home::new(CCMUX);
    let (bin, marks) = (home.dir().join("bin"), home.dir().join("marks"));
    fs::create_dir(&marks).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' worktree add '*)\n: > {0}/waits\n\
         while [ ! -e {0}/go ]; do sleep 0.02; done;; esac\nPATH=${{PATH#*:}} exec git \"$@\"\n",
        marks.display()
    );
    put(&bin.join("git"), &script);
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let search = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    home.set_env("PATH", search);
    let project = Project::of(home);
    project.home.start_daemon();

    let asked = project.ccmux(&[
        "new",
        "-d",
        "-n",
        "dev",
        "--workspace",
        "worktree",
        "--",
        "sleep",
        "1000",
    ]);
    let asker = thread::spawn(move || asked.run());
    wait_until("git is running", LONG, || marks.join("waits").exists());
    project.home.kill_daemon();
    put(&marks.join("go"), "");
    asker.join().unwrap();
    project.home.start_daemon();

    project.ccmux(&["show", "dev"]).fails_with(3);
    project.assert_untouched();
}

/// A worktree that does not fit on the disk is removed completely.
#[test]
fn full_disk_leaves_no_partial_worktree() {
    testkit::require!(Mount);
    let disk = FullDisk::mount(24 << 20);
    let home = Home::new(CCMUX).with_state_root(&disk.path().join("root"));
    let project = Project::of(home);
    let large = project.repo.join("large");
    put(&large, "x".repeat(30 << 20));
    project.git(&["add", "."]);
    project.git(&["commit", "--quiet", "-m", "large"]);

    let failed = project
        .ccmux(&["new", "-d", "-n", "dev", "--workspace", "worktree", "--", "sleep", "1000"])
        .fails_with(1);

    assert!(failed.contains("free space"), "{failed}");
    project.ccmux(&["show", "dev"]).fails_with(3);
    project.assert_untouched();
}

/// Every pane of many requested at once gets its worktree, and all are removed again.
/// `CCMUX_SOAK_PANES` sets the number.
#[test]
fn heavy_panes_at_once_in_one_repository_all_get_worktrees() {
    let count = repetitions("CCMUX_SOAK_PANES", 30);
    let project = Project::new();
    project.home.start_daemon();

    let names: Vec<String> = (0..count).map(|at| format!("p{at}")).collect();
    let panes: Vec<Value> = thread::scope(|scope| {
        let asked: Vec<_> = names
            .iter()
            .map(|name| {
                let project = &project;
                scope.spawn(move || project.new_pane(name, &["--session", "team"]))
            })
            .collect();
        asked.into_iter().map(|pane| pane.join().unwrap()).collect()
    });

    let branches: BTreeSet<&str> =
        panes.iter().map(|pane| pane["branch"].as_str().unwrap()).collect();
    assert_eq!(branches.len(), names.len());
    assert_eq!((project.branches().len(), project.entries()), (names.len() + 1, names.len()));
    for pane in &panes {
        let status = project.git_in(&path(pane, "workspace"), &["status", "--porcelain"]);
        assert_eq!(status, "", "{pane}");
    }
    let words: Vec<&str> = ["close"].into_iter().chain(names.iter().map(String::as_str)).collect();
    project.ccmux(&words).ok();
    project.assert_untouched();
    let mut dirs = vec![project.repo.join(".git")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            assert_ne!(
                entry.path().extension().and_then(|e| e.to_str()),
                Some("lock"),
                "{entry:?}"
            );
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            }
        }
    }
}
