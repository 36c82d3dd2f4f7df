//! Messages between panes: recipients, time of delivery, and delivery exactly once (R30, B7).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests use more of it")]
mod real;

use std::time::Duration;

use real::User;
use serde_json::{Value, json};
use testkit::{Agent, Home, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for operations that take a second on an idle machine.
const LONG: Duration = Duration::from_secs(120);

/// Starts a pane in the session `team` that answers every line, and returns its id.
fn talker(home: &Home, name: &str, options: &[&str]) -> String {
    let agent = home.fake_agent();
    let words = ["new", "-d", "--json", "--session", "team", "-n", name];
    let program = ["--", agent.to_str().unwrap(), "--prompt", "ask> "];
    let words = [&words[..], options, &program[..]].concat();
    home.ccmux(&words).json()["pane"]["id"].as_str().unwrap().to_owned()
}

/// Sends a message without a heading from outside, and returns the accepted messages.
fn send(home: &Home, to: &str, text: &str, more: &[&str]) -> Vec<Value> {
    let words = [&["message", "--json", "--session", "team", "--raw", "--to", to], more, &[text]];
    home.ccmux(&words.concat()).timeout(LONG).json()["messages"].as_array().unwrap().clone()
}

/// Returns the names of the recipients.
fn receivers(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["to_name"].as_str().unwrap()).collect()
}

fn state(home: &Home, message: &Value) -> String {
    let id = message["id"].as_str().unwrap();
    let shown = home.ccmux(&["message", "show", id, "--json"]).json();
    shown["message"]["state"].as_str().unwrap().to_owned()
}

fn wait_state(home: &Home, message: &Value, wanted: &str) {
    wait_until(&format!("it is {wanted}: {message}"), LONG, || state(home, message) == wanted);
}

/// Returns the number of times a pane has answered this text.
fn answers(home: &Home, pane: &str, text: &str) -> usize {
    home.ccmux(&["read", pane, "--log"]).ok().matches(&format!("answer: {text}")).count()
}

#[test]
fn messages_reach_only_their_recipients() {
    let home = Home::new(CCMUX);
    talker(&home, "pm", &["--role", "pm"]);
    let dev1 = talker(&home, "dev1", &["--role", "dev"]);
    talker(&home, "dev2", &["--role", "dev"]);
    // The same name and role in another session.
    home.ccmux(&["new", "-d", "--session", "other", "-n", "dev1", "--role", "dev", "--", "cat"])
        .ok();

    let wait: [&str; 4] = ["--wait", "delivered", "--timeout", "120"];
    let one = send(&home, "dev1", "for-one", &wait);
    assert_eq!(receivers(&one), ["dev1"]);
    assert_eq!((&one[0]["state"], &one[0]["to"]), (&json!("delivered"), &json!(dev1)), "{one:?}");
    assert_eq!(receivers(&send(&home, "role:dev", "for-devs", &wait)), ["dev1", "dev2"]);
    assert_eq!(receivers(&send(&home, "managers", "for-managers", &wait)), ["pm"]);
    assert_eq!(receivers(&send(&home, "workers", "for-workers", &wait)), ["dev1", "dev2"]);
    assert_eq!(receivers(&send(&home, "all", "for-all", &wait)), ["pm", "dev1", "dev2"]);

    wait_until("the last message is answered", LONG, || {
        answers(&home, "team/dev1", "for-all") == 1
    });
    for text in ["for-one", "for-devs", "for-workers", "for-all"] {
        assert_eq!(answers(&home, "team/dev1", text), 1, "{text}");
    }
    assert_eq!(answers(&home, "team/dev1", "for-managers"), 0);
    let unknown = home.ccmux(&["message", "--session", "team", "--to", "qa", "x"]).fails_with(3);
    assert!(unknown.contains("dev1") && unknown.contains("role:pm"), "{unknown}");
    // The session is ambiguous, so the message is refused.
    let where_ = home.ccmux(&["message", "--to", "dev2", "x"]).fails_with(2);
    assert!(where_.contains("--session"), "{where_}");
    home.ccmux(&["message", "--to", &dev1, "x"]).ok();
    home.ccmux(&["message", "--session", "team", "x"]).fails_with(2);
    home.ccmux(&["message", "--session", "team", "--to", "dev1"]).fails_with(2);
    let shells = ["--wait", "answered", "--timeout", "120", "x"];
    let words = [&["message", "--session", "team", "--to", "dev1"], &shells[..]].concat();
    let untold = home.ccmux(&words).timeout(LONG).fails_with(4);
    assert!(untold.contains("does not report"), "{untold}");
    let events = home.ccmux(&["events", "--json"]).ok();
    for event in ["message_queued", "message_delivered"] {
        assert!(events.contains(event), "{events}");
    }
    assert!(!events.contains("for-all"), "an event contains the text");
}

