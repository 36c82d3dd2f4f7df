//! Conversations: the agents' own histories, named by the agents' own ids.
//!
//! A pane has at most one conversation, and a conversation has at most one live pane. What an agent
//! is started with follows from what the user asked for and what is already there ([`Start`]).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names one conversation.
///
/// # Invariant
///
/// 1 to 64 characters of `[A-Za-z0-9_-]`, the first one no dash: always a single path component,
/// never an option. Code that builds paths or argument lists from it need not check again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(String);

/// Why a text is not the id of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be the id of a conversation")]
pub struct InvalidConversation(pub String);

impl ConversationId {
    /// An id made from random bytes, which the caller draws.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid().hyphenated().to_string())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ConversationId {
    type Err = InvalidConversation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if (1..=64).contains(&text.len()) && !text.starts_with('-') && text.chars().all(legal) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidConversation(text.to_owned()))
        }
    }
}

impl TryFrom<String> for ConversationId {
    type Error = InvalidConversation;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> Self {
        id.0
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What an agent is told about its conversation when it is started: never both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing: it has none, or the user's own arguments say it.
    Plain,
    /// Begin one under this id.
    New(ConversationId),
    /// Go on with this one.
    Resume(ConversationId),
}

/// What the user's own arguments say about the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing: it is ours to choose.
    Nothing,
    /// To begin one under this id.
    New(ConversationId),
    /// To go on with this one.
    Resume(ConversationId),
    /// One that only the agent knows, once it runs: the last one, one from a menu, a fork.
    AgentChooses,
    /// This call of the agent holds no conversation (`--version`, a subcommand).
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_leave_a_directory_or_be_an_option_are_refused() {
        for text in ["", "-x", "../x", "a/b", "a b", "a\0", "é", &"x".repeat(65)] {
            assert_eq!(text.parse::<ConversationId>(), Err(InvalidConversation(text.to_owned())));
        }
        for text in ["550e8400-e29b-41d4-a716-446655440000", "ses_4f2Ab"] {
            assert_eq!(text.parse::<ConversationId>().unwrap().as_str(), text);
        }
    }
}
