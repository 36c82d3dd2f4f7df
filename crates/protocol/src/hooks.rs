//! Reports from agent hooks and the daemon's decision.

use model::PaneId;
use model::agent::hooks::HookEvent;
use serde::{Deserialize, Serialize};

/// A report from an agent's hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRequest {
    /// The agent's pane.
    pub pane: PaneId,
    /// The event the hook reports.
    pub event: HookEvent,
    /// Absolute path of the file, if the event concerns one.
    #[serde(default)]
    pub path: Option<String>,
    /// The prompt the agent accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How long to wait for a file that another pane has locked, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
    /// Treat copies of the file in several worktrees of a repository as the same file.
    #[serde(default)]
    pub together: bool,
}

/// The daemon's decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookAnswer {
    /// Why the agent must not proceed, as an instruction the agent can act on (none: proceed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
