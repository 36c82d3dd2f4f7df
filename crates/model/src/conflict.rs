//! Two panes and one file: what became of it, and how it is known who it was.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What became of a file that one pane held and another wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The other one was refused, and nothing happened to the file.
    Refused,
    /// The file was changed without its lock.
    Changed,
}

/// How it is known who wanted or changed the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The agent's hook asked for it.
    Asked,
    /// The kernel named the process.
    Kernel,
    /// A process of the pane had the file open for writing at that moment.
    OpenFile,
    /// Nothing tells. It may have been the holder by another way.
    Nothing,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Refused => "was refused",
            Self::Changed => "changed",
        })
    }
}
