//! Teams: several panes that are made, changed and ended as one.
//!
//! A team is described by a file or a request ([`Team`]). [`expand`] makes the panes of it that are
//! wanted, or says everything that is wrong; [`plan`] says what has to be done to get there from
//! what there is. Both are functions: who reads the file, and who starts panes, is elsewhere.

mod expand;
mod plan;
pub mod presets;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::isolation::Method;
use crate::limits::LimitWishes;
use crate::name::Name;
use crate::session::SessionMode;
use crate::workspace::WorkspaceKind;

pub use expand::{TeamFault, WantedPane, expand};
pub use plan::{Action, CurrentPane, Step, plan};

/// The most panes that one request may make.
pub const MOST_PANES: usize = 64;

/// How long a pane may take to be ready, in seconds, unless the team says otherwise.
pub const READY_WITHIN: u32 = 60;

/// The longest time that may be waited for a pane to be ready, in seconds.
pub const READY_WITHIN_MOST: u32 = 3600;

/// The roles of those who tell others what to do.
const MANAGERS: [&str; 3] = ["manager", "lead", "pm"];

/// Whether a pane of this role is among the `managers` of its session. Everybody else with a role
/// or a unit is among the `workers`.
#[must_use]
pub fn is_manager(role: &str) -> bool {
    MANAGERS.contains(&role)
}

/// A team, as its file describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "ccmux team")]
pub struct Team {
    /// What the session is called: `ccmux up` finds it again by this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Name>,
    /// The template that the session is made from, see `ccmux template ls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Whose directories the panes work in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<SessionMode>,
    /// Variables of every pane.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The panes, in the order in which plans and answers name them.
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
    /// What the pane is called; its role or its agent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// What it is for: dev, qa, ux, pm, manager, lead, worker, or one of ccmux.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The agent in it: claude, codex, gemini, opencode, shell, or one of ccmux.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The unit that it belongs to; messages can be sent to a whole unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<Name>,
    /// The tree that it works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceKind>,
    /// How its agent is kept apart: config_dir, home or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Method>,
    /// The directory to start in; a relative one begins at the file's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables of this pane.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Program and arguments, where it is not an agent alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments of the agent, or more of them for the command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// What the agent is told first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Panes that have to be ready before this one is started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Name>,
    /// When it is ready for those that come after it; as soon as it runs otherwise.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::option")]
    pub ready: Option<Ready>,
    /// Make this many: `dev` with a count of 3 is dev1, dev2 and dev3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PANES))]
    pub count: Option<u32>,
    /// What it may take, such as "disk=1G" and "memory=4G".
    #[serde(skip_serializing_if = "LimitWishes::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub limits: LimitWishes,
}

/// How it is known that a pane is ready. Exactly one of `text`, `port` and `idle` is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ready {
    /// It shows a line that matches this regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Something listens on the first of its ports.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub port: bool,
    /// It has written nothing for a second.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// How many seconds it may take; 60 otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = READY_WITHIN_MOST))]
    pub timeout: Option<u32>,
}

/// The schema of a team file, as JSON for editors.
#[must_use]
pub fn schema() -> String {
    let schema = schemars::schema_for!(Team);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema has string keys only");
    text.push('\n');
    text
}
