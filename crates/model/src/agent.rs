//! The agents: what ccmux has to know of a program to keep it apart and to resume it.
//!
//! One file per agent, and the names of agents and of their files and variables occur nowhere else.
//! An [`Agent`] is a description; the few things that cannot be said as data are functions of bytes
//! to bytes in it. Users describe further agents in `ccmux.toml` ([`custom`]).

pub mod arguments;
mod claude;
mod codex;
pub mod custom;
mod gemini;
pub mod hooks;
mod opencode;
pub mod probe;
pub mod prompting;
mod shell;
pub mod traces;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::{AgentConfig, Share};
use crate::conversation::{Asked, ConversationId, Start};
use arguments::Grammar;
use probe::Probe;
use traces::Traces;

/// In a pane that has a role: which. The name is from the days of one agent, and every one gets it.
pub const ROLE: &str = "CLAUDE_ROLE";

/// The agents that ccmux knows by itself.
pub const BUILT_IN: [&str; 5] =
    [claude::NAME, codex::NAME, gemini::NAME, opencode::NAME, shell::NAME];

/// What panes take over for each of them. Asked for with every variable of every client, so it is
/// not gathered from the descriptions.
const INHERITED: [&[&str]; 4] =
    [claude::INHERITS, codex::INHERITS, gemini::INHERITS, opencode::INHERITS];

/// The variables with which users move their own configuration.
const CONSULTED: [&str; 4] =
    ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"];

/// What ccmux knows of one kind of program.
#[derive(Clone, Debug)]
pub struct Agent {
    /// What it is called.
    pub name: String,
    /// Program and first arguments, when only the agent is named. Empty: the user's shell.
    pub command: Vec<String>,
    /// Variables that point into the pane's directory for this agent: name, and path in it.
    pub variables: Vec<(String, String)>,
    /// The variables are harmless to everything else, so every pane has them: people and other
    /// agents start this agent from a shell.
    pub in_every_pane: bool,
    /// The variable that says where it puts short-lived files and sockets.
    pub temp_variable: Option<String>,
    /// Variables that a pane takes over from the client, if it has them; `*` at the end stands for
    /// anything.
    pub inherits: &'static [&'static str],
    /// Variables that its panes never take over.
    pub scrubs: Vec<String>,
    /// Directories that are made in its directory before the first start.
    pub directories: &'static [&'static str],
    /// Where the user's own configuration of it lies.
    pub user_dir: UserDir,
    /// What of the user's is linked into its directory.
    pub links: Vec<Link>,
    /// What of the user's is copied into its directory, once.
    pub copies: Vec<Copied>,
    /// Files of the user's that [`Agent::made`] is told of, by name.
    pub consults: Vec<Consulted>,
    /// Files that are made up for its directory.
    pub made: Option<fn(&Seeding<'_>) -> Vec<Seed>>,
    /// How it is logged in.
    pub logins: Logins,
    /// How it names and keeps conversations.
    pub conversations: Conversations,
    /// What it leaves behind, by which it is seen whose it is.
    pub traces: Traces,
    /// How it tells ccmux what it is about to do.
    pub hooks: Option<hooks::Hooks>,
    /// How its screen shows whether it takes a prompt; none for a program of which that is not known.
    pub prompting: Option<prompting::Prompting>,
}

/// Where the user's own configuration of an agent lies.
#[derive(Clone, Debug, Default)]
pub struct UserDir {
    /// The variable with which the user may have put it elsewhere.
    pub variable: Option<&'static str>,
    /// The directory, in the place that the variable names.
    pub under_variable: &'static str,
    /// The directory, in the user's home, without the variable.
    pub under_home: &'static str,
}

/// A place of the user's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the user's directory of this agent.
    Dir(String),
    /// Beside that directory: in the home, unless the user has moved the directory, then in it.
    Top(String),
    /// In the user's home.
    Home(String),
    /// Anywhere.
    Absolute(String),
}

/// Something of the user's that every pane sees.
#[derive(Clone, Debug)]
pub struct Link {
    /// Where in the pane's directory.
    pub at: String,
    /// What.
    pub to: Origin,
    /// The policy that allows it; none: always.
    pub share: Option<Share>,
}

