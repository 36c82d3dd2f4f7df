//! B3: panes survive the daemon, however often it is killed.
//!
//! `CCMUX_SOAK_KILLS` sets the number of kills; `make soak` uses a thousand.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use testkit::soak::repetitions;
use testkit::{DEADLINE, Dice, Home, Pane, process, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Points at which a daemon is killed, besides random ones, with the command that leads there.
const POINTS: [(&[&str], &str); 9] = [
    (&["new", "-d", "-n", "victim", "--", "sleep", "1000"], "new.entered"),
    (&["new", "-d", "-n", "victim", "--", "sleep", "1000"], "new.directories"),
    (&["new", "-d", "-n", "victim", "--", "sleep", "1000"], "new.recorded"),
    (&["new", "-d", "-n", "victim", "--", "sleep", "1000"], "new.started"),
    (&["new", "-d", "-n", "victim", "--", "sleep", "1000"], "new.committed"),
    (&["rename", "spare", "spare"], "rename.committed"),
    (&["stop", "victim"], "stop.asked"),
    (&["close", "victim"], "close.stopped"),
    (&["close", "victim"], "close.retired"),
];

fn kills() -> usize {
    repetitions("CCMUX_SOAK_KILLS", 50)
}

/// State shared by the typing thread and the killing thread.
#[derive(Default)]
struct Game {
    over: AtomicBool,
    acknowledged: AtomicUsize,
}

/// Types into the panes continuously, and returns the acknowledged input.
fn type_continuously(home: &Home, panes: &[Pane], game: &Game) -> Vec<(String, String)> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if game.over.load(Ordering::Relaxed) {
            break;
        }
        let pane = &panes[number % panes.len()];
        let token = format!("token-{number}-");
        if home.ccmux(&["send", &pane.name, &token, "--enter"]).run().status.success() {
            acknowledged.push((pane.id.clone(), token));
            game.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
    acknowledged
}

#[test]
fn heavy_panes_survive_daemon_kills_at_any_point() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    home.start_daemon();
    let agent = home.fake_agent();
    let agent = agent.to_str().unwrap();
    let command = [agent, "--lines", "endless", "--interval-us", "5000", "--prompt", "> "];
    let panes: Vec<Pane> = (0..8).map(|n| home.start_pane(&format!("pane{n}"), &command)).collect();
    home.start_pane("spare", &["sleep", "1000"]);
    let keepers: Vec<_> = panes.iter().map(Pane::keeper).collect();
    let home = Arc::new(home);
    let game = Arc::new(Game::default());
    let typist = thread::spawn({
        let (home, panes, game) = (Arc::clone(&home), panes.clone(), Arc::clone(&game));
        move || type_continuously(&home, &panes, &game)
    });
    let mut slowest = Duration::ZERO;
    let mut dice = Dice::default();

    for kill in 0..kills() {
        let at_a_point = kill % 2 == 0;
        if at_a_point {
            let (command, point) = POINTS[(kill / 2) % POINTS.len()];
            kill_at(&home, &hooks, command, point);
        } else {
            // Some input is acknowledged between two kills, and some is in flight.
            let before = game.acknowledged.load(Ordering::Relaxed);
            wait_until("an input is acknowledged", DEADLINE, || {
                game.acknowledged.load(Ordering::Relaxed) > before
            });
            thread::park_timeout(Duration::from_millis(dice.roll(60)));
            kill_now(&home);
        }
        let began = Instant::now();
        home.ccmux(&["daemon", "start"]).ok();
        home.ccmux(&["ls"]).ok();
        slowest = slowest.max(began.elapsed());
        assert_victim_is_complete_or_absent(&home);
    }
    game.over.store(true, Ordering::Relaxed);
    let acknowledged = typist.join().unwrap();

    println!("{} kills, slowest restart to a full listing {slowest:?}", kills());
    println!("{} inputs acknowledged", acknowledged.len());
    for (pane, keeper) in panes.iter().zip(&keepers) {
        assert!(process::is_alive(&pane.head), "the program of {} has ended", pane.name);
        assert!(process::is_alive(keeper), "the keeper of {} has ended", pane.name);
    }
    assert_every_line_is_there_once(&panes);
    assert_acknowledged_input_arrived_once(&panes, &acknowledged);
    assert_eq!(home.zombies(), []);
    assert_only_listed_panes_run(&home);
}

