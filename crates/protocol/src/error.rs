//! Errors as they cross a socket: what, which, why, and what to do next.

use serde::{Deserialize, Serialize};

/// The kinds of failure a client can act on. Each has one exit code of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// It was tried and did not work.
    Failed,
    /// The request itself is wrong.
    Usage,
    /// There is no such session, pane or file.
    NotFound,
    /// It would collide with something, or is not allowed in this state.
    Conflict,
    /// It did not happen in time.
    TimedOut,
    /// The daemon cannot be reached or cannot talk to us.
    Unreachable,
    /// A release newer than this one said something else.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// The exit code of the command line.
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

/// A failure, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ErrorBody {
    /// Which kind.
    pub code: ErrorCode,
    /// What, which and why; completes "error: …".
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What a program may want to know beyond that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

impl ErrorBody {
    /// A failure without advice.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, details: None }
    }

    /// The same with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with details for programs.
    ///
    /// # Panics
    ///
    /// If they have keys that are not text; ours have none.
    #[must_use]
    pub fn details(mut self, details: &impl Serialize) -> Self {
        self.details = Some(serde_json::to_value(details).expect("details have string keys only"));
        self
    }
}
