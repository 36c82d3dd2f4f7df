//! Whether something among the directories of panes belongs to nobody: a pure rule.
//!
//! | name of a pane | pane known | ours | kept | pane has a directory | processes | old | verdict |
//! |----------------|------------|------|------|----------------------|-----------|-----|---------|
//! | no             |            |      |      |                      |           |     | unknown |
//! |                | yes        |      |      |                      |           |     | in use  |
//! |                |            | no   |      |                      |           |     | unknown |
//! |                |            |      | yes  |                      |           |     | kept    |
//! |                |            |      |      | yes                  |           |     | claimed |
//! |                |            |      |      |                      | yes       |     | alive   |
//! |                |            |      |      |                      |           | no  | young   |
//! |                |            |      |      |                      |           |     | orphan  |
//!
//! The first row that fits counts. Only an orphan may be touched: whatever is not certain speaks
//! for leaving it where it is.

use std::time::Duration;

/// What is known of one entry among the directories of panes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// It has the name that a directory of a pane would have.
    pub named: bool,
    /// The registry knows that pane.
    pub known: bool,
    /// It is what we made: of the right kind, no link, and with our owner.
    pub ours: bool,
    /// The user wanted it to stay when its pane was closed.
    pub kept: bool,
    /// There is a directory of that pane among the sessions.
    pub claimed: bool,
    /// Some process carries the pane's id.
    pub alive: bool,
    /// How long nobody has changed it; none if it is of the future, as after the clock was set
    /// back.
    pub age: Option<Duration>,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing that we made.
    Unknown,
    /// A pane's.
    InUse,
    /// Of a pane that is gone, and to stay.
    Kept,
    /// Of a pane that is not in the registry, but whose own directory is there.
    Claimed,
    /// Of a pane that is gone and has left processes.
    Alive,
    /// Nobody's, but too young to be sure.
    Young,
    /// Nobody's.
    Orphan,
}

/// Judges what was found; `least` is the least age of an orphan.
#[must_use]
pub fn judge(found: Found, least: Duration) -> Verdict {
    let Found { named, known, ours, kept, claimed, alive, age } = found;
    if !named {
        Verdict::Unknown
    } else if known {
        Verdict::InUse
    } else if !ours {
        Verdict::Unknown
    } else if kept {
        Verdict::Kept
    } else if claimed {
        Verdict::Claimed
    } else if alive {
        Verdict::Alive
    } else if age.is_none_or(|age| age < least) {
        Verdict::Young
    } else {
        Verdict::Orphan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// An entry that nothing speaks for.
    const ORPHAN: Found = Found {
        named: true,
        known: false,
        ours: true,
        kept: false,
        claimed: false,
        alive: false,
        age: Some(HOUR),
    };

    #[test]
    fn one_reason_is_enough_to_leave_something_alone() {
        let second = Duration::from_secs(1);
        #[rustfmt::skip]
        let table = [
            (ORPHAN,                                           Verdict::Orphan),
            (Found { named: false, ..ORPHAN },                 Verdict::Unknown),
            (Found { known: true, ..ORPHAN },                  Verdict::InUse),
            (Found { ours: false, ..ORPHAN },                  Verdict::Unknown),
            (Found { kept: true, ..ORPHAN },                   Verdict::Kept),
            (Found { claimed: true, ..ORPHAN },                Verdict::Claimed),
            (Found { alive: true, ..ORPHAN },                  Verdict::Alive),
            (Found { age: Some(HOUR - second), ..ORPHAN },     Verdict::Young),
            (Found { age: Some(Duration::ZERO), ..ORPHAN },    Verdict::Young),
            (Found { age: None, ..ORPHAN },                    Verdict::Young),
            // What belongs to a pane is its own business, whatever it is.
            (Found { known: true, ours: false, ..ORPHAN },     Verdict::InUse),
            (Found { known: true, kept: true, ..ORPHAN },      Verdict::InUse),
            // A mark does not make a stranger's directory one of ours.
            (Found { kept: true, ours: false, ..ORPHAN },      Verdict::Unknown),
            (Found { kept: true, alive: true, ..ORPHAN },      Verdict::Kept),
            (Found { claimed: true, age: None, ..ORPHAN },     Verdict::Claimed),
        ];
        for (found, verdict) in table {
            assert_eq!(judge(found, HOUR), verdict, "{found:?}");
        }
    }

    #[test]
    fn no_least_age_still_spares_what_is_of_the_future() {
        let now = Found { age: Some(Duration::ZERO), ..ORPHAN };
        let future = Found { age: None, ..ORPHAN };

        assert_eq!(judge(now, Duration::ZERO), Verdict::Orphan);
        assert_eq!(judge(future, Duration::ZERO), Verdict::Young);
    }

    #[test]
    fn of_everything_that_can_be_found_exactly_one_combination_is_an_orphan() {
        let either = [false, true];
        let ages = [None, Some(Duration::ZERO), Some(HOUR), Some(2 * HOUR)];
        let mut orphans = 0;
        for bits in 0..64_u8 {
            let bit = |n: u8| either[usize::from(bits >> n & 1)];
            for age in ages {
                let found = Found {
                    named: bit(0),
                    known: bit(1),
                    ours: bit(2),
                    kept: bit(3),
                    claimed: bit(4),
                    alive: bit(5),
                    age,
                };
                orphans += u32::from(judge(found, HOUR) == Verdict::Orphan);
            }
        }
        assert_eq!(orphans, 2, "old enough, or older, and nothing else");
    }
}
