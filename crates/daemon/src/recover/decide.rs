//! What becomes of a pane that is found at the start: a pure rule.
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
//! The first row that fits counts. `Announced` outweighs a missing `keeper.json`, which need not
//! survive the death of the machine as the registry does.

/// What is known of the keeper of a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeeperFound {
    /// There is no record of one.
    None,
    /// There is a record that cannot be read.
    Unreadable,
    /// The one that is recorded lives.
    Alive,
    /// The one that is recorded has ended.
    Dead,
}

/// What is found of a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The registry says that it is being closed.
    pub(super) closing: bool,
    /// The registry says that somebody may know of it.
    pub(super) announced: bool,
    /// Somebody holds the lock on its directory.
    pub(super) locked: bool,
    /// Its keeper.
    pub(super) keeper: KeeperFound,
    /// There is a record of its ending.
    pub(super) ended: bool,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It lives: watch it.
    Adopt,
    /// It is being started: wait until its keeper says who it is.
    AwaitKeeper,
    /// It has ended: tell of it if nobody did.
    RecordEnding,
    /// Its keeper was killed: end what is left of it.
    Lost,
    /// It never came to be, and nobody was told that it did.
    RollBack,
    /// It is on its way out.
    FinishClosing,
}

pub(super) fn decide(found: Found) -> Decision {
    let Found { closing, announced, locked, keeper, ended } = found;
    let recorded = keeper != KeeperFound::None;
    let known_dead = keeper == KeeperFound::Dead;
    if closing {
        Decision::FinishClosing
    } else if keeper == KeeperFound::Alive {
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
    use super::KeeperFound::{Alive, Dead, None, Unreadable};
    use super::*;

    #[test]
    fn what_becomes_of_a_pane_follows_from_what_is_found() {
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
            // The keeper's record did not survive a power loss, the registry did.
            (false, true,     false, None,       false, Decision::Lost),
            // Something of a dead keeper's pane has inherited its lock.
            (false, true,     true,  Dead,       false, Decision::Lost),
            (true,  true,     false, Dead,       true,  Decision::FinishClosing),
            (true,  true,     false, None,       false, Decision::FinishClosing),
        ];
        for (closing, announced, locked, keeper, ended, decision) in table {
            let found = Found { closing, announced, locked, keeper, ended };
            assert_eq!(decide(found), decision, "{found:?}");
        }
    }
}