/// A file of the user's that every pane gets a copy of.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Where in the pane's directory.
    pub at: String,
    /// What.
    pub from: Origin,
    /// The policy that allows it; none: always.
    pub share: Option<Share>,
}

/// A file of the user's that is read to make up another.
#[derive(Clone, Debug)]
pub struct Consulted {
    /// How [`Seeding::digests`] calls it.
    pub name: &'static str,
    /// Where it is.
    pub origin: Origin,
    /// What matters of it. Large files are read once and remembered as this.
    pub digest: fn(&[u8]) -> Option<Value>,
}

/// What made-up files are made of.
#[derive(Clone, Debug)]
pub struct Seeding<'a> {
    /// What matters of the files that are consulted, as far as there are any.
    pub digests: BTreeMap<&'static str, Value>,
    /// Directories that the agent need not ask about: where it works, and what that belongs to.
    pub trusted: &'a [String],
    /// What of the user's may be shared.
    pub share: &'a [Share],
    /// The pane's environment.
    pub environment: &'a crate::environment::Environment,
}

/// A file to be made in an agent's directory, unless something is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Where in the directory.
    pub at: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// How an agent is logged in.
#[derive(Clone, Debug, Default)]
pub struct Logins {
    /// Variables of the user's environment that log it in, best first.
    pub variables: &'static [&'static str],
    /// The store that all panes can share without copying anything.
    pub store: Option<Store>,
}

/// A credential store that can be told to lie elsewhere than the rest of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// The variable that says where.
    pub variable: &'static str,
    /// The file by which it is seen that there is a login. Never opened.
    pub file: &'static str,
    /// How to find out whether a release of the agent knows the variable.
    pub probe: Probe,
}

/// From the name and the beginning of a transcript to the conversation.
pub type Identify = fn(&str, &[u8]) -> Option<ConversationId>;

/// How an agent names and keeps conversations.
#[derive(Clone, Debug, Default)]
pub struct Conversations {
    /// Its command line.
    pub grammar: Grammar,
    /// Arguments that begin the conversation `{id}`. Empty: it chooses the id itself.
    pub new: Vec<String>,
    /// Arguments that go on with `{id}`. Empty: it cannot.
    pub resume: Vec<String>,
    /// Where in its directory `{id}` is written down; `*` stands for any part of a name.
    pub transcript: Option<String>,
    /// The database in its directory in which conversations are, instead of files of their own.
    pub database: Option<Database>,
    /// The file that a running process keeps about itself, with the id in `sessionId`.
    pub live: Option<Live>,
    /// Where in its directory transcripts are of what is held in this directory, where that
    /// matters to it.
    pub filed: Option<fn(&str) -> Option<String>>,
    /// The id that a transcript is of, from its name and its beginning.
    pub identify: Option<Identify>,
}

/// An SQLite database with an agent's conversations.
#[derive(Clone, Copy, Debug)]
pub struct Database {
    /// Where in the agent's directory.
    pub path: &'static str,
    /// Asks for the id of the conversation that was written to last.
    pub latest: &'static str,
    /// Asks how many conversations have the id `?1`.
    pub count: &'static str,
}

/// The file that a running agent keeps about itself.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// The directory in the agent's directory.
    pub dir: &'static str,
    /// What its contents say.
    pub read: fn(&[u8]) -> Option<Liveness>,
}

/// What a running agent says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// Its process.
    pub pid: u32,
    /// When that process was started, as `/proc` counts it, where it says so.
    pub started: Option<u64>,
    /// Its conversation.
    pub conversation: ConversationId,
    /// Where it works.
    pub cwd: Option<String>,
    /// Its release.
    pub version: Option<String>,
    /// Since when it has been waiting for the user's next word, if it has.
    pub idle_since: Option<crate::time::Timestamp>,
}

/// There is no agent of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent {asked:?}; there are {known}")]
pub struct UnknownAgent {
    /// What was asked for.
    pub asked: String,
    /// Those that there are.
    pub known: String,
}

impl Agent {
    /// The agent of this name.
    ///
    /// # Errors
    ///
    /// [`UnknownAgent`], with the names of all that there are.
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

