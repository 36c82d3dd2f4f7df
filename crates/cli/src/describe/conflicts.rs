//! Text output of conflicts.

use model::conflict::ConflictOutcome;
use model::event::EventBody;

/// Returns one sentence for a conflict event.
pub(super) fn line(what: &EventBody) -> String {
    let EventBody::Conflict { path, pane, name, held_by, outcome, .. } = what else {
        return String::new();
    };
    let who = match (name, pane) {
        (Some(name), _) => format!("pane {name}"),
        (None, Some(pane)) => format!("pane {}", pane.short()),
        (None, None) => "an unknown process".to_owned(),
    };
    match outcome {
        ConflictOutcome::Refused => {
            format!("{who} was refused an edit of {path}, locked by {held_by}")
        }
        ConflictOutcome::Changed => format!("{who} changed {path}, locked by {held_by}"),
        ConflictOutcome::ChangedToo => {
            format!("{who} changed {path} shortly after a change by {held_by}")
        }
    }
}
