//! Resource limits and usage of a pane (`limit`, and part of `show`).

use model::limits::{Enforcement, Frozen, Limits, Policy, Resource};
use model::{Name, PaneId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// The limits of a pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Limits)]
pub struct LimitsView {
    /// The action taken when a limit that the system does not enforce is exceeded.
    #[schema(value_type = schema::LimitPolicy)]
    pub policy: Policy,
    /// One entry per resource.
    pub limits: Vec<LimitView>,
    /// Why the pane's processes are frozen, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Frozen>)]
    pub frozen: Option<Frozen>,
}

/// The limit and usage of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Limit)]
pub struct LimitView {
    /// The resource.
    #[schema(value_type = schema::Resource)]
    pub resource: Resource,
    /// The limit in bytes, as a count or as a share (none: unlimited).
    pub limit: Option<u64>,
    /// The usage at the last measurement.
    pub used: Option<u64>,
    /// The mechanism that enforces the limit.
    #[schema(value_type = schema::LimitMechanism)]
    pub means: Enforcement,
    /// How precisely the limit is enforced, as text.
    pub exactness: String,
    /// How often the system killed or refused a process because of the limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
}

/// The reply to `limit`.
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
    /// Returns the limits of a pane that has no process.
    #[must_use]
    pub fn of_stopped_pane(limits: &Limits) -> Self {
        let of = |resource| LimitView {
            resource,
            limit: limits.of(resource),
            used: None,
            means: Enforcement::None,
            exactness: "the pane is not running".to_owned(),
            refused: 0,
        };
        Self { policy: limits.policy, limits: Resource::ALL.map(of).into(), frozen: None }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
