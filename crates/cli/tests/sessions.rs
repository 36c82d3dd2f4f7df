//! R25–R28, R31, R32: sessions have a directory with all their data, start with copies of
//! templates, share a project only on request, and are listed in every state.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testkit::{Home, Invocation, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for anything that is waited for; generous for a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// An agent that stores conversations like claude, and resumes only those stored for its working
/// directory.
const CLAUDE: &str = r#"#!/bin/sh
dir="$CLAUDE_CONFIG_DIR/projects/$(pwd -P | sed 's/[^A-Za-z0-9]/-/g')"
while [ $# -gt 0 ]; do
    case "$1" in
        --session-id) mkdir -p "$dir"; echo '{}' >"$dir/$2.jsonl"; echo "begun $2"; exec sleep 1000 ;;
        --resume) [ -e "$dir/$2.jsonl" ] || { echo "nothing in $dir"; exit 1; }
            echo "resumed $2"; exec sleep 1000 ;;
    esac
    shift
done
echo '2.1.0 (Claude Code)'
"#;

/// A home with a project.
struct Place {
    home: Home,
    project: PathBuf,
}

impl Place {
    fn new() -> Self {
        Self::of(Home::new(CCMUX))
    }

    fn of(home: Home) -> Self {
        let project = home.dir().join("project");
        fs::create_dir_all(project.join("unit/core")).unwrap();
        put(&project.join("unit/core/brief.md"), "the project's own\n");
        put(&project.join("README"), "read me\n");
        Self { home, project }
    }

    /// With the project in a git repository.
    fn in_git(home: Home) -> Self {
        let place = Self::of(home);
        for words in [
            &["init", "--quiet", "--initial-branch=main"] as &[&str],
            &["add", "."],
            &["-c", "user.name=me", "-c", "user.email=me@example.com", "commit", "-qm", "first"],
        ] {
            place.home.program("git", words).dir(&place.project).timeout(LONG).ok();
        }
        place
    }

    fn ccmux(&self, words: &[&str]) -> Invocation {
        self.home.ccmux(words).dir(&self.project).timeout(LONG)
    }

    /// Creates a sleeping pane and returns the whole response.
    fn new_pane(&self, options: &[&str]) -> Value {
        self.ccmux(&sleeping(options)).json()
    }

    fn sessions(&self) -> BTreeMap<String, Value> {
        let listed = self.ccmux(&["ls", "--json"]).json();
        let all = listed["sessions"].as_array().unwrap().iter();
        all.map(|session| (text(session, "name").to_owned(), session.clone())).collect()
    }

    /// Returns the path of the tree of a pane.
    fn tree_of(&self, session: &str, pane: &str) -> PathBuf {
        let work = self.home.state_root().join("work").join(session).join(pane);
        work.join(self.project.file_name().unwrap())
    }

    fn status(&self, session: &str) -> String {
        text(&self.sessions()[session], "status").to_owned()
    }

    fn index(&self) -> Value {
        let path = self.home.state_root().join("sessions/.sessions.index");
        let read = fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&read).unwrap_or_default()
    }

    /// Returns the files of the project without `.git`.
    fn project_tree(&self) -> BTreeMap<PathBuf, testkit::tree::Entry> {
        let mut tree = testkit::tree::tree(&self.project);
        tree.retain(|path, _| !path.to_string_lossy().contains(".git"));
        tree
    }
}

fn sleeping<'a>(options: &[&'a str]) -> Vec<&'a str> {
    ["new", "-d", "--json"].iter().chain(options).chain(&["--", "sleep", "1000"]).copied().collect()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

