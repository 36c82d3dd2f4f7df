//! Real faults: each gives a clear error and loses no data.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use client::{Connection, connect_in};
use protocol::control::SOCKET as CONTROL_SOCKET;
use protocol::frame::{self, Frame, Kind};
use protocol::greeting::{Hello, Refusal, Versions};
use protocol::pane::{self, Attach, KeyOptions, View};
use testkit::soak::repetitions;
use testkit::{CrashDisk, DEADLINE, FullDisk, Home, process, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

#[test]
fn pane_with_killed_keeper_is_lost_and_keeps_its_output() {
    let home = Home::new(CCMUX);
    let script = "echo last words; setsid sleep 1000 & sleep 1000";
    let lost = home.start_pane("lost", &["sh", "-c", script]);
    let other = home.start_pane("other", &["sh"]);
    home.ccmux(&["wait", "lost", "--for", "text=last words", "--timeout", "20"]).ok();
    let tree = process::descendants(lost.keeper().pid);
    assert!(tree.len() >= 3, "{tree:?}");
    let tree: Vec<_> = tree.into_iter().filter_map(process::identity).collect();

    process::kill_and_wait(&lost.keeper(), DEADLINE);

    wait_until("the pane is reported as lost", DEADLINE, || home.show("lost")["state"] == "lost");
    wait_until("its processes have ended", DEADLINE, || !tree.iter().any(process::is_alive));
    assert!(home.ccmux(&["read", "lost"]).ok().contains("last words"));
    wait_until("the loss is an event", DEADLINE, || {
        home.ccmux(&["events", "--json"]).ok().contains("pane_lost")
    });
    assert!(process::is_alive(&other.head));
    assert_eq!(home.show("other")["state"], "running");
    home.ccmux(&["close", "lost"]).ok();
}

#[test]
fn keepers_killed_without_daemon_are_found_by_next_daemon() {
    let home = Home::new(CCMUX);
    let lost = home.start_pane("lost", &["sleep", "1000"]);
    let done = home.start_pane("done", &["sh"]);
    home.kill_daemon();

    process::kill_and_wait(&lost.keeper(), DEADLINE);
    process::signal(&done.head, rustix::process::Signal::KILL);
    wait_until("the pane has ended", DEADLINE, || done.dir.join("exit.json").exists());

    assert_eq!(home.show("lost")["state"], "lost");
    assert_eq!(home.show("done")["ending"]["signal"], 9);
    let count = |kind: &str| home.ccmux(&["events", "--json"]).ok().matches(kind).count();
    for kind in ["pane_lost", "pane_exited"] {
        wait_until("both ends are events", DEADLINE, || count(kind) == 1);
    }
    home.kill_daemon();
    let events = home.ccmux(&["events", "--json"]).ok();
    assert_eq!(events.matches("pane_exited").count(), 1, "reported twice: {events}");
}

#[test]
fn state_root_with_unsafe_owner_or_mode_is_refused() {
    let home = Home::new(CCMUX);
    let root = home.state_root().to_owned();
    let elsewhere = home.dir().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let refused = |what: &str| {
        let error = home.ccmux(&["ls"]).fails_with(6);
        assert!(error.contains(what) && error.contains("hint:"), "{what}: {error}");
    };

    symlink(&elsewhere, &root).unwrap();
    refused("symbolic link");
    fs::remove_file(&root).unwrap();
    fs::File::create(&root).unwrap();
    refused("not a directory");
    fs::remove_file(&root).unwrap();
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    refused("writable by other users");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
    if std::os::unix::fs::chown(&root, Some(12345), None).is_ok() {
        refused("belongs to user 12345");
        std::os::unix::fs::chown(&root, Some(0), None).unwrap();
    }

    // A directory in which even root cannot write.
    let unwritable = home.ccmux(&["ls"]).env("CCMUX_HOME", "/proc/ccmux").fails_with(6);
    assert!(unwritable.contains("/proc/ccmux") && unwritable.contains("hint:"), "{unwritable}");

    home.ccmux(&["ls"]).ok();
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn home_longer_than_socket_address_limit_works() {
    let home = Home::new(CCMUX);
    let long = home.dir().join("x".repeat(100)).join("y".repeat(100)).join(".ccmux");
    fs::create_dir_all(long.parent().unwrap()).unwrap();
    let home = home.with_state_root(&long);

    home.start_pane("work", &["sh"]);
    home.ccmux(&["send", "work", "echo far-$((1+1))", "--enter"]).ok();
    home.ccmux(&["wait", "work", "--for", "text=far-2", "--timeout", "20"]).ok();
    let screen = home.ccmux(&["attach", "work"]).screen(model::Size::new(80, 24).unwrap());
    screen.wait_for("far-2");
}

/// Overwrites a file in place.
fn overwrite(path: &Path, bytes: &[u8]) {
    fs::File::create(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn damaged_database_is_kept_and_rebuilt_from_directories() {
    let home = Home::new(CCMUX);
    let made =
        home.ccmux(&["new", "-d", "--json", "--session", "s", "-n", "work", "--", "sh"]).json();
    home.ccmux(&["new", "-d", "-n", "ended", "--", "sh", "-c", "exit 5"]).ok();
    home.ccmux(&["wait", "ended", "--for", "exit", "--timeout", "20"]).ok();
    home.kill_daemon();
    for name in ["ccmux.db-wal", "ccmux.db-shm"] {
        let _missing = fs::remove_file(home.state_root().join(name));
    }
    overwrite(&home.state_root().join("ccmux.db"), &[b'x'; 5000]);

    let shown = home.ccmux(&["show", "--json", "s/work"]).json();

    assert_eq!(shown["pane"]["id"], made["pane"]["id"]);
    assert_eq!(shown["session"]["id"], made["session"]["id"]);
    assert_eq!(shown["pane"]["state"], "running");
    assert_eq!(home.show("ended")["ending"]["code"], 5);
    let kept: Vec<_> = fs::read_dir(home.state_root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("ccmux.db.damaged"))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(home.ccmux(&["events", "--json"]).ok().contains("quarantined"));
}

#[test]
fn damaged_record_is_set_aside_and_reported() {
    let home = Home::new(CCMUX);
    let hurt = home.start_pane("hurt", &["sh"]);
    let well = home.start_pane("well", &["sh"]);
    home.kill_daemon();
    overwrite(&hurt.dir.join("pane.json"), b"{\"format\":1,\"checks");

    home.ccmux(&["send", "well", "echo well-$((1+1))", "--enter"]).ok();
    home.ccmux(&["wait", "well", "--for", "text=well-2", "--timeout", "20"]).ok();

    let status = home.ccmux(&["daemon", "status", "--json"]).json();
    assert!(status["problems"].to_string().contains("pane.json"), "{status}");
    let kept = fs::read(hurt.dir.join("pane.json.damaged")).unwrap();
    assert_eq!(kept, b"{\"format\":1,\"checks");
    assert!(process::is_alive(&hurt.head) && process::is_alive(&well.head));
    assert!(home.ccmux(&["ls"]).ok().contains("well"));
}

#[test]
fn garbage_on_sockets_is_harmless() {
    let home = Home::new(CCMUX);
    let pane = home.start_pane("work", &["sh"]);
    let run = home.state_root().join("run");
    let daemon = home.daemon_pid();
    let pieces: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 4096],
        &[0; 4096],
        b"\x02\x00\x00\x00\x04{}",
        b"\x05\x00\x00\x00\x01{\"a\"",
        b"\x00\x00\x00\x00\x63",
    ];

    for (dir, name) in [(run.as_path(), "control.sock"), (pane.dir.as_path(), "keeper.sock")] {
        for garbage in pieces {
            let mut stream = connect_in(dir, name).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            // The other end may close the connection before it has read everything.
            let _cut_short = stream.write_all(garbage);
            let _half_closed = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _reset = stream.read_to_end(&mut answer);
        }
    }

    assert_eq!(home.daemon_pid(), daemon);
    home.ccmux(&["send", "work", "echo fine-$((1+1))", "--enter"]).ok();
    home.ccmux(&["wait", "work", "--for", "text=fine-2", "--timeout", "20"]).ok();
}

/// B3: connections over the limit wait in the accept queue.
#[test]
fn connection_over_the_limit_waits_in_accept_queue() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let run = home.state_root().join("run");
    let connect = |_| Connection::open(&run, CONTROL_SOCKET).unwrap();
    let mut clients: Vec<Connection> = (0..256).map(connect).collect();

    let mut listing = home.ccmux(&["ls"]).spawn();
    drop(clients.pop());

    assert!(listing.wait().unwrap().success());
}

#[test]
fn client_with_other_protocol_version_is_told_supported_version() {
    let home = Home::new(CCMUX);
    let pane = home.start_pane("work", &["sh"]);
    let run = home.state_root().join("run");
    let future = Hello { protocol: Versions { min: 90, max: 99 }, version: "9.9.9".to_owned() };

    for (dir, name) in [(run.as_path(), "control.sock"), (pane.dir.as_path(), "keeper.sock")] {
        let mut stream = connect_in(dir, name).unwrap();
        frame::write(&mut stream, &Frame::json(Kind::Hello, &future)).unwrap();
        let answer = frame::read(&mut stream).unwrap().unwrap();
        assert_eq!(answer.kind, Kind::Refused);
        let refusal: Refusal = answer.parse().unwrap();
        assert!(refusal.message.contains("9.9.9 and supports 90 to 99"), "{}", refusal.message);
    }
}

#[test]
fn keeper_with_newer_protocol_is_listed_and_can_be_stopped() {
    let home = Home::new(CCMUX);
    let pane = home.start_pane("work", &["sh"]);
    home.kill_daemon();
    // As a later release would write it.
    let mut record = testkit::pane::read_record(&pane.dir.join("keeper.json"));
    record["protocol"] = serde_json::json!({ "min": 90, "max": 99 });
    let checksum = blake3::hash(record.to_string().as_bytes()).to_hex().to_string();
    let envelope = serde_json::json!({ "format": 1, "checksum": checksum, "record": record });
    overwrite(&pane.dir.join("keeper.json"), envelope.to_string().as_bytes());

    let shown = home.show("work");

    assert_eq!(shown["state"], "running", "{shown}");
    assert!(shown["problem"].as_str().unwrap_or_default().contains("90 to 99"), "{shown}");
    home.ccmux(&["stop", "work", "--grace", "1"]).ok();
    assert!(!process::is_alive(&pane.head));
}

#[test]
fn log_follower_gets_exactly_the_bytes_after_its_offset() {
    let home = Home::new(CCMUX);
    let pane = home.start_pane("work", &["sh", "-c", "seq 100000; sleep 1000"]);
    home.ccmux(&["wait", "work", "--for", "text=100000", "--timeout", "20"]).ok();
    let log = pane.log();
    let mut connection = Connection::open(&pane.dir, pane::SOCKET).unwrap();
    let from = 1234;

    let view = View::Follow { from: Some(from) };
    let attach = Attach { view, size: None, read_only: true, keys: KeyOptions::default() };
    connection.send(&Frame::json(Kind::Attach, &attach)).unwrap();

    assert_eq!(connection.receive().unwrap().kind, Kind::Attached);
    let mut got = Vec::new();
    while got.len() < log.len() - 1234 {
        let frame = connection.receive().unwrap();
        assert_eq!(frame.kind, Kind::Output);
        let (offset, bytes) = frame.body.split_at(8);
        assert_eq!(offset, (from + got.len() as u64).to_le_bytes());
        got.extend_from_slice(bytes);
    }
    assert!(got == log[1234..], "the bytes differ");
}

/// R23: a full disk ends one pane; six others lose no output.
#[test]
fn pane_failing_on_full_disk_does_not_affect_others() {
    const LINES: usize = 300;
    testkit::require!(Mount);
    let disk = FullDisk::mount(1 << 20);
    let home = Home::new(CCMUX);
    let go = home.dir().join("go");
    let others: Vec<String> = (1..=6).map(|number| format!("work{number}")).collect();
    for name in &others {
        let script = format!(
            "echo {name} is there; until [ -e '{}' ]; do sleep 0.1; done; i=0; \
             while [ $i -lt {LINES} ]; do i=$((i+1)); echo {name} line $i; \
             echo $i >> \"$OUTPUT_DIR/lines\"; done; echo {name} has finished; exec sleep 1000",
            go.display()
        );
        home.start_pane(name, &["sh", "-c", &script]);
        let there = format!("text={name} is there");
        home.ccmux(&["wait", name, "--for", &there, "--timeout", "60"]).ok();
    }
    let fills = "while cat /dev/zero >> big; do :; done; echo lost; exit 7";
    let words = ["new", "-d", "-n", "full", "--workspace", "shared", "--", "sh", "-c", fills];
    home.ccmux(&words).dir(disk.path()).ok();

    home.ccmux(&["wait", "full", "--for", "exit", "--timeout", "60"]).ok();
    fs::create_dir(&go).unwrap();

    assert_eq!(home.show("full")["ending"]["code"], 7);
    for name in &others {
        let finished = format!("text={name} has finished");
        home.ccmux(&["wait", name, "--for", &finished, "--timeout", "120"]).ok();
        let log = home.ccmux(&["read", name, "--log"]).ok();
        let said: Vec<&str> = log.lines().filter(|line| line.contains(" line ")).collect();
        let all: Vec<String> = (1..=LINES).map(|i| format!("{name} line {i}")).collect();
        assert_eq!(said, all, "{name} printed every line once and in order");
        let shown = home.show(name);
        assert_eq!(shown["state"], "running", "{shown}");
        let output = Path::new(shown["output"].as_str().unwrap()).join("lines");
        assert_eq!(fs::read_to_string(output).unwrap().lines().count(), LINES);
    }
    drop(home);
}

#[test]
fn missing_control_socket_is_created_again() {
    let home = Home::new(CCMUX);
    let daemon = home.start_daemon();
    let socket = home.state_root().join("run/control.sock");

    fs::remove_file(&socket).unwrap();
    home.ccmux(&["ls"]).ok();
    assert!(process::is_alive(&daemon) && socket.exists());

    fs::remove_file(&socket).unwrap();
    home.ccmux(&["daemon", "stop"]).ok();
    assert!(!process::is_alive(&daemon));
}

#[test]
fn daemon_stop_reports_a_stopped_daemon() {
    let home = Home::new(CCMUX);
    let daemon = home.start_daemon();
    process::signal(&daemon, rustix::process::Signal::STOP);

    let error = home.ccmux(&["daemon", "stop"]).fails_with(1);
    process::signal(&daemon, rustix::process::Signal::CONT);

    let expected = format!("kill -CONT {}", daemon.pid);
    assert!(error.contains(&expected), "{error}");
    home.ccmux(&["daemon", "stop"]).ok();
}

#[test]
fn daemon_that_cannot_recover_tells_its_client_the_reason() {
    testkit::require!(Mount);
    let disk = FullDisk::mount(8 << 20);
    let mut home = Home::new(CCMUX).with_state_root(&disk.path().join("state"));
    home.start_daemon();
    home.kill_daemon();
    let hooks = home.hooks();
    hooks.pause("recover.bound");

    let client = home.ccmux(&["ls"]).spawn();
    hooks.wait_reached("recover.bound", 1);
    disk.fill();
    hooks.release("recover.bound");
    let output = client.wait_with_output().unwrap();

    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("cannot recover") && error.contains("full"), "{error}");
    assert_eq!(hooks.reached("recover.bound"), 1, "no other daemon was started");
    disk.free();
    drop(home);
}

