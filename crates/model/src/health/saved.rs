//! Findings about the saved state of a pane (R22).

use super::{Finding, FindingKind, Severity, Subject};

/// Reports a state that is damaged or belongs to another pane.
#[must_use]
pub fn damaged(pane: &Subject, why: &str) -> Finding {
    let remedy = "the next start or end of the pane sets it aside and writes a new one";
    Finding::new(Severity::Warning, pane, FindingKind::StateDamaged, why, remedy)
}

/// Reports a damaged state that was set aside.
#[must_use]
pub fn set_aside(pane: &Subject, kept_as: &str) -> Finding {
    let evidence = format!("it was moved to `{kept_as}`");
    let remedy = "it has been replaced; find out what damaged it, then remove the file";
    Finding::new(Severity::Warning, pane, FindingKind::StateDamaged, evidence, remedy)
}

/// Reports a state that can be neither used nor replaced.
#[must_use]
pub fn untouchable(pane: &Subject, why: &str) -> Finding {
    let remedy = "use the version of ccmux that wrote it, or move the file away";
    Finding::new(Severity::Warning, pane, FindingKind::StateUntouchable, why, remedy)
}
