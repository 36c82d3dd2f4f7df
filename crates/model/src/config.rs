//! What the user may decide: the contents of `ccmux.toml`, as values.
//!
//! A file says only what differs from [`Config::default`]; there is one value for every key at all
//! times. [`keys`] is the one place that knows the keys: what they are called and mean, what they
//! take, and why a value is refused. Whoever has a parsed file gives each value to its key.

pub mod agent;
pub mod duration;
pub mod http;
pub mod key;
pub mod keys;
pub mod locks;
pub mod nearest;
pub mod path;
pub mod ports;
pub mod role;
pub mod sample;
pub mod value;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::isolation::Method;
use crate::limits::Limits;
use crate::workspace::WorkspaceKind;

pub use http::HttpConfig;
pub use locks::{LocksConfig, WhenAway};
pub use ports::PortsConfig;

/// Everything that the user may decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// When the daemon starts, start those panes again whose keeper died with the machine.
    pub restore_on_start: bool,
    /// What to do where a conversation cannot be continued.
    pub resume_fallback: ResumeFallback,
    /// What tree a pane works in, unless it says otherwise.
    pub workspace: WorkspaceKind,
    /// How agents are kept apart.
    pub isolation: IsolationConfig,
    /// What becomes of directories that nobody needs.
    pub cleanup: CleanupConfig,
    /// How agents keep out of each other's files.
    pub locks: LocksConfig,
    /// What a pane may take.
    pub limits: Limits,
    /// Agents that the user defines, by name.
    pub agents: BTreeMap<String, AgentConfig>,
    /// Variables of every pane.
    pub env: BTreeMap<String, String>,
    /// Roles that the user defines or changes, by name.
    pub roles: BTreeMap<String, RoleConfig>,
    /// Which ports panes get.
    pub ports: PortsConfig,
    /// How the HTTP API is served.
    pub http: HttpConfig,
}

/// What a pane does whose conversation cannot be continued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResumeFallback {
    /// It is not started, and says why.
    #[default]
    Error,
    /// It starts the agent with a new conversation.
    Fresh,
    /// It starts the user's shell instead.
    Shell,
}

/// How agents are kept apart from the user's own configuration (`[claude.isolation]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolationConfig {
    /// Where the agent of a pane finds its configuration, unless the pane says otherwise.
    pub method: Method,
    /// Retire a pane's configuration directory when the pane is closed.
    pub cleanup_on_close: bool,
    /// What of the user's home is linked into a home of the pane's own: relative paths.
    pub home_symlinks: Vec<String>,
    /// What of the user's own configuration every pane sees.
    pub share: Vec<Share>,
}

/// A part of the user's own configuration of the agent that panes may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// The user's settings.
    Settings,
    /// The user's instructions for every project.
    ClaudeMd,
    /// Commands of the user's own.
    Commands,
    /// Sub-agents of the user's own.
    Agents,
    /// Skills of the user's own.
    Skills,
    /// Plugins that the user installed.
    Plugins,
    /// Servers of the model context protocol that the user added.
    McpServers,
}

/// What becomes of directories that nobody needs (`[cleanup]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupConfig {
    /// How long a retired directory stays in the trash.
    pub retention: Duration,
    /// The least age of a directory that belongs to no pane before it is retired.
    pub orphan_age: Duration,
    /// How often all of this is looked at.
    pub every: Duration,
}

/// An agent that the user defines (`[agents.NAME]`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentConfig {
    /// Program and first arguments; not empty.
    pub command: Vec<String>,
    /// Variables that point into the pane's own directory: to a path in it, or, with an empty
    /// text, to the directory itself.
    pub config_variables: BTreeMap<String, String>,
    /// Arguments that start a conversation with the id `{id}`. Empty: the agent takes none.
    pub new_conversation: Vec<String>,
    /// Arguments that continue the conversation `{id}`. Empty: the agent cannot.
    pub resume: Vec<String>,
    /// Where in the pane's own directory the conversation `{id}` is written down; `*` stands for
    /// any part of a name.
    pub transcript: Option<String>,
    /// Files to copy once: path in the pane's own directory, and the user's file.
    pub seed: BTreeMap<String, String>,
    /// Files and directories to link: path in the pane's own directory, and what of the user's.
    pub share: BTreeMap<String, String>,
    /// Variables that are never passed to it.
    pub scrub: Vec<String>,
}

/// What goes with a role (`[roles.NAME]`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleConfig {
    /// Variables of every pane with this role.
    pub env: BTreeMap<String, String>,
    /// The agent to run where the request names neither an agent nor a command.
    pub agent: Option<String>,
}

/// What of the user's home is linked into a home of the pane's own, unless the user says otherwise:
/// what git, ssh, package managers and the shell need to work as they do outside.
const HOME_SYMLINKS: [&str; 15] = [
    ".gitconfig",
    ".config/git",
    ".ssh",
    ".gnupg",
    ".npmrc",
    ".cargo",
    ".rustup",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".inputrc",
    ".local/bin",
];

impl Default for IsolationConfig {
    fn default() -> Self {
        Self {
            method: Method::default(),
            cleanup_on_close: true,
            home_symlinks: HOME_SYMLINKS.map(str::to_owned).into(),
            share: Share::ALL.into(),
        }
    }
}

impl Default for CleanupConfig {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self { retention: 7 * 24 * HOUR, orphan_age: HOUR, every: 6 * HOUR }
    }
}

/// A word that means nothing where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is none of {known}")]
pub struct UnknownWord {
    /// What was written.
    pub found: String,
    /// What could have been, as a list for people.
    pub known: String,
}

impl UnknownWord {
    pub(crate) fn new(found: &str, known: impl IntoIterator<Item = &'static str>) -> Self {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        Self { found: found.to_owned(), known }
    }
}

impl ResumeFallback {
    /// All of them, in the order in which they are explained.
    pub const ALL: [Self; 3] = [Self::Error, Self::Fresh, Self::Shell];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Fresh => "fresh",
            Self::Shell => "shell",
        }
    }
}

words!(ResumeFallback);

impl Share {
    /// All of them, in the order in which they are explained.
    pub const ALL: [Self; 7] = [
        Self::Settings,
        Self::ClaudeMd,
        Self::Commands,
        Self::Agents,
        Self::Skills,
        Self::Plugins,
        Self::McpServers,
    ];

    /// The word for it: where there is a file or directory of that name, its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settings => "settings.json",
            Self::ClaudeMd => "CLAUDE.md",
            Self::Commands => "commands",
            Self::Agents => "agents",
            Self::Skills => "skills",
            Self::Plugins => "plugins",
            Self::McpServers => "mcp_servers",
        }
    }
}

words!(Share);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back_as_what_it_was_written_for() {
        for fallback in ResumeFallback::ALL {
            assert_eq!(fallback.to_string().parse(), Ok(fallback));
        }
        for share in Share::ALL {
            assert_eq!(share.to_string().parse(), Ok(share));
        }
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        let unknown = "retry".parse::<ResumeFallback>().unwrap_err();

        assert_eq!(unknown.to_string(), "\"retry\" is none of error, fresh, shell");
    }
}
