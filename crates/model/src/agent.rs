//! Agents: descriptions of programs, with which ccmux isolates them and resumes conversations.
//!
//! Each agent has one file, and names of agents, their files and variables occur nowhere else. An
//! [`Agent`] is a description; aspects that cannot be expressed as data are pure functions on bytes.
//! Users describe additional agents in `ccmux.toml` ([`custom`]).

pub mod arguments;
mod claude;
mod codex;
pub mod custom;
mod gemini;
pub mod hooks;
mod opencode;
pub mod probe;
pub mod prompting;
pub mod refresh;
mod shell;
pub mod traces;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::{AgentConfig, Share};
use crate::conversation::{ConversationId, ConversationRequest, ConversationStart};
use arguments::Grammar;
use probe::Probe;
use traces::Traces;

/// The names of the built-in agents.
pub const BUILT_IN: [&str; 5] =
    [claude::NAME, codex::NAME, gemini::NAME, opencode::NAME, shell::NAME];

/// The name of the agent that stands for every program that is not an agent.
pub const SHELL: &str = shell::NAME;

/// The inherited variables of each built-in agent. A separate table, because it is consulted for
/// every variable of every client.
const INHERITED: [&[&str]; 4] =
    [claude::INHERITS, codex::INHERITS, gemini::INHERITS, opencode::INHERITS];

/// The variables with which users relocate their configuration.
const CONSULTED: [&str; 4] =
    ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"];

/// The description of an agent.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// Program and first arguments; empty for the user's shell.
    pub command: Vec<String>,
    /// Variables that point into the agent's directory in the pane: name, and path relative to it.
    pub variables: Vec<(String, String)>,
    /// Whether every pane has the variables, because people and other agents start this agent from
    /// a shell. They must not affect other programs.
    pub in_every_pane: bool,
    /// The variable with the directory for temporary files and sockets.
    pub temp_variable: Option<String>,
    /// Variables that a pane inherits from the client; a trailing `*` matches any suffix.
    pub inherits: &'static [&'static str],
    /// Variables that its panes never inherit.
    pub scrubs: Vec<String>,
    /// Directories to create in its directory before the first start.
    pub directories: &'static [&'static str],
    /// The user's own configuration directory of the agent.
    pub user_dir: UserDir,
    /// Files and directories of the user in its directory: copies that follow the user's files, or
    /// links.
    pub links: Vec<Link>,
    /// The settings among them, if they are a JSON object.
    pub settings: Option<Settings>,
    /// Files of the user that are copied into its directory once.
    pub copies: Vec<Copied>,
    /// Files of the user from which [`Agent::made`] generates others.
    pub consults: Vec<Consulted>,
    /// Generates files for its directory.
    pub made: Option<fn(&Seeding<'_>) -> Vec<Seed>>,
    /// How it logs in.
    pub logins: Logins,
    /// How it identifies and stores conversations.
    pub conversations: Conversations,
    /// The files by which the owner of its directory is recognised.
    pub traces: Traces,
    /// How it reports its actions to ccmux.
    pub hooks: Option<hooks::Hooks>,
    /// How to see on its screen whether it accepts a prompt; none if unknown.
    pub prompting: Option<prompting::Prompting>,
}

/// The location of the user's configuration of an agent.
#[derive(Clone, Debug, Default)]
pub struct UserDir {
    /// The variable with which the user can relocate it.
    pub variable: Option<&'static str>,
    /// The directory, relative to the value of the variable.
    pub under_variable: &'static str,
    /// The directory, relative to the user's home, without the variable.
    pub under_home: &'static str,
}

/// The location of a file of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the user's directory of this agent.
    Dir(String),
    /// Next to that directory: in the home, or, if relocated, in that directory.
    Top(String),
    /// In the user's home.
    Home(String),
    /// An absolute path.
    Absolute(String),
}

/// Settings that are merged by key.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Their path in the agent's directory.
    pub at: &'static str,
    /// Values for keys that the user has not set.
    pub defaults: &'static [(&'static str, &'static str)],
}

/// A file or directory of the user that an agent needs.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its path in the agent's directory.
    pub at: String,
    /// The user's file or directory.
    pub to: Origin,
    /// The part of the configuration it belongs to, which decides whether it is copied or linked;
    /// none: always linked.
    pub share: Option<Share>,
}

/// A copy of a file of the user.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Path of the copy in the agent's directory.
    pub at: String,
    /// The original.
    pub from: Origin,
    /// The part of the configuration that must be in use for this; none: always.
    pub share: Option<Share>,
}

/// A file of the user from which another one is generated.
#[derive(Clone, Debug)]
pub struct Consulted {
    /// Its name in [`Seeding::digests`].
    pub name: &'static str,
    /// Its location.
    pub origin: Origin,
    /// Extracts the relevant part, which is cached because files may be large.
    pub digest: fn(&[u8]) -> Option<Value>,
}

