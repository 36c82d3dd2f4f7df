//! The life cycle of pane directories (R13, R14, R15, R31): retired, kept, swept, collected,
//! purged.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use model::Size;
use serde_json::Value;
use testkit::{Capability, DEADLINE, Home, Hooks, Mount, Pane, process, put, tree, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Orphans may be removed at once, and the daemon sweeps every second.
const EAGER: &str = "[cleanup]\norphan_age = \"0s\"\nevery = \"1s\"\n";

/// Orphans may be removed at once, but only by `ccmux gc`.
const ON_REQUEST: &str = "[cleanup]\norphan_age = \"0s\"\n";

fn configure(home: &Home, text: &str) {
    let root = home.state_root();
    let staged = root.join("config/.ccmux.toml");
    put(&staged, text);
    fs::set_permissions(root, fs::Permissions::from_mode(0o700)).unwrap();
    // Written to a new file and renamed: a daemon may be reading it.
    fs::rename(staged, root.join("config/ccmux.toml")).unwrap();
}

/// Returns a pane id that is not in use.
fn new_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned()
}

/// Creates a directory of a pane that does not exist, with a file in it.
fn create_orphan(home: &Home, holder: &str, id: &str) -> PathBuf {
    let dir = home.state_root().join(holder).join(format!("pane-{id}"));
    put(&dir.join("deep/left-by"), id);
    fs::set_permissions(dir.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

/// Returns the isolation directories of a pane.
fn isolation_dirs(home: &Home, id: &str) -> Vec<PathBuf> {
    let name = format!("pane-{id}");
    let holders = fs::read_dir(home.state_root()).unwrap().map(|entry| entry.unwrap().path());
    let mut places: Vec<PathBuf> =
        holders.map(|holder| holder.join(&name)).filter(|p| p.symlink_metadata().is_ok()).collect();
    places.sort();
    places
}

/// Returns the entries of the trash for this id: where each came from, and where it is.
fn in_trash(home: &Home, id: &str) -> BTreeMap<String, PathBuf> {
    let trash = fs::read_dir(home.state_root().join("trash")).unwrap();
    let entries = trash.map(|entry| entry.unwrap().path());
    entries
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let kind = name.strip_suffix(&format!("-{id}"))?.split_once('-')?.1;
            Some((kind.to_owned(), path.clone()))
        })
        .collect()
}

fn gc(home: &Home, options: &[&str]) -> BTreeMap<PathBuf, Value> {
    let words: Vec<&str> = ["gc", "--json"].iter().chain(options).copied().collect();
    items(&home.ccmux(&words).json())
}

fn items(collected: &Value) -> BTreeMap<PathBuf, Value> {
    let items = collected["items"].as_array().unwrap().iter();
    items.map(|item| (item["path"].as_str().unwrap().into(), item.clone())).collect()
}

fn state_and_action(item: &Value) -> (&str, &str) {
    (item["kind"].as_str().unwrap(), item["action"].as_str().unwrap())
}

fn events(home: &Home, kind: &str) -> Vec<Value> {
    let all = home.ccmux(&["events", "--json"]).ok();
    let all = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["event"] == kind).collect()
}

/// Waits until the daemon has swept everything that is there now.
fn wait_for_sweep(home: &Home) {
    // The sweep that moves the second one starts after the one that moved the first has ended.
    for _ in 0..2 {
        let id = new_id();
        let canary = create_orphan(home, "tmp", &id);
        wait_until("the sweep moves it", DEADLINE, || !canary.exists());
    }
}

/// Returns everything below the state root except files that a daemon writes on its own.
fn state(home: &Home) -> BTreeMap<PathBuf, testkit::tree::Entry> {
    let mut all = tree(home.state_root());
    all.retain(|path, _| {
        let top = path.components().next().unwrap().as_os_str().to_str().unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let derived = [".sessions.index", "session.state"].iter().any(|own| name.starts_with(own));
        !top.starts_with("ccmux.db") && top != "run" && !derived
    });
    all
}

fn write_note_in_each(dirs: &[PathBuf]) {
    for dir in dirs {
        put(&dir.join("note"), dir.to_str().unwrap());
    }
}

