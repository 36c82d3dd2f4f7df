//! The other real agents in panes: isolated, at once, and resumed (R1, R11, B11).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod real;

use std::collections::BTreeMap;
use std::path::PathBuf;

use real::{User, path};
use testkit::tree::Entry;
use testkit::{Agent, tree};

/// Everything in the user's home that is not ccmux' own.
fn users_own(user: &User) -> BTreeMap<PathBuf, Entry> {
    let mut all = tree(&user.home_dir());
    all.retain(|path, _| !path.starts_with(".ccmux"));
    all
}

/// One conversation, from the first start without a question to the one after a restore.
fn talks_stops_and_goes_on(agent: Agent) {
    let user = User::new(agent);
    let before = users_own(&user);

    let pane = user.new_pane("dev", &[], &[]);
    user.wait_ready("dev");
    user.ask("dev", "word-one");
    let id = user.show("dev")["conversation"].as_str().expect("it is known by now").to_owned();
    user.home.ccmux(&["stop", "dev"]).ok();
    user.home.ccmux(&["restore", "dev"]).ok();
    user.wait_ready("dev");
    let seen = user.ask("dev", "word-two");

    assert!(seen.user_texts().iter().any(|text| text.contains("word-one")), "{seen}");
    assert!(seen.conversation().is_none_or(|said| said == id), "{seen} is not {id}");
    assert_eq!(user.show("dev")["conversation"], id.as_str());
    // And after the whole machine went.
    user.wait_written("dev", "word-two");
    user.home.kill_everything();
    user.home.start_daemon();
    user.wait_state("dev", "lost");
    user.home.ccmux(&["restore", "dev"]).ok();
    user.wait_ready("dev");
    let seen = user.ask("dev", "word-three");
    assert!(seen.user_texts().iter().any(|text| text.contains("word-two")), "{seen}");

    let dir = path(&pane, "config_dir");
    assert!(dir.to_str().unwrap().contains(&format!("/{}-configs/pane-", agent.name())));
    assert!(tree(&dir).len() > 2, "its files are in its own directory");
    assert!(!dir.join("packages").exists(), "codex has not copied itself into it");
    user.home.ccmux(&["close", "dev"]).ok();
    assert_eq!(users_own(&user), before, "nothing in the user's home");
}

/// Stopped before anything was said, it starts again as it did at first.
fn starts_again_without_a_word(agent: Agent) {
    let user = User::new(agent);
    user.new_pane("dev", &[], &[]);
    user.wait_ready("dev");
    let id = user.show("dev")["conversation"].clone();

    user.home.ccmux(&["stop", "dev"]).ok();
    user.home.ccmux(&["restore", "dev"]).ok();

    user.wait_ready("dev");
    user.ask("dev", "word-one");
    let now = user.show("dev")["conversation"].clone();
    assert!(now.is_string() && (id.is_null() || id == now), "{id} became {now}");
}

/// So many at once, each with a prompt of its own.
fn twenty_at_once(agent: Agent) {
    let user = User::new(agent);
    let before = users_own(&user);
    let name = |n: usize| format!("dev{n:02}");
    let word = |n: usize| format!("only-for-{n:02}-end");

    let panes: Vec<_> = (0..20)
        .map(|n| {
            let args = agent.print_args(&word(n));
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            user.new_pane(&name(n), &[], &args)
        })
        .collect();

    for (n, pane) in panes.iter().enumerate() {
        let code = user.wait_exit(&name(n));
        let log = user.home.ccmux(&["read", &name(n), "--log"]).ok();
        assert_eq!(code, 0, "{}: {log}", name(n));
        assert!(log.contains("stub answer") && log.contains(&word(n)), "{log}");
        let others = (0..20).filter(|other| *other != n && log.contains(&word(*other))).count();
        assert_eq!(others, 0, "{} knows of others: {log}", name(n));
        let dir = path(pane, "config_dir");
        let mentions = |word: &str| {
            tree(&dir).values().any(|entry| match entry {
                Entry::File(_, _, bytes) => {
                    bytes.windows(word.len()).any(|window| window == word.as_bytes())
                }
                Entry::Directory(_) | Entry::Link(_) | Entry::Other => false,
            })
        };
        assert!(mentions(&word(n)), "{} has written down its own", name(n));
        assert!(!mentions(&word((n + 1) % 20)), "{} has another's", name(n));
    }
    assert_eq!(users_own(&user), before, "nothing in the user's home");
}

#[test]
fn heavy_an_agent_that_was_told_nothing_starts_again() {
    for agent in [Agent::Claude, Agent::Codex, Agent::Gemini] {
        starts_again_without_a_word(agent);
    }
}

#[test]
fn heavy_codex_talks_stops_and_goes_on() {
    talks_stops_and_goes_on(Agent::Codex);
}

#[test]
fn heavy_codex_twenty_at_once() {
    twenty_at_once(Agent::Codex);
}

#[test]
fn heavy_gemini_talks_stops_and_goes_on() {
    talks_stops_and_goes_on(Agent::Gemini);
}

#[test]
fn heavy_gemini_twenty_at_once() {
    twenty_at_once(Agent::Gemini);
}

#[test]
fn heavy_opencode_talks_stops_and_goes_on() {
    talks_stops_and_goes_on(Agent::Opencode);
}

#[test]
fn heavy_opencode_twenty_at_once() {
    twenty_at_once(Agent::Opencode);
}