    /// The agent that a command starts, by the name of its program; the shell for anything else.
    #[must_use]
    pub fn of_command(command: &[String], defined: &BTreeMap<String, AgentConfig>) -> Self {
        let known = BUILT_IN.into_iter().chain(defined.keys().map(String::as_str));
        known
            .filter_map(|name| Self::named(name, defined).ok())
            .find(|agent| agent.is_started_by(command))
            .unwrap_or_else(shell::agent)
    }

    /// The agents that ccmux knows by itself.
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        BUILT_IN.into_iter().filter_map(built_in).collect()
    }

    /// The agents whose variables every pane has.
    #[must_use]
    pub fn everywhere() -> Vec<Self> {
        Self::built_in().into_iter().filter(|agent| agent.in_every_pane).collect()
    }

    /// Whether the first word of `command` is this agent's program.
    #[must_use]
    pub fn is_started_by(&self, command: &[String]) -> bool {
        let base = |word: &String| word.rsplit('/').next().map(str::to_owned);
        match (command.first(), self.command.first()) {
            (Some(given), Some(ours)) => base(given) == base(ours),
            _ => false,
        }
    }

    /// Program and arguments for what was asked for: `command` as it is when it names the program,
    /// the agent's own command with `command` as further arguments otherwise.
    #[must_use]
    pub fn command_for(&self, command: &[String]) -> Vec<String> {
        if self.command.is_empty() || self.is_started_by(command) {
            return command.to_vec();
        }
        self.command.iter().chain(command).cloned().collect()
    }

    /// What the arguments in `argv` say about the conversation.
    #[must_use]
    pub fn asked(&self, argv: &[String]) -> Asked {
        if !self.can_converse() {
            return Asked::None;
        }
        self.conversations.grammar.asked(self.arguments(argv))
    }

    /// Whether it has conversations that ccmux can name or find.
    #[must_use]
    pub fn can_converse(&self) -> bool {
        !self.conversations.new.is_empty() || !self.conversations.resume.is_empty()
    }

    /// Whether a conversation can be given its id when it begins.
    #[must_use]
    pub fn takes_new_id(&self) -> bool {
        !self.conversations.new.is_empty()
    }

    /// `base`, with what the agent is told about its conversation.
    ///
    /// A resumed conversation replaces every choice that `base` made, and its first prompt is not
    /// said again.
    #[must_use]
    pub fn argv(&self, base: &[String], start: &Start) -> Vec<String> {
        let (template, id, arguments) = match start {
            Start::Plain => return base.to_vec(),
            Start::New(id) => (&self.conversations.new, id, self.arguments(base).to_vec()),
            Start::Resume(id) => {
                let kept = self.conversations.grammar.without_choice(self.arguments(base));
                (&self.conversations.resume, id, kept)
            }
        };
        let program = &base[..base.len() - self.arguments(base).len()];
        let own = template.iter().map(|word| word.replace("{id}", id.as_str()));
        program.iter().cloned().chain(own).chain(arguments).collect()
    }

    /// What follows the program and the first arguments that always go with it.
    fn arguments<'a>(&self, argv: &'a [String]) -> &'a [String] {
        let fixed = self.command.get(1..).unwrap_or_default();
        match argv.get(1..) {
            Some(given) if given.starts_with(fixed) => &given[fixed.len()..],
            Some(given) => given,
            None => &[],
        }
    }

    /// Whether it can be seen from outside which conversations it has.
    #[must_use]
    pub fn keeps_transcripts(&self) -> bool {
        self.conversations.transcript.is_some() || self.conversations.database.is_some()
    }

    /// The transcript of a conversation, as a pattern in the agent's directory.
    #[must_use]
    pub fn transcript_of(&self, id: &ConversationId) -> Option<String> {
        Some(self.conversations.transcript.as_ref()?.replace("{id}", id.as_str()))
    }
}

/// Whether a pane may take this variable over from the client because an agent needs it.
#[must_use]
pub fn is_inherited(name: &str) -> bool {
    matches_any(name, INHERITED.into_iter().flatten().copied())
}

/// Whether the client's value of this variable is needed to find the user's own configuration. It
/// is not passed on.
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

/// Owned copies of words, for the tables of the agents.
fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_agree_with_the_descriptions() {
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
