//! How the process of a pane ended.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The record of an ended pane (`exit.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Exit code, or 128 plus the signal number, or none when nobody was there to learn it.
    pub code: Option<i32>,
    /// The signal that ended it, where one did.
    pub signal: Option<i32>,
    /// Why.
    pub reason: EndingReason,
    /// When it was noticed.
    pub at: Timestamp,
    /// What the system said, for reasons that have something to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Why a pane's process is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndingReason {
    /// It ended by itself.
    Exited,
    /// Somebody asked for it.
    Stopped,
    /// It never came to exist; `detail` says why.
    NotStarted,
    /// Its keeper was killed, and nobody saw the end of the process.
    Lost,
}

impl Ending {
    /// The ending of a process that returned `code`, or was ended by `signal`.
    #[must_use]
    pub fn of(code: Option<i32>, signal: Option<i32>, reason: EndingReason, at: Timestamp) -> Self {
        Self { code: code.or(signal.map(|s| 128 + s)), signal, reason, at, detail: None }
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