/// Kills the daemon at a point.
fn kill_at(home: &Arc<Home>, hooks: &testkit::Hooks, command: &'static [&str], point: &str) {
    if command[1] == "victim" && home.ccmux(&["show", "victim"]).run().status.code() == Some(3) {
        home.start_pane("victim", &["sleep", "1000"]);
    }
    if command[0] == "new" {
        // Removes a remainder of an earlier round, if there is one.
        home.ccmux(&["close", "victim", "--grace", "0"]).run();
    }
    let daemon = home.daemon();
    let seen = hooks.reached(point);
    hooks.pause(point);
    let asking = thread::spawn({
        let home = Arc::clone(home);
        move || home.ccmux(command).run()
    });
    hooks.wait_reached(point, seen + 1);
    process::kill_and_wait(&daemon, DEADLINE);
    hooks.release(point);
    let answer = asking.join().unwrap();
    let code = answer.status.code();
    // The command itself may retry `stop` and `close`; no other command may report success.
    if command[0] == "new" {
        assert_eq!(code, Some(6), "{point}: {}", answer.stderr);
    }
}

fn kill_now(home: &Home) {
    let status = home.ccmux(&["daemon", "status", "--json"]).run();
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap_or_default();
    let pid = status["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    if let Some(daemon) = pid.and_then(process::identity) {
        process::kill_and_wait(&daemon, DEADLINE);
    }
}

/// A pane whose creation was not acknowledged is complete or absent.
fn assert_victim_is_complete_or_absent(home: &Home) {
    let shown = home.ccmux(&["show", "victim", "--json"]).run();
    match shown.status.code() {
        Some(3) => {}
        Some(0) => {
            let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
            let state = shown["pane"]["state"].as_str().unwrap_or_default().to_owned();
            assert!(
                ["running", "stopping", "exited"].contains(&state.as_str()),
                "the victim is {state}: {shown}"
            );
        }
        _ => panic!("{}", shown.stderr),
    }
}

fn assert_every_line_is_there_once(panes: &[Pane]) {
    for pane in panes {
        let log = String::from_utf8_lossy(&pane.log()).into_owned();
        let numbers: Vec<u64> = log
            .match_indices("line ")
            .filter_map(|(at, _)| log.get(at + 5..at + 13)?.parse().ok())
            .collect();
        let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert!(numbers.len() > 50, "{} wrote only {} lines", pane.name, numbers.len());
        assert_eq!(numbers, expected, "{} has lost or repeated a line", pane.name);
    }
}

fn assert_acknowledged_input_arrived_once(panes: &[Pane], acknowledged: &[(String, String)]) {
    assert!(!acknowledged.is_empty(), "no input was acknowledged at all");
    for pane in panes {
        let mut answers = BTreeMap::new();
        let arrived = || {
            let log = String::from_utf8_lossy(&pane.log()).into_owned();
            answers = acknowledged
                .iter()
                .filter(|(id, _)| *id == pane.id)
                .map(|(_, token)| (token.clone(), log.matches(&format!("answer: {token}")).count()))
                .collect();
            answers.values().all(|count| *count > 0)
        };
        wait_until("every acknowledged input was answered", DEADLINE, arrived);
        let twice: Vec<_> = answers.iter().filter(|(_, count)| **count != 1).collect();
        assert!(twice.is_empty(), "{}: {twice:?}", pane.name);
    }
}

/// Asserts that every process of this home is the daemon or belongs to a listed pane.
fn assert_only_listed_panes_run(home: &Home) {
    let listed = home.ccmux(&["ls", "--json"]).json();
    let listed = Mutex::new(listed);
    wait_until("only listed panes run", DEADLINE, || {
        let mut listed = listed.lock().unwrap();
        *listed = home.ccmux(&["ls", "--json"]).json();
        let panes: Vec<&serde_json::Value> = listed["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|session| session["panes"].as_array().unwrap())
            .collect();
        let known: Vec<u32> = panes
            .iter()
            .filter_map(|pane| u32::try_from(pane["pid"].as_u64()?).ok())
            .chain([home.daemon_pid()])
            .collect();
        home.processes().into_iter().all(|pid| {
            let parent = process::stat(pid).map_or(0, |stat| stat.parent);
            let is_keeper = known
                .iter()
                .any(|head| process::stat(*head).is_some_and(|stat| stat.parent == pid));
            known.contains(&pid) || known.contains(&parent) || is_keeper
        })
    });
}
