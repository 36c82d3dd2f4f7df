#![expect(clippy::disallowed_methods, reason = "tests write files in place")]

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::*;

/// How long an event may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

fn temp_dir() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().canonicalize().unwrap();
    (temp, path)
}

fn file_watch() -> FileWatch {
    FileWatch::new(OwnProcesses::none())
}

fn subscribe(watch: &FileWatch, writers: Writers) -> (Subscription, Receiver<PathBuf>) {
    let (sender, changes) = mpsc::channel();
    let sink = move |change: Change<'_>| drop(sender.send(change.path.to_owned()));
    (watch.subscribe(writers, sink), changes)
}

/// Waits for a change of `path`.
fn wait_for(changes: &Receiver<PathBuf>, path: &Path) {
    while changes.recv_timeout(DEADLINE).unwrap() != path {}
}

#[test]
fn changes_reach_every_subscriber_of_the_directory() {
    let (_temp, dir) = temp_dir();
    let watch = file_watch();
    let (one, changes_one) = subscribe(&watch, Writers::Ignored);
    let (two, changes_two) = subscribe(&watch, Writers::Ignored);
    one.watch(&dir).unwrap();
    two.watch(&dir).unwrap();
    let file = dir.join("file");

    fs::write(&file, "text").unwrap();

    wait_for(&changes_one, &file);
    wait_for(&changes_two, &file);
}

#[test]
fn changes_in_directories_of_other_subscribers_are_not_dispatched() {
    let (_temp, dir) = temp_dir();
    let (mine, other) = (dir.join("mine"), dir.join("other"));
    fs::create_dir(&mine).unwrap();
    fs::create_dir(&other).unwrap();
    let watch = file_watch();
    let (one, changes) = subscribe(&watch, Writers::Ignored);
    let (two, _changes) = subscribe(&watch, Writers::Ignored);
    one.watch(&mine).unwrap();
    two.watch(&other).unwrap();

    fs::write(other.join("file"), "text").unwrap();
    fs::write(mine.join("file"), "text").unwrap();

    // Changes are dispatched in order, so the first one would be the other directory's.
    assert_eq!(changes.recv_timeout(DEADLINE).unwrap(), mine.join("file"));
}

#[test]
fn watcher_exists_while_a_directory_is_watched() {
    let (_temp, dir) = temp_dir();
    let watch = file_watch();
    let (one, _changes) = subscribe(&watch, Writers::Ignored);
    let (two, changes) = subscribe(&watch, Writers::Ignored);
    assert_eq!(watch.is_running(), (false, false));

    one.watch(&dir).unwrap();
    two.watch(&dir).unwrap();
    two.watch(&dir).unwrap();
    assert_eq!(watch.is_running(), (true, false), "no subscriber asks for writers");
    two.unwatch(&dir);
    drop(one);

    assert!(watch.is_running().0, "one watch is left");
    fs::write(dir.join("file"), "text").unwrap();
    wait_for(&changes, &dir.join("file"));
    two.unwatch(&dir);
    assert_eq!(watch.is_running(), (false, false));
}

#[test]
fn write_tracker_exists_while_a_subscriber_asks_for_writers() {
    // Only root gets writers from the kernel.
    let available = WriteTracker::new(OwnProcesses::none()).is_ok();
    let (_temp, dir) = temp_dir();
    let watch = file_watch();
    let (plain, _plain_changes) = subscribe(&watch, Writers::Ignored);
    let (tracking, _tracking_changes) = subscribe(&watch, Writers::Tracked);
    plain.watch(&dir).unwrap();

    tracking.watch(&dir).unwrap();
    assert_eq!(watch.is_running(), (true, available));
    tracking.unwatch(&dir);

    assert_eq!(watch.is_running(), (true, false));
}

#[test]
fn missing_directory_is_watched_by_retry_after_its_creation() {
    let (_temp, dir) = temp_dir();
    let missing = dir.join("missing");
    let watch = file_watch();
    let (one, changes) = subscribe(&watch, Writers::Ignored);
    assert!(matches!(one.watch(&missing), Err(WatchError::Directory(_))));
    assert!(one.retry(&missing).is_err());

    fs::create_dir(&missing).unwrap();
    one.retry(&missing).unwrap();

    fs::write(missing.join("file"), "text").unwrap();
    wait_for(&changes, &missing.join("file"));
    one.unwatch(&missing);
    assert!(!watch.is_running().0);
}

#[test]
fn replaced_directory_is_watched_again_by_another_subscriber() {
    let (_temp, dir) = temp_dir();
    let (path, moved) = (dir.join("dir"), dir.join("moved"));
    fs::create_dir(&path).unwrap();
    let watch = file_watch();
    let (one, changes_one) = subscribe(&watch, Writers::Ignored);
    one.watch(&path).unwrap();
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();

    let (two, changes_two) = subscribe(&watch, Writers::Ignored);
    two.watch(&path).unwrap();
    fs::write(moved.join("old"), "text").unwrap();
    fs::write(path.join("new"), "text").unwrap();

    wait_for(&changes_one, &path.join("new"));
    // A watch that is left on the moved directory would have reported `old` first. The new directory
    // itself may be reported as well.
    let mut reported = std::iter::repeat_with(|| changes_two.recv_timeout(DEADLINE).unwrap());
    assert_eq!(reported.find(|changed| *changed != path), Some(path.join("new")));
}

#[test]
fn removed_directory_is_reported_to_its_own_subscriber() {
    let (_temp, dir) = temp_dir();
    let path = dir.join("dir");
    fs::create_dir(&path).unwrap();
    let watch = file_watch();
    let (one, changes) = subscribe(&watch, Writers::Ignored);
    one.watch(&path).unwrap();

    fs::remove_dir(&path).unwrap();

    wait_for(&changes, &path);
}

/// The sink takes a lock for every change while other threads watch and unwatch directories.
#[test]
fn watching_during_changes_does_not_deadlock() {
    let (_temp, dir) = temp_dir();
    let dirs: Vec<PathBuf> = (0..20).map(|number| dir.join(number.to_string())).collect();
    dirs.iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let watch = file_watch();
    let seen = Arc::new(Mutex::new(0_usize));
    let sink = {
        let seen = Arc::clone(&seen);
        move |_: Change<'_>| *seen.lock() += 1
    };
    let one = watch.subscribe(Writers::Tracked, sink);
    let (two, changes) = subscribe(&watch, Writers::Ignored);
    two.watch(&dir).unwrap();
    let (done, finished) = mpsc::channel();

    std::thread::scope(|scope| {
        scope.spawn(|| {
            for dir in dirs.iter().cycle().take(200) {
                fs::write(dir.join("file"), "text").unwrap();
            }
        });
        scope.spawn(|| {
            for dir in dirs.iter().cycle().take(200) {
                one.watch(dir).unwrap();
                let _count = *seen.lock();
                one.unwatch(dir);
            }
            done.send(()).unwrap();
        });
        finished.recv_timeout(DEADLINE).unwrap();
    });

    fs::write(dir.join("last"), "text").unwrap();
    wait_for(&changes, &dir.join("last"));
}
