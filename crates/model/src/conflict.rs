//! Conflicts: two panes that write to the same file.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ids::PaneId;
use crate::time::Timestamp;

/// How long a change counts as recent, in milliseconds. A pane that writes to the file within this
/// time may not have seen the change.
const FRESH: i64 = 10 * 60 * 1000;

/// The result of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictOutcome {
    /// The second pane was denied the lock; the file is unchanged.
    Refused,
    /// The file was changed by a pane that does not hold its lock.
    Changed,
    /// The file, which is not locked, was changed shortly after another pane had changed it.
    ChangedToo,
}

/// The source of the information about which pane wrote to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribution {
    /// The hook of the agent asked for the lock.
    Asked,
    /// The kernel reported the process.
    Kernel,
    /// A process of the pane had the file open for writing at that moment.
    OpenFile,
    /// None: the writer is unknown, and may be the holder itself.
    Nothing,
}

impl fmt::Display for ConflictOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Refused => "was refused",
            Self::Changed | Self::ChangedToo => "changed",
        })
    }
}

/// An observed change to a file that a pane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedWrite {
    /// The pane that holds the file.
    pub holder: PaneId,
    /// The pane whose process wrote to the file, if known.
    pub writer: Option<PaneId>,
    /// The holder has announced an edit that is in progress.
    pub editing: bool,
    /// The holder announces all its edits, so an unannounced one is not its own.
    pub tells: bool,
}

impl ObservedWrite {
    /// Returns true unless the holder made the change, or may have made it.
    #[must_use]
    pub fn is_conflict(self) -> bool {
        match self.writer {
            Some(writer) => writer != self.holder,
            None => self.tells && !self.editing,
        }
    }
}

/// The last change to a file that is not locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastChange {
    /// The pane that made it, if known.
    pub writer: Option<PaneId>,
    /// When it was observed.
    pub at: Timestamp,
}

impl LastChange {
    /// Returns the pane whose recent change was overwritten by `now`, a change by another pane.
    /// Returns none if either writer is unknown.
    #[must_use]
    pub fn crossed_by(self, now: Self) -> Option<PaneId> {
        let (before, after) = (self.writer?, now.writer?);
        let is_fresh = now.at.0.saturating_sub(self.at.0) <= FRESH;
        (before != after && is_fresh).then_some(before)
    }
}

/// Returns the directories of `places` that are inside or equal to another one of them, without
/// those that are inside another result: the trees in which at least two panes work.
#[must_use]
pub fn common_trees<'a>(places: &[&'a str]) -> BTreeSet<&'a str> {
    let is_in = |place: &str, tree: &str| Path::new(place).starts_with(tree);
    let shared = |place: &&&str| places.iter().filter(|tree| is_in(place, tree)).count() > 1;
    let all: BTreeSet<&str> = places.iter().filter(shared).copied().collect();
    let is_outermost = |place: &&&str| !all.iter().any(|tree| tree != *place && is_in(place, tree));
    all.iter().filter(is_outermost).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_that_the_holder_may_have_made_is_no_conflict() {
        let (holder, other) = (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]));
        #[rustfmt::skip]
        let table = [
            // writer        editing  tells  conflict
            (Some(other),  false,   false, true),
            (Some(other),  true,    true,  true),
            (Some(holder), false,   true,  false),
            (Some(holder), true,    false, false),
            (None,         false,   true,  true),
            (None,         true,    true,  false),
            (None,         false,   false, false),
        ];
        for (writer, editing, tells, conflict) in table {
            let write = ObservedWrite { holder, writer, editing, tells };
            assert_eq!(write.is_conflict(), conflict, "{write:?}");
        }
    }

    #[test]
    fn crossed_by_reports_only_recent_changes_by_another_pane() {
        let (one, two) = (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]));
        let change = |writer, at| LastChange { writer, at: Timestamp(at) };
        #[rustfmt::skip]
        let table = [
            // before                 now                         overwritten
            (change(Some(one), 1000), change(Some(two), 2000),         Some(one)),
            (change(Some(one), 1000), change(Some(two), 1000 + FRESH), Some(one)),
            (change(Some(one), 1000), change(Some(two), 1001 + FRESH), None),
            (change(Some(one), 1000), change(Some(one), 2000),         None),
            (change(Some(one), 1000), change(None, 2000),              None),
            (change(None, 1000),      change(Some(two), 2000),         None),
            (change(Some(one), 2000), change(Some(two), 1000),         Some(one)),
        ];
        for (before, now, overwritten) in table {
            assert_eq!(before.crossed_by(now), overwritten, "{before:?} {now:?}");
        }
    }

    #[test]
    fn common_trees_are_shared_or_nested_directories() {
        let table: [(&[&str], &[&str]); 7] = [
            (&[], &[]),
            (&["/a"], &[]),
            (&["/a", "/b"], &[]),
            (&["/a", "/ab"], &[]),
            (&["/a", "/a", "/b"], &["/a"]),
            (&["/a", "/a/b", "/c"], &["/a/b"]),
            (&["/a", "/a", "/a/b", "/a/b/c", "/x", "/x/y"], &["/a", "/x/y"]),
        ];
        for (places, trees) in table {
            assert_eq!(common_trees(places).into_iter().collect::<Vec<_>>(), trees, "{places:?}");
        }
    }
}