#[test]
fn panes_send_messages_to_each_other() {
    let home = Home::new(CCMUX);
    talker(&home, "qa", &["--role", "qa"]);
    let words = ["new", "-d", "--session", "team", "-n", "dev", "--role", "dev", "--", "/bin/sh"];
    home.ccmux(&words).ok();

    let line = format!("{CCMUX} message --to qa please-test");
    home.ccmux(&["send", "dev", &line, "--enter"]).ok();

    wait_until("the message is answered", LONG, || answers(&home, "qa", "please-test") == 1);
    let log = home.ccmux(&["read", "qa", "--log"]).ok();
    assert!(log.contains("message from dev in session team, id "), "{log}");
    assert!(log.contains("answer with: ccmux message --to dev TEXT"), "{log}");
    // A broadcast excludes the sender.
    let line = format!("{CCMUX} message --to all --raw both-of-you; {CCMUX} message --to dev x");
    home.ccmux(&["send", "dev", &line, "--enter"]).ok();
    wait_until("the message is answered", LONG, || answers(&home, "qa", "both-of-you") == 1);
    let until = "text=selects only the sender";
    home.ccmux(&["wait", "dev", "--for", until, "--timeout", "120"]).timeout(LONG).ok();
    let to_dev = home.ccmux(&["message", "ls", "--pane", "dev", "--json"]).json();
    assert_eq!(to_dev["messages"], json!([]), "the sender got its own message");
}

#[test]
fn message_to_stopped_pane_is_delivered_after_restore() {
    let home = Home::new(CCMUX);
    talker(&home, "dev1", &[]);
    talker(&home, "dev2", &[]);
    home.ccmux(&["stop", "dev1", "dev2"]).ok();

    let texts = ["first", "second", "third"];
    let sent: Vec<Value> =
        texts.iter().map(|text| send(&home, "dev1", text, &[]).remove(0)).collect();
    let late = send(&home, "dev2", "never", &[]).remove(0);
    // Also after daemon and keepers were killed.
    home.kill_daemon();
    home.start_daemon();

    for message in &sent {
        assert_eq!(state(&home, message), "queued");
    }
    let queued = home.ccmux(&["message", "ls", "--state", "queued"]).ok();
    assert!(queued.contains("second") && queued.contains("dev1"), "{queued}");
    home.ccmux(&["restore", "dev1"]).ok();
    for message in &sent {
        wait_state(&home, message, "delivered");
    }
    wait_until("all messages are answered", LONG, || answers(&home, "dev1", "third") == 1);
    let log = home.ccmux(&["read", "dev1", "--log"]).ok();
    let places: Vec<_> = texts.iter().map(|text| log.find(&format!("answer: {text}"))).collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "out of order: {places:?}");
    home.ccmux(&["close", "dev2"]).ok();
    assert_eq!(state(&home, &late), "failed");
    home.ccmux(&["purge", "team", "--yes"]).ok();
    assert_eq!(home.ccmux(&["message", "ls", "--json"]).json()["messages"], json!([]));
}

