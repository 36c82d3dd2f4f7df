//! The life of a pane's directories (R13, R14, R15, R31): retired, kept, swept, collected, purged.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use model::Size;
use serde_json::Value;
use testkit::{DEADLINE, Home, Hooks, Mount, Pane, process, put, tree, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Everything that belongs to no pane may go at once, and is looked for all the time.
const EAGER: &str = "[cleanup]\norphan_age = \"0s\"\nevery = \"1s\"\n";

/// The same, but only when somebody asks.
const WHEN_ASKED: &str = "[cleanup]\norphan_age = \"0s\"\n";

fn configure(home: &Home, text: &str) {
    let root = home.state_root();
    let staged = root.join("config/.ccmux.toml");
    put(&staged, text);
    fs::set_permissions(root, fs::Permissions::from_mode(0o700)).unwrap();
    // In one step: a daemon may be reading it.
    fs::rename(staged, root.join("config/ccmux.toml")).unwrap();
}

/// An id that nothing on this machine has.
fn new_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned()
}

/// A directory of a pane that is gone, with a file in it.
fn plant(home: &Home, holder: &str, id: &str) -> PathBuf {
    let dir = home.state_root().join(holder).join(format!("pane-{id}"));
    put(&dir.join("deep/left-by"), id);
    fs::set_permissions(dir.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

/// The directories that keep a pane apart, wherever they are.
fn apart(home: &Home, id: &str) -> Vec<PathBuf> {
    let name = format!("pane-{id}");
    let holders = fs::read_dir(home.state_root()).unwrap().map(|entry| entry.unwrap().path());
    let mut places: Vec<PathBuf> =
        holders.map(|holder| holder.join(&name)).filter(|p| p.symlink_metadata().is_ok()).collect();
    places.sort();
    places
}

/// What of the trash is about this id: where it came from, and where it is.
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

fn says(item: &Value) -> (&str, &str) {
    (item["kind"].as_str().unwrap(), item["action"].as_str().unwrap())
}

fn events(home: &Home, kind: &str) -> Vec<Value> {
    let all = home.ccmux(&["events", "--json"]).ok();
    let all = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["event"] == kind).collect()
}

/// Waits until the daemon, by itself, has looked at everything that is there now.
fn a_round_passes(home: &Home) {
    // The round that moves the second one begins after the one that moved the first has ended.
    for _ in 0..2 {
        let id = new_id();
        let canary = plant(home, "tmp", &id);
        wait_until("the sweep comes by", DEADLINE, || !canary.exists());
    }
}

/// Everything below the state root but what a daemon writes by itself.
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

fn leave_a_note_in_each(dirs: &[PathBuf]) {
    for dir in dirs {
        put(&dir.join("note"), dir.to_str().unwrap());
    }
}

#[test]
fn closing_a_pane_moves_all_of_its_directories_to_the_trash() {
    let home = Home::new(CCMUX);
    let new = ["new", "-d", "--json", "-n", "work", "--isolation", "home", "--", "sh"];
    let pane = Pane::from_json(&home.ccmux(&new).json()["pane"]);
    let dirs = apart(&home, &pane.id);
    let holders: Vec<String> = dirs
        .iter()
        .map(|dir| dir.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    for expected in ["claude-configs", "claude-homes", "codex-configs", "tmp"] {
        assert!(holders.iter().any(|holder| holder == expected), "{holders:?}");
    }
    leave_a_note_in_each(&dirs);

    home.ccmux(&["close", "work"]).ok();

    assert!(apart(&home, &pane.id).is_empty());
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
fn what_is_to_stay_stays_whoever_looks_for_it() {
    let home = Home::new(CCMUX);
    configure(&home, &format!("[claude.isolation]\ncleanup_on_close = false\n{EAGER}"));
    let pane = home.start_pane("work", &["sh"]);
    let dirs = apart(&home, &pane.id);
    leave_a_note_in_each(&dirs);

    home.ccmux(&["close", "work"]).ok();
    a_round_passes(&home);
    let collected = gc(&home, &["--empty-trash"]);

    assert!(dirs.len() >= 3, "{dirs:?}");
    for dir in &dirs {
        assert!(dir.join("note").is_file(), "{}", dir.display());
        assert_eq!(says(&collected[dir]), ("kept", "keep"), "{collected:?}");
    }
    assert!(!pane.dir.exists());
    // Without its mark it is like any other that belongs to no pane.
    for dir in &dirs {
        fs::remove_file(dir.with_file_name(format!("pane-{}.kept", pane.id))).unwrap();
    }
    wait_until("the sweep moves them", DEADLINE, || apart(&home, &pane.id).is_empty());
}

#[test]
fn a_directory_of_nobody_is_moved_when_it_is_old_enough_and_only_then() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let id = new_id();
    let orphan = plant(&home, "claude-configs", &id);

    let young = gc(&home, &[]);
    assert_eq!(says(&young[&orphan]), ("orphan", "keep"));
    assert!(young[&orphan]["why"].as_str().unwrap().contains("1h"), "{young:?}");
    assert!(young[&orphan]["bytes"].as_u64().unwrap() > 0, "{young:?}");
    assert!(orphan.join("deep/left-by").is_file());

    configure(&home, WHEN_ASKED);
    let old = gc(&home, &[]);
    assert_eq!(says(&old[&orphan]), ("orphan", "trash"));
    assert!(!orphan.exists());
    let moved = in_trash(&home, &id)["claude-configs"].clone();
    assert_eq!(fs::read_to_string(moved.join("deep/left-by")).unwrap(), id);
    let told = events(&home, "retired");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["path"], orphan.to_str().unwrap());
    assert_eq!(told[0]["kept_as"], moved.to_str().unwrap());
}

#[test]
fn a_clock_that_was_set_back_makes_nothing_old() {
    let home = Home::new(CCMUX);
    configure(&home, WHEN_ASKED);
    home.start_daemon();
    let orphan = plant(&home, "tmp", &new_id());
    let future = fs::FileTimes::new()
        .set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(86_400));
    fs::File::open(&orphan).unwrap().set_times(future).unwrap();

    let collected = gc(&home, &[]);

    assert_eq!(says(&collected[&orphan]), ("orphan", "keep"), "{collected:?}");
    assert!(orphan.exists());
}

