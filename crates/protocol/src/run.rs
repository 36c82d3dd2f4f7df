//! Sessions that are made with all their panes by one request, and teams.

use std::collections::BTreeMap;

use model::team::{Step, TeamPane};
use model::{IdempotencyKey, Name, SessionMode};
use serde::{Deserialize, Serialize};

use crate::control::{PaneView, SessionView};

/// What somebody wants: a session with these panes, whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunRequest {
    /// What this request is called, so that it can be sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
    /// What people will call the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// Whose directories its panes work in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<SessionMode>,
    /// The mode, if [`RunRequest::mode`] does not say. Unlike that, it may differ from the mode of a
    /// team that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<SessionMode>,
    /// The template that it is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Variables of every pane.
    pub env: BTreeMap<String, String>,
    /// Its panes.
    pub panes: Vec<TeamPane>,
    /// Absolute path of the directory where panes start that do not say otherwise.
    pub cwd: String,
    /// What the asking client's own environment was.
    pub client_env: BTreeMap<String, String>,
    /// What `config.json` of the session is to hold; this request otherwise.
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
    /// It was there already: an earlier request with the same key has made it.
    #[serde(default)]
    pub repeated: bool,
    /// What was not done that somebody may have expected, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A team that is to be as described, whatever there is of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpRequest {
    /// The team; its name says which session it is.
    pub run: RunRequest,
    /// Replace panes that differ from what is described.
    pub replace: bool,
    /// Close panes that are no longer described; they are stopped otherwise.
    pub prune: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What was, or would be, done to a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpAnswer {
    /// What becomes of each pane.
    pub plan: Vec<Step>,
    /// Whether it was done.
    pub applied: bool,
    /// The session; none if it would have to be made first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionView>,
    /// Its panes, oldest first.
    #[serde(default)]
    pub panes: Vec<PaneView>,
    /// What was not done that somebody may have expected, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
