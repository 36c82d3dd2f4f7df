//! Trusted project files, shared files, disk usage and unsaved work.

use model::{Name, PaneId, Timestamp};
use serde::{Deserialize, Serialize};

/// A change to, or a query of, the trusted project files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "trust", rename_all = "snake_case")]
pub enum TrustRequest {
    /// Trust the current contents of a project's file.
    Add {
        /// Absolute path of a directory in the project.
        dir: String,
    },
    /// Revoke the trust.
    Revoke {
        /// Absolute path of a directory in the project.
        dir: String,
    },
    /// List the trusted files.
    List,
}

/// The reply to `trust`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustAnswer {
    /// The files concerned, sorted by path.
    pub files: Vec<TrustedFile>,
}

/// A project's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedFile {
    /// Its path.
    pub path: String,
    /// When it was trusted.
    pub at: Option<Timestamp>,
    /// Whether its contents are still the trusted ones.
    pub trusted: bool,
    /// The commands run in a new workspace.
    pub setup: Vec<Vec<String>>,
    /// The commands run before a workspace is removed.
    pub teardown: Vec<Vec<String>>,
}

/// A change to, or a query of, the files that every pane can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "share", rename_all = "snake_case")]
pub enum ShareRequest {
    /// Copy files and directories into the shared directory.
    Add {
        /// Their absolute paths.
        paths: Vec<String>,
        /// Store them as templates, not as project files.
        templates: bool,
    },
    /// Remove shared files.
    Remove {
        /// Their names.
        names: Vec<String>,
    },
    /// List the shared files.
    List,
}

/// The reply to `share`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareAnswer {
    /// The shared directory.
    pub dir: String,
    /// Its contents.
    pub files: Vec<SharedFile>,
}

/// A file or directory that every pane can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFile {
    /// Its path.
    pub path: String,
    /// Its name.
    pub name: String,
    /// Its size on disk.
    pub bytes: u64,
}

/// Disk usage of a pane, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneUsage {
    /// The pane.
    pub pane: PaneId,
    /// Its name.
    pub name: Name,
    /// Its workspace (0 if it works in one of the user's directories).
    pub workspace: u64,
    /// Its `TMPDIR`.
    pub temp: u64,
    /// Its `OUTPUT_DIR`.
    pub output: u64,
    /// The configuration directories of its agents.
    pub config: u64,
    /// Its output log.
    pub log: u64,
    /// Bytes that closing it would free once the trash is emptied (0 while it runs or has unsaved
    /// work).
    pub frees: u64,
    /// Why closing it would free nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<String>,
}

/// Details of the error that refuses to remove panes with unsaved work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsavedWork {
    /// The panes with unsaved work.
    pub panes: Vec<PaneWork>,
}

/// The unsaved work of one pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneWork {
    /// The pane's name.
    pub name: Name,
    /// Descriptions of the work.
    pub work: Vec<String>,
    /// The token that identifies exactly this work, for `--discard`.
    pub discard: String,
}