#[test]
fn orphans_are_found_when_the_daemon_starts() {
    let home = Home::new(CCMUX);
    configure(&home, WHEN_ASKED);
    let pane = home.start_pane("work", &["sh"]);
    let kept = apart(&home, &pane.id);
    home.kill_daemon();
    let orphans: Vec<PathBuf> = ["claude-configs", "gemini-configs", "claude-homes", "tmp"]
        .iter()
        .map(|holder| plant(&home, holder, &new_id()))
        .collect();

    home.start_daemon();

    wait_until("all of them are moved", DEADLINE, || orphans.iter().all(|dir| !dir.exists()));
    assert_eq!(apart(&home, &pane.id), kept);
    wait_until("each is told of", DEADLINE, || events(&home, "retired").len() == orphans.len());
}

#[test]
fn nothing_live_known_or_unknown_is_ever_swept() {
    let home = Home::new(CCMUX);
    configure(&home, EAGER);
    let live = home.start_pane("live", &["sh"]);
    let ended = home.start_pane("ended", &["sh"]);
    home.ccmux(&["stop", "ended"]).ok();
    let known: Vec<PathBuf> =
        [&live, &ended].iter().flat_map(|pane| apart(&home, &pane.id)).collect();
    // A pane that is gone and has left a process.
    let left = new_id();
    let mut process = home.program("sleep", &["1000"]).env("CCMUX_PANE_ID", &left).spawn();
    let in_use = plant(&home, "claude-configs", &left);
    // Things that only look like it.
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
    let foreign = plant(&home, "tmp", &new_id());
    let is_root = std::os::unix::fs::chown(&foreign, Some(12345), None).is_ok();

    a_round_passes(&home);
    let collected = gc(&home, &[]);

    for dir in &known {
        assert!(dir.is_dir() && !collected.contains_key(dir), "{}", dir.display());
    }
    assert_eq!(says(&collected[&in_use]), ("orphan", "keep"), "{collected:?}");
    for dir in &strange {
        assert!(dir.join("precious").is_file(), "{}", dir.display());
        assert_eq!(says(&collected[dir]), ("unknown", "keep"), "{collected:?}");
    }
    for path in [&link, &file] {
        assert_eq!(says(&collected[path]), ("unknown", "keep"), "{collected:?}");
    }
    assert!(precious.join("work").is_file() && link.is_symlink() && file.is_file());
    if is_root {
        assert!(foreign.is_dir());
        assert_eq!(collected[&foreign]["why"], "it belongs to user 12345");
    }
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until("what the process kept is moved", DEADLINE, || !in_use.exists());
}

