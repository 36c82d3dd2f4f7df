//! OpenAPI schemas of types from `model`, which does not depend on the schema generator.
//!
//! Each type mirrors the JSON form of the `model` type of the same meaning, and is used only as
//! `#[schema(value_type = …)]`. A test checks that values of the `model` types convert to their
//! mirror and back without loss.

mod event;
mod health;
mod pane;
mod team;
mod words;

pub use event::{Event, EventCaller, EventData};
pub use health::{Finding, HealthReport, ItemsChecked};
pub use pane::{
    AgentDir, AgentLogin, Ending, Frozen, MessageReceipt, OverLimit, PaneIsolation, PortBlock,
    SizeBody,
};
pub use team::{Team, TeamPane, TeamReady};
pub use words::{
    ConflictEvidence, ConflictOutcome, EndingReason, IsolationMethod, LimitMechanism, LimitPolicy,
    LockMode, LockScope, MessageState, PaneState, Resource, SessionMode, SessionStatus, Severity,
    TokenScope, WorkspaceKind,
};

#[cfg(test)]
mod tests;
