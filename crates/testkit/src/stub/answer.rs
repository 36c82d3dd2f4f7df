//! Scripted answers of the model.

use serde_json::Value;

/// An answer of the played model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// A text that ends the turn.
    Text(String),
    /// A tool call; the agent sends its result in another request.
    ToolCall {
        /// The tool's name in the agent's request.
        name: String,
        /// The tool's input.
        input: Value,
    },
    /// An HTTP error status. Agents retry after most statuses from 500 on.
    Failure(u16),
}

impl Answer {
    /// Creates a text answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Creates a tool call.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::ToolCall { name: name.into(), input }
    }

    /// Creates the default answer, which shows the number of the turn and its last text.
    pub(super) fn echo(turn: u64, last_text: &str) -> Self {
        Self::Text(format!("stub answer {turn}: {last_text}"))
    }
}