#[test]
fn closed_pane_directories_move_to_trash() {
    let home = Home::new(CCMUX);
    let new = ["new", "-d", "--json", "-n", "work", "--isolation", "home", "--", "sh"];
    let pane = Pane::from_json(&home.ccmux(&new).json()["pane"]);
    let dirs = isolation_dirs(&home, &pane.id);
    let holders: Vec<String> = dirs
        .iter()
        .map(|dir| dir.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    for expected in ["claude-configs", "claude-homes", "codex-configs", "tmp"] {
        assert!(holders.iter().any(|holder| holder == expected), "{holders:?}");
    }
    write_note_in_each(&dirs);

    let refused = home.ccmux(&["close", "work", "--json"]).fails_with(4);
    let refused: Value = serde_json::from_str(&refused).unwrap();
    let unsaved = &refused["error"]["details"]["panes"][0];
    assert_eq!(unsaved["work"][0], "files in the private home: note", "{refused}");
    home.ccmux(&["close", "work", "--discard", unsaved["discard"].as_str().unwrap()]).ok();

    assert!(isolation_dirs(&home, &pane.id).is_empty());
    assert!(!pane.dir.exists());
    let trash = in_trash(&home, &pane.id);
    assert!(trash["pane"].join("pane.json").is_file());
    for (holder, dir) in holders.iter().zip(&dirs) {
        let note = fs::read_to_string(trash[holder].join("note")).unwrap();
        assert_eq!(note, dir.to_str().unwrap());
    }
    assert_eq!(trash.len(), dirs.len() + 1);
    assert_eq!(events(&home, "cleanup_failed"), [Value::Null; 0]);
}

#[test]
fn kept_directories_survive_sweep_and_gc() {
    let home = Home::new(CCMUX);
    configure(&home, &format!("[claude.isolation]\ncleanup_on_close = false\n{EAGER}"));
    let pane = home.start_pane("work", &["sh"]);
    let dirs = isolation_dirs(&home, &pane.id);
    write_note_in_each(&dirs);

    home.ccmux(&["close", "work"]).ok();
    wait_for_sweep(&home);
    let collected = gc(&home, &["--empty-trash"]);

    assert!(dirs.len() >= 3, "{dirs:?}");
    for dir in &dirs {
        assert!(dir.join("note").is_file(), "{}", dir.display());
        assert_eq!(state_and_action(&collected[dir]), ("kept", "keep"), "{collected:?}");
    }
    assert!(!pane.dir.exists());
    // Without its marker it is an orphan like any other.
    for dir in &dirs {
        fs::remove_file(dir.with_file_name(format!("pane-{}.kept", pane.id))).unwrap();
    }
    wait_until("the sweep moves them", DEADLINE, || isolation_dirs(&home, &pane.id).is_empty());
}

#[test]
fn orphan_is_swept_only_after_min_age() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let id = new_id();
    let orphan = create_orphan(&home, "claude-configs", &id);

    let young = gc(&home, &[]);
    assert_eq!(state_and_action(&young[&orphan]), ("orphan", "keep"));
    assert!(young[&orphan]["why"].as_str().unwrap().contains("1h"), "{young:?}");
    assert!(young[&orphan]["bytes"].as_u64().unwrap() > 0, "{young:?}");
    assert!(orphan.join("deep/left-by").is_file());

    configure(&home, ON_REQUEST);
    let old = gc(&home, &[]);
    assert_eq!(state_and_action(&old[&orphan]), ("orphan", "trash"));
    assert!(!orphan.exists());
    let moved = in_trash(&home, &id)["claude-configs"].clone();
    assert_eq!(fs::read_to_string(moved.join("deep/left-by")).unwrap(), id);
    let recorded = events(&home, "retired");
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(recorded[0]["path"], orphan.to_str().unwrap());
    assert_eq!(recorded[0]["kept_as"], moved.to_str().unwrap());
}

