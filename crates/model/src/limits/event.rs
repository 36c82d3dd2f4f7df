//! Events about the limits of a pane, reported by its keeper.

use serde::{Deserialize, Serialize};

use super::{Policy, Resource};
use crate::time::Timestamp;

/// An event about a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum LimitEvent {
    /// The pane is close to the limit.
    Near {
        /// The resource.
        resource: Resource,
        /// Current usage.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// The pane exceeded the limit.
    Over {
        /// The resource.
        resource: Resource,
        /// Current usage.
        used: u64,
        /// The limit.
        limit: u64,
        /// The action taken.
        policy: Policy,
    },
    /// The kernel killed or refused a process of the pane.
    Kept {
        /// The resource.
        resource: Resource,
        /// The limit.
        limit: u64,
    },
    /// The processes of the pane were resumed.
    Thawed,
}

/// The record of a frozen pane (`frozen.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// The cause, as a sentence.
    pub why: String,
    /// When it was frozen.
    pub at: Timestamp,
}

/// Returns the message about an exceeded limit.
#[must_use]
pub fn over(resource: Resource, used: u64, limit: u64) -> String {
    let used = match resource {
        Resource::Disk | Resource::Memory => super::Amount(used).about(),
        Resource::Processes | Resource::Cpu | Resource::Files => used.to_string(),
    };
    format!("{resource} usage is {used}, the limit is {}", resource.text(limit))
}
