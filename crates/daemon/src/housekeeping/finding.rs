//! Findings of the sweep: paths that belong to no pane, and what to do with them.

use std::path::PathBuf;

use model::Timestamp;
use protocol::gc::GcKind;

/// A path that belongs to no pane, and what the sweep does with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SweepFinding {
    pub(crate) path: PathBuf,
    pub(crate) kind: GcKind,
    /// The reason for the planned action, for people.
    pub(crate) why: String,
    pub(crate) planned: SweepAction,
    /// When an entry of the trash will be deleted.
    pub(crate) delete_after: Option<Timestamp>,
}

/// What the sweep does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepAction {
    Keep,
    MoveToTrash,
    DeleteTree,
    DeleteFile,
}

/// The result of a [`SweepAction`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SweepOutcome {
    Done,
    /// The path no longer qualifies for the action.
    Skipped,
    Failed(String),
}

impl SweepFinding {
    /// Creates a finding for a path that stays in place.
    pub(crate) fn kept(path: PathBuf, kind: GcKind, why: String) -> Self {
        Self { path, kind, why, planned: SweepAction::Keep, delete_after: None }
    }

    /// Cancels the planned action, if any.
    pub(super) fn cancel(&mut self, why: &str) {
        if self.planned != SweepAction::Keep {
            self.planned = SweepAction::Keep;
            self.why = format!("{}, but {why}", self.why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancel_keeps_the_path_and_explains_why() {
        let kept = SweepFinding::kept(PathBuf::from("/a"), GcKind::Kept, "kept".to_owned());
        let mut orphan = SweepFinding { planned: SweepAction::MoveToTrash, ..kept.clone() };
        let mut unchanged = kept.clone();

        orphan.cancel("it is in use");
        unchanged.cancel("it is in use");

        assert_eq!(
            (orphan.planned, orphan.why.as_str()),
            (SweepAction::Keep, "kept, but it is in use")
        );
        assert_eq!(unchanged, kept);
    }
}