#[test]
fn sweep_skips_directories_with_future_mtime() {
    let home = Home::new(CCMUX);
    configure(&home, ON_REQUEST);
    home.start_daemon();
    let orphan = create_orphan(&home, "tmp", &new_id());
    let future = fs::FileTimes::new()
        .set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(86_400));
    fs::File::open(&orphan).unwrap().set_times(future).unwrap();

    let collected = gc(&home, &[]);

    assert_eq!(state_and_action(&collected[&orphan]), ("orphan", "keep"), "{collected:?}");
    assert!(orphan.exists());
}

#[test]
fn daemon_start_sweeps_orphans() {
    let home = Home::new(CCMUX);
    configure(&home, ON_REQUEST);
    let pane = home.start_pane("work", &["sh"]);
    let kept = isolation_dirs(&home, &pane.id);
    home.kill_daemon();
    let orphans: Vec<PathBuf> = ["claude-configs", "gemini-configs", "claude-homes", "tmp"]
        .iter()
        .map(|holder| create_orphan(&home, holder, &new_id()))
        .collect();

    home.start_daemon();

    wait_until("all orphans are moved", DEADLINE, || orphans.iter().all(|dir| !dir.exists()));
    assert_eq!(isolation_dirs(&home, &pane.id), kept);
    wait_until("each move is an event", DEADLINE, || {
        events(&home, "retired").len() == orphans.len()
    });
}

#[test]
fn sweep_skips_live_known_and_unknown_directories() {
    let home = Home::new(CCMUX);
    configure(&home, EAGER);
    let live = home.start_pane("live", &["sh"]);
    let ended = home.start_pane("ended", &["sh"]);
    home.ccmux(&["stop", "ended"]).ok();
    let known: Vec<PathBuf> =
        [&live, &ended].iter().flat_map(|pane| isolation_dirs(&home, &pane.id)).collect();
    // A pane that does not exist any more but left a process.
    let left = new_id();
    let mut process = home.program("sleep", &["1000"]).env("CCMUX_PANE_ID", &left).spawn();
    let in_use = create_orphan(&home, "claude-configs", &left);
    // Entries that only resemble pane directories.
    let id = new_id();
    let names = [
        "pane-x".to_owned(),
        format!("pane-{id}x"),
        format!("pane-{}", id.to_uppercase()),
        format!("pane-{id}\n"),
        format!("pane-{id} "),
        id.clone(),
    ];
    let strange: Vec<PathBuf> = names
        .iter()
        .map(|name| {
            let dir = home.state_root().join("claude-configs").join(name);
            put(&dir.join("precious"), "");
            dir
        })
        .collect();
    let precious = home.dir().join("precious");
    put(&precious.join("work"), "of a lifetime");
    let link = home.state_root().join("claude-configs").join(format!("pane-{}", new_id()));
    symlink(&precious, &link).unwrap();
    let file = home.state_root().join("tmp").join(format!("pane-{}", new_id()));
    put(&file, "no directory");
    let foreign = create_orphan(&home, "tmp", &new_id());
    let is_root = std::os::unix::fs::chown(&foreign, Some(12345), None).is_ok();

    wait_for_sweep(&home);
    let collected = gc(&home, &[]);

    for dir in &known {
        assert!(dir.is_dir() && !collected.contains_key(dir), "{}", dir.display());
    }
    assert_eq!(state_and_action(&collected[&in_use]), ("orphan", "keep"), "{collected:?}");
    for dir in &strange {
        assert!(dir.join("precious").is_file(), "{}", dir.display());
        assert_eq!(state_and_action(&collected[dir]), ("unknown", "keep"), "{collected:?}");
    }
    for path in [&link, &file] {
        assert_eq!(state_and_action(&collected[path]), ("unknown", "keep"), "{collected:?}");
    }
    assert!(precious.join("work").is_file() && link.is_symlink() && file.is_file());
    if is_root {
        assert!(foreign.is_dir());
        assert!(collected[&foreign]["why"].to_string().contains("12345"), "{collected:?}");
    }
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until("the directory is moved after the process ended", DEADLINE, || !in_use.exists());
}

