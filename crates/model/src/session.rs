//! Sessions: named units of work with a directory of their own.

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

/// What `.session` holds: enough to rebuild the registry from the directories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its identity.
    pub id: SessionId,
    /// What people call it.
    pub name: Name,
    /// Whose directories its panes work in.
    pub mode: SessionMode,
    /// When it was made.
    pub created: Timestamp,
    /// Made only to hold one pane, because the user named no session: it goes with its last pane.
    pub implicit: bool,
    /// How its panes are kept apart, unless they say otherwise themselves.
    #[serde(default)]
    pub isolation: Option<Method>,
    /// Variables of every pane that it gets.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The template that its unit and workflows were copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The directory that its panes share, where it is or was a legacy session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

impl SessionRecord {
    /// The name of a session that nobody named.
    #[must_use]
    pub fn default_name(id: &SessionId) -> Name {
        format!("ccmux-{}", id.short()).parse().expect("a prefix and hex digits are a legal name")
    }
}

/// Whose directories the panes of a session work in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionMode {
    /// Directories of their own.
    #[default]
    Isolated,
    /// The directories they were started in, shared with everybody.
    Legacy,
}

/// How a session is, derived at the moment of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// It is being made, or its first processes are.
    Starting,
    /// A process of it lives.
    Running,
    /// None does; everything of it is kept.
    Stopped,
    /// Its directory is not there.
    Missing,
    /// Its directory is there, and what it says about itself cannot be believed.
    Damaged,
}

impl SessionStatus {
    /// As it is spelt everywhere.
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

    /// How a session is whose directory is whole, from the states of its panes and whether anybody
    /// may know of it yet.
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
            format!("a session is starting, running, stopped, missing or damaged, not {text:?}")
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
            other => Err(format!("a session is isolated or legacy, not {other:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unnamed_session_is_called_by_its_first_eight_digits() {
        let id = "550e8400-e29b-41d4-a716-446655440000".parse().unwrap();
        assert_eq!(SessionRecord::default_name(&id).as_str(), "ccmux-550e8400");
    }

    /// R31: whether a session runs is told by its panes, and by nothing that was written down.
    #[test]
    fn a_session_runs_as_long_as_one_of_its_panes_does() {
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
