//! Teams: groups of panes that are created, changed and closed together.
//!
//! A file or a request describes a [`Team`]. [`expand`] checks the description and lists its panes;
//! [`plan`] compares them with the existing panes. Both are pure functions.

mod expand;
mod plan;
pub mod presets;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::isolation::Method;
use crate::limits::LimitOverrides;
use crate::name::Name;
use crate::session::SessionMode;
use crate::workspace::WorkspaceKind;

pub use expand::{TeamFault, WantedPane, expand};
pub use plan::{Action, CurrentPane, Step, plan};

/// The maximum number of panes of a request.
pub const MOST_PANES: usize = 64;

/// The default of [`Ready::timeout`], in seconds.
pub const READY_WITHIN: u32 = 60;

/// The maximum of [`Ready::timeout`], in seconds.
pub const READY_WITHIN_MOST: u32 = 3600;

/// The roles that manage others.
const MANAGERS: [&str; 3] = ["manager", "lead", "pm"];

/// Returns true if a pane with this role belongs to the `managers` of its session. Other panes with
/// a role or a unit belong to the `workers`.
#[must_use]
pub fn is_manager(role: &str) -> bool {
    MANAGERS.contains(&role)
}

/// The description of a team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "ccmux team")]
pub struct Team {
    /// Name of the session; `ccmux up` finds an existing session by this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Name>,
    /// Template of the session, see `ccmux template ls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Whether the panes have their own directories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<SessionMode>,
    /// Environment variables of every pane.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The panes.
    #[serde(
        rename = "pane",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::object::list"
    )]
    #[schemars(length(min = 1, max = MOST_PANES))]
    pub panes: Vec<TeamPane>,
}

/// A pane of a team, or several that differ only in their number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TeamPane {
    /// Name of the pane (default: its role or agent).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// Role: dev, qa, ux, pm, manager, lead, worker, or one defined in ccmux.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Agent: claude, codex, gemini, opencode, shell, or one defined in ccmux.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Unit that the pane belongs to; messages can be sent to a whole unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<Name>,
    /// Kind of workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceKind>,
    /// Copy the uncommitted changes of the directory into a worktree or clone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub carry: bool,
    /// Isolation method: config_dir, home or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Method>,
    /// Directory to start in, relative to the directory of the team file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables of the pane.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Program and arguments, to run something other than just an agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments of the agent, or additional arguments of the command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// First prompt for the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Panes that must be ready before this one is started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Name>,
    /// Condition for the pane to be ready (default: as soon as it runs).
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::option")]
    pub ready: Option<Ready>,
    /// Number of panes: `dev` with a count of 3 makes dev1, dev2 and dev3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PANES))]
    pub count: Option<u32>,
    /// Resource limits, such as "disk=1G" and "memory=4G".
    #[serde(skip_serializing_if = "LimitOverrides::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub limits: LimitOverrides,
}

/// Condition for a pane to be ready. Exactly one of `text`, `port` and `idle` must be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ready {
    /// The pane shows a line that matches this regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A process listens on the first port of the pane.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub port: bool,
    /// The pane has had no output for a second.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// Timeout in seconds (default: 60).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = READY_WITHIN_MOST))]
    pub timeout: Option<u32>,
}

/// Returns the JSON schema of a team file, for editors.
#[must_use]
pub fn schema() -> String {
    let schema = schemars::schema_for!(Team);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema has string keys only");
    text.push('\n');
    text
}