#[test]
fn directory_used_between_scan_and_move_is_kept() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    home.start_daemon();
    configure(&home, ON_REQUEST);
    let (saved, lost) =
        (create_orphan(&home, "tmp", &new_id()), create_orphan(&home, "tmp", &new_id()));
    hooks.pause("sweep.found");
    let home = Arc::new(home);
    let sweeping = thread::spawn({
        let home = Arc::clone(&home);
        move || gc(&home, &[])
    });
    hooks.wait_reached("sweep.found", 1);

    let mut mark = saved.clone().into_os_string();
    mark.push(".kept");
    put(Path::new(&mark), "");
    let born = home.start_pane("born", &["sh"]);
    hooks.release("sweep.found");
    let collected = sweeping.join().unwrap();

    assert_eq!(state_and_action(&collected[&saved]), ("orphan", "keep"), "{collected:?}");
    assert_eq!(state_and_action(&collected[&lost]), ("orphan", "trash"), "{collected:?}");
    assert!(saved.is_dir() && !lost.exists());
    assert!(isolation_dirs(&home, &born.id).len() >= 3);
    assert_eq!(home.show("born")["state"], "running");
}

#[test]
fn incomplete_recovery_disables_orphan_sweep() {
    let home = Home::new(CCMUX);
    configure(&home, EAGER);
    let pane = home.start_pane("hurt", &["sh"]);
    home.kill_daemon();
    put(&pane.dir.join("pane.json"), "{");
    let orphan = create_orphan(&home, "tmp", &new_id());
    let due = home.state_root().join(format!("trash/1000-pane-{}", new_id()));
    fs::create_dir(&due).unwrap();

    home.start_daemon();

    // Directories retired earlier are not in doubt.
    wait_until("the trash is emptied", DEADLINE, || !due.exists());
    let collected = gc(&home, &[]);
    assert_eq!(state_and_action(&collected[&orphan]), ("orphan", "keep"), "{collected:?}");
    let why = collected[&orphan]["why"].as_str().unwrap();
    assert!(why.contains("recovery was not complete"), "{why}");
    assert!(orphan.is_dir());
}

#[test]
fn invalid_configuration_disables_sweep() {
    let home = Home::new(CCMUX);
    configure(&home, "[cleanup]\norphan_age = \"0s\"\nevery = \"soon\"\n");
    fs::create_dir_all(home.state_root().join("trash")).unwrap();
    let due = home.state_root().join(format!("trash/1000-pane-{}", new_id()));
    fs::create_dir(&due).unwrap();
    let orphan = create_orphan(&home, "tmp", &new_id());
    home.start_daemon();

    for options in [&["gc"][..], &["gc", "--dry-run"], &["gc", "--empty-trash"]] {
        let refused = home.ccmux(options).fails_with(2);
        assert!(refused.contains("cleanup.every") && refused.contains("hint:"), "{refused}");
    }

    assert!(due.is_dir() && orphan.is_dir());
}

#[test]
fn pane_with_symlinked_directory_can_be_closed() {
    let home = Home::new(CCMUX);
    let pane = home.start_pane("work", &["sh"]);
    let config: PathBuf = home.show("work")["config_dir"].as_str().unwrap().into();
    let precious = home.dir().join("precious");
    put(&precious.join("work"), "of a lifetime");
    fs::remove_dir_all(&config).unwrap();
    symlink(&precious, &config).unwrap();

    home.ccmux(&["close", "work"]).ok();

    assert!(config.is_symlink() && precious.join("work").is_file());
    assert!(!pane.dir.exists());
    assert_eq!(
        isolation_dirs(&home, &pane.id),
        std::slice::from_ref(&config),
        "the other directories are gone"
    );
    let recorded = events(&home, "cleanup_failed");
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(recorded[0]["path"], config.to_str().unwrap());
    assert!(recorded[0]["why"].to_string().contains("symbolic link"), "{recorded:?}");
    configure(&home, ON_REQUEST);
    assert_eq!(state_and_action(&gc(&home, &[])[&config]), ("unknown", "keep"));
}

