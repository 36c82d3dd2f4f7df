//! `ccmux doctor` with real agents (R12, B1): panes in normal use are healthy, and swapped state
//! files are found.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests need more of it")]
mod real;

use std::fs;

use model::health::FindingKind;
use real::{User, path};
use serde_json::Value;
use testkit::{Agent, DEADLINE, agents, process};

/// Runs `doctor` and checks that its exit code agrees with its report.
fn doctor(user: &User) -> Value {
    let finished = user.home.ccmux(&["doctor", "--json"]).run();
    let health: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(finished.status.success(), health["ok"] == true, "{finished:#?}");
    health
}

#[track_caller]
fn assert_healthy(user: &User) -> Value {
    let health = doctor(user);
    assert_eq!(health["ok"], true, "{health:#}");
    health
}

/// Returns the evidence of every finding of this kind.
fn evidence(health: &Value, kind: FindingKind) -> Vec<String> {
    let findings = health["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["what"] == kind.as_str())
        .map(|finding| finding["evidence"].as_str().unwrap().to_owned())
        .collect()
}

/// A pane is healthy when fresh, used, killed and restored.
fn is_healthy_throughout_its_life(agent: Agent) {
    let user = User::new(agent);
    user.new_pane("dev", &[], &[]);
    user.wait_ready("dev");
    assert_healthy(&user);

    user.ask("dev", "word-one");
    let health = assert_healthy(&user);
    assert_eq!(health["checked"]["conversations"], 1, "{health:#}");
    let installed = evidence(&health, FindingKind::Agent);
    assert!(installed.iter().all(|found| !found.contains("unknown version")), "{installed:?}");

    user.wait_written("dev", "word-one");
    let pid = u32::try_from(user.show("dev")["pid"].as_u64().unwrap()).unwrap();
    process::kill_and_wait(&process::identity(pid).unwrap(), DEADLINE);
    user.wait_state("dev", "exited");
    assert_healthy(&user);
    user.home.ccmux(&["restore", "dev"]).ok();
    user.wait_ready("dev");
    assert_healthy(&user);
}

#[test]
fn heavy_claude_pane_is_healthy_throughout_its_life() {
    is_healthy_throughout_its_life(Agent::Claude);
}

#[test]
fn heavy_codex_pane_is_healthy_throughout_its_life() {
    is_healthy_throughout_its_life(Agent::Codex);
}

#[test]
fn heavy_gemini_pane_is_healthy_throughout_its_life() {
    is_healthy_throughout_its_life(Agent::Gemini);
}

#[test]
fn heavy_opencode_pane_is_healthy_throughout_its_life() {
    is_healthy_throughout_its_life(Agent::Opencode);
}

#[test]
fn heavy_swapped_state_files_of_two_claudes_are_found() {
    let user = User::new(Agent::Claude);
    let files = ["one", "two"].map(|name| {
        let pane = user.new_pane(name, &[], &[]);
        user.wait_ready(name);
        user.home.ccmux(&["stop", name]).ok();
        path(&pane, "config_dir").join(".claude.json")
    });
    assert_healthy(&user);

    let aside = user.home.dir().join("aside");
    fs::rename(&files[0], &aside).unwrap();
    fs::rename(&files[1], &files[0]).unwrap();
    fs::rename(&aside, &files[1]).unwrap();

    let found = evidence(&doctor(&user), FindingKind::StateOfAnother);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn heavy_both_claude_releases_use_the_shared_login() {
    for program in [agents::installed(Agent::Claude), agents::installed_old_claude()] {
        let mut user = User::new(Agent::Claude);
        let bin = program.parent().unwrap().display().to_string();
        user.home.set_env("PATH", format!("{bin}:/usr/local/bin:/usr/bin:/bin"));

        let found = evidence(&doctor(&user), FindingKind::Agent);

        let uses = "it uses the shared login";
        assert!(found.iter().any(|found| found.contains(uses)), "{}: {found:?}", program.display());
    }
}