#[test]
fn what_comes_up_between_finding_and_moving_saves_a_directory() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    home.start_daemon();
    configure(&home, WHEN_ASKED);
    let (saved, lost) = (plant(&home, "tmp", &new_id()), plant(&home, "tmp", &new_id()));
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

    assert_eq!(says(&collected[&saved]), ("orphan", "keep"), "{collected:?}");
    assert_eq!(says(&collected[&lost]), ("orphan", "trash"), "{collected:?}");
    assert!(saved.is_dir() && !lost.exists());
    assert!(apart(&home, &born.id).len() >= 3);
    assert_eq!(home.show("born")["state"], "running");
}

#[test]
fn after_a_recovery_that_was_not_complete_nothing_is_an_orphan() {
    let home = Home::new(CCMUX);
    configure(&home, EAGER);
    let pane = home.start_pane("hurt", &["sh"]);
    home.kill_daemon();
    put(&pane.dir.join("pane.json"), "{");
    let orphan = plant(&home, "tmp", &new_id());
    let due = home.state_root().join(format!("trash/1000-pane-{}", new_id()));
    fs::create_dir(&due).unwrap();

    home.start_daemon();

    // What was retired before is not in doubt.
    wait_until("the trash is looked through", DEADLINE, || !due.exists());
    let collected = gc(&home, &[]);
    assert_eq!(says(&collected[&orphan]), ("orphan", "keep"), "{collected:?}");
    let why = collected[&orphan]["why"].as_str().unwrap();
    assert!(why.contains("recovery was not complete"), "{why}");
    assert!(orphan.is_dir());
}

#[test]
fn a_broken_configuration_stops_all_sweeping() {
    let home = Home::new(CCMUX);
    configure(&home, "[cleanup]\norphan_age = \"0s\"\nevery = \"soon\"\n");
    fs::create_dir_all(home.state_root().join("trash")).unwrap();
    let due = home.state_root().join(format!("trash/1000-pane-{}", new_id()));
    fs::create_dir(&due).unwrap();
    let orphan = plant(&home, "tmp", &new_id());
    home.start_daemon();

    for options in [&["gc"][..], &["gc", "--dry-run"], &["gc", "--empty-trash"]] {
        let refused = home.ccmux(options).fails_with(2);
        assert!(refused.contains("cleanup.every") && refused.contains("hint:"), "{refused}");
    }

    assert!(due.is_dir() && orphan.is_dir());
}

#[test]
fn a_link_in_place_of_a_directory_does_not_keep_a_pane_from_being_closed() {
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
    assert_eq!(apart(&home, &pane.id), std::slice::from_ref(&config), "the others are gone");
    let told = events(&home, "cleanup_failed");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["path"], config.to_str().unwrap());
    assert_eq!(told[0]["why"], "it is a symbolic link");
    configure(&home, WHEN_ASKED);
    assert_eq!(says(&gc(&home, &[])[&config]), ("unknown", "keep"));
}

#[test]
fn a_directory_of_another_user_does_not_keep_a_pane_from_being_closed() {
    let home = Home::new(CCMUX);
    let pane = home.start_pane("work", &["sh"]);
    let config: PathBuf = home.show("work")["config_dir"].as_str().unwrap().into();
    if std::os::unix::fs::chown(&config, Some(12345), None).is_err() {
        println!("skipped: only root can give a directory away");
        return;
    }

    home.ccmux(&["close", "work"]).ok();

    assert_eq!(apart(&home, &pane.id), std::slice::from_ref(&config));
    let told = events(&home, "cleanup_failed");
    assert_eq!(told[0]["why"], "it belongs to user 12345", "{told:?}");
    configure(&home, WHEN_ASKED);
    assert_eq!(says(&gc(&home, &[])[&config]), ("unknown", "keep"));
}