/// The input for generated files.
#[derive(Clone, Debug)]
pub struct Seeding<'a> {
    /// The digests of the consulted files that exist.
    pub digests: BTreeMap<&'static str, Value>,
    /// Directories for which the agent need not ask for trust: the working directory and its
    /// repository.
    pub trusted: &'a [String],
    /// The parts of the user's configuration that are in use.
    pub share: &'a [Share],
    /// The pane's environment.
    pub environment: &'a crate::environment::Environment,
}

/// A generated file of an agent's directory. An existing file is not replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Its path in the directory.
    pub at: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// How an agent logs in.
#[derive(Clone, Debug, Default)]
pub struct Logins {
    /// Variables with credentials, in order of precedence.
    pub variables: &'static [&'static str],
    /// The credential store that all panes can share.
    pub store: Option<Store>,
}

/// A credential store with a configurable location.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// The variable with its location.
    pub variable: &'static str,
    /// The file whose existence indicates a login. Never opened.
    pub file: &'static str,
    /// How to find out whether a release of the agent supports the variable.
    pub probe: Probe,
}

/// Identifies a conversation by the file name and the beginning of its transcript.
pub type Identify = fn(&str, &[u8]) -> Option<ConversationId>;

/// How an agent identifies and stores conversations.
#[derive(Clone, Debug, Default)]
pub struct Conversations {
    /// The syntax of its command line.
    pub grammar: Grammar,
    /// Arguments that start the conversation `{id}`; empty if the agent chooses the id.
    pub new: Vec<String>,
    /// Arguments that resume `{id}`; empty if the agent cannot.
    pub resume: Vec<String>,
    /// Path of the transcript of `{id}` in its directory; `*` matches any part of a file name.
    pub transcript: Option<String>,
    /// The database in its directory that contains conversations, if it has no transcript files.
    pub database: Option<Database>,
    /// The status file of a running process, with the id in `sessionId`.
    pub live: Option<Live>,
    /// Returns the directory of the transcripts for a working directory, if they are kept per
    /// directory.
    pub filed: Option<fn(&str) -> Option<String>>,
    /// Identifies the conversation of a transcript.
    pub identify: Option<Identify>,
}

/// An SQLite database with the conversations of an agent.
#[derive(Clone, Copy, Debug)]
pub struct Database {
    /// Its path in the agent's directory.
    pub path: &'static str,
    /// Query for the id of the most recently updated conversation.
    pub latest: &'static str,
    /// Query for the number of conversations with the id `?1`.
    pub count: &'static str,
}

/// The status file of a running agent.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Its directory in the agent's directory.
    pub dir: &'static str,
    /// Parses its contents.
    pub read: fn(&[u8]) -> Option<Liveness>,
}

/// The status of a running agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// Its process id.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot, if given.
    pub started: Option<u64>,
    /// Its conversation.
    pub conversation: ConversationId,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Since when it has been waiting for a prompt, if it is.
    pub idle_since: Option<crate::time::Timestamp>,
}

/// An undefined agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent {asked:?}; known agents: {known}")]
pub struct UnknownAgent {
    /// The requested name.
    pub asked: String,
    /// The known agents, separated by commas.
    pub known: String,
}

impl Agent {
    /// Returns the agent with this name.
    ///
    /// # Errors
    ///
    /// [`UnknownAgent`], with the names of all agents.
    pub fn named(
        name: &str,
        defined: &BTreeMap<String, AgentConfig>,
    ) -> Result<Self, UnknownAgent> {
        if let Some(agent) = built_in(name) {
            return Ok(agent);
        }
        let custom = defined.get(name).map(|config| custom::agent(name, config));
        custom.ok_or_else(|| {
            let known = BUILT_IN.into_iter().chain(defined.keys().map(String::as_str));
            let known = known.collect::<Vec<_>>().join(", ");
            UnknownAgent { asked: name.to_owned(), known }
        })
    }

    /// Returns the agent whose program a command starts; the shell for any other program.
    #[must_use]
    pub fn of_command(command: &[String], defined: &BTreeMap<String, AgentConfig>) -> Self {
        let known = BUILT_IN.into_iter().chain(defined.keys().map(String::as_str));
        known
            .filter_map(|name| Self::named(name, defined).ok())
            .find(|agent| agent.is_started_by(command))
            .unwrap_or_else(shell::agent)
    }