/// A full disk can be freed with ccmux itself, also if the daemon was killed meanwhile.
#[test]
fn purge_and_gc_free_space_on_a_full_disk() {
    testkit::require!(Mount);
    let disk = FullDisk::mount(48 << 20);
    let home = Home::new(CCMUX).with_state_root(&disk.path().join("state"));
    home.start_daemon();
    let reserve = home.state_root().join("run/reserve");
    wait_until("space is reserved", DEADLINE, || reserve.exists());
    for (session, pane) in [("web", "one"), ("api", "two")] {
        let print = "yes 0123456789 | head -c 9000000; echo; echo printed";
        let new = ["new", "-d", "--session", session, "-n", pane, "--workspace", "shared", "--"];
        home.ccmux(&[&new[..], &["sh", "-c", print]].concat()).ok();
        home.ccmux(&["wait", pane, "--for", "exit", "--timeout", "60"]).ok();
    }
    home.ccmux(&["close", "one"]).ok();
    home.kill_daemon();
    disk.fill();

    home.ccmux(&["gc", "--empty-trash"]).ok();
    wait_until("gc has freed space", DEADLINE, || disk.available() > 4_000_000);
    disk.fill();
    home.ccmux(&["purge", "api", "--yes", "--now"]).ok();
    wait_until("purge has freed space", DEADLINE, || disk.available() > 4_000_000);

    home.ccmux(&["show", "api"]).fails_with(3);
    disk.free();
    drop(home);
}