#[test]
fn a_trash_that_takes_nothing_loses_nothing_and_is_told_of_once() {
    let home = Home::new(CCMUX);
    configure(&home, EAGER);
    let pane = home.start_pane("work", &["sh"]);
    let dirs = apart(&home, &pane.id);
    let trash = home.state_root().join("trash");
    let read_only = Mount::read_only(&trash);
    if read_only.is_none() {
        fs::set_permissions(&trash, fs::Permissions::from_mode(0o500)).unwrap();
    }

    let orphan = plant(&home, "tmp", &new_id());
    let refused = home.ccmux(&["close", "work"]).fails_with(1);
    wait_until("the sweep fails", DEADLINE, || {
        events(&home, "cleanup_failed")
            .iter()
            .any(|event| event["path"] == orphan.to_str().unwrap())
    });
    let failed = home.ccmux(&["gc", "--json"]).run();

    assert!(refused.contains("cannot move"), "{refused}");
    assert!(pane.dir.is_dir() && orphan.is_dir());
    assert_eq!(apart(&home, &pane.id), dirs);
    assert_eq!(failed.status.code(), Some(1), "{}", failed.stderr);
    let collected = items(&serde_json::from_str(&failed.stdout).unwrap());
    assert_eq!(says(&collected[&orphan]), ("orphan", "failed"), "{collected:?}");
    let told = events(&home, "cleanup_failed");
    let about_it = told.iter().filter(|event| event["path"] == orphan.to_str().unwrap());
    assert_eq!(about_it.count(), 1, "{told:?}");
    drop(read_only);
    fs::set_permissions(&trash, fs::Permissions::from_mode(0o700)).unwrap();
    wait_until("the orphan is moved", DEADLINE, || !orphan.exists());
    home.ccmux(&["close", "work"]).ok();
    assert_eq!(in_trash(&home, &pane.id).len(), dirs.len() + 1);
}

#[test]
fn a_tree_that_cannot_be_deleted_is_told_of_once_and_the_others_go() {
    let home = Home::new(CCMUX);
    configure(&home, &format!("{EAGER}retention = \"0s\"\n"));
    let due = home.state_root().join(format!("trash/1000-pane-{}", new_id()));
    fs::create_dir_all(due.join("mnt")).unwrap();
    let Some(mounted) = Mount::empty(&due.join("mnt")) else {
        println!("skipped: mounting is not allowed here");
        return;
    };
    put(&due.join("mnt/precious"), "on another disk");

    home.start_daemon();
    wait_until("it is told of", DEADLINE, || !events(&home, "cleanup_failed").is_empty());
    a_round_passes(&home);
    let other = new_id();
    let orphan = plant(&home, "tmp", &other);
    wait_until("others are deleted", DEADLINE, || {
        !orphan.exists() && in_trash(&home, &other).is_empty()
    });

    assert!(due.join("mnt/precious").is_file());
    let told = events(&home, "cleanup_failed");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0]["why"].as_str().unwrap().contains("mounted"), "{told:?}");
    let text = home.ccmux(&["gc"]).run();
    assert_eq!(text.status.code(), Some(1));
    assert!(text.stdout.contains("failed") && text.stdout.contains("could not"), "{}", text.stdout);
    drop(mounted);
    wait_until("it goes when it can", DEADLINE, || !due.exists());
}

#[test]
fn a_dry_run_says_what_would_be_done_and_changes_nothing() {
    let home = Home::new(CCMUX);
    home.start_pane("live", &["sleep", "1000"]);
    let closed = home.start_pane("closed", &["sh"]);
    home.ccmux(&["close", "closed"]).ok();
    let orphan = plant(&home, "tmp", &new_id());
    let due = home.state_root().join(format!("trash/1000-pane-{}", new_id()));
    put(&due.join("large"), &"x".repeat(300_000));
    let notes = home.state_root().join("trash/2024-notes");
    fs::create_dir(&notes).unwrap();
    configure(&home, WHEN_ASKED);
    let before = state(&home);

    let collected = gc(&home, &["--dry-run"]);
    let emptying = gc(&home, &["--dry-run", "--empty-trash"]);
    let text = home.ccmux(&["gc", "--dry-run"]).ok();

    assert_eq!(state(&home), before);
    assert_eq!(says(&collected[&orphan]), ("orphan", "trash"));
    assert_eq!(says(&collected[&due]), ("trash", "delete"));
    assert!(collected[&due]["bytes"].as_u64().unwrap() >= 300_000, "{collected:?}");
    assert_eq!(says(&collected[&notes]), ("unknown", "keep"));
    let retired = in_trash(&home, &closed.id);
    for path in retired.values() {
        assert_eq!(says(&collected[path]), ("trash", "keep"));
        assert_eq!(says(&emptying[path]), ("trash", "delete"));
    }
    assert_eq!(says(&emptying[&notes]), ("unknown", "keep"));
    assert!(text.starts_with("PANE") && text.contains("\nACTION"), "{text}");
    assert!(text.contains("would delete 300 KiB") && text.contains("would move"), "{text}");
    assert!(text.contains("the next is deleted after 20"), "{text}");
    for item in collected.values() {
        let keys: Vec<&str> = item.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys.len(), 5, "{keys:?}");
    }
}

