//! Sessions: named groups of panes with a directory.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::isolation::Method;
use crate::lifecycle::PaneState;
use crate::name::Name;
use crate::time::Timestamp;

/// The contents of `.session`, sufficient to rebuild the registry from the directories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    pub name: Name,
    /// Whether its panes have their own directories.
    pub mode: SessionMode,
    /// When it was created.
    pub created: Timestamp,
    /// Whether it was created for a single pane without a session name; closed with its last pane.
    pub implicit: bool,
    /// The default isolation method of its panes.
    #[serde(default)]
    pub isolation: Option<Method>,
    /// Environment variables of its panes.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The template that it was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The directory that its panes share, if it is or was a legacy session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

impl SessionRecord {
    /// Returns the default name of a session.
    #[must_use]
    pub fn default_name(id: &SessionId) -> Name {
        format!("ccmux-{}", id.short()).parse().expect("a prefix and hex digits are a valid name")
    }
}

/// Whether the panes of a session have their own directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionMode {
    /// Each pane has its own directories.
    #[default]
    Isolated,
    /// Panes work in the directories where they were started.
    Legacy,
}

/// The status of a session, derived on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// It or its first pane is being created.
    Starting,
    /// At least one pane is running.
    Running,
    /// No pane is running; all data is kept.
    Stopped,
    /// Its directory does not exist.
    Missing,
    /// Its directory exists, but its record cannot be read.
    Damaged,
}

impl SessionStatus {
    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Missing => "missing",
            Self::Damaged => "damaged",
        }
    }

    /// Derives the status of a session with an intact directory from the states of its panes;
    /// `announced` is false while the session is being created.
    #[must_use]
    pub fn derive(announced: bool, panes: impl IntoIterator<Item = PaneState>) -> Self {
        let mut starting = !announced;
        for pane in panes {
            match pane {
                PaneState::Running | PaneState::Frozen | PaneState::Stopping => {
                    return Self::Running;
                }
                PaneState::Starting => starting = true,
                PaneState::Exited | PaneState::Lost => {}
            }
        }
        if starting { Self::Starting } else { Self::Stopped }
    }
}

impl fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for SessionStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Starting, Self::Running, Self::Stopped, Self::Missing, Self::Damaged];
        all.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
            format!(
                "unknown session status {text:?}; expected starting, running, stopped, missing or \
                 damaged"
            )
        })
    }
}

impl fmt::Display for SessionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Isolated => "isolated",
            Self::Legacy => "legacy",
        })
    }
}

impl FromStr for SessionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "isolated" => Ok(Self::Isolated),
            "legacy" => Ok(Self::Legacy),
            other => Err(format!("unknown session mode {other:?}; expected isolated or legacy")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_name_contains_the_short_id() {
        let id = "550e8400-e29b-41d4-a716-446655440000".parse().unwrap();
        assert_eq!(SessionRecord::default_name(&id).as_str(), "ccmux-550e8400");
    }

    /// R31: the status is derived from the panes, not stored.
    #[test]
    fn session_runs_while_one_of_its_panes_runs() {
        use PaneState::{Exited, Lost, Running, Starting, Stopping};
        let cases: [(bool, &[PaneState], SessionStatus); 6] = [
            (true, &[], SessionStatus::Stopped),
            (false, &[], SessionStatus::Starting),
            (true, &[Exited, Lost], SessionStatus::Stopped),
            (true, &[Exited, Starting], SessionStatus::Starting),
            (true, &[Starting, Running, Lost], SessionStatus::Running),
            (true, &[Stopping], SessionStatus::Running),
        ];
        for (announced, panes, expected) in cases {
            let derived = SessionStatus::derive(announced, panes.iter().copied());
            assert_eq!(derived, expected, "{announced} {panes:?}");
            assert_eq!(derived.to_string().parse(), Ok(derived));
        }
    }
}
