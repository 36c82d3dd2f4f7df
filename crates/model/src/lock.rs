//! File locks: modes, scopes, owners and leases.
//!
//! A lock covers a path, or a path with everything below it, in a mode. It belongs to a pane or, for
//! processes outside all panes, to a process, and it ends with its owner. Its fencing token is higher
//! than that of all earlier locks, so that a resource can reject a holder whose lease expired while
//! it was suspended. [`table`] grants locks and queues requests.

pub mod table;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::PaneId;
use crate::process::ProcessIdentity;
use crate::time::Timestamp;

pub use crate::ids::LockId;

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockMode {
    /// Others may read, but not write.
    Read,
    /// Others may neither write, nor read a partly written file.
    Write,
    /// Others may not use the path at all: for moving, removing and replacing.
    Exclusive,
}

impl LockMode {
    /// All modes, from the weakest to the strongest.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Exclusive];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Exclusive => "exclusive",
        }
    }

    /// Returns true if two owners may hold these modes on the same path at the same time.
    ///
    /// The relation is symmetric.
    #[must_use]
    pub fn allows(self, other: Self) -> bool {
        match (self, other) {
            (Self::Read, Self::Read) => true,
            (Self::Read | Self::Write | Self::Exclusive, Self::Write | Self::Exclusive)
            | (Self::Write | Self::Exclusive, Self::Read) => false,
        }
    }
}

words!(LockMode);

/// The rule for when two paths are the same lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockScope {
    /// Files of a repository are identified by their path in the repository, in all work trees;
    /// other files by their path.
    #[default]
    Repository,
    /// Files are identified by their path, so that each work tree is separate.
    Worktree,
}

impl LockScope {
    /// All values, in the order in which they are documented.
    pub const ALL: [Self; 2] = [Self::Repository, Self::Worktree];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Worktree => "worktree",
        }
    }
}

words!(LockScope);

/// A fencing token. Each lock gets a higher one than all earlier locks, across restarts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Token(pub u64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Token {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A point in time of a monotonic clock: milliseconds since boot.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// Returns the point in time this many milliseconds later.
    #[must_use]
    pub fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// The owner of a lock. A lock does not outlive its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The pane, if any: the lock ends with the pane, whichever of its processes requested it.
    pub pane: Option<PaneId>,
    /// The process: the first process of the pane, or the requesting process outside all panes.
    pub process: ProcessIdentity,
}

impl Owner {
    /// Returns true if both are the same owner. Locks of the same owner never conflict.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        match (self.pane, other.pane) {
            (Some(one), Some(two)) => one == two,
            (None, None) => self.process == other.process,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// A name of a locked path. A file in a repository has two: by file system and by repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The name space: empty for the file system, otherwise a repository.
    pub space: String,
    /// The path in it: components joined by `/`, none of them empty, `.` or `..`.
    pub path: String,
}

impl Key {
    /// Returns true if `other` is equal to or below this path.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.space == other.space
            && other.path.strip_prefix(self.path.as_str()).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || self.path.is_empty() || self.path == "/"
            })
    }
}

/// A path to lock, with all its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LockPath {
    /// The path for display: absolute, with symbolic links resolved.
    pub shown: String,
    /// Its names; never empty.
    pub keys: Vec<Key>,
    /// Whether everything below it is locked too.
    pub tree: bool,
}

impl LockPath {
    /// Returns true if both cover a common file.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.keys.iter().any(|one| {
            other.keys.iter().any(|two| {
                one == two || (self.tree && one.covers(two)) || (other.tree && two.covers(one))
            })
        })
    }
}

/// The period of validity of a lock without a sign of life of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// When it was granted, for display.
    pub acquired: Timestamp,
    /// When it expires.
    pub until: Moment,
    /// The duration that a renewal adds, in milliseconds.
    pub length: u64,
    /// Whether it is renewed automatically while its owner is alive and not suspended.
    pub automatic: bool,
}

/// The default duration of a lease, in milliseconds.
pub const DEFAULT_LEASE: u64 = 60_000;

/// A granted lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its id.
    pub id: LockId,
    /// Its fencing token.
    pub token: Token,
    /// The locked path.
    pub path: LockPath,
    /// Its mode.
    pub mode: LockMode,
    /// Its owner.
    pub owner: Owner,
    /// Its lease.
    pub lease: Lease,
    /// A tag for a purpose, by which several locks can be released together.
    pub tag: Option<String>,
    /// The position of the request in the order of requests to the daemon.
    pub turn: u64,
}

#[cfg(test)]
mod tests {
    use super::LockMode::{Exclusive, Read, Write};
    use super::*;

    #[test]
    fn only_readers_share_a_path() {
        #[rustfmt::skip]
        let table: [(LockMode, LockMode, bool); 6] = [
            // held      requested  granted
            (Read,      Read,      true),
            (Read,      Write,     false),
            (Read,      Exclusive, false),
            (Write,     Write,     false),
            (Write,     Exclusive, false),
            (Exclusive, Exclusive, false),
        ];
        for (held, asked, granted) in table {
            assert_eq!(held.allows(asked), granted, "{held:?} held, {asked:?} asked");
            assert_eq!(asked.allows(held), granted, "{asked:?} held, {held:?} asked");
        }
        for mode in LockMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
    }

    #[test]
    fn tree_meets_paths_below_it_only() {
        let path = |text: &str, tree| LockPath {
            shown: text.to_owned(),
            keys: vec![Key { space: String::new(), path: text.to_owned() }],
            tree,
        };
        let cases = [
            (("/a/b", false), ("/a/b", false), true),
            (("/a", false), ("/a/b", false), false),
            (("/a", true), ("/a/b", false), true),
            (("/a", true), ("/a/b/c", true), true),
            (("/a", true), ("/ab", false), false),
            (("/a/b", true), ("/a", false), false),
            (("/", true), ("/x", false), true),
        ];
        for ((one, one_tree), (two, two_tree), meet) in cases {
            let (left, right) = (path(one, one_tree), path(two, two_tree));
            assert_eq!(left.meets(&right), meet, "{left:?} {right:?}");
            assert_eq!(right.meets(&left), meet, "{right:?} {left:?}");
        }
    }

    #[test]
    fn repository_and_file_system_are_separate_name_spaces() {
        let key = |space: &str, path: &str| Key { space: space.to_owned(), path: path.to_owned() };
        let shown = String::new;
        let one = LockPath {
            shown: shown(),
            keys: vec![key("", "/w1/a"), key("/r/.git", "a")],
            tree: false,
        };
        let two = LockPath {
            shown: shown(),
            keys: vec![key("", "/w2/a"), key("/r/.git", "a")],
            tree: false,
        };
        let alone = LockPath { shown: shown(), keys: vec![key("", "/w2/a")], tree: false };

        assert!(one.meets(&two));
        assert!(two.meets(&alone));
        assert!(!one.meets(&alone));
    }
}
