//! Conflicts, for people.

use model::conflict::Outcome;
use model::event::Happening;

/// What happened, in a sentence.
pub(super) fn line(what: &Happening) -> String {
    let Happening::Conflict { path, pane, name, held_by, outcome, .. } = what else {
        return String::new();
    };
    let who = match (name, pane) {
        (Some(name), _) => format!("pane {name}"),
        (None, Some(pane)) => format!("pane {}", pane.short()),
        (None, None) => "somebody".to_owned(),
    };
    let why = match outcome {
        Outcome::Refused | Outcome::Changed => "held",
        Outcome::ChangedToo => "had changed shortly before",
    };
    format!("{who} {outcome} {path}, which {held_by} {why}")
}
