//! Real agents other than claude in panes: isolated, many at once, and resumed (R1, R11, B11).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod real;

use std::collections::BTreeMap;
use std::path::PathBuf;

use real::{User, path};
use testkit::tree::Entry;
use testkit::{Agent, tree};

/// Returns everything in the user's home that ccmux did not create.
fn user_files(user: &User) -> BTreeMap<PathBuf, Entry> {
    let mut all = tree(&user.home_dir());
    all.retain(|path, _| !path.starts_with(".ccmux"));
    all
}

/// Starts a conversation, stops and restores the pane, and continues the conversation.
fn resumes_conversation_after_stop(agent: Agent) {
    let user = User::new(agent);
    let before = user_files(&user);

    let pane = user.new_pane("dev", &[], &[]);
    user.wait_ready("dev");
    user.ask("dev", "word-one");
    let id =
        user.show("dev")["conversation"].as_str().expect("the conversation is known").to_owned();
    user.home.ccmux(&["stop", "dev"]).ok();
    user.home.ccmux(&["restore", "dev"]).ok();
    user.wait_ready("dev");
    let seen = user.ask("dev", "word-two");

    assert!(seen.user_texts().iter().any(|text| text.contains("word-one")), "{seen}");
    assert!(seen.conversation().is_none_or(|said| said == id), "{seen} is not {id}");
    assert_eq!(user.show("dev")["conversation"], id.as_str());
    // Again after a reboot.
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
    assert!(tree(&dir).len() > 2, "its files are in the pane's directory");
    assert!(!dir.join("packages").exists(), "codex copied itself into the directory");
    user.home.ccmux(&["close", "dev"]).ok();
    assert_eq!(user_files(&user), before, "the user's home has changed");
}

/// A pane stopped before its first prompt starts again as at first.
fn restarts_without_conversation(agent: Agent) {
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

/// Starts twenty panes at once, each with its own prompt.
fn twenty_panes_keep_conversations_apart(agent: Agent) {
    let user = User::new(agent);
    let before = user_files(&user);
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
    assert_eq!(user_files(&user), before, "the user's home has changed");
}

#[test]
fn heavy_agent_stopped_before_first_prompt_restarts() {
    for agent in [Agent::Claude, Agent::Codex, Agent::Gemini] {
        restarts_without_conversation(agent);
    }
}

#[test]
fn heavy_codex_stopped_resumes_its_conversation() {
    resumes_conversation_after_stop(Agent::Codex);
}

#[test]
fn heavy_codex_in_twenty_panes_keeps_conversations_apart() {
    twenty_panes_keep_conversations_apart(Agent::Codex);
}

#[test]
fn heavy_gemini_stopped_resumes_its_conversation() {
    resumes_conversation_after_stop(Agent::Gemini);
}

#[test]
fn heavy_gemini_in_twenty_panes_keeps_conversations_apart() {
    twenty_panes_keep_conversations_apart(Agent::Gemini);
}

#[test]
fn heavy_opencode_stopped_resumes_its_conversation() {
    resumes_conversation_after_stop(Agent::Opencode);
}

#[test]
fn heavy_opencode_in_twenty_panes_keeps_conversations_apart() {
    twenty_panes_keep_conversations_apart(Agent::Opencode);
}
