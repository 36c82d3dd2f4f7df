//! Rules about the product's source text. Rules about modules and types are in testkit's
//! `architecture` tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// A source file: its path below `crates`, and its text without the test module.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn krate(&self) -> &str {
        self.path.split('/').next().unwrap()
    }

    /// The crate and the file's name, which stay the same when a module moves.
    fn short_name(&self) -> String {
        format!("{}:{}", self.krate(), self.path.rsplit('/').next().unwrap())
    }

    /// Whether a line that is not a comment contains `text`.
    fn has_code(&self, text: &str) -> bool {
        let mut lines = self.text.lines();
        lines.any(|line| !line.trim_start().starts_with("//") && line.contains(text))
    }
}

/// Returns every source file of the product, without tests and the test kit.
fn sources() -> Vec<Source> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    let mut dirs: Vec<PathBuf> =
        ["model", "protocol", "terminal", "host", "keeper", "client", "daemon", "cli"]
            .map(|name| crates.join(name).join("src"))
            .into();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let file = entry.unwrap().path();
            let path = file.strip_prefix(crates).unwrap().display().to_string();
            if file.is_dir() {
                dirs.push(file);
            } else if path.ends_with(".rs") && !path.contains("tests") {
                let text = fs::read_to_string(&file).unwrap();
                let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap().to_owned();
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn files_with(text: &str) -> Vec<String> {
    sources().iter().filter(|source| source.has_code(text)).map(Source::short_name).collect()
}

#[test]
fn processes_are_started_only_by_the_listed_modules() {
    // In this order: nothing (a command of the command line), the user's pager, systemctl, the daemon,
    // an agent asked in a temporary directory (in no pane), a pane's keeper, git, a trusted project's
    // commands, the daemon outside of the limits of a pane, a pane's program.
    let expected = [
        "cli:complete.rs",
        "cli:pager.rs",
        "cli:unit.rs",
        "client:start.rs",
        "daemon:probe.rs",
        "daemon:spawn.rs",
        "host:git.rs",
        "host:project.rs",
        "keeper:daemon.rs",
        "keeper:pty.rs",
    ];

    let mut started = files_with("Command::new(");
    started.sort();

    assert_eq!(started, expected);
    assert_eq!(files_with("pre_exec"), ["keeper:pty.rs"]);
}

#[test]
fn new_and_restore_share_one_launch_pipeline() {
    // One function makes plans, and one place calls it.
    assert_eq!(files_with("Ok(Plan {"), ["model:launch.rs"]);
    assert_eq!(files_with("launch::plan("), ["daemon:launch.rs"]);
    // Restore gets its plan from there, too, and both prepare directories in the same way.
    let users = |call: &str| -> Vec<String> {
        let sources = sources();
        let users = sources.iter().filter(|source| source.krate() == "daemon");
        users.filter(|source| source.has_code(call)).map(|source| source.path.clone()).collect()
    };
    let (launch, restore) = ("daemon/src/panes/launch.rs", "daemon/src/panes/restore.rs");
    for call in ["prepare_isolation(", "start_keeper(", "Launch::"] {
        assert_eq!(users(call), [launch, restore], "{call}");
    }
    assert_eq!(users("pane_dirs::create("), [launch]);
    // A plan is complete: the daemon changes neither a plan nor the command in a record.
    for change in ["mut plan", "&mut Plan", ".argv =", "LaunchRecord {", "isolate("] {
        assert_eq!(users(change), [""; 0], "{change}");
    }
}

#[test]
fn unsafe_code_is_only_in_host_and_keeper() {
    let elsewhere: Vec<String> = files_with("unsafe {")
        .into_iter()
        .filter(|name| !name.starts_with("host:") && !name.starts_with("keeper:"))
        .collect();

    assert_eq!(elsewhere, [""; 0]);
}

#[test]
fn lower_crates_do_not_use_higher_ones() {
    let forbidden: [(&str, &[&str]); 5] = [
        ("model", &["protocol::", "host::", "terminal::", "std::fs", "std::env", "tokio"]),
        ("protocol", &["host::", "terminal::", "tokio"]),
        ("terminal", &["protocol::", "host::", "std::fs", "std::net", "tokio"]),
        ("host", &["protocol::", "terminal::", "tokio"]),
        ("keeper", &["daemon::", "tokio"]),
    ];

    for source in sources() {
        for (_, words) in forbidden.iter().filter(|(from, _)| *from == source.krate()) {
            for word in *words {
                assert!(!source.has_code(&format!("use {word}")), "{} uses {word}", source.path);
            }
        }
    }
}

/// Everything specific to an agent is in its file in `model::agent`.
#[test]
fn agent_names_and_variables_occur_only_in_model_agent() {
    let names = ["\"claude\"", "\"codex\"", "\"gemini\"", "\"opencode\""];
    let variables = ["\"CLAUDE_", "\"CODEX_", "\"GEMINI_", "\"ANTHROPIC_", "\"OPENAI_"];

    for source in sources().iter().filter(|source| !source.path.starts_with("model/src/agent")) {
        let text = source.text.split("\n#[cfg(test)]").next().unwrap();
        // The one variable of ours whose name begins like one of an agent.
        let text = text.replace("\"CLAUDE_ROLE\"", "");
        let source = Source { path: source.path.clone(), text };
        for word in names.iter().chain(&variables) {
            assert!(!source.has_code(word), "{} contains {word}", source.path);
        }
    }
}
