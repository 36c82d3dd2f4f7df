//! The configuration: the contents of `ccmux.toml`, as values.
//!
//! [`Config`] has a value for every key; the file only lists the ones that differ from
//! [`Config::default`]. [`keys`] is the table of all keys: names, documentation, allowed values and
//! validation.

pub mod agent;
mod attach;
pub mod authority;
pub mod duration;
pub mod http;
pub mod key;
pub mod keys;
pub mod locks;
pub mod path;
pub mod ports;
pub mod role;
pub mod sample;
pub mod value;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::attach_keys::PrefixKey;
use crate::isolation::Method;
use crate::limits::Limits;
use crate::workspace::WorkspaceKind;

pub use crate::ports::PortsConfig;
pub use crate::words::UnknownWord;
pub use authority::AuthorityConfig;
pub use http::HttpConfig;
pub use locks::{LocksConfig, WhenAway};

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Whether the daemon restores panes on start that were running when the machine went down.
    pub restore_on_start: bool,
    /// The fallback when a conversation cannot be resumed.
    pub resume_fallback: ResumeFallback,
    /// The default workspace of a pane.
    pub workspace: WorkspaceKind,
    /// Isolation of agents.
    pub isolation: IsolationConfig,
    /// Removal of unused directories.
    pub cleanup: CleanupConfig,
    /// Locking of files that agents edit.
    pub locks: LocksConfig,
    /// The default resource limits of a pane.
    pub limits: Limits,
    /// User-defined agents by name.
    pub agents: BTreeMap<String, AgentConfig>,
    /// Environment variables of every pane.
    pub env: BTreeMap<String, String>,
    /// Roles that the user defines or changes, by name.
    pub roles: BTreeMap<String, RoleConfig>,
    /// The ports that panes get.
    pub ports: PortsConfig,
    /// Settings of the HTTP API.
    pub http: HttpConfig,
    /// Limits on what panes may do to sessions.
    pub authority: AuthorityConfig,
    /// The prefix key of attached terminals (`keys.prefix`).
    pub prefix: PrefixKey,
}

/// The fallback when the conversation of a pane cannot be resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResumeFallback {
    /// Fail with an error.
    #[default]
    Error,
    /// Start the agent with a new conversation.
    Fresh,
    /// Start the user's shell.
    Shell,
}

/// Isolation of agents from the user's own configuration (`[claude.isolation]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolationConfig {
    /// The default isolation method.
    pub method: Method,
    /// Whether a pane's configuration directory is moved to the trash when the pane is closed.
    pub cleanup_on_close: bool,
    /// Paths, relative to the user's home, that are linked into the home of a pane.
    pub home_symlinks: Vec<String>,
    /// The parts of the user's configuration that panes have copies of.
    pub copy: Vec<Share>,
    /// The parts of the user's configuration that panes share with the user and can change.
    pub share: Vec<Share>,
}

/// A part of the user's agent configuration that panes can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// The settings.
    Settings,
    /// The instructions for all projects.
    ClaudeMd,
    /// Custom commands.
    Commands,
    /// Custom sub-agents.
    Agents,
    /// Custom skills.
    Skills,
    /// Installed plugins.
    Plugins,
    /// MCP (Model Context Protocol) servers.
    McpServers,
}

/// Removal of unused directories (`[cleanup]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupConfig {
    /// How long directories stay in the trash.
    pub retention: Duration,
    /// The minimum age of an orphaned directory before it is moved to the trash.
    pub orphan_age: Duration,
    /// The interval between cleanup runs.
    pub every: Duration,
}

/// A user-defined agent (`[agents.NAME]`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentConfig {
    /// Program and first arguments; not empty.
    pub command: Vec<String>,
    /// Variables that are set to paths relative to the agent's directory in the pane; an empty path
    /// is the directory itself.
    pub config_variables: BTreeMap<String, String>,
    /// Arguments that start a conversation with the id `{id}`; empty if the agent has none.
    pub new_conversation: Vec<String>,
    /// Arguments that resume the conversation `{id}`; empty if the agent has none.
    pub resume: Vec<String>,
    /// Path of the transcript of the conversation `{id}`, relative to the agent's directory in the
    /// pane; `*` matches any part of a file name.
    pub transcript: Option<String>,
    /// Files to copy once: path in the agent's directory to path of the user's file.
    pub seed: BTreeMap<String, String>,
    /// Files and directories to link: path in the agent's directory to path of the user's file.
    pub share: BTreeMap<String, String>,
    /// Variables that are never passed to the agent.
    pub scrub: Vec<String>,
}

/// The settings of a role (`[roles.NAME]`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleConfig {
    /// Variables of every pane with this role.
    pub env: BTreeMap<String, String>,
    /// The agent to run if the request names neither an agent nor a command.
    pub agent: Option<String>,
}

/// The default of `home_symlinks`: the configuration of git, ssh, package managers and the shell.
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
            copy: Share::ALL.into(),
            share: Vec::new(),
        }
    }
}

impl IsolationConfig {
    /// Returns true if panes use this part of the user's configuration.
    #[must_use]
    pub fn uses(&self, part: Share) -> bool {
        self.copy.contains(&part) || self.share.contains(&part)
    }

    /// Returns the parts of the user's configuration that panes use.
    #[must_use]
    pub fn used(&self) -> Vec<Share> {
        Share::ALL.into_iter().filter(|part| self.uses(*part)).collect()
    }
}

impl Default for CleanupConfig {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self { retention: 7 * 24 * HOUR, orphan_age: HOUR, every: 6 * HOUR }
    }
}

impl ResumeFallback {
    /// All values, in the order in which they are documented.
    pub const ALL: [Self; 3] = [Self::Error, Self::Fresh, Self::Shell];

    /// Returns the name used in files and on the command line.
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
    /// All values, in the order in which they are documented.
    pub const ALL: [Self; 7] = [
        Self::Settings,
        Self::ClaudeMd,
        Self::Commands,
        Self::Agents,
        Self::Skills,
        Self::Plugins,
        Self::McpServers,
    ];

    /// Returns the name used in files: that of the agent's file or directory, if there is one.
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
    fn words_round_trip() {
        for fallback in ResumeFallback::ALL {
            assert_eq!(fallback.to_string().parse(), Ok(fallback));
        }
        for share in Share::ALL {
            assert_eq!(share.to_string().parse(), Ok(share));
        }
    }

    #[test]
    fn unknown_word_error_lists_the_allowed_words() {
        let unknown = "retry".parse::<ResumeFallback>().unwrap_err();

        assert_eq!(
            unknown.to_string(),
            "unknown value \"retry\"; expected one of error, fresh, shell"
        );
    }
}