#[test]
fn pane_with_foreign_directory_can_be_closed() {
    testkit::require!(Root);
    let home = Home::new(CCMUX);
    let pane = home.start_pane("work", &["sh"]);
    let config: PathBuf = home.show("work")["config_dir"].as_str().unwrap().into();
    std::os::unix::fs::chown(&config, Some(12345), None).unwrap();

    home.ccmux(&["close", "work"]).ok();

    assert_eq!(isolation_dirs(&home, &pane.id), std::slice::from_ref(&config));
    let recorded = events(&home, "cleanup_failed");
    assert!(recorded[0]["why"].to_string().contains("12345"), "{recorded:?}");
    configure(&home, ON_REQUEST);
    assert_eq!(state_and_action(&gc(&home, &[])[&config]), ("unknown", "keep"));
}

#[test]
fn read_only_trash_loses_nothing_and_is_reported_once() {
    let home = Home::new(CCMUX);
    configure(&home, EAGER);
    let pane = home.start_pane("work", &["sh"]);
    let dirs = isolation_dirs(&home, &pane.id);
    let trash = home.state_root().join("trash");
    // Permissions do not stop root, and only root can mount.
    let read_only = Capability::Mount.is_available().then(|| Mount::read_only(&trash).unwrap());
    if read_only.is_none() {
        fs::set_permissions(&trash, fs::Permissions::from_mode(0o500)).unwrap();
    }

    let orphan = create_orphan(&home, "tmp", &new_id());
    let refused = home.ccmux(&["close", "work"]).fails_with(1);
    wait_until("the sweep fails", DEADLINE, || {
        events(&home, "cleanup_failed")
            .iter()
            .any(|event| event["path"] == orphan.to_str().unwrap())
    });
    let failed = home.ccmux(&["gc", "--json"]).run();

    assert!(refused.contains("cannot move"), "{refused}");
    assert!(pane.dir.is_dir() && orphan.is_dir());
    assert_eq!(isolation_dirs(&home, &pane.id), dirs);
    assert_eq!(failed.status.code(), Some(1), "{}", failed.stderr);
    let collected = items(&serde_json::from_str(&failed.stdout).unwrap());
    assert_eq!(state_and_action(&collected[&orphan]), ("orphan", "failed"), "{collected:?}");
    let recorded = events(&home, "cleanup_failed");
    let about_it = recorded.iter().filter(|event| event["path"] == orphan.to_str().unwrap());
    assert_eq!(about_it.count(), 1, "{recorded:?}");
    drop(read_only);
    fs::set_permissions(&trash, fs::Permissions::from_mode(0o700)).unwrap();
    wait_until("the orphan is moved", DEADLINE, || !orphan.exists());
    home.ccmux(&["close", "work"]).ok();
    assert_eq!(in_trash(&home, &pane.id).len(), dirs.len() + 1);
}

#[test]
fn undeletable_trash_entry_is_reported_once_and_others_are_deleted() {
    testkit::require!(Mount);
    let home = Home::new(CCMUX);
    configure(&home, &format!("{EAGER}retention = \"0s\"\n"));
    let due = home.state_root().join(format!("trash/1000-pane-{}", new_id()));
    fs::create_dir_all(due.join("mnt")).unwrap();
    let mounted = Mount::tmpfs(&due.join("mnt"), "64k").unwrap();
    put(&due.join("mnt/precious"), "on another disk");

    home.start_daemon();
    wait_until("the failure is an event", DEADLINE, || !events(&home, "cleanup_failed").is_empty());
    wait_for_sweep(&home);
    let other = new_id();
    let orphan = create_orphan(&home, "tmp", &other);
    wait_until("other entries are deleted", DEADLINE, || {
        !orphan.exists() && in_trash(&home, &other).is_empty()
    });

    assert!(due.join("mnt/precious").is_file());
    let recorded = events(&home, "cleanup_failed");
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert!(recorded[0]["why"].as_str().unwrap().contains("mounted"), "{recorded:?}");
    let text = home.ccmux(&["gc"]).run();
    assert_eq!(text.status.code(), Some(1));
    assert!(
        text.stdout.contains("failed") && text.stdout.contains("failed to remove"),
        "{}",
        text.stdout
    );
    drop(mounted);
    wait_until("it is deleted once unmounted", DEADLINE, || !due.exists());
}

