//! Sessions: named units of work with a directory of their own.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::isolation::Method;
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
}
