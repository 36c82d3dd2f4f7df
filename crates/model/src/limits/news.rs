//! What a keeper has to tell about the limits of its pane.

use serde::{Deserialize, Serialize};

use super::{Policy, Resource};
use crate::time::Timestamp;

/// Something happened to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum LimitNews {
    /// Little is left.
    Near {
        /// Of what.
        resource: Resource,
        /// What the pane takes.
        used: u64,
        /// What it may take.
        limit: u64,
    },
    /// It takes more than it may.
    Over {
        /// Of what.
        resource: Resource,
        /// What the pane takes.
        used: u64,
        /// What it may take.
        limit: u64,
        /// What is done about it.
        policy: Policy,
    },
    /// The system ended or refused a process of it.
    Kept {
        /// For want of what.
        resource: Resource,
        /// What it may take.
        limit: u64,
    },
    /// Its processes go on.
    Thawed,
}

/// Why and since when the processes of a pane stand still (`frozen.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// In one sentence.
    pub why: String,
    /// Since when.
    pub at: Timestamp,
}

/// Why something is done about a pane that takes more than it may.
#[must_use]
pub fn over(resource: Resource, used: u64, limit: u64) -> String {
    let used = match resource {
        Resource::Disk | Resource::Memory => super::Amount(used).about(),
        Resource::Processes | Resource::Cpu | Resource::Files => used.to_string(),
    };
    format!("it takes {used} of {resource}, and may take {}", resource.text(limit))
}
