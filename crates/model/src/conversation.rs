//! Conversations: the histories that agents keep, identified by the agents' own ids.
//!
//! A pane has at most one conversation, and a conversation has at most one live pane.
//! [`ConversationStart`] says how an agent is started, given the arguments of the user
//! ([`ConversationRequest`]) and the conversations that exist.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The id of a conversation.
///
/// # Invariant
///
/// 1 to 64 characters of `[A-Za-z0-9_-]`, not starting with a dash: always a single path component,
/// never an option. Code that builds paths or argument lists from it need not check again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(String);

/// A text that is not a valid conversation id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid conversation id")]
pub struct InvalidConversation(pub String);

impl ConversationId {
    /// Makes an id from random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid().hyphenated().to_string())
    }

    /// Returns the id as text.
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

/// The instruction that an agent gets about its conversation when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationStart {
    /// None: the agent has no conversations, or the user's arguments choose one.
    Plain,
    /// Start a conversation with this id.
    New(ConversationId),
    /// Resume this conversation.
    Resume(ConversationId),
}

/// The choice of a conversation in the user's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationRequest {
    /// Not specified: ccmux chooses.
    Nothing,
    /// Start a conversation with this id.
    New(ConversationId),
    /// Resume this conversation.
    Resume(ConversationId),
    /// Chosen by the agent at run time: the latest one, one from a menu, a fork.
    AgentChooses,
    /// This invocation has no conversation (`--version`, a subcommand).
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversation_id_rejects_paths_and_options() {
        for text in ["", "-x", "../x", "a/b", "a b", "a\0", "é", &"x".repeat(65)] {
            assert_eq!(text.parse::<ConversationId>(), Err(InvalidConversation(text.to_owned())));
        }
        for text in ["550e8400-e29b-41d4-a716-446655440000", "ses_4f2Ab"] {
            assert_eq!(text.parse::<ConversationId>().unwrap().as_str(), text);
        }
    }
}
