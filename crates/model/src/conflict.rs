//! Two panes and one file: what became of it, and how it is known who it was.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ids::PaneId;
use crate::time::Timestamp;

/// How long a change is fresh, in milliseconds: who changes the file meanwhile may not have seen it.
const FRESH: i64 = 10 * 60 * 1000;

/// What became of a file that one pane held or had changed, and another wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The other one was refused, and nothing happened to the file.
    Refused,
    /// The file was changed without its lock.
    Changed,
    /// The file, which nobody held, was changed soon after another pane had changed it.
    ChangedToo,
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
            Self::Changed | Self::ChangedToo => "changed",
        })
    }
}

/// What is known when a file was changed that a pane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Who holds it.
    pub holder: PaneId,
    /// The pane whose process is seen at it, if one is.
    pub writer: Option<PaneId>,
    /// The holder is editing it at this moment, by its own word.
    pub editing: bool,
    /// The holder tells of each of its edits, so that what it does not tell of is not its own.
    pub tells: bool,
}

impl Sighting {
    /// Whether it is a conflict: none if the holder did it, or may well have.
    #[must_use]
    pub fn is_conflict(self) -> bool {
        match self.writer {
            Some(writer) => writer != self.holder,
            None => self.tells && !self.editing,
        }
    }
}

/// The last change of a file that nobody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastChange {
    /// The pane that made it, if that is known.
    pub writer: Option<PaneId>,
    /// When it was noticed.
    pub at: Timestamp,
}

impl LastChange {
    /// The pane whose fresh change another one has now changed. Nobody is blamed where it is not
    /// known who it was, then or now.
    #[must_use]
    pub fn crossed_by(self, now: Self) -> Option<PaneId> {
        let (before, after) = (self.writer?, now.writer?);
        let is_fresh = now.at.0.saturating_sub(self.at.0) <= FRESH;
        (before != after && is_fresh).then_some(before)
    }
}

/// The trees in which two or more of those work who work in `places`: each place that another one
/// is, or is around. None of them is in another one.
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
    fn nobody_is_blamed_for_what_the_holder_may_have_done() {
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
            let sighting = Sighting { holder, writer, editing, tells };
            assert_eq!(sighting.is_conflict(), conflict, "{sighting:?}");
        }
    }
    #[test]
    fn only_a_fresh_change_by_another_pane_is_crossed() {
        let (one, two) = (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]));
        let change = |writer, at| LastChange { writer, at: Timestamp(at) };
        #[rustfmt::skip]
        let table = [
            // before                 now                         whose
            (change(Some(one), 1000), change(Some(two), 2000),         Some(one)),
            (change(Some(one), 1000), change(Some(two), 1000 + FRESH), Some(one)),
            (change(Some(one), 1000), change(Some(two), 1001 + FRESH), None),
            (change(Some(one), 1000), change(Some(one), 2000),         None),
            (change(Some(one), 1000), change(None, 2000),              None),
            (change(None, 1000),      change(Some(two), 2000),         None),
            (change(Some(one), 2000), change(Some(two), 1000),         Some(one)),
        ];
        for (before, now, whose) in table {
            assert_eq!(before.crossed_by(now), whose, "{before:?} {now:?}");
        }
    }

    #[test]
    fn a_tree_is_common_where_two_work_in_it_or_around_it() {
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