#[test]
fn the_trash_is_emptied_of_what_is_due_and_of_everything_on_request() {
    let home = Home::new(CCMUX);
    let pane = home.start_pane("work", &["sh"]);
    home.ccmux(&["close", "work"]).ok();
    let due = home.state_root().join(format!("trash/1000-session-{}", new_id()));
    // As package managers leave them.
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

/// R15: however much lies around, all of it is listed, also what is too long for one message.
#[test]
fn a_trash_of_thousands_is_listed_whole() {
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
fn a_closed_pane_can_be_got_back_from_the_trash() {
    let home = Home::new(CCMUX);
    // In a session that stays, and in one that went with it.
    for options in [&["--session", "team"][..], &[]] {
        let new = ["new", "-d", "--json", "-n", "work"].iter().chain(options).chain(&["--", "sh"]);
        let made = home.ccmux(&new.copied().collect::<Vec<_>>()).json();
        let pane = Pane::from_json(&made["pane"]);
        let dirs = apart(&home, &pane.id);
        leave_a_note_in_each(&dirs);
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

/// A session of two panes with all their directories.
fn team(home: &Home, name: &str) -> (String, Vec<Pane>, Vec<PathBuf>) {
    let made: Vec<Value> = ["a", "b"]
        .iter()
        .map(|pane| {
            let new = ["new", "-d", "--json", "--session", name, "-n", pane, "--", "sleep", "1000"];
            home.ccmux(&new).json()
        })
        .collect();
    let panes: Vec<Pane> = made.iter().map(|made| Pane::from_json(&made["pane"])).collect();
    let mut dirs: Vec<PathBuf> = panes.iter().flat_map(|pane| apart(home, &pane.id)).collect();
    dirs.push(made[0]["session"]["dir"].as_str().unwrap().into());
    (made[0]["session"]["id"].as_str().unwrap().to_owned(), panes, dirs)
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn purging_a_session_deletes_everything_of_it_and_nothing_else() {
    let home = Home::new(CCMUX);
    configure(&home, "[claude.isolation]\ncleanup_on_close = false\n");
    let (id, panes, dirs) = team(&home, "web");
    let (_, others, other_dirs) = team(&home, "api");
    let trash = home.state_root().join("trash");

    let purged = home.ccmux(&["purge", "web", "--yes", "--json", "--grace", "1"]).json();

    assert_eq!(purged, serde_json::json!({ "purged": [id] }));
    home.ccmux(&["show", "web"]).fails_with(3);
    assert!(panes.iter().all(|pane| !process::is_alive(&pane.head)));
    assert!(dirs.iter().all(|dir| !dir.exists()), "{dirs:?}");
    wait_until("what was moved is deleted", DEADLINE, || is_empty(&trash));
    assert!(others.iter().all(|pane| process::is_alive(&pane.head)));
    assert!(other_dirs.iter().all(|dir| dir.is_dir()));
    assert_eq!(events(&home, "session_closed").len(), 1);
    home.ccmux(&["purge", "web", "--yes"]).fails_with(3);
}

#[test]
fn nobody_purges_by_mistake() {
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
fn a_purge_whose_daemon_is_killed_is_finished_by_the_next() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    let home = Arc::new(home);
    let trash = home.state_root().join("trash");
    for point in ["purge.stopped", "purge.retired", "retire.apart", "gc.deleting"] {
        let (_, panes, dirs) = team(&home, "web");

        let code = kill_at(&home, &hooks, point, &["purge", "web", "--yes", "--grace", "1"]);

        assert_eq!(code, 0, "{point}");
        home.ccmux(&["show", "web"]).fails_with(3);
        assert!(dirs.iter().all(|dir| !dir.exists()), "{point}: {dirs:?}");
        assert!(panes.iter().all(|pane| !process::is_alive(&pane.head)), "{point}");
        // What recovery had moved by itself is there like anything that was closed.
        home.ccmux(&["gc", "--empty-trash"]).ok();
        wait_until("nothing is left", DEADLINE, || is_empty(&trash));
    }
}

#[test]
fn heavy_panes_that_are_born_while_everything_is_swept_keep_all_they_have() {
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
        plant(&home, "claude-configs", &new_id());
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
