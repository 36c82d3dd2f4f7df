//! The reply to `gc`: directories that belong to no pane, and the action taken for each.

use model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::workspace::PaneUsage;

/// The reply to `gc`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcReport {
    /// Everything that belongs to no pane; the contents of the trash come first.
    pub items: Vec<GcItem>,
    /// Disk usage per pane.
    #[serde(default)]
    pub panes: Vec<PaneUsage>,
    /// When the next item in the trash reaches the end of its retention period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Timestamp>,
}

/// A file or directory that belongs to no pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcItem {
    /// Its path before the collection.
    pub path: String,
    /// What it is.
    pub kind: GcKind,
    /// The reason for `action`.
    pub why: String,
    /// Its size on disk.
    pub bytes: u64,
    /// The action taken, or planned if this was a dry run.
    pub action: GcAction,
}

/// The kinds of items that belong to no pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GcKind {
    /// A retired directory in the trash.
    Trash,
    /// A directory whose pane no longer exists.
    Orphan,
    /// Something ccmux did not create.
    Unknown,
    /// A directory that its pane's configuration says to keep after `close`.
    Kept,
}

/// The action taken for an item that belongs to no pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GcAction {
    /// Deleted.
    Delete,
    /// Moved to the trash.
    Trash,
    /// Left in place.
    Keep,
    /// The removal failed; the item is still there.
    Failed,
}
