//! Where a pane works: a tree of its own, or one that it shares (R16).
//!
//! What there is to choose from, which of it follows from where a pane is asked for, and what is
//! remembered of the choice. Making and removing trees is somebody else's business.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::config::UnknownWord;

/// What kind of tree a pane works in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    /// Whatever fits the directory.
    #[default]
    Auto,
    /// A git work tree on a branch of its own.
    Worktree,
    /// A git clone with a branch of its own.
    Clone,
    /// A copy of the directory.
    Copy,
    /// The directory itself, together with everybody else in it.
    Shared,
    /// A directory with nothing in it.
    Empty,
}

impl WorkspaceKind {
    /// All of them, in the order in which they are explained.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Worktree, Self::Clone, Self::Copy, Self::Shared, Self::Empty];

    /// The word for it, in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Worktree => "worktree",
            Self::Clone => "clone",
            Self::Copy => "copy",
            Self::Shared => "shared",
            Self::Empty => "empty",
        }
    }
}

impl fmt::Display for WorkspaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for WorkspaceKind {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        named.ok_or_else(|| UnknownWord::new(text, Self::ALL.map(Self::as_str)))
    }
}

/// Where a pane works, as it was decided when the pane was made. Part of its launch record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// What it is; never [`WorkspaceKind::Auto`].
    pub kind: WorkspaceKind,
    /// Its root, as an absolute path.
    pub path: String,
    /// What it was made from: the root of the user's work tree, or the directory.
    pub source: String,
    /// The directory that all work trees of the repository share, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The branch that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that the branch began at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_as_what_it_was_written_for() {
        for kind in WorkspaceKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let unknown = "branch".parse::<WorkspaceKind>().unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "\"branch\" is none of auto, worktree, clone, copy, shared, empty"
        );
    }
}