#[test]
fn gc_dry_run_reports_actions_and_changes_nothing() {
    let home = Home::new(CCMUX);
    home.start_pane("live", &["sleep", "1000"]);
    let closed = home.start_pane("closed", &["sh"]);
    home.ccmux(&["close", "closed"]).ok();
    let orphan = create_orphan(&home, "tmp", &new_id());
    let due = home.state_root().join(format!("trash/1000-pane-{}", new_id()));
    put(&due.join("large"), "x".repeat(300_000));
    let notes = home.state_root().join("trash/2024-notes");
    fs::create_dir(&notes).unwrap();
    configure(&home, ON_REQUEST);
    let before = state(&home);

    let collected = gc(&home, &["--dry-run"]);
    let emptying = gc(&home, &["--dry-run", "--empty-trash"]);
    let text = home.ccmux(&["gc", "--dry-run"]).ok();

    assert_eq!(state(&home), before);
    assert_eq!(state_and_action(&collected[&orphan]), ("orphan", "trash"));
    assert_eq!(state_and_action(&collected[&due]), ("trash", "delete"));
    assert!(collected[&due]["bytes"].as_u64().unwrap() >= 300_000, "{collected:?}");
    assert_eq!(state_and_action(&collected[&notes]), ("unknown", "keep"));
    let retired = in_trash(&home, &closed.id);
    for path in retired.values() {
        assert_eq!(state_and_action(&collected[path]), ("trash", "keep"));
        assert_eq!(state_and_action(&emptying[path]), ("trash", "delete"));
    }
    assert_eq!(state_and_action(&emptying[&notes]), ("unknown", "keep"));
    assert!(text.starts_with("PANE") && text.contains("\nACTION"), "{text}");
    assert!(text.contains("would delete 300 KiB") && text.contains("would move"), "{text}");
    assert!(text.contains("next deletion after 20"), "{text}");
    for item in collected.values() {
        let keys: Vec<&str> = item.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys.len(), 5, "{keys:?}");
    }
}

#[test]
fn gc_empties_due_trash_and_all_trash_on_request() {
    let home = Home::new(CCMUX);
    let pane = home.start_pane("work", &["sh"]);
    home.ccmux(&["close", "work"]).ok();
    let due = home.state_root().join(format!("trash/1000-session-{}", new_id()));
    // Read-only directories, as package managers create them.
    put(&due.join("closed/inner/file"), "");
    fs::set_permissions(due.join("closed/inner"), fs::Permissions::from_mode(0o500)).unwrap();
    let precious = home.dir().join("precious");
    put(&precious.join("work"), "of a lifetime");
    symlink(&precious, due.join("link")).unwrap();
    let notes = home.state_root().join("trash/notes");
    put(&notes, "mine");

    let text = home.ccmux(&["gc"]).ok();
    assert!(text.contains("deleted") && text.contains("kept"), "{text}");
    assert!(!due.exists() && precious.join("work").is_file());
    assert!(!in_trash(&home, &pane.id).is_empty());

    home.ccmux(&["gc", "--empty-trash"]).ok();
    assert!(in_trash(&home, &pane.id).is_empty());
    assert_eq!(fs::read_to_string(&notes).unwrap(), "mine");
    let left = gc(&home, &[]);
    assert_eq!(left.keys().collect::<Vec<_>>(), [&notes]);
}

/// R15: all entries are listed, even if they do not fit into one message.
#[test]
fn gc_lists_trash_with_thousands_of_entries() {
    const MANY: usize = 25_000;
    let home = Home::new(CCMUX);
    home.start_daemon();
    let trash = home.state_root().join("trash");
    fs::create_dir_all(&trash).unwrap();
    let long = "x".repeat(240);
    for number in 0..MANY {
        fs::create_dir(trash.join(format!("{long}{number}"))).unwrap();
    }

    let listed = gc(&home, &["--dry-run"]);

    assert_eq!(listed.len(), MANY);
}

