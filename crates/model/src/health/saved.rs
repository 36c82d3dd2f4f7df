//! The saved state of a pane: damaged, set aside, or not ours to replace (R22).

use super::{Finding, Kind, Severity, Subject};

/// What is in place is not what was written, or is of another pane.
#[must_use]
pub fn damaged(pane: &Subject, why: &str) -> Finding {
    let remedy = "it is set aside, and a new one written, when the pane is next started or ends";
    Finding::new(Severity::Warning, pane, Kind::StateDamaged, why, remedy)
}

/// One that was damaged is kept under another name.
#[must_use]
pub fn set_aside(pane: &Subject, kept_as: &str) -> Finding {
    let evidence = format!("it is kept as `{kept_as}`");
    let remedy = "a new one took its place; find out who wrote to it, then remove the file";
    Finding::new(Severity::Warning, pane, Kind::StateDamaged, evidence, remedy)
}

/// It can be neither used nor replaced.
#[must_use]
pub fn untouchable(pane: &Subject, why: &str) -> Finding {
    let remedy = "use the release that wrote it, or move the file away";
    Finding::new(Severity::Warning, pane, Kind::StateUntouchable, why, remedy)
}
