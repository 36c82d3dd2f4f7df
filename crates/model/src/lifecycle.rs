//! The life cycle of a pane.
//!
//! ```text
//!             keeper ready          process ended
//!  Starting ---------------> Running -----------> Exited
//!     |                        |  |                 ^
//!     | failed                 |  | stop requested  | process ended
//!     v                        |  v                 |
//!   Exited (not started)       | Stopping ----------+
//!                              |
//!                              +--> Lost   (the keeper died; the ending is unknown)
//! ```
//!
//! The state is never stored. It is derived on demand from two observations: whether the keeper is
//! alive, and whether the pane's directory has an exit record.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ending::{Ending, EndingReason};

/// The state of a pane. See the module documentation for the diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaneState {
    /// The keeper is preparing the pane; no process runs yet.
    Starting,
    /// The process is alive.
    Running,
    /// The process is alive but suspended, because the pane exceeded a limit.
    Frozen,
    /// A stop was requested, and processes of the pane are still alive.
    Stopping,
    /// The process has ended, and its ending is recorded.
    Exited,
    /// The keeper was killed; the output is kept, the ending is unknown.
    Lost,
}

/// The observations from which the state of a pane is derived.
#[derive(Clone, Copy, Debug)]
pub struct PaneEvidence<'a> {
    /// A keeper process holds the pane's directory.
    pub keeper_alive: bool,
    /// The keeper has written its identity.
    pub keeper_recorded: bool,
    /// This daemon has requested a stop.
    pub stop_asked: bool,
    /// The keeper has recorded that the processes are suspended.
    pub frozen: bool,
    /// The exit record.
    pub ending: Option<&'a Ending>,
}

impl PaneState {
    /// Derives the state from observations.
    ///
    /// An exit record outweighs a live keeper, because the keeper writes it just before it exits.
    #[must_use]
    pub fn derive(evidence: PaneEvidence<'_>) -> Self {
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

    /// Returns true if a process of this pane may still be alive.
    #[must_use]
    pub fn is_live(self) -> bool {
        match self {
            Self::Starting | Self::Running | Self::Frozen | Self::Stopping => true,
            Self::Exited | Self::Lost => false,
        }
    }

    /// Returns whether a pane in this state was interrupted: it ended although its program did not
    /// exit by itself and no caller stopped or closed the pane, as in a crash or a reboot.
    #[must_use]
    pub fn was_interrupted(self, ending: Option<&Ending>, closing: bool) -> bool {
        match self {
            Self::Starting | Self::Running | Self::Frozen | Self::Stopping => false,
            Self::Lost => !closing,
            Self::Exited => !closing && ending.is_some_and(|ending| ending.interrupted),
        }
    }

    /// Returns the name used in JSON.
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
    fn pane_was_interrupted_if_it_ended_without_exit_stop_or_close() {
        use PaneState::{Exited, Frozen, Lost, Running, Starting, Stopping};
        let ending = |reason| Ending::of(None, Some(1), reason, Timestamp(0));
        let (exited, stopped) = (ending(EndingReason::Exited), ending(EndingReason::Stopped));
        let lost = ending(EndingReason::Lost);
        let shut_down = Ending { interrupted: true, ..stopped.clone() };
        let ended = [(Lost, Some(&lost)), (Lost, None), (Exited, Some(&shut_down))];
        for (state, ending) in ended {
            assert!(state.was_interrupted(ending, false), "{state} {ending:?}");
            assert!(!state.was_interrupted(ending, true), "{state} {ending:?}");
        }
        for (state, ending) in [(Exited, Some(&exited)), (Exited, Some(&stopped)), (Exited, None)] {
            assert!(!state.was_interrupted(ending, false), "{state} {ending:?}");
        }
        for live in [Starting, Running, Frozen, Stopping] {
            assert!(!live.was_interrupted(Some(&shut_down), false), "{live}");
        }
    }

    #[test]
    fn pane_state_is_derived_from_the_evidence() {
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
                PaneEvidence { keeper_alive, keeper_recorded, stop_asked, frozen: false, ending };
            assert_eq!(PaneState::derive(evidence), state, "{evidence:?}");
            let frozen = PaneEvidence { frozen: true, ..evidence };
            let running = state == PaneState::Running;
            let state = if running { PaneState::Frozen } else { state };
            assert_eq!(PaneState::derive(frozen), state, "{frozen:?}");
        }
    }
}