    /// Returns the built-in agents.
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        BUILT_IN.into_iter().filter_map(built_in).collect()
    }

    /// Returns the agents whose variables every pane has.
    #[must_use]
    pub fn everywhere() -> Vec<Self> {
        Self::built_in().into_iter().filter(|agent| agent.in_every_pane).collect()
    }

    /// Returns true if it is the shell, which stands for every program that is not an agent.
    #[must_use]
    pub fn is_shell(&self) -> bool {
        self.name == SHELL
    }

    /// Returns true if the first word of `command` is this agent's program.
    #[must_use]
    pub fn is_started_by(&self, command: &[String]) -> bool {
        let base = |word: &String| word.rsplit('/').next().map(str::to_owned);
        match (command.first(), self.command.first()) {
            (Some(given), Some(ours)) => base(given) == base(ours),
            _ => false,
        }
    }

    /// Returns program and arguments: `command` itself if it starts with the agent's program,
    /// otherwise the agent's command followed by `command` as arguments.
    #[must_use]
    pub fn command_for(&self, command: &[String]) -> Vec<String> {
        if self.command.is_empty() || self.is_started_by(command) {
            return command.to_vec();
        }
        self.command.iter().chain(command).cloned().collect()
    }

    /// Returns the choice of a conversation in the arguments of `argv`.
    #[must_use]
    pub fn asked(&self, argv: &[String]) -> ConversationRequest {
        if !self.can_converse() {
            return ConversationRequest::None;
        }
        self.conversations.grammar.asked(self.arguments(argv))
    }

    /// Returns true if it has conversations that ccmux can identify.
    #[must_use]
    pub fn can_converse(&self) -> bool {
        !self.conversations.new.is_empty() || !self.conversations.resume.is_empty()
    }

    /// Returns true if it accepts the id of a new conversation.
    #[must_use]
    pub fn takes_new_id(&self) -> bool {
        !self.conversations.new.is_empty()
    }

    /// Returns `base` with the arguments for the conversation.
    ///
    /// A resumed conversation replaces the choice in `base`, and the first prompt is not repeated.
    #[must_use]
    pub fn argv(&self, base: &[String], start: &ConversationStart) -> Vec<String> {
        let (template, id, arguments) = match start {
            ConversationStart::Plain => return base.to_vec(),
            ConversationStart::New(id) => {
                (&self.conversations.new, id, self.arguments(base).to_vec())
            }
            ConversationStart::Resume(id) => {
                let kept = self.conversations.grammar.without_choice(self.arguments(base));
                (&self.conversations.resume, id, kept)
            }
        };
        let program = &base[..base.len() - self.arguments(base).len()];
        let own = template.iter().map(|word| word.replace("{id}", id.as_str()));
        program.iter().cloned().chain(own).chain(arguments).collect()
    }

    /// Returns the arguments after the program and its fixed first arguments.
    fn arguments<'a>(&self, argv: &'a [String]) -> &'a [String] {
        let fixed = self.command.get(1..).unwrap_or_default();
        match argv.get(1..) {
            Some(given) if given.starts_with(fixed) => &given[fixed.len()..],
            Some(given) => given,
            None => &[],
        }
    }

    /// Returns true if its conversations are visible on disk.
    #[must_use]
    pub fn keeps_transcripts(&self) -> bool {
        self.conversations.transcript.is_some() || self.conversations.database.is_some()
    }

    /// Returns the path pattern of the transcript of a conversation in the agent's directory.
    #[must_use]
    pub fn transcript_of(&self, id: &ConversationId) -> Option<String> {
        Some(self.conversations.transcript.as_ref()?.replace("{id}", id.as_str()))
    }
}

/// Returns true if a pane inherits this variable because an agent needs it.
#[must_use]
pub fn is_inherited(name: &str) -> bool {
    matches_any(name, INHERITED.into_iter().flatten().copied())
}

/// Returns true if the client's value of this variable locates the user's configuration. It is not
/// inherited.
#[must_use]
pub fn is_consulted(name: &str) -> bool {
    CONSULTED.contains(&name)
}

fn matches_any(name: &str, patterns: impl IntoIterator<Item = &'static str>) -> bool {
    patterns.into_iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    })
}

fn built_in(name: &str) -> Option<Agent> {
    match name {
        claude::NAME => Some(claude::agent()),
        codex::NAME => Some(codex::agent()),
        gemini::NAME => Some(gemini::agent()),
        opencode::NAME => Some(opencode::agent()),
        shell::NAME => Some(shell::agent()),
        _ => None,
    }
}

/// Returns owned copies of words, for the descriptions of agents.
fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_tables_agree_with_the_descriptions() {
        let agents = BUILT_IN.map(|name| built_in(name).unwrap());
        for agent in &agents {
            let variable = agent.user_dir.variable;
            assert!(variable.is_none_or(is_consulted), "{}", agent.name);
            assert!(agent.inherits.iter().all(|name| is_inherited(name.trim_end_matches('*'))));
        }
        for name in ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "TMUX"] {
            assert!(!is_inherited(name), "{name}");
        }
    }
}