fn path(value: &Value, field: &str) -> PathBuf {
    PathBuf::from(text(value, field))
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn error(said: &str) -> String {
    let said: Value = serde_json::from_str(said).unwrap();
    text(&said["error"], "message").to_owned()
}

/// R25, R26: metadata, the stored request, units, workflows and logs; readable names.
#[test]
fn session_directory_has_all_metadata() {
    let place = Place::new();

    let options = ["--session", "web", "--template", "default", "--env", "API_TOKEN=hunter2"];
    let answer = place.new_pane(&options);
    let unnamed = place.new_pane(&["-n", "alone"])["session"].take();

    let session = &answer["session"];
    let (id, dir) = (text(session, "id"), path(session, "dir"));
    assert_eq!(text(session, "status"), "running");
    assert_eq!(text(session, "template"), "default");
    assert_eq!(text(&unnamed, "name"), format!("ccmux-{}", &text(&unnamed, "id")[..8]));
    let record = testkit::pane::read_record(&dir.join(".session"));
    assert_eq!((text(&record, "id"), text(&record, "template")), (id, "default"));
    let stored = fs::read_to_string(dir.join("config.json")).unwrap();
    assert!(stored.contains("API_TOKEN") && !stored.contains("hunter2"), "{stored}");
    assert_eq!(mode(&dir.join("config.json")), 0o600);
    for part in ["unit", "workflows", "logs"] {
        assert_eq!(path(session, &format!("{part}_dir")), dir.join(part));
        assert_eq!(mode(&dir.join(part)), 0o700);
        assert!(path(&unnamed, "dir").join(part).is_dir());
    }
    assert_eq!(mode(&dir.join("unit/core/manager.md")), 0o600);
    assert!(dir.join("workflows/plan-build-review.md").is_file());
    let pid = answer["pane"]["pid"].as_u64().unwrap();
    let environ = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let unit = format!("CCMUX_UNIT_DIR={}", dir.join("unit").display());
    assert!(environ.split('\0').any(|variable| variable == unit), "{environ}");

    // R31: a stopped session is stopped everywhere, and nothing is deleted.
    place.ccmux(&["stop", "web"]).ok();
    assert_eq!(place.status("web"), "stopped");
    let listed = |session: &Value| session["id"] == id && session["status"] == "stopped";
    wait_until("the index shows it", LONG, || {
        place.index()["sessions"].as_array().is_some_and(|all| all.iter().any(listed))
    });
    assert!(dir.join("unit/core/manager.md").is_file());
    place.ccmux(&["restore", "web"]).ok();
    assert_eq!(place.status("web"), "running");
    place.ccmux(&["purge", "web", "--yes", "--grace", "0"]).ok();
    assert!(!dir.exists() && !place.sessions().contains_key("web"));
}

/// R18, R26: copies are writable, templates stay unchanged, and a failed copy leaves nothing.
#[test]
fn templates_are_copied_and_stay_unchanged() {
    let place = Place::new();
    let squad = place.home.dir().join("squad");
    fs::create_dir_all(squad.join("unit/a")).unwrap();
    fs::create_dir_all(squad.join("files")).unwrap();
    put(&squad.join("template.toml"), "description = \"a squad\"\n");
    put(&squad.join("unit/a/brief.md"), "original\n");
    put(&squad.join("files/data"), "data\n");
    symlink("a/brief.md", squad.join("unit/link")).unwrap();

    let added = place.ccmux(&["template", "add", squad.to_str().unwrap(), "--json"]).json();
    let listed = place.ccmux(&["template", "ls", "--json"]).json();
    let shown = place.ccmux(&["template", "show", "default", "--json"]).json();

    let names: Vec<&str> =
        listed["templates"].as_array().unwrap().iter().map(|one| text(one, "name")).collect();
    assert_eq!(names, ["default", "squad"]);
    assert_eq!(text(&added["template"], "description"), "a squad");
    assert!(shown["template"]["shipped"].as_bool().unwrap(), "{shown}");
    assert!(place.ccmux(&["template", "ls"]).ok().contains("a squad"));

    // Concurrent requests still create one session with one copy.
    let options = ["--session", "team", "--template", "squad"];
    let dirs: Vec<PathBuf> = thread::scope(|scope| {
        let news: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| path(&place.new_pane(&options)["session"], "dir")))
            .collect();
        news.into_iter().map(|new| new.join().unwrap()).collect()
    });
    assert!(dirs.iter().all(|dir| *dir == dirs[0]), "{dirs:?}");
    let copy = dirs[0].join("unit/a/brief.md");
    let original = path(&added["template"], "path").join("unit/a/brief.md");
    assert_ne!(fs::metadata(&copy).unwrap().ino(), fs::metadata(&original).unwrap().ino());
    put(&copy, "changed\n");
    assert_eq!(fs::read_to_string(&original).unwrap(), "original\n");
    assert_eq!(fs::read_to_string(dirs[0].join("unit/link")).unwrap(), "changed\n");
    assert_eq!(fs::read_to_string(dirs[0].join("files/data")).unwrap(), "data\n");
    let left = fs::read_dir(&dirs[0]).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".new")));

    // Refused before anything is created.
    let refusals: [(&[&str], i32, &str); 3] = [
        (&["--session", "x", "--template", "nope"], 3, "nope"),
        (&["--session", "x", "--template", "squad", "--mode", "legacy"], 2, "legacy"),
        (&["--session", "team", "--template", "default"], 4, "team"),
    ];
    for (options, code, named) in refusals {
        let said = error(&place.ccmux(&sleeping(options)).fails_with(code));
        assert!(said.contains(named), "{said}");
    }
    // Created by root, or with changed modes: not copied either.
    let inside = path(&added["template"], "path").join("unit");
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o700)).unwrap();
    symlink("/etc/passwd", inside.join("out")).unwrap();
    let said =
        error(&place.ccmux(&sleeping(&["--session", "x", "--template", "squad"])).fails_with(2));
    assert!(said.contains("/etc/passwd"), "{said}");
    assert_eq!(place.sessions().into_keys().collect::<Vec<_>>(), ["team"]);
    let sessions = fs::read_dir(place.home.state_root().join("sessions")).unwrap().flatten();
    assert_eq!(sessions.filter(|entry| entry.path().is_dir()).count(), 1);

    place.ccmux(&["template", "rm", "squad"]).ok();
    place.ccmux(&["template", "rm", "default"]).fails_with(4);
    place.ccmux(&["template", "show", "squad"]).fails_with(3);
    assert_eq!(fs::read_to_string(&copy).unwrap(), "changed\n");
}