#[test]
fn full_disk_stops_no_pane_and_log_gap_is_reported() {
    testkit::require!(Mount);
    let disk = FullDisk::mount(24 << 20);
    let root = disk.path().join("state");
    let home = Home::new(CCMUX).with_state_root(&root);
    let pane = home.start_pane("work", &["sh"]);
    home.ccmux(&["wait", "work", "--for", "text=.", "--timeout", "20"]).ok();
    disk.fill();

    let refused = home.ccmux(&["new", "-d", "-n", "late", "--", "sh"]).fails_with(1);
    home.ccmux(&["send", "work", "seq 200000; echo done-$((1+1))", "--enter"]).ok();
    home.ccmux(&["wait", "work", "--for", "text=done-2", "--timeout", "30"]).ok();

    assert!(refused.to_lowercase().contains("space") || refused.contains("full"), "{refused}");
    assert!(process::is_alive(&pane.head));
    let problem = home.show("work")["live"]["log_problem"].to_string();
    assert!(problem.contains("missing"), "{problem}");
    disk.free();
    home.ccmux(&["send", "work", "echo room-$((1+1))", "--enter"]).ok();
    home.ccmux(&["wait", "work", "--for", "text=room-2", "--timeout", "20"]).ok();
    assert!(home.ccmux(&["read", "work", "--log"]).ok().contains("room-2"));
    home.start_pane("late", &["sh"]);
    drop(home);
}

