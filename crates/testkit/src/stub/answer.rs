//! What the stub says to a turn.

use serde_json::Value;

/// One answer of the model that the stub plays.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// It says this and ends its turn.
    Text(String),
    /// It wants this tool run, and will be asked again with the result.
    ToolCall {
        /// The tool's name as the agent offers it.
        name: String,
        /// What the tool is given.
        input: Value,
    },
    /// The service answers with this HTTP status instead. Agents try again after most statuses
    /// from 500 on.
    Failure(u16),
}

impl Answer {
    /// The model says `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The model calls the tool `name`.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::ToolCall { name: name.into(), input }
    }

    /// What the stub says when it has no script: something that shows on a screen which turn this
    /// was and that the last text arrived.
    pub(super) fn echo(turn: u64, last_text: &str) -> Self {
        Self::Text(format!("stub answer {turn}: {last_text}"))
    }
}
