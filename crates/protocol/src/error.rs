//! Errors as they cross a socket: code, message, hint and details.

use serde::{Deserialize, Serialize};

/// The kinds of failure a client can act on. Each maps to one exit code of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The operation was attempted and failed.
    Failed,
    /// The request is invalid.
    Usage,
    /// The session, pane or file does not exist.
    NotFound,
    /// The operation conflicts with existing state or is not allowed in this state.
    Conflict,
    /// The operation did not finish in time.
    TimedOut,
    /// The daemon cannot be reached or speaks an incompatible protocol.
    Unreachable,
    /// A code introduced by a newer release.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// Returns the exit code of the command line.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Failed | Self::Unknown => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::TimedOut => 5,
            Self::Unreachable => 6,
        }
    }
}

/// A failure in the form that is sent to clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ErrorBody {
    /// The kind of failure.
    pub code: ErrorCode,
    /// What failed and why; completes "error: …".
    pub message: String,
    /// What the user can do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Further information for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

impl ErrorBody {
    /// Creates a failure without a hint.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, details: None }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the details for programs.
    ///
    /// # Panics
    ///
    /// If `details` has map keys that are not strings.
    #[must_use]
    pub fn details(mut self, details: &impl Serialize) -> Self {
        self.details = Some(serde_json::to_value(details).expect("details have string keys only"));
        self
    }
}
