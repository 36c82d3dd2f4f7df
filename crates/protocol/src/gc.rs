//! What lies around that belongs to no pane, and what becomes of it.

use model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::workspace::PaneUsage;

/// `gc`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    /// Everything that belongs to no pane: first what is in the trash.
    pub items: Vec<GcItem>,
    /// What each pane takes.
    #[serde(default)]
    pub panes: Vec<PaneUsage>,
    /// When the next of what is kept in the trash will be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Timestamp>,
}

/// Something that belongs to no pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcItem {
    /// Where it is, or was.
    pub path: String,
    /// What it is.
    pub kind: GcKind,
    /// Why that becomes of it, for people.
    pub why: String,
    /// What it takes on disk.
    pub bytes: u64,
    /// What becomes of it; after a dry run, what would.
    pub action: GcAction,
}

/// What something is that belongs to no pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GcKind {
    /// A retired directory.
    Trash,
    /// A directory of a pane that is gone.
    Orphan,
    /// Nothing that ccmux has made.
    Unknown,
    /// A directory that was to stay when its pane was closed.
    Kept,
}

/// What becomes of something that belongs to no pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GcAction {
    /// It is deleted.
    Delete,
    /// It is moved to the trash.
    Trash,
    /// It stays.
    Keep,
    /// It should have gone and is still there.
    Failed,
}