/// R28: the project is used as before, and both modes are listed by the same commands.
#[test]
fn legacy_session_shares_its_project_and_mode_comes_from_environment() {
    let place = Place::in_git(Home::new(CCMUX));
    let before = place.project_tree();
    let by_default =
        |words: &[&str], mode: &str| place.ccmux(words).env("CCMUX_SESSION_MODE", mode);

    let shared = by_default(&sleeping(&["--session", "old"]), "legacy").json();
    let flag = ["--session", "new", "--mode", "isolated", "--workspace", "worktree"];
    let apart = by_default(&sleeping(&flag), "legacy").json();
    let join = ["--session", "new", "--workspace", "worktree"];
    let joined = by_default(&sleeping(&join), "legacy").json();
    let wrong = error(&by_default(&sleeping(&[]), "shared").fails_with(2));
    let conflict =
        error(&place.ccmux(&sleeping(&["--session", "old", "--mode", "isolated"])).fails_with(4));

    assert_eq!(text(&shared["session"], "mode"), "legacy");
    assert_eq!(path(&shared["session"], "project"), place.project);
    assert_eq!(path(&shared["session"], "unit_dir"), place.project.join("unit"));
    let own = path(&shared["session"], "dir").join("workflows");
    assert_eq!(path(&shared["session"], "workflows_dir"), own, "the project has no workflows");
    assert_eq!(text(&shared["pane"], "workspace_kind"), "shared");
    assert_eq!(path(&shared["pane"], "cwd"), place.project);
    assert!(shared["pane"]["branch"].is_null());
    for isolated in [&apart, &joined] {
        assert_eq!(text(&isolated["session"], "mode"), "isolated");
        assert_eq!(text(&isolated["pane"], "workspace_kind"), "worktree");
    }
    for named in ["CCMUX_SESSION_MODE", "isolated", "legacy", "shared"] {
        assert!(wrong.contains(named), "{wrong}");
    }
    assert!(conflict.contains("legacy"), "{conflict}");
    assert_eq!(place.sessions().into_keys().collect::<Vec<_>>(), ["new", "old"]);

    place.ccmux(&["stop", "old"]).ok();
    place.ccmux(&["restore", "old"]).ok();
    assert_eq!(place.status("old"), "running");
    let again = place.home.show(text(&shared["pane"], "id"));
    assert_eq!(path(&again, "cwd"), place.project);
    place.ccmux(&["purge", "old", "--yes", "--grace", "0"]).ok();
    assert_eq!(place.project_tree(), before);
}

/// R27: a lost registry is rebuilt from the directories.
#[test]
fn lost_registry_is_rebuilt_from_directories() {
    let place = Place::new();
    place.new_pane(&["--session", "iso", "--template", "default", "-n", "a"]);
    place.new_pane(&["--session", "old", "--mode", "legacy", "-n", "b"]);
    place.ccmux(&["stop", "iso"]).ok();
    let before = place.sessions();
    place.ccmux(&["daemon", "stop"]).ok();
    for name in ["ccmux.db", "ccmux.db-wal", "ccmux.db-shm"] {
        let path = place.home.state_root().join(name);
        assert!(fs::remove_file(&path).is_ok() || !path.exists());
    }

    let after = place.sessions();

    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (name, was) in &before {
        for field in ["id", "mode", "status", "template", "project", "created", "dir"] {
            assert_eq!(was[field], after[name][field], "{field} of {name}");
        }
        let panes = |session: &Value| session["panes"].as_array().unwrap().clone();
        let (was, is) = (panes(was), panes(&after[name]));
        assert_eq!(was.len(), is.len());
        for field in ["id", "name", "state", "cwd", "conversation"] {
            assert_eq!(was[0][field], is[0][field], "{field} of the pane of {name}");
        }
    }
}

