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

/// The record of a pane that is over a limit and continues to run (`over_limit.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverLimit {
    /// The exceeded limits, as a phrase such as "over its disk limit of 1G".
    pub why: String,
    /// When this was noticed.
    pub at: Timestamp,
}

/// Returns the phrase about exceeded limits, without the usage, which changes; none if there is no
/// exceeded limit.
#[must_use]
pub fn over_limits(exceeded: &[(Resource, u64)]) -> Option<String> {
    let text = |(resource, limit): &(Resource, u64)| {
        format!("{resource} limit of {}", resource.text(*limit))
    };
    let all: Vec<String> = exceeded.iter().map(text).collect();
    (!all.is_empty()).then(|| format!("over its {}", all.join(" and its ")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceeded_limits_are_named() {
        let disk = (Resource::Disk, 1 << 30);
        let processes = (Resource::Processes, 20);

        assert_eq!(over_limits(&[]), None);
        assert_eq!(over_limits(&[disk]).unwrap(), "over its disk limit of 1G");
        assert_eq!(
            over_limits(&[disk, processes]).unwrap(),
            "over its disk limit of 1G and its processes limit of 20"
        );
    }
}
