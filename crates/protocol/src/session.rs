//! What is said about sessions.

use model::{Name, SessionId, SessionMode, SessionStatus, Timestamp};
use serde::{Deserialize, Serialize};

/// A session, as everybody sees it. Its status is derived at the moment of asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its identity.
    pub id: SessionId,
    /// What people call it.
    pub name: Name,
    /// Whose directories its panes work in.
    pub mode: SessionMode,
    /// How it is.
    #[serde(default = "stopped")]
    pub status: SessionStatus,
    /// Its directory.
    pub dir: String,
    /// The template that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The directory that its panes share, where it is a legacy session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Where the descriptions of its units are: of a legacy session, its project's if there are any.
    #[serde(default)]
    pub unit_dir: String,
    /// Where its workflows are: of a legacy session, its project's if there are any.
    #[serde(default)]
    pub workflows_dir: String,
    /// Where its panes may put what should be kept of their work.
    #[serde(default)]
    pub logs_dir: String,
    /// When it was made.
    pub created: Timestamp,
    /// What is wrong with it and what can be done about that, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What older releases say nothing about.
fn stopped() -> SessionStatus {
    SessionStatus::Stopped
}
