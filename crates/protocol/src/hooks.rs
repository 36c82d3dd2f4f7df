//! What the hooks of agents tell the daemon, and its word on it.

use model::PaneId;
use model::agent::hooks::HookEvent;
use serde::{Deserialize, Serialize};

/// A hook of an agent has something to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRequest {
    /// The pane whose agent it is.
    pub pane: PaneId,
    /// What it tells.
    pub event: HookEvent,
    /// The file concerned, absolute; none where it is about no file.
    #[serde(default)]
    pub path: Option<String>,
    /// The prompt that was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How long it waits for a file that another pane holds.
    #[serde(default)]
    pub wait_ms: u64,
    /// One file in several worktrees of a repository is one file.
    #[serde(default)]
    pub together: bool,
}

/// The daemon's word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookAnswer {
    /// Why the agent must not go ahead, in words that it can act on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
