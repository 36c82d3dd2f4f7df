//! Invariants of the code itself, so that nobody has to remember them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// Every source file of the product, without tests and the test kit.
fn sources() -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    let mut dirs: Vec<PathBuf> =
        ["model", "protocol", "terminal", "host", "keeper", "daemon", "cli"]
            .map(|name| crates.join(name).join("src"))
            .into();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                let product = text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned();
                let name = path.strip_prefix(crates).unwrap().display().to_string();
                files.push((name, product));
            }
        }
    }
    files
}

fn files_with(what: &str) -> Vec<String> {
    let mut found: Vec<String> = sources()
        .into_iter()
        .filter(|(name, text)| !name.contains("tests") && text.contains(what))
        .map(|(name, _)| name)
        .collect();
    found.sort();
    found
}

/// R7: every way to start a pane goes through one path.
#[test]
fn a_process_in_a_pane_is_started_in_one_place() {
    let started = files_with("Command::new(");
    // The daemon, a question to an agent in a throwaway directory (in no pane), a pane's keeper,
    // git, the commands of a trusted project, and the pane's program: nothing else is started.
    let places = [
        "cli/src/start.rs",
        "daemon/src/probe.rs",
        "daemon/src/spawn.rs",
        "host/src/git.rs",
        "host/src/project.rs",
        "keeper/src/pty.rs",
    ];
    assert_eq!(started, places);
    assert_eq!(files_with("pre_exec"), ["keeper/src/pty.rs"]);
    assert_eq!(files_with("launch::plan("), ["daemon/src/launch.rs"]);
}

#[test]
fn unsafe_code_stays_at_the_operating_system() {
    for file in files_with("unsafe {") {
        assert!(file.starts_with("host/") || file.starts_with("keeper/"), "{file}");
    }
}

#[test]
fn nobody_below_knows_what_is_above() {
    let forbidden: [(&str, &[&str]); 5] = [
        ("model", &["protocol::", "host::", "terminal::", "std::fs", "std::env", "tokio"]),
        ("protocol", &["host::", "terminal::", "tokio"]),
        ("terminal", &["protocol::", "host::", "std::fs", "std::net", "tokio"]),
        ("host", &["protocol::", "terminal::", "tokio"]),
        ("keeper", &["daemon::", "tokio"]),
    ];
    for (name, text) in sources() {
        let krate = name.split('/').next().unwrap();
        for (_, words) in forbidden.iter().filter(|(from, _)| *from == krate) {
            for word in *words {
                let used = text.lines().any(|line| {
                    !line.trim_start().starts_with("//") && line.contains(&format!("use {word}"))
                });
                assert!(!used, "{name} uses {word}");
            }
        }
    }
}

/// What is known of an agent is in one file of its own.
#[test]
fn agents_are_named_where_they_are_described_and_nowhere_else() {
    let names = ["\"claude\"", "\"codex\"", "\"gemini\"", "\"opencode\""];
    let variables = ["\"CLAUDE_", "\"CODEX_", "\"GEMINI_", "\"ANTHROPIC_", "\"OPENAI_"];
    for (file, text) in sources() {
        if file.starts_with("model/src/agent") || file.contains("tests") {
            continue;
        }
        let text = text.split("\n#[cfg(test)]").next().unwrap();
        for word in names.iter().chain(&variables) {
            let used = text
                .lines()
                .any(|line| !line.trim_start().starts_with("//") && line.contains(*word));
            assert!(!used, "{file} knows {word}");
        }
    }
}
