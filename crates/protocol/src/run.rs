//! Sessions created with all their panes by one request, and teams.

use std::collections::BTreeMap;

use model::team::{Step, TeamPane};
use model::{IdempotencyKey, Name, SessionMode};
use serde::{Deserialize, Serialize};

use crate::session::SessionView;
use crate::view::PaneView;

/// A request for a session with these panes, created completely or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunRequest {
    /// The idempotency key, which makes the request safe to repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
    /// The name of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// Whether its panes get their own directories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<SessionMode>,
    /// The mode for a new session if [`RunRequest::mode`] is none. An existing team keeps its mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<SessionMode>,
    /// The template the session is created from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Environment variables for every pane.
    pub env: BTreeMap<String, String>,
    /// Its panes.
    pub panes: Vec<TeamPane>,
    /// Absolute path of the default start directory of the panes.
    pub cwd: String,
    /// The client's environment.
    pub client_env: BTreeMap<String, String>,
    /// The contents of the session's `config.json` (default: this request).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<serde_json::Value>,
}

/// A session with all its panes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAnswer {
    /// The session.
    pub session: SessionView,
    /// Its panes, oldest first.
    pub panes: Vec<PaneView>,
    /// Whether an earlier request with the same idempotency key created the session.
    #[serde(default)]
    pub repeated: bool,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A request to reconcile a team with its description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpRequest {
    /// The team; its name identifies the session.
    pub run: RunRequest,
    /// Replace panes that differ from the description.
    pub replace: bool,
    /// Close panes that are no longer described (default: stop them).
    pub prune: bool,
    /// Report the plan without applying it.
    pub dry_run: bool,
}

/// The result, or the plan, of reconciling a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpAnswer {
    /// The action for each pane.
    pub plan: Vec<Step>,
    /// Whether the plan was applied.
    pub applied: bool,
    /// The session (none if it does not exist yet).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionView>,
    /// Its panes, oldest first.
    #[serde(default)]
    pub panes: Vec<PaneView>,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
