//! B6: the whole tree dies with its pane, double forks included.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use model::ProcessIdentity;
use protocol::client::Connection;
use protocol::look::Typing;
use protocol::pane::{Request, SOCKET};
use testkit::{DEADLINE, Home, Pane, process, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// The grace period that the tests give, in seconds.
const GRACE: &str = "1";

/// A pane whose program ignores every polite signal and leaves `daemons` behind that do so too,
/// each in a session of its own.
fn deaf_pane(home: &Home, name: &str, daemons: usize) -> (Pane, Vec<ProcessIdentity>) {
    let pids = home.dir().join(format!("{name}.pids"));
    let agent = home.fake_agent();
    let count = daemons.to_string();
    let command: [&str; 8] = [
        agent.to_str().unwrap(),
        "--ignore",
        "hup,term,int",
        "--fork-daemons",
        &count,
        "--pids",
        pids.to_str().unwrap(),
        "--stay",
    ];
    let pane = home.start_pane(name, &command);
    let mut found = Vec::new();
    wait_until("the daemons have said who they are", DEADLINE, || {
        let text = fs::read_to_string(&pids).unwrap_or_default();
        found =
            text.lines().filter_map(|line| process::identity(line.trim().parse().ok()?)).collect();
        found.len() == daemons
    });
    (pane, found)
}

#[test]
fn close_leaves_no_process_of_a_deaf_pane() {
    let home = Home::new(CCMUX);
    let (pane, daemons) = deaf_pane(&home, "deaf", 3);

    home.ccmux(&["close", "deaf", "--grace", GRACE]).ok();

    assert!(!process::is_alive(&pane.head));
    for daemon in &daemons {
        assert!(!process::is_alive(daemon), "{daemon:?} is still there");
    }
    home.ccmux(&["show", "deaf"]).fails_with(3);
}

#[test]
fn a_polite_program_is_given_the_time_to_leave_by_itself() {
    let home = Home::new(CCMUX);
    let script = "trap 'echo saved > left; exit 7' HUP; echo ready; while :; do sleep 0.05; done";
    let pane = home.start_pane("polite", &["sh", "-c", script]);
    home.ccmux(&["wait", "polite", "--for", "text=ready", "--timeout", "20"]).ok();

    home.ccmux(&["stop", "polite"]).ok();

    let shown = home.show("polite");
    assert_eq!(shown["state"], "exited");
    assert_eq!(shown["ending"]["code"], 7);
    assert_eq!(shown["ending"]["reason"], "stopped");
    let left = Path::new(shown["cwd"].as_str().unwrap()).join("left");
    assert!(left.exists(), "it could not save what it had");
    assert!(!process::is_alive(&pane.head));
}

#[test]
fn what_a_program_leaves_behind_goes_with_it() {
    let home = Home::new(CCMUX);
    // A child with a session of its own, and a head that then ends by itself.
    let script = "setsid sh -c 'echo $$ > child; exec sleep 1000' & \
                  while [ ! -s child ]; do sleep 0.01; done; exit 3";
    home.ccmux(&["new", "-d", "-n", "short", "--", "sh", "-c", script]).ok();

    home.ccmux(&["wait", "short", "--for", "exit", "--timeout", "20"]).ok();

    let shown = home.show("short");
    let child = Path::new(shown["cwd"].as_str().unwrap()).join("child");
    let child = fs::read_to_string(child).unwrap();
    let child = child.trim().parse().unwrap();
    assert!(process::stat(child).is_none_or(|stat| stat.is_zombie()), "{child} is still there");
    assert_eq!(shown["ending"]["code"], 3);
}

#[test]
fn heavy_two_hundred_deaf_panes_leave_no_process_when_close_returns() {
    const PANES: usize = 200;
    let home = Home::new(CCMUX);
    home.start_daemon();
    let mut everyone = BTreeSet::new();
    for at in 0..PANES {
        let (pane, daemons) = deaf_pane(&home, &format!("deaf{at}"), 2);
        everyone.insert((pane.head.pid, pane.head.start));
        everyone.extend(daemons.iter().map(|daemon| (daemon.pid, daemon.start)));
    }
    assert_eq!(everyone.len(), PANES * 3);
    let names: Vec<String> = (0..PANES).map(|at| format!("deaf{at}")).collect();
    let words: Vec<&str> =
        ["close", "--grace", "5"].into_iter().chain(names.iter().map(String::as_str)).collect();

    let began = Instant::now();
    home.ccmux(&words).ok();
    let took = began.elapsed();

    let left: Vec<_> = everyone
        .iter()
        .filter(|(pid, start)| {
            process::stat(*pid).is_some_and(|stat| stat.start == *start && !stat.is_zombie())
        })
        .collect();
    assert!(left.is_empty(), "still there: {left:?}");
    // A figure to look at, not an assertion: machines differ.
    println!("{PANES} panes with {} processes gone after {took:?}", everyone.len());
}

#[test]
fn a_daemon_started_from_within_a_pane_does_not_go_with_it() {
    let home = Home::new(CCMUX);
    let outer = home.start_pane("outer", &["sh"]);
    home.kill_daemon();
    home.ccmux(&["daemon", "status"]).fails_with(6);
    // Typed by hand, because a command of ours would start the daemon itself.
    let mut connection = Connection::open(&outer.dir, SOCKET).unwrap();
    let typing = Typing { text: format!("{CCMUX} ls"), enter: true, ..Typing::default() };
    connection.ask_keeper(&Request::Type(typing)).unwrap();
    wait_until("the pane has started a daemon", DEADLINE, || {
        home.ccmux(&["daemon", "status"]).run().status.success()
    });
    let daemon = home.daemon();
    let inner = home.start_pane("inner", &["sleep", "1000"]);

    home.ccmux(&["close", "outer", "--grace", GRACE]).ok();

    assert!(process::is_alive(&daemon), "the daemon went with the pane");
    assert!(process::is_alive(&inner.head), "another pane went with the pane");
    assert_eq!(home.daemon(), daemon);
}
