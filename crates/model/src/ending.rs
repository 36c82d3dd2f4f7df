//! The ending of a pane's process.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The record of an ended pane (`exit.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Exit code, or 128 plus the signal number; none if unknown.
    pub code: Option<i32>,
    /// The signal that killed the process, if any.
    pub signal: Option<i32>,
    /// The cause.
    pub reason: EndingReason,
    /// When the keeper or the daemon noticed it.
    pub at: Timestamp,
    /// The system's error message, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether the keeper was terminated by another program, as when the machine shuts down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// The cause of a process's ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndingReason {
    /// The process exited by itself.
    Exited,
    /// The process was stopped on request.
    Stopped,
    /// The process could not be started; `detail` says why.
    NotStarted,
    /// The keeper was killed, so the ending was not observed.
    Lost,
}

impl Ending {
    /// Makes the ending of a process that returned `code` or was killed by `signal`.
    #[must_use]
    pub fn of(code: Option<i32>, signal: Option<i32>, reason: EndingReason, at: Timestamp) -> Self {
        Self {
            code: code.or(signal.map(|s| 128 + s)),
            signal,
            reason,
            at,
            detail: None,
            interrupted: false,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reason, self.signal, self.code) {
            (EndingReason::NotStarted, _, _) => {
                write!(f, "not started: {}", self.detail.as_deref().unwrap_or("unknown reason"))
            }
            (EndingReason::Lost, _, _) => write!(f, "lost"),
            (_, Some(signal), _) => write!(f, "ended by signal {signal}"),
            (_, None, Some(code)) => write!(f, "exited with {code}"),
            (_, None, None) => write!(f, "ended"),
        }
    }
}
