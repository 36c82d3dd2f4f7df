//! What a pane may take and takes, as everybody sees it (`limit`, and part of `show`).

use model::limits::{Frozen, Limits, Means, Policy, Resource};
use model::{Name, PaneId};
use serde::{Deserialize, Serialize};

/// The limits of a pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsView {
    /// What is done where the system does not keep a limit by itself.
    pub policy: Policy,
    /// Everything that can be limited.
    pub limits: Vec<LimitView>,
    /// Why its processes stand still, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
}

/// One thing that can be limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitView {
    /// What.
    pub resource: Resource,
    /// How much of it the pane may take: bytes, a number, or a share; none is as much as there is.
    pub limit: Option<u64>,
    /// How much it took when that was last looked at.
    pub used: Option<u64>,
    /// By which means it is kept.
    pub means: Means,
    /// How exactly, for people.
    pub exactness: String,
    /// How often the system ended or refused a process because of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
}

/// The answer to `limit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneLimits {
    /// The pane.
    pub pane: PaneId,
    /// Its name.
    pub name: Name,
    /// Its limits.
    #[serde(flatten)]
    pub view: LimitsView,
}

impl LimitsView {
    /// The limits of a pane that has no process.
    #[must_use]
    pub fn at_rest(limits: &Limits) -> Self {
        let of = |resource| LimitView {
            resource,
            limit: limits.of(resource),
            used: None,
            means: Means::None,
            exactness: "it does not run".to_owned(),
            refused: 0,
        };
        Self { policy: limits.policy, limits: Resource::ALL.map(of).into(), frozen: None }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
