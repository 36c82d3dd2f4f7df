//! Who may hold what at the same time: the words of the lock service, and its rules.
//!
//! A lock claims a path, or a path with everything below it, in a mode. It belongs to a pane or,
//! outside of panes, to a process, and it ends with its owner. It carries a token that is higher
//! than that of every lock before it, by which whoever guards a resource tells a holder from one
//! whose lease ran out while it was stopped. [`table`] decides who gets what and who waits.

pub mod table;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::PaneId;
use crate::process::ProcessIdentity;
use crate::time::Timestamp;

pub use crate::ids::LockId;

/// How much of a path somebody claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockMode {
    /// Others may read, nobody may write.
    Read,
    /// Nobody else may write, or read what is half written.
    Write,
    /// Nobody else may touch it: for moving, removing and replacing.
    Exclusive,
}

impl LockMode {
    /// All of them, weakest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Exclusive];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Exclusive => "exclusive",
        }
    }

    /// Whether two owners may hold these modes on one path at the same time.
    ///
    /// Symmetric: the order of the askers does not matter.
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

/// What makes two paths the same lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockScope {
    /// Files of one repository are the same by their path within it, whichever work tree they are
    /// in. Outside of repositories, the path.
    #[default]
    Repository,
    /// The path alone: every work tree is a world of its own.
    Worktree,
}

impl LockScope {
    /// All of them, in the order in which they are explained.
    pub const ALL: [Self; 2] = [Self::Repository, Self::Worktree];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Worktree => "worktree",
        }
    }
}

words!(LockScope);

/// A number that only grows: every lock that is granted gets a higher one than all before it,
/// through every restart.
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

/// A point in time by a clock that only goes forward: milliseconds since the machine started.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// This many milliseconds later.
    #[must_use]
    pub fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// Whom a lock belongs to. It does not outlive its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The pane, if one holds it: then it ends with the pane, whichever of its processes asked.
    pub pane: Option<PaneId>,
    /// The process: the head of the pane, or whoever asked from outside of panes.
    pub process: ProcessIdentity,
}

impl Owner {
    /// Whether both are the same holder. What one holder has never stands in its own way.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        match (self.pane, other.pane) {
            (Some(one), Some(two)) => one == two,
            (None, None) => self.process == other.process,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// One name of a locked path. A file in a repository has two: its own and the repository's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Where the name means something: empty for the file system, otherwise a repository.
    pub space: String,
    /// The name there: components joined by `/`, none of them empty, `.` or `..`.
    pub path: String,
}

impl Key {
    /// Whether `other` is this or lies below it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.space == other.space
            && other.path.strip_prefix(self.path.as_str()).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || self.path.is_empty() || self.path == "/"
            })
    }
}

/// A path to be locked, under all of its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LockPath {
    /// As people see it: absolute, with symbolic links followed.
    pub shown: String,
    /// Its names; never empty.
    pub keys: Vec<Key>,
    /// It stands for everything below it as well.
    pub tree: bool,
}

impl LockPath {
    /// Whether there is a file that both stand for.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.keys.iter().any(|one| {
            other.keys.iter().any(|two| {
                one == two || (self.tree && one.covers(two)) || (other.tree && two.covers(one))
            })
        })
    }
}

/// How long a lock is good for if nothing is heard of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// When it was granted, for people.
    pub acquired: Timestamp,
    /// When it ends.
    pub until: Moment,
    /// How much every renewal adds, in milliseconds.
    pub length: u64,
    /// It is renewed without being asked for as long as its owner lives and is not stopped.
    pub automatic: bool,
}

/// The length of a lease when nobody says otherwise, in milliseconds.
pub const DEFAULT_LEASE: u64 = 60_000;

/// A lock that somebody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its name.
    pub id: LockId,
    /// Its place among all locks ever granted.
    pub token: Token,
    /// What it claims.
    pub path: LockPath,
    /// How much of it.
    pub mode: LockMode,
    /// Whose it is.
    pub owner: Owner,
    /// Until when.
    pub lease: Lease,
    /// What it was taken for, so that everything taken for one purpose can be given back at once.
    pub tag: Option<String>,
    /// Its owner's place in the order of asking, as the daemon of that time counted.
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
            // held      asked      granted
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
    fn a_tree_meets_what_is_below_it_and_nothing_beside_it() {
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
    fn a_repository_is_one_space_and_the_file_system_another() {
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
