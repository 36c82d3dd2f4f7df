//! What is asked about projects, shared files and the disk that panes take, and what is answered.

use model::{Name, PaneId, Timestamp};
use serde::{Deserialize, Serialize};

/// What to do about trust in the wishes of projects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "trust", rename_all = "snake_case")]
pub enum TrustRequest {
    /// Trust what the file of a project says now.
    Add {
        /// A directory of the project, absolute.
        dir: String,
    },
    /// Trust it no more.
    Revoke {
        /// A directory of the project, absolute.
        dir: String,
    },
    /// Everything that was trusted.
    List,
}

/// `trust`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustAnswer {
    /// The files concerned, by path.
    pub files: Vec<TrustedFile>,
}

/// The file of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedFile {
    /// Where it is.
    pub path: String,
    /// When it was trusted.
    pub at: Option<Timestamp>,
    /// It still says what was trusted.
    pub trusted: bool,
    /// What is run in a new workspace.
    pub setup: Vec<Vec<String>>,
    /// What is run in one that goes.
    pub teardown: Vec<Vec<String>>,
}

/// What to do about files that all panes may read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "share", rename_all = "snake_case")]
pub enum ShareRequest {
    /// Copy files and directories in.
    Add {
        /// Where they are, absolute.
        paths: Vec<String>,
        /// As templates, not as project files.
        templates: bool,
    },
    /// Take some out, by name.
    Remove {
        /// The names.
        names: Vec<String>,
    },
    /// Everything that is shared.
    List,
}

/// `share`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareAnswer {
    /// Where everything is.
    pub dir: String,
    /// What there is now.
    pub files: Vec<SharedFile>,
}

/// Something that all panes may read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFile {
    /// Where it is.
    pub path: String,
    /// What it is called.
    pub name: String,
    /// What it takes on disk.
    pub bytes: u64,
}

/// What a pane takes on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneUsage {
    /// The pane.
    pub pane: PaneId,
    /// Its name.
    pub name: Name,
    /// Its own workspace; nothing where it works in a directory of the user's.
    pub workspace: u64,
    /// Its `TMPDIR`.
    pub temp: u64,
    /// Its `OUTPUT_DIR`.
    pub output: u64,
    /// The configuration of its agents.
    pub config: u64,
    /// What it has written to its terminal.
    pub log: u64,
    /// What closing it would free, once the trash is empty; nothing while it has work or runs.
    pub frees: u64,
    /// Why it frees nothing, or that it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<String>,
}

/// The details of an error that says that a pane stays because of work in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsavedWork {
    /// The panes that have work.
    pub panes: Vec<PaneWork>,
}

/// What would be lost with a pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneWork {
    /// Its name.
    pub name: Name,
    /// What, in words.
    pub work: Vec<String>,
    /// The word for exactly this work, to discard it.
    pub discard: String,
}
