//! The life of a pane.
//!
//! ```text
//!             keeper ready          process ended
//!  Starting ---------------> Running -----------> Exited
//!     |                        |  |                 ^
//!     | failed                 |  | stop asked      | process ended
//!     v                        |  v                 |
//!   Exited (not started)       | Stopping ----------+
//!                              |
//!                              +--> Lost   (the keeper died; nobody saw the end)
//! ```
//!
//! The state is never stored. It is derived, each time somebody asks, from what can be seen:
//! whether the keeper lives, and what record of an ending lies in the pane's directory.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ending::{Ending, EndingReason};

/// Where a pane is in its life. See the module documentation for the diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaneState {
    /// The keeper is at work on it; no process runs yet.
    Starting,
    /// The process is alive.
    Running,
    /// The process is alive and stands still, because the pane took more than it may.
    Frozen,
    /// A stop was asked for and the process tree is not yet gone.
    Stopping,
    /// The process has ended, and how is on record.
    Exited,
    /// The keeper was killed; its last output is kept, the ending is not known.
    Lost,
}

/// What can be seen of a pane from outside.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// A keeper process holds the pane's directory.
    pub keeper_alive: bool,
    /// The keeper has written who it is.
    pub keeper_recorded: bool,
    /// This daemon has asked for the end.
    pub stop_asked: bool,
    /// The keeper has written that the processes stand still.
    pub frozen: bool,
    /// The record of the ending.
    pub ending: Option<&'a Ending>,
}

impl PaneState {
    /// The state that the evidence shows.
    ///
    /// A recorded ending outweighs a living keeper: the keeper writes it as its last act, and is
    /// about to leave.
    #[must_use]
    pub fn derive(evidence: Evidence<'_>) -> Self {
        match (evidence.ending, evidence.keeper_alive) {
            (Some(ending), _) if ending.reason == EndingReason::Lost => Self::Lost,
            (Some(_), _) => Self::Exited,
            (None, false) => Self::Lost,
            (None, true) if evidence.stop_asked => Self::Stopping,
            (None, true) if evidence.keeper_recorded && evidence.frozen => Self::Frozen,
            (None, true) if evidence.keeper_recorded => Self::Running,
            (None, true) => Self::Starting,
        }
    }

    /// Whether a process of this pane may still be alive.
    #[must_use]
    pub fn is_live(self) -> bool {
        match self {
            Self::Starting | Self::Running | Self::Frozen | Self::Stopping => true,
            Self::Exited | Self::Lost => false,
        }
    }

    /// The word for it, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Frozen => "frozen",
            Self::Stopping => "stopping",
            Self::Exited => "exited",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for PaneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn the_state_follows_from_what_can_be_seen() {
        let exited = Ending::of(Some(0), None, EndingReason::Exited, Timestamp(0));
        let lost = Ending::of(None, None, EndingReason::Lost, Timestamp(0));
        #[rustfmt::skip]
        let table = [
            // alive  recorded stop   ending          state
            (true,  false,   false, None,           PaneState::Starting),
            (true,  true,    false, None,           PaneState::Running),
            (true,  true,    true,  None,           PaneState::Stopping),
            (true,  true,    true,  Some(&exited),  PaneState::Exited),
            (false, true,    false, Some(&exited),  PaneState::Exited),
            (false, true,    false, Some(&lost),    PaneState::Lost),
            (false, true,    true,  None,           PaneState::Lost),
            (false, false,   false, None,           PaneState::Lost),
        ];
        for (keeper_alive, keeper_recorded, stop_asked, ending, state) in table {
            let evidence =
                Evidence { keeper_alive, keeper_recorded, stop_asked, frozen: false, ending };
            assert_eq!(PaneState::derive(evidence), state, "{evidence:?}");
            let frozen = Evidence { frozen: true, ..evidence };
            let running = state == PaneState::Running;
            let state = if running { PaneState::Frozen } else { state };
            assert_eq!(PaneState::derive(frozen), state, "{frozen:?}");
        }
    }
}