/// B7: a daemon killed before, during or after typing a message neither loses nor repeats it.
#[test]
fn message_is_typed_once_across_daemon_kills() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    talker(&home, "dev", &[]);

    for point in ["message.noted", "message.typed"] {
        let before = hooks.reached(point);
        hooks.pause(point);
        let message = send(&home, "dev", point, &["--key", point]).remove(0);
        wait_until("the daemon reaches the point", LONG, || hooks.reached(point) > before);
        assert_eq!(state(&home, &message), "typing");
        home.kill_daemon();
        hooks.release(point);
        home.start_daemon();

        wait_state(&home, &message, "delivered");

        wait_until("the message is answered", LONG, || answers(&home, "dev", point) > 0);
        // A retry returns the result of the first request.
        let again = send(&home, "dev", point, &["--key", point]).remove(0);
        assert_eq!(again["id"], message["id"]);
        let after = send(&home, "dev", &format!("after-{point}"), &[]).remove(0);
        wait_state(&home, &after, "delivered");
        let text = format!("after-{point}");
        wait_until("the message is answered", LONG, || answers(&home, "dev", &text) == 1);
        assert_eq!(answers(&home, "dev", point), 1, "once");
    }
    let words = ["message", "--session", "team", "--to", "dev", "--key", "message.noted", "other"];
    let taken = home.ccmux(&words).fails_with(4);
    assert!(taken.contains("another message"), "{taken}");
}

/// R30, B7: claude's hooks report accepted messages and the end of a turn; while claude works or
/// its user types, messages wait.
#[test]
fn heavy_claude_gets_messages_between_turns() {
    let user = User::new(Agent::Claude);
    let home = &user.home;
    user.new_pane("dev", &["--session", "team"], &[]);

    let first = send(home, "dev", "word-one", &["--wait", "answered", "--timeout", "200"]);
    assert_eq!(first[0]["state"], "answered", "{first:?}");
    let held = user.stub.hold();
    let words = ["message", "--json", "--session", "team", "--to", "dev", "word-two\nand more"];
    let second = home.ccmux(&words).json()["messages"][0].clone();
    wait_state(home, &second, "delivered");
    let third = send(home, "dev", "word-three", &[]).remove(0);
    // It works on the second message, and gets the third only after that.
    let asked = |word: &str| {
        let turns = user.stub.turns();
        turns
            .iter()
            .filter(|turn| turn.user_texts().last().is_some_and(|t| t.contains(word)))
            .count()
    };
    assert_eq!(
        (state(home, &second).as_str(), state(home, &third).as_str()),
        ("delivered", "queued")
    );
    assert_eq!(asked("word-three"), 0);
    drop(held);

    wait_state(home, &third, "answered");
    assert_eq!(state(home, &second), "answered");
    user.wait_text("dev", "stub answer \\d+: .*word-three");
    for word in ["word-one", "word-two", "word-three"] {
        assert_eq!(asked(word), 1, "{word}");
    }
    let turns = user.stub.turns();
    let said = turns.iter().flat_map(|turn| turn.user_texts());
    let said: Vec<&str> = said.filter(|text| text.contains("word-two")).collect();
    assert!(said[0].contains("message from outside, id "), "{said:?}");
    assert!(said[0].contains("and more"), "{said:?}");

    // Text that the user is typing is not merged with a message.
    home.ccmux(&["send", "dev", "half a thought"]).ok();
    user.wait_text("dev", "half a thought");
    let fourth = send(home, "dev", "word-four", &[]).remove(0);
    // As a person would: Enter, and again if it had no effect.
    wait_until("the user's text is sent", LONG, || {
        home.ccmux(&["send", "dev", "--key", "enter"]).ok();
        asked("half a thought") == 1
    });
    wait_state(home, &fourth, "answered");
    let turns = user.stub.turns();
    let mixed = turns.iter().flat_map(|turn| turn.user_texts());
    assert!(!mixed.into_iter().any(|t| t.contains("half") && t.contains("word-four")));

    // Waiting messages survive the agent and the daemon.
    home.ccmux(&["stop", "dev"]).ok();
    let fifth = send(home, "dev", "word-five", &[]).remove(0);
    home.kill_daemon();
    home.ccmux(&["restore", "dev"]).timeout(LONG).ok();
    wait_state(home, &fifth, "answered");
    assert_eq!(asked("word-five"), 1);
}
