//! The scripted agent in a [`testkit::Screen`], and the cleanup of a [`testkit::Home`].

use std::fs;
use std::path::PathBuf;

use model::Size;
use rustix::process::Signal;
use rustix::termios::LocalModes;
use testkit::{DEADLINE, Home, Invocation, Screen, process, wait_for, wait_until};

/// A home without ccmux: these tests run only the agent.
fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_fake-agent"))
}

fn agent(home: &Home, args: &[&str]) -> Invocation {
    home.program(env!("CARGO_BIN_EXE_fake-agent"), args)
}

fn window(home: &Home, args: &[&str]) -> Screen {
    agent(home, args).screen(Size::clamped(60, 12))
}

#[test]
fn prompting_agent_answers_input() {
    let home = home();
    let screen = window(&home, &["--title", "busy", "--prompt", "you> "]);
    screen.wait_for("you>");

    screen.send("hello there\r");

    screen.wait_for("answer: hello there");
    screen.wait_for_match(r"(?m)^you>$");
    assert_eq!(screen.title(), "busy");
    assert_eq!(screen.cursor(), (5, 2));
    screen.send("\x04");
    assert_eq!(screen.wait_exit(), 0);
}

#[test]
fn terminal_keeps_settings_of_exited_program() {
    let home = home();
    let screen = window(&home, &["--bracketed-paste"]);
    screen.wait_for("ready for paste");
    let raw = |screen: &Screen| !screen.termios().local_modes.contains(LocalModes::ICANON);
    assert!(raw(&screen));

    screen.send("\x1b[200~two\nlines\x1b[201~");
    screen.wait_for(r#"received "\u{1b}[200~two\nlines\u{1b}[201~""#);
    screen.send("\x04");

    assert_eq!(screen.wait_exit(), 0);
    assert!(!raw(&screen), "it restored what it had changed");
    let told = screen.raw();
    assert!(told.ends_with(b"\x1b[?2004l"), "the end of the program is the end of the bytes");

    let killed = window(&home, &["--bracketed-paste"]);
    killed.wait_for("ready for paste");
    process::signal(&killed.program(), Signal::KILL);
    assert_eq!(killed.wait_exit(), 128 + 9);
    assert!(raw(&killed), "a killed program restores nothing, and that can be seen");
}

#[test]
fn ctrl_c_interrupts_program_not_window() {
    let home = home();
    let screen = window(&home, &["--stay", "--prompt", "> "]);
    screen.wait_for(">");

    screen.send("\x03");

    assert_eq!(screen.wait_exit(), 128 + 2);
}

#[test]
fn closed_window_hangs_up_program() {
    let home = home();
    let mut screen = window(&home, &["--prompt", "> ", "--stay"]);
    screen.wait_for(">");
    let program = screen.program();

    screen.hang_up();

    wait_until("the program has noticed", DEADLINE, || !process::is_alive(&program));
}

#[test]
fn numbered_lines_are_complete_and_in_order() {
    let home = home();

    let printed = agent(&home, &["--lines", "500", "--interval-us", "1"]).ok();

    let numbers: Vec<u32> =
        printed.lines().map(|line| line[5..13].parse().expect("a number")).collect();
    assert_eq!(numbers, (1..=500).collect::<Vec<_>>());
}

#[test]
fn flood_has_requested_size() {
    assert_eq!(agent(&home(), &["--flood", "1234567"]).ok().len(), 1_234_567);
}

#[test]
fn agent_crashes_as_requested() {
    use std::os::unix::process::ExitStatusExt as _;
    let home = home();
    let ended = |how: &str| agent(&home, &["--after-lines", "3", "--crash", how]).run();

    assert_eq!(ended("exit=9").status.code(), Some(9));
    assert_eq!(ended("segv").status.signal(), Some(Signal::SEGV.as_raw()));
    assert_eq!(ended("abort").status.signal(), Some(Signal::ABORT.as_raw()));
    assert_eq!(ended("exit=9").stdout.lines().count(), 3);
    assert!(agent(&home, &["--crash", "gently"]).fails_with(2).contains("unknown way to crash"));
}

#[test]
fn daemons_of_agent_are_killed_with_their_home() {
    let home = home();
    let pids = home.dir().join("pids");
    let count = "3";
    let printed = agent(&home, &["--fork-daemons", count, "--pids", pids.to_str().unwrap()]).ok();
    assert_eq!(printed, "daemons: 3\n");
    let daemons: Vec<_> = fs::read_to_string(&pids)
        .unwrap()
        .lines()
        .map(|pid| process::identity(pid.parse().unwrap()).expect("it lives on"))
        .collect();
    assert_eq!(daemons.len(), 3);
    let mut found: Vec<u32> = daemons.iter().map(|daemon| daemon.pid).collect();
    found.sort_unstable();
    assert_eq!(home.processes(), found);

    for daemon in &daemons {
        process::signal(daemon, Signal::TERM);
        process::signal(daemon, Signal::HUP);
    }
    assert!(daemons.iter().all(process::is_alive), "a daemon did not ignore its signal");
    drop(home);

    assert!(!daemons.iter().any(process::is_alive));
}

#[test]
fn agent_ignoring_hangup_survives_its_window() {
    let home = home();
    let mut screen = window(&home, &["--ignore", "hup,term,int", "--prompt", "> "]);
    screen.wait_for(">");
    let program = screen.program();

    screen.send("\x03");
    process::signal(&program, Signal::TERM);
    screen.send("still here\r");
    screen.wait_for("answer: still here");
    screen.hang_up();

    wait_until("only the agent runs", DEADLINE, || home.processes() == [program.pid]);
    assert!(process::is_alive(&program));
}

#[test]
fn agent_rewrites_its_configuration() {
    let home = home();
    let dir = home.dir().join("config");
    fs::create_dir(&dir).unwrap();
    let screen = window(&home, &["--config", dir.to_str().unwrap(), "--write-hz", "200", "--stay"]);
    let program = screen.program();

    let writes = wait_for("five writes are counted", DEADLINE, || {
        let text = fs::read_to_string(PathBuf::from(&dir).join(".fake.json")).ok()?;
        let config: serde_json::Value = serde_json::from_str(&text).ok()?;
        config[program.pid.to_string()].as_u64().filter(|&writes| writes >= 5)
    });

    assert!(writes >= 5);
}

#[test]
fn window_can_be_resized() {
    let home = home();
    let script = "trap 'stty size' WINCH; echo ready; while :; do read line; done";
    let screen = home.program("sh", &["-c", script]).screen(Size::new(60, 12).unwrap());
    screen.wait_for("ready");

    screen.resize(Size::new(100, 30).unwrap());
    screen.send("\r");

    screen.wait_for("30 100");
}

#[test]
fn empty_home_has_no_processes() {
    let home = home();

    home.no_processes_left();

    assert_eq!(home.zombies(), []);
}
