//! Decides what recovery does with a pane: a pure function of the evidence.
//!
//! | closing | keeper               | directory | ending | announced | decision       |
//! |---------|----------------------|-----------|--------|-----------|----------------|
//! | yes     |                      |           |        |           | finish closing |
//! |         | alive                |           |        |           | adopt          |
//! |         | none, or unreadable  | locked    |        |           | await keeper   |
//! |         |                      |           | yes    |           | record ending  |
//! |         | recorded             |           |        |           | lost           |
//! |         |                      |           |        | yes       | lost           |
//! |         |                      |           |        |           | roll back      |
//!
//! The first matching row applies. `announced` outweighs a missing `keeper.json`: unlike the
//! registry, that file need not survive a power loss.

/// The state of a pane's keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeeperState {
    /// No keeper is recorded.
    None,
    /// The record cannot be read.
    Unreadable,
    /// The recorded keeper is running, and the directory is locked.
    Alive,
    /// The recorded keeper has ended, or is the keeper of another state root.
    Dead,
}

/// The evidence about a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    /// According to the registry, the pane is being closed.
    pub(super) closing: bool,
    /// According to the registry, clients may know the pane.
    pub(super) announced: bool,
    /// A process holds the lock on the pane's directory.
    pub(super) locked: bool,
    pub(super) keeper: KeeperState,
    /// The end of the pane is recorded.
    pub(super) ended: bool,
}

/// What recovery does with a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The pane is alive: watch it.
    Adopt,
    /// The pane is being started: wait until its keeper has written its record.
    AwaitKeeper,
    /// The pane has ended: record that in the registry.
    RecordEnding,
    /// The keeper was killed: end the remaining processes of the pane.
    Lost,
    /// The start was not completed and not announced: undo it.
    RollBack,
    /// The pane was being closed: complete that.
    FinishClosing,
}

/// Returns the decision for a pane.
pub(super) fn decide(evidence: Evidence) -> Decision {
    let Evidence { closing, announced, locked, keeper, ended } = evidence;
    let recorded = keeper != KeeperState::None;
    let known_dead = keeper == KeeperState::Dead;
    if closing {
        Decision::FinishClosing
    } else if keeper == KeeperState::Alive {
        Decision::Adopt
    } else if locked && !known_dead {
        Decision::AwaitKeeper
    } else if ended {
        Decision::RecordEnding
    } else if recorded || announced {
        Decision::Lost
    } else {
        Decision::RollBack
    }
}

#[cfg(test)]
mod tests {
    use super::KeeperState::{Alive, Dead, None, Unreadable};
    use super::*;

    #[test]
    fn decide_follows_the_table() {
        #[rustfmt::skip]
        let table = [
            // closing announced locked keeper      ended  decision
            (false, false,    false, None,       false, Decision::RollBack),
            (false, false,    true,  None,       false, Decision::AwaitKeeper),
            (false, false,    true,  None,       true,  Decision::AwaitKeeper),
            (false, false,    true,  Alive,      false, Decision::Adopt),
            (false, true,     true,  Alive,      true,  Decision::Adopt),
            (false, true,     true,  Unreadable, false, Decision::AwaitKeeper),
            (false, true,     false, Unreadable, false, Decision::Lost),
            (false, true,     false, Unreadable, true,  Decision::RecordEnding),
            (false, true,     false, Dead,       true,  Decision::RecordEnding),
            (false, false,    false, Dead,       true,  Decision::RecordEnding),
            (false, false,    false, None,       true,  Decision::RecordEnding),
            (false, true,     false, Dead,       false, Decision::Lost),
            (false, false,    false, Dead,       false, Decision::Lost),
            // The keeper's record did not survive a power loss, unlike the registry.
            (false, true,     false, None,       false, Decision::Lost),
            // A process of the pane has inherited the lock of the dead keeper.
            (false, true,     true,  Dead,       false, Decision::Lost),
            (true,  true,     false, Dead,       true,  Decision::FinishClosing),
            (true,  true,     false, None,       false, Decision::FinishClosing),
        ];
        for (closing, announced, locked, keeper, ended, decision) in table {
            let evidence = Evidence { closing, announced, locked, keeper, ended };
            assert_eq!(decide(evidence), decision, "{evidence:?}");
        }
    }
}