#[test]
fn closed_pane_is_restored_from_trash() {
    let home = Home::new(CCMUX);
    // In a session that still exists, and in one that was closed with it.
    for options in [&["--session", "team"][..], &[]] {
        let new = ["new", "-d", "--json", "-n", "work"].iter().chain(options).chain(&["--", "sh"]);
        let made = home.ccmux(&new.copied().collect::<Vec<_>>()).json();
        let pane = Pane::from_json(&made["pane"]);
        let dirs = isolation_dirs(&home, &pane.id);
        write_note_in_each(&dirs);
        let target = pane.id.as_str();
        home.ccmux(&["send", target, "echo remember-$((1+1))", "--enter"]).ok();
        home.ccmux(&["wait", target, "--for", "text=remember-2", "--timeout", "20"]).ok();
        home.ccmux(&["close", target]).ok();

        home.ccmux(&["daemon", "stop"]).ok();
        let session = made["session"]["id"].as_str().unwrap();
        for path in in_trash(&home, session).into_values() {
            fs::rename(path, home.state_root().join("sessions").join(session)).unwrap();
        }
        for (kind, path) in in_trash(&home, target) {
            let place = match kind.as_str() {
                "pane" => pane.dir.clone(),
                holder => home.state_root().join(holder).join(format!("pane-{target}")),
            };
            fs::rename(path, place).unwrap();
        }

        let shown = home.ccmux(&["show", target, "--json"]).json();
        assert_eq!(shown["pane"]["state"], "exited", "{shown}");
        let mut session = made["session"].clone();
        session["status"] = "stopped".into();
        assert_eq!(shown["session"], session);
        assert!(home.ccmux(&["read", target, "--log"]).ok().contains("remember-2"));
        home.ccmux(&["restore", target]).ok();
        assert_eq!(home.show(target)["state"], "running");
        assert!(dirs.iter().all(|dir| dir.join("note").is_file()));
    }
}

