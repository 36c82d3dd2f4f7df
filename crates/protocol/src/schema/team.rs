//! Teams, in the form of a team file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::words::{IsolationMethod, SessionMode, WorkspaceKind};

/// A team of panes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Team)]
pub struct Team {
    /// The name of the session.
    #[serde(default)]
    pub session: Option<String>,
    /// The template the session is created from.
    #[serde(default)]
    pub template: Option<String>,
    /// Whether the panes have their own directories.
    #[serde(default)]
    pub mode: Option<SessionMode>,
    /// Environment variables for every pane.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The panes.
    #[serde(default)]
    #[schema(min_items = 1, max_items = 64)]
    pub pane: Vec<TeamPane>,
}

/// One pane of a team, or several that differ only in their number.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TeamPane)]
pub struct TeamPane {
    /// The pane's name (default: its role or its agent).
    #[serde(default)]
    pub name: Option<String>,
    /// Its role: dev, qa, ux, pm, manager, lead, worker, or one defined in ccmux.toml.
    #[serde(default)]
    pub role: Option<String>,
    /// Its agent: claude, codex, gemini, opencode, shell, or one defined in ccmux.toml.
    #[serde(default)]
    pub agent: Option<String>,
    /// The unit it belongs to.
    #[serde(default)]
    pub unit: Option<String>,
    /// The kind of workspace.
    #[serde(default)]
    pub workspace: Option<WorkspaceKind>,
    /// Whether the uncommitted changes of the directory are copied into a worktree or clone.
    #[serde(default)]
    pub carry: bool,
    /// How its agent is isolated.
    #[serde(default)]
    pub isolation: Option<IsolationMethod>,
    /// The start directory; a relative path is relative to the directory of the team file.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Environment variables for this pane.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Program and arguments (default: the agent's program).
    #[serde(default)]
    pub command: Vec<String>,
    /// Arguments of the agent, or additional arguments of the command.
    #[serde(default)]
    pub args: Vec<String>,
    /// The first prompt of the agent.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Panes that must be ready before this one starts.
    #[serde(default)]
    pub after: Vec<String>,
    /// When it is ready for panes that start after it (default: when its process runs).
    #[serde(default)]
    pub ready: Option<TeamReady>,
    /// The number of panes to create: `dev` with a count of 3 becomes dev1, dev2 and dev3.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 64)]
    pub count: Option<u32>,
    /// Resource limits such as "disk=1G" and "memory=4G".
    #[serde(default)]
    pub limits: Vec<String>,
}

/// When a pane is ready. Exactly one of `text`, `port` and `idle` is set.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TeamReady)]
pub struct TeamReady {
    /// It shows a line that matches this regular expression.
    #[serde(default)]
    pub text: Option<String>,
    /// A process listens on its first port.
    #[serde(default)]
    pub port: bool,
    /// It has written no output for one second.
    #[serde(default)]
    pub idle: bool,
    /// The timeout in seconds (default: 60).
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3600)]
    pub timeout: Option<u32>,
}