/// R32: a damaged session does not hide the others.
#[test]
fn missing_or_damaged_directory_is_a_session_state() {
    let place = Place::new();
    let mut dirs = BTreeMap::new();
    for name in ["whole", "gone", "hurt", "bare", "later"] {
        let answer = place.new_pane(&["--session", name, "--mode", "legacy"]);
        dirs.insert(name, path(&answer["session"], "dir"));
    }
    place.ccmux(&["stop", "gone", "hurt", "bare", "later"]).ok();
    // Renamed, because the daemon may still write the state of the stopped pane into the directory.
    fs::rename(&dirs["gone"], place.home.dir().join("gone")).unwrap();
    put(&dirs["hurt"].join(".session"), "{");
    fs::remove_file(dirs["bare"].join(".session")).unwrap();

    let sessions = place.sessions();

    let states: Vec<(&str, &str)> =
        sessions.iter().map(|(name, session)| (name.as_str(), text(session, "status"))).collect();
    let expected = [
        ("bare", "damaged"),
        ("gone", "missing"),
        ("hurt", "damaged"),
        ("later", "stopped"),
        ("whole", "running"),
    ];
    assert_eq!(states, expected);
    let problem = text(&sessions["gone"], "problem");
    assert!(problem.contains("purge") && problem.contains(dirs["gone"].to_str().unwrap()));
    assert!(text(&sessions["hurt"], "problem").contains("restore"), "{}", sessions["hurt"]);
    assert!(sessions["whole"]["problem"].is_null());
    assert!(place.ccmux(&["show", "gone"]).ok().contains("missing"));
    place.ccmux(&["ls"]).ok();

    // Repairable damage is repaired from the registry.
    place.ccmux(&["restore", "hurt"]).ok();
    assert_eq!(place.status("hurt"), "running");
    assert_eq!(fs::read_to_string(dirs["hurt"].join(".session.damaged")).unwrap(), "{");
    place.ccmux(&["restore", "bare"]).ok();
    assert_eq!(place.status("bare"), "running");
    let refused = error(&place.ccmux(&["restore", "gone", "--json"]).fails_with(4));
    assert!(refused.contains("missing"), "{refused}");

    // The next daemon finds the same, and repairs damaged records.
    put(&dirs["later"].join(".session"), "not a record");
    place.home.kill_daemon();
    assert_eq!(place.status("gone"), "missing");
    assert_eq!(place.status("later"), "stopped");
    assert!(dirs["later"].join(".session.damaged").is_file());
    place.ccmux(&["stop", "gone"]).ok();
    place.ccmux(&["purge", "gone", "--yes"]).ok();
    let names: Vec<String> = place.sessions().into_keys().collect();
    assert_eq!(names, ["bare", "hurt", "later", "whole"]);
}