/// Creates a session of two panes and returns it with all their directories.
fn team(home: &Home, name: &str) -> (String, Vec<Pane>, Vec<PathBuf>) {
    let made: Vec<Value> = ["a", "b"]
        .iter()
        .map(|pane| {
            let new = ["new", "-d", "--json", "--session", name, "-n", pane, "--", "sleep", "1000"];
            home.ccmux(&new).json()
        })
        .collect();
    let panes: Vec<Pane> = made.iter().map(|made| Pane::from_json(&made["pane"])).collect();
    let mut dirs: Vec<PathBuf> =
        panes.iter().flat_map(|pane| isolation_dirs(home, &pane.id)).collect();
    dirs.push(made[0]["session"]["dir"].as_str().unwrap().into());
    (made[0]["session"]["id"].as_str().unwrap().to_owned(), panes, dirs)
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn purge_deletes_session_and_nothing_else() {
    let home = Home::new(CCMUX);
    configure(&home, "[claude.isolation]\ncleanup_on_close = false\n");
    let (id, panes, dirs) = team(&home, "web");
    let (_, others, other_dirs) = team(&home, "api");
    let trash = home.state_root().join("trash");

    let purged = home.ccmux(&["purge", "web", "--yes", "--now", "--json", "--grace", "1"]).json();

    assert_eq!(purged, serde_json::json!({ "purged": [id] }));
    home.ccmux(&["show", "web"]).fails_with(3);
    assert!(panes.iter().all(|pane| !process::is_alive(&pane.head)));
    assert!(dirs.iter().all(|dir| !dir.exists()), "{dirs:?}");
    wait_until("the trash is deleted", DEADLINE, || is_empty(&trash));
    assert!(others.iter().all(|pane| process::is_alive(&pane.head)));
    assert!(other_dirs.iter().all(|dir| dir.is_dir()));
    assert_eq!(events(&home, "session_closed").len(), 1);
    home.ccmux(&["purge", "web", "--yes"]).fails_with(3);
}

#[test]
fn purge_asks_for_confirmation() {
    let home = Home::new(CCMUX);
    let (_, panes, dirs) = team(&home, "web");
    let size = Size::new(100, 24).unwrap();

    let pane = home.ccmux(&["purge", "web/a", "--yes"]).fails_with(4);
    assert!(pane.contains("ccmux close"), "{pane}");
    let unasked = home.ccmux(&["purge", "web"]).fails_with(4);
    assert!(unasked.contains("--yes"), "{unasked}");
    let json = home.ccmux(&["purge", "web", "--json"]).fails_with(4);
    assert!(json.contains("\"hint\""), "{json}");
    home.ccmux(&["purge", "web", "nobody", "--yes"]).fails_with(3);
    let asked = home.ccmux(&["purge", "web"]).screen(size);
    asked.wait_for("2 panes, 2 running");
    asked.send("n\r");
    assert_eq!(asked.wait_exit(), 4);
    let left = home.ccmux(&["purge", "web"]).screen(size);
    left.wait_for("[y/N]");
    left.send("\r");
    assert_eq!(left.wait_exit(), 4);
    assert!(panes.iter().all(|pane| process::is_alive(&pane.head)));
    assert!(dirs.iter().all(|dir| dir.is_dir()));

    let asked = home.ccmux(&["purge", "web", "--grace", "1"]).screen(size);
    asked.wait_for("[y/N]");
    asked.send("y\r");
    asked.wait_for("purged session web");
    assert_eq!(asked.wait_exit(), 0);
    assert!(dirs.iter().all(|dir| !dir.exists()));
}

fn kill_at(home: &Arc<Home>, hooks: &Hooks, point: &str, words: &'static [&str]) -> i32 {
    let daemon = home.daemon();
    let seen = hooks.reached(point);
    hooks.pause(point);
    let asking = thread::spawn({
        let home = Arc::clone(home);
        move || home.ccmux(words).run()
    });
    hooks.wait_reached(point, seen + 1);
    process::kill_and_wait(&daemon, DEADLINE);
    hooks.release(point);
    asking.join().unwrap().status.code().unwrap()
}

#[test]
fn purge_interrupted_by_daemon_kill_is_finished_by_next_daemon() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    let home = Arc::new(home);
    let trash = home.state_root().join("trash");
    for point in ["purge.stopped", "purge.retired", "retire.isolation_dirs", "gc.deleting"] {
        let (_, panes, dirs) = team(&home, "web");

        let code =
            kill_at(&home, &hooks, point, &["purge", "web", "--yes", "--now", "--grace", "1"]);

        assert_eq!(code, 0, "{point}");
        home.ccmux(&["show", "web"]).fails_with(3);
        assert!(dirs.iter().all(|dir| !dir.exists()), "{point}: {dirs:?}");
        assert!(panes.iter().all(|pane| !process::is_alive(&pane.head)), "{point}");
        // Directories that recovery retired are in the trash like those of closed panes.
        home.ccmux(&["gc", "--empty-trash"]).ok();
        wait_until("nothing is left", DEADLINE, || is_empty(&trash));
    }
}

#[test]
fn heavy_panes_created_during_sweep_keep_their_directories() {
    let home = Home::new(CCMUX);
    configure(&home, EAGER);
    home.start_daemon();
    let home = Arc::new(home);
    let creators: Vec<_> = (0..3)
        .map(|creator| {
            let home = Arc::clone(&home);
            thread::spawn(move || {
                let names = (0..8).map(|n| format!("pane-{creator}-{n}"));
                names.map(|name| home.start_pane(&name, &["sleep", "1000"])).collect::<Vec<_>>()
            })
        })
        .collect();

    while creators.iter().any(|creator| !creator.is_finished()) {
        create_orphan(&home, "claude-configs", &new_id());
        gc(&home, &[]);
    }

    for pane in creators.into_iter().flat_map(|creator| creator.join().unwrap()) {
        let dirs = home.show(&pane.id)["isolation"]["dirs"].as_array().unwrap().clone();
        let paths: Vec<&str> = dirs.iter().map(|dir| dir["path"].as_str().unwrap()).collect();
        assert!(paths.len() >= 3 && paths.iter().all(|path| Path::new(path).is_dir()), "{paths:?}");
        assert!(process::is_alive(&pane.head));
    }
    assert_eq!(events(&home, "cleanup_failed"), [Value::Null; 0]);
}
