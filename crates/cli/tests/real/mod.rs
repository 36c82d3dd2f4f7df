//! A user of a real agent, and panes with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::stub::RecordedRequest;
use testkit::wait::try_wait_for;
use testkit::{Agent, ApiStub, Home, agents, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for twenty agents started at once on two cores.
pub(crate) const LONG: Duration = Duration::from_secs(240);

/// A user of one agent, with the stub of its service.
pub(crate) struct User {
    pub(crate) agent: Agent,
    pub(crate) home: Home,
    pub(crate) stub: ApiStub,
    pub(crate) project: PathBuf,
}

impl User {
    /// A user who has set up the agent and not used it in the project yet.
    pub(crate) fn new(agent: Agent) -> Self {
        let stub = ApiStub::start();
        let mut home = Home::new(CCMUX);
        let bin = agents::installed(agent).parent().expect("a directory").to_owned();
        home.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        for (name, value) in agents::environment(agent, &stub) {
            home.set_env(name, value);
        }
        agents::user_files(agent, &home.dir().join("home"), &stub);
        if agent == Agent::Codex {
            without_switches(&home.dir().join("home/.codex/config.toml"));
        }
        let project = home.dir().join("project");
        std::fs::create_dir(&project).expect("a project");
        Self { agent, home, stub, project }
    }

    pub(crate) fn home_dir(&self) -> PathBuf {
        self.home.dir().join("home")
    }

    /// Starts a pane with the agent and these arguments without waiting for it.
    pub(crate) fn new_pane(&self, name: &str, options: &[&str], args: &[&str]) -> Value {
        let mut words = vec!["new", "-d", "--json", "-n", name, "--size", "100x30"];
        // An API key under a name that only this user's configuration lists.
        if matches!(self.agent, Agent::Codex | Agent::Opencode) {
            words.extend(["--env", "STUB_API_KEY"]);
        }
        words.extend(options);
        words.extend(["--", self.agent.name()]);
        words.extend(args);
        self.home.ccmux(&words).dir(&self.project).timeout(LONG).json()["pane"].clone()
    }

    /// Waits until the pane is ready for a prompt.
    pub(crate) fn wait_ready(&self, name: &str) {
        self.wait_text(name, &regex_of(self.agent.ready_text()));
    }

    /// Waits until the pane shows a line that matches.
    pub(crate) fn wait_text(&self, name: &str, expression: &str) {
        let until = format!("text={expression}");
        let wait = self.home.ccmux(&["wait", name, "--for", &until, "--timeout", "180"]);
        let waited = wait.timeout(LONG).run();
        if !waited.status.success() {
            let screen = self.home.ccmux(&["read", name]).run().stdout;
            panic!("{name} does not show {expression:?}: {}\n{screen}", waited.stderr);
        }
    }

    /// Sends a prompt, waits for the answer on the screen, and returns the request.
    pub(crate) fn ask(&self, name: &str, text: &str) -> RecordedRequest {
        let is_it = |seen: &RecordedRequest| {
            seen.is_turn() && seen.user_texts().last().is_some_and(|last| last.contains(text))
        };
        let asked = || self.stub.turns().into_iter().rev().find(is_it);
        self.home.ccmux(&["send", name, text]).ok();
        self.wait_text(name, text);
        // As a person would: Enter, and again if the agent was still starting. On an empty line an
        // Enter has no effect.
        let seen = (0..10).find_map(|_| {
            self.home.ccmux(&["send", name, "--key", "enter"]).ok();
            try_wait_for(Duration::from_secs(10), asked)
        });
        let seen = seen.unwrap_or_else(|| {
            let screen = self.home.ccmux(&["read", name]).run().stdout;
            panic!("{name} does not say {text:?} to its service:\n{screen}");
        });
        self.wait_text(name, &format!("stub answer \\d+: .*{text}"));
        seen
    }

    /// Waits until the agent has written the answer to `text` to disk. It is shown shortly before,
    /// and an unwritten answer is lost if the agent is killed.
    pub(crate) fn wait_written(&self, name: &str, text: &str) {
        let dir = path(&self.show(name), "config_dir");
        let what = format!("{name} has written down the answer to {text}");
        wait_until(&what, LONG, || contains_answer(&dir, text));
    }

    pub(crate) fn show(&self, name: &str) -> Value {
        self.home.ccmux(&["show", name, "--json"]).json()["pane"].clone()
    }

    pub(crate) fn wait_state(&self, name: &str, state: &str) {
        wait_until(&format!("{name} is {state}"), LONG, || self.show(name)["state"] == state);
    }

    /// Waits for the end of a pane and returns its exit code.
    pub(crate) fn wait_exit(&self, name: &str) -> i64 {
        self.home.ccmux(&["wait", name, "--for", "exit", "--timeout", "200"]).timeout(LONG).ok();
        self.show(name)["ending"]["code"].as_i64().expect("an exit code")
    }
}

/// Removes settings that a user would not have: ccmux must set them itself.
#[expect(clippy::disallowed_methods, reason = "the file is complete before the agent starts")]
fn without_switches(config: &Path) {
    let text = std::fs::read_to_string(config).expect("the user's configuration");
    let kept = text.lines().filter(|line| !line.contains("daemon_auto_start"));
    let kept = kept.map(|line| format!("{line}\n")).collect::<String>();
    std::fs::write(config, kept).expect("it can be written");
}

/// Returns whether a file below `dir` contains the answer to `text`. Files may come and go
/// meanwhile.
fn contains_answer(dir: &Path, text: &str) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => contains_answer(&entry.path(), text),
        Ok(kind) if kind.is_file() => {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            let said = String::from_utf8_lossy(&bytes);
            let mut answers = said.match_indices("stub answer ");
            answers.any(|(at, _)| {
                let answer: String = said[at..].chars().take(20 + text.len()).collect();
                answer.contains(text)
            })
        }
        _ => false,
    })
}

pub(crate) fn path(pane: &Value, field: &str) -> PathBuf {
    pane[field].as_str().expect("a path").into()
}

fn regex_of(text: &str) -> String {
    text.replace('+', "\\+")
}