/// Changes whose command has returned survive a power cut: new panes with their launch records,
/// names, endings, queued messages and removals. The output log is not synced.
#[test]
fn acknowledged_changes_survive_a_power_cut() {
    testkit::require!(LoopMount);
    for round in 0..repetitions("CCMUX_SOAK_POWER_CUTS", 3) {
        let disk = CrashDisk::mount(64 << 20).unwrap();
        let home = Home::new(CCMUX).with_state_root(&disk.path().join("state"));
        let new = |session: &str, name: &str, command: &[&str]| {
            let options = ["new", "-d", "--session", session, "-n", name, "--workspace", "shared"];
            home.ccmux(&[&options[..], &["--"], command].concat()).ok();
        };
        for name in ["kept", "stopped", "old-name", "closed"] {
            new("web", name, &["sh"]);
        }
        new("gone", "purged", &["sh"]);
        home.ccmux(&["stop", "stopped"]).ok();
        home.ccmux(&["message", "--session", "web", "--to", "stopped", "hello"]).ok();
        home.ccmux(&["close", "closed"]).ok();
        home.ccmux(&["purge", "gone", "--yes"]).ok();
        home.ccmux(&["rename", "old-name", "new-name"]).ok();
        if round % 2 == 0 {
            new("web", "last", &["sh"]);
        }

        disk.cut_power();
        home.kill_everything();
        disk.restore_power();

        let listed = home.ccmux(&["ls", "--json"]).json();
        assert!(listed["problems"].is_null(), "{listed}");
        let sessions = listed["sessions"].as_array().unwrap();
        assert_eq!(sessions.len(), 1, "{listed}");
        let panes = sessions[0]["panes"].as_array().unwrap();
        let mut names: Vec<&str> =
            panes.iter().map(|pane| pane["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        let last = (round % 2 == 0).then_some("last");
        let expected: Vec<&str> =
            ["kept"].into_iter().chain(last).chain(["new-name", "stopped"]).collect();
        assert_eq!(names, expected);
        let queued = home.ccmux(&["message", "ls", "--json"]).ok();
        assert!(queued.contains("hello"), "{queued}");
        for name in expected {
            home.ccmux(&["restore", name]).ok();
            home.ccmux(&["send", name, "echo back-$((1+1))", "--enter"]).ok();
            home.ccmux(&["wait", name, "--for", "text=back-2", "--timeout", "30"]).ok();
        }
        drop(home);
    }
}
