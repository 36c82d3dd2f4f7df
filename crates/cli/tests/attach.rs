//! `ccmux attach` in a real terminal.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use client::Connection;
use model::Size;
use protocol::frame::{Frame, Kind};
use protocol::pane::{Attach, KeyOptions, SOCKET, View};
use rustix::process::Signal;
use serde_json::json;
use testkit::{DEADLINE, Home, Screen, process, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

fn size(cols: u16, rows: u16) -> Size {
    Size::new(cols, rows).unwrap()
}

fn shell(home: &Home, name: &str) -> testkit::Pane {
    let pane = home.start_pane(name, &["sh"]);
    home.ccmux(&["send", name, "PS1='ready> '", "--enter"]).ok();
    home.ccmux(&["wait", name, "--for", "text=^ready>", "--timeout", "20"]).ok();
    pane
}

fn attach(home: &Home, name: &str) -> Screen {
    let screen = home.ccmux(&["attach", name]).screen(size(80, 24));
    screen.wait_for("ready>");
    screen
}

/// Asserts that the terminal is restored: cooked mode, main screen, and the message `farewell`.
fn assert_restored(screen: &Screen, before: &rustix::termios::Termios, farewell: &str) {
    let after = screen.termios();
    assert_eq!(format!("{:?}", after.local_modes), format!("{:?}", before.local_modes));
    assert_eq!(format!("{:?}", after.input_modes), format!("{:?}", before.input_modes));
    let raw = String::from_utf8_lossy(&screen.raw()).into_owned();
    let left = raw.rfind("\x1b[?1049l").expect("the alternate screen was left");
    for mode in ["\x1b[?1000l", "\x1b[?2004l", "\x1b[?25h"] {
        assert!(raw.contains(mode), "{mode:?} was not sent");
    }
    assert!(raw[left..].contains(farewell), "{:?}", &raw[left..]);
}

#[test]
fn attached_client_sends_input_and_shows_output() {
    let home = Home::new(CCMUX);
    shell(&home, "work");

    let screen = attach(&home, "work");
    screen.send("echo $((6*7))-answer\r");

    screen.wait_for("42-answer");
    screen.send("\x02d");
    assert_eq!(screen.wait_exit(), 0);
}

#[test]
fn terminal_is_restored_after_detach_exit_signal_and_keeper_death() {
    for way in ["detach", "end", "sigterm", "keeper"] {
        let home = Home::new(CCMUX);
        let pane = shell(&home, "work");
        let script = format!("echo started; {CCMUX} attach work; echo; cat");
        let screen = home.program("sh", &["-c", &script]).screen(size(80, 24));
        screen.wait_for("ready>");
        let before = Home::new(CCMUX).program("cat", &[] as &[&str]).screen(size(80, 24)).termios();
        screen.send("printf '\\033[?1000h\\033[?2004h\\033[?25l'\r");
        screen.wait_until("the mode is set", |view| {
            String::from_utf8_lossy(view.raw()).contains("\x1b[?2004h")
        });

        let farewell = match way {
            "detach" => {
                screen.send("\x02d");
                "[detached from work]"
            }
            "end" => {
                screen.send("exit 3\r");
                "exited with 3"
            }
            "sigterm" => {
                let client = process::descendants(screen.program().pid)[0];
                process::signal(&process::identity(client).unwrap(), Signal::TERM);
                "[detached from work]"
            }
            _ => {
                process::kill_and_wait(&pane.keeper(), DEADLINE);
                "connection to the keeper lost"
            }
        };

        screen.wait_until(way, |view| String::from_utf8_lossy(view.raw()).contains(farewell));
        assert_restored(&screen, &before, farewell);
    }
}

#[test]
fn killed_client_leaves_terminal_restored_and_pane_running() {
    let home = Home::new(CCMUX);
    let pane = shell(&home, "work");
    let script = format!("{CCMUX} attach work; cat");
    let screen = home.program("sh", &["-c", &script]).screen(size(80, 24));
    screen.wait_for("ready>");

    let client = process::descendants(screen.program().pid)[0];
    process::kill_and_wait(&process::identity(client).unwrap(), DEADLINE);

    screen.wait_until("the keeper has restored the terminal", |view| {
        String::from_utf8_lossy(view.raw()).contains("\x1b[?1049l")
    });
    assert!(process::is_alive(&pane.head));
    screen.send("typed to cat\r");
    screen.wait_for("typed to cat");
    assert!(!home.ccmux(&["read", "work"]).ok().contains("typed to cat"));
}

#[test]
fn attached_client_survives_daemon_kill() {
    let home = Home::new(CCMUX);
    shell(&home, "work");
    let screen = attach(&home, "work");

    home.kill_daemon();
    screen.send("echo still-$((1+1))\r");

    screen.wait_for("still-2");
    assert_eq!(screen.exit(), None);
}

#[test]
fn several_clients_share_screen_at_smallest_size() {
    let home = Home::new(CCMUX);
    shell(&home, "work");
    let large = home.ccmux(&["attach", "work"]).screen(size(100, 40));
    large.wait_for("ready>");
    let pane_size = |cols: u16, rows: u16| {
        let expected = json!({ "cols": cols, "rows": rows });
        let has_it = || home.show("work")["live"]["size"] == expected;
        wait_until(&expected.to_string(), DEADLINE, has_it);
    };
    pane_size(100, 40);

    let small = home.ccmux(&["attach", "work"]).screen(size(60, 20));
    small.wait_for("ready>");
    pane_size(60, 20);
    small.send("echo to-both-$((1+1))\r");
    small.wait_for("to-both-2");
    large.wait_for("to-both-2");
    large.wait_for("·");
    small.send("\x02d");
    small.wait_exit();

    pane_size(100, 40);
    large.send("stty size\r");
    large.wait_for("40 100");
    large.resize(size(90, 30));
    pane_size(90, 30);
}

#[test]
fn terminal_query_is_answered_once_with_several_clients() {
    let home = Home::new(CCMUX);
    shell(&home, "work");
    let clients = [attach(&home, "work"), attach(&home, "work")];

    // Reads for half a second after the first answer, to detect a second one.
    let ask =
        "stty raw -echo min 0 time 5; printf '\\033[c'; cat > got; stty sane; echo asked-$((1+1))";
    clients[0].send(format!("{ask}\r"));

    clients[0].wait_for("asked-2");
    let shown = home.show("work");
    let got = Path::new(shown["cwd"].as_str().unwrap()).join("got");
    let got = std::fs::read_to_string(got).unwrap();
    assert_eq!(got.matches("\x1b[?").count(), 1, "{got:?}");
    for client in &clients {
        let raw = String::from_utf8_lossy(&client.raw()).into_owned();
        assert!(!raw.contains("\x1b[c"), "the query reached a client");
    }
}

#[test]
fn screen_state_is_restored_for_next_client() {
    let home = Home::new(CCMUX);
    shell(&home, "work");
    let first = attach(&home, "work");
    first.send("printf '\\033[?1049h\\033[2J\\033[5;10H\\033[1;31mbold red\\033[0m \\344\\270\\255\\346\\226\\207 \\033]2;my title\\007'; cat\r");
    first.wait_for("bold red 中文");
    let (text, cursor) = (first.text(), first.cursor());
    first.send("\x02d");
    first.wait_exit();

    let second = home.ccmux(&["attach", "work"]).screen(size(80, 24));

    second.wait_for("bold red 中文");
    assert_eq!((second.text(), second.cursor()), (text, cursor));
    second.wait_until("the title is set", |view| view.title() == "my title");
    second.send("\x03printf '\\033[?1049l'\r");
    second.wait_for("ready>");
}

#[test]
fn client_without_passed_terminal_gets_same_screen() {
    let home = Home::new(CCMUX);
    shell(&home, "work");

    let screen = home.ccmux(&["attach", "work"]).env("CCMUX_ATTACH", "relay").screen(size(80, 24));
    screen.wait_for("ready>");
    screen.send("echo relay-$((1+1))\r");
    screen.wait_for("relay-2");

    screen.send("\x02d");
    assert_eq!(screen.wait_exit(), 0);
    let output = home.ccmux(&["attach", "work"]).fails_with(2);
    assert!(output.contains("terminal"), "{output}");
}

#[test]
fn client_that_does_not_read_does_not_slow_others() {
    let home = Home::new(CCMUX);
    let pane = shell(&home, "work");
    // Two clients that never read: their output fills the socket buffers and stays there.
    let deaf = [View::Relay, View::Follow { from: Some(0) }].map(|view| {
        let mut client = Connection::open(&pane.dir, SOCKET).unwrap();
        let attach = Attach { view, size: None, read_only: true, keys: KeyOptions::default() };
        client.send(&Frame::json(Kind::Attach, &attach)).unwrap();
        client
    });
    wait_until("both are attached", DEADLINE, || home.show("work")["live"]["clients"] == 2);
    let good = attach(&home, "work");

    good.send(
        "i=0; while [ $i -lt 20000 ]; do echo line-$i; i=$((i+1)); done; echo all-$((1+1))\r",
    );

    good.wait_for("all-2");
    drop(deaf);
}

#[test]
fn ccmux_without_arguments_attaches_to_same_pane_again() {
    let home = Home::new(CCMUX);
    let none: [&str; 0] = [];

    let first = home.ccmux(&none).screen(size(80, 24));
    first.wait_until("a prompt", |view| !view.text().trim().is_empty());
    first.send("echo mark-$((1+1))\r");
    first.wait_for("mark-2");
    first.send("\x02d");
    first.wait_exit();
    let second = home.ccmux(&none).screen(size(80, 24));

    second.wait_for("mark-2");
    let said = home.ccmux(&none).ok();
    assert!(said.contains("ccmux attach"), "{said}");
}

/// Sequences that terminals would execute outside the screen reach neither an attached terminal nor
/// one on which the log is printed. A file gets the log unchanged.
#[test]
fn unlisted_sequences_do_not_reach_a_terminal() {
    let home = Home::new(CCMUX);
    shell(&home, "work");
    let attached = attach(&home, "work");
    let printed = r"\033]052;c;?\007\033P1;1|17/78\033\\\033]51;x\007\033[?9001h";
    attached.send(format!("printf '{printed}'; echo $((6*7))-shown\r"));
    attached.wait_for("42-shown");

    let log = home.ccmux(&["read", "work", "--log"]).ok();
    let screen = home.ccmux(&["read", "work", "--log"]).screen(size(80, 24));
    assert_eq!(screen.wait_exit(), 0);

    let raw = |screen: &Screen| String::from_utf8_lossy(&screen.raw()).into_owned();
    for sequence in ["\x1b]052;c;?", "\x1bP1;1|", "\x1b]51;", "\x1b[?9001h"] {
        assert!(log.contains(sequence), "{sequence:?} is in the log");
        assert!(!raw(&attached).contains(sequence), "{sequence:?} reached the attached terminal");
        assert!(!raw(&screen).contains(sequence), "{sequence:?} was printed from the log");
    }
    assert!(raw(&screen).contains("42-shown"));
}

#[test]
fn direction_controls_in_commands_are_shown_escaped() {
    let home = Home::new(CCMUX);
    home.start_pane("work", &["sh", "-c", "exec sleep 1000 # \u{202e}evil"]);

    for words in [&["ls"][..], &["show", "work"], &["events"]] {
        let text = home.ccmux(words).ok();
        assert!(!text.contains('\u{202e}'), "{text}");
    }
    assert!(home.ccmux(&["show", "work"]).ok().contains("\\u{202e}evil"));
}

#[test]
fn prefix_and_question_mark_show_the_keys_until_the_next_key() {
    let home = Home::new(CCMUX);
    shell(&home, "work");
    let screen = attach(&home, "work");

    screen.send("\x02?");
    screen.wait_for("ctrl-b, then: d detach, [ scrollback");
    screen.send("echo typed-$((1+1))\r");

    screen.wait_for("typed-2");
    assert!(!screen.text().contains("d detach"), "{screen:?}");
}

#[test]
fn unknown_key_after_the_prefix_is_named_and_not_sent_to_the_pane() {
    let home = Home::new(CCMUX);
    shell(&home, "work");
    let screen = attach(&home, "work");

    screen.send("\x02x");
    screen.wait_for("no command for ctrl-b x; ctrl-b ? shows the keys");
    screen.send("echo one-$((1+1))\r");

    screen.wait_for("one-2");
    assert!(!home.ccmux(&["read", "work"]).ok().contains("xecho"));
}

#[test]
fn prefix_and_bracket_show_the_scrollback_in_the_pager_and_attach_again() {
    for relay in ["", "relay"] {
        let home = Home::new(CCMUX);
        shell(&home, "work");
        let rows = "i=1; while [ $i -le 100 ]; do echo row-$i; i=$((i+1)); done";
        home.ccmux(&["send", "work", rows, "--enter"]).ok();
        home.ccmux(&["wait", "work", "--for", "text=^row-100$", "--timeout", "20"]).ok();
        let pager = "head -n 30; echo end of pager; read line </dev/tty";
        let invocation = home.ccmux(&["attach", "work"]).env("PAGER", pager);
        let screen = invocation.env("CCMUX_ATTACH", relay).screen(size(80, 40));
        screen.wait_for("row-100");

        screen.send("\x02[");
        screen.wait_for("end of pager");
        assert!(screen.text().contains("row-5\n"), "{screen:?}");
        screen.send("\r");

        screen.wait_for("row-100");
        screen.send("echo again-$((1+1))\r");
        screen.wait_for("again-2");
        screen.send("\x02d");
        assert_eq!(screen.wait_exit(), 0);
    }
}

#[test]
fn pager_that_cannot_be_run_is_reported_with_its_name() {
    let home = Home::new(CCMUX);
    let pane = shell(&home, "work");
    let screen = home.ccmux(&["attach", "work"]).env("PAGER", "no-such-pager").screen(size(80, 24));
    screen.wait_for("ready>");

    screen.send("\x02[");

    assert_eq!(screen.wait_exit(), 1);
    assert!(screen.text().contains("cannot show the scrollback in `no-such-pager`"), "{screen:?}");
    assert!(process::is_alive(&pane.head));
}

#[test]
fn configured_prefix_detaches_and_the_default_is_sent_to_the_pane() {
    let home = Home::new(CCMUX);
    let config = home.state_root().join("config");
    home.start_daemon();
    put(&config.join("ccmux.toml"), "[keys]\nprefix = \"ctrl-a\"\n");
    home.start_pane("work", &["cat", "-v"]);
    let screen = home.ccmux(&["attach", "work"]).screen(size(80, 24));

    screen.send("\x02?\r");
    screen.wait_for("^B?");
    screen.send("\x01?");
    screen.wait_for("ctrl-a, then: d detach");
    screen.send("\x01d");

    assert_eq!(screen.wait_exit(), 0);
}

#[test]
fn failed_program_leaves_its_last_lines_on_the_screen() {
    let home = Home::new(CCMUX);
    shell(&home, "work");
    let screen = attach(&home, "work");

    screen.send("i=1; while [ $i -le 50 ]; do echo row-$i; i=$((i+1)); done; exit 3\r");

    assert_eq!(screen.wait_exit(), 0);
    let text = screen.text();
    assert!(text.contains("row-50\n") && text.contains("row-32\n"), "{text}");
    assert!(!text.contains("row-30\n"), "more than 20 lines: {text}");
    assert!(text.contains("exited with 3"), "{text}");
}

#[test]
fn wheel_sends_no_keys_to_a_program_that_does_not_use_its_alternate_screen() {
    let home = Home::new(CCMUX);
    shell(&home, "work");
    let screen = attach(&home, "work");
    let is_on = |screen: &Screen| screen.raw_mode(1007);

    assert!(!is_on(&screen), "on for a shell");
    screen.send("printf '\\033[?1007h'; echo set-$((1+1))\r");
    screen.wait_for("set-2");
    assert!(!is_on(&screen), "a program on the main screen turned it on");
    screen.send("printf '\\033[?1049hother'\r");
    screen.wait_until("on for a program on its alternate screen", |view| view.raw_mode(1007));
    screen.send("\x02d");
    assert_eq!(screen.wait_exit(), 0);
    assert!(is_on(&screen), "off after detaching");
}
