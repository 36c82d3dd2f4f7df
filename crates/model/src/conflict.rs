//! Two panes and one file: what became of it, and how it is known who it was.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::PaneId;

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
}
