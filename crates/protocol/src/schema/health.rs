//! The health report.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::words::Severity;

/// The result of a health check.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Health)]
pub struct HealthReport {
    /// Whether there are no errors and no warnings.
    pub ok: bool,
    /// The findings, most severe first.
    pub findings: Vec<Finding>,
    /// The number of items checked.
    #[serde(default)]
    pub checked: ItemsChecked,
}

/// One finding of a health check.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Finding)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The pane, session or file concerned.
    pub subject: String,
    /// The kind of finding, in fixed words.
    pub what: String,
    /// The observation, with its location.
    pub evidence: String,
    /// The remedy (empty if none is needed).
    pub remedy: String,
}

/// The number of items checked, by kind.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = ItemsChecked)]
pub struct ItemsChecked {
    /// Panes, running or not.
    pub panes: usize,
    /// Files and directories of ccmux.
    pub places: usize,
    /// Main processes of panes.
    pub processes: usize,
    /// Conversations.
    pub conversations: usize,
    /// The user's own directories, checked for leaks.
    pub own_places: usize,
    /// Agent programs.
    pub agents: usize,
}