fn with_claude(home: &mut Home) {
    let bin = home.dir().join("bin");
    fs::create_dir(&bin).unwrap();
    put(&bin.join("claude"), CLAUDE);
    fs::set_permissions(bin.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = home.program("sh", &["-c", "printf %s \"$PATH\""]).ok();
    home.set_env("PATH", format!("{}:{path}", bin.display()));
}

/// R28: from legacy to isolated, with the conversations.
#[test]
fn legacy_session_is_migrated_with_conversations() {
    let mut home = Home::new(CCMUX);
    with_claude(&mut home);
    let place = Place::in_git(home);
    put(&place.project.join("draft"), "not committed\n");
    let claude = ["new", "-d", "--json", "--session", "old", "--mode", "legacy", "--", "claude"];
    let first = place.ccmux(&claude).json();
    let other = place.new_pane(&["--session", "old", "-n", "other"]);
    let id = text(&first["pane"], "id");
    let said = |word: &str| {
        let wait = ["wait", id, "--for", &format!("text={word}"), "--timeout", "100"];
        place.ccmux(&wait).ok();
    };
    said("begun");
    let conversation = text(&first["pane"], "conversation").to_owned();
    let before = place.project_tree();

    let running = error(&place.ccmux(&["migrate", "old", "--json"]).fails_with(4));
    place.ccmux(&["stop", "old", "--grace", "0"]).ok();
    let plan = place.ccmux(&["migrate", "old", "--dry-run", "--json"]).json();
    assert_eq!(text(&place.sessions()["old"], "mode"), "legacy");
    let done = place.ccmux(&["migrate", "old", "--json"]).json();
    let again = place.ccmux(&["migrate", "old", "--json"]).json();

    for name in ["claude", "other"] {
        assert!(running.contains(name), "{running}");
    }
    for recorded in [&plan, &done] {
        let panes = recorded["panes"].as_array().unwrap();
        assert_eq!(panes.len(), 2);
        for (pane, made) in panes.iter().zip([&first, &other]) {
            assert_eq!(pane["id"], made["pane"]["id"]);
            assert_eq!(text(pane, "workspace_kind"), "worktree");
            assert_eq!(path(pane, "to"), place.tree_of("old", text(&made["pane"], "name")));
        }
        assert_eq!(recorded["copied"][0], place.project.join("unit").to_str().unwrap());
        assert!(recorded["warnings"][0].as_str().unwrap().contains("uncommitted"), "{recorded}");
    }
    assert_eq!(text(&done["panes"][0], "branch"), "ccmux/old/claude");
    assert_eq!(again["panes"].as_array().unwrap().len(), 0);
    let session = &place.sessions()["old"];
    assert_eq!(text(session, "mode"), "isolated");
    assert_eq!(path(session, "unit_dir"), path(session, "dir").join("unit"));
    let brief = path(session, "unit_dir").join("core/brief.md");
    assert_eq!(fs::read_to_string(brief).unwrap(), "the project's own\n");
    assert_eq!(place.project_tree(), before);

    place.ccmux(&["restore", "old"]).ok();
    said(&format!("resumed {conversation}"));
    let pane = place.home.show(id);
    let cwd = place.tree_of("old", text(&first["pane"], "name"));
    assert_eq!(path(&pane, "cwd"), cwd);
    assert_eq!(text(&pane, "conversation"), conversation);
    let pid = pane["pid"].as_u64().unwrap();
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), cwd);
    let environ = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let working = format!("WORKING_DIR={}", cwd.display());
    assert!(environ.split('\0').any(|variable| variable == working), "{environ}");
    // It survives the daemon like every session.
    place.home.kill_daemon();
    assert_eq!(text(&place.sessions()["old"], "mode"), "isolated");
    assert_eq!(place.status("old"), "running");
}

/// R28: a migration killed at any point is completed by another attempt.
#[test]
fn interrupted_migration_is_completed_by_retry() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    let place = Place::in_git(home);
    let before = place.project_tree();
    let points = [
        "workspace.planned",
        "migrate.made",
        "migrate.recorded",
        "migrate.pane",
        "template.staged",
        "migrate.copied",
        "migrate.entered",
    ];
    for (n, point) in points.into_iter().enumerate() {
        let name = format!("s{n}");
        place.new_pane(&["--session", &name, "--mode", "legacy", "-n", "dev"]);
        place.ccmux(&["stop", &name, "--grace", "0"]).ok();
        let times = hooks.reached(point) + 1;
        hooks.pause(point);
        let mut client = place.ccmux(&["migrate", &name, "--json"]).spawn();
        hooks.wait_reached(point, times);
        place.home.kill_daemon();
        hooks.release(point);
        client.wait().unwrap();

        place.ccmux(&["migrate", &name, "--json"]).json();

        let session = &place.sessions()[&name];
        assert_eq!(text(session, "mode"), "isolated", "{point}");
        let record = testkit::pane::read_record(&path(session, "dir").join(".session"));
        assert_eq!(text(&record, "mode"), "isolated", "{point}");
        assert!(path(session, "unit_dir").join("core/brief.md").is_file(), "{point}");
        let pane = &session["panes"][0];
        assert_eq!(text(pane, "workspace_kind"), "worktree", "{point}");
        assert_eq!(path(pane, "cwd"), place.tree_of(&name, "dev"), "{point}");
        assert!(path(pane, "cwd").join("README").is_file(), "{point}");
        place.ccmux(&["restore", &name]).ok();
        assert_eq!(place.status(&name), "running", "{point}");
        place.ccmux(&["purge", &name, "--yes", "--grace", "0"]).ok();
    }
    assert_eq!(place.project_tree(), before);
}
