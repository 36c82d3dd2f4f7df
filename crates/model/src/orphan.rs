//! The rule that decides whether an entry among the per-pane directories is orphaned.
//!
//! | pane name | pane known | ours | kept | pane has a directory | processes | old | verdict |
//! |-----------|------------|------|------|----------------------|-----------|-----|---------|
//! | no        |            |      |      |                      |           |     | unknown |
//! |           | yes        |      |      |                      |           |     | in use  |
//! |           |            | no   |      |                      |           |     | unknown |
//! |           |            |      | yes  |                      |           |     | kept    |
//! |           |            |      |      | yes                  |           |     | claimed |
//! |           |            |      |      |                      | yes       |     | alive   |
//! |           |            |      |      |                      |           | no  | young   |
//! |           |            |      |      |                      |           |     | orphan  |
//!
//! The first matching row applies. Only an orphan may be removed; in doubt, the entry stays.

use std::time::Duration;

/// The observations about one entry among the per-pane directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryEvidence {
    /// Its name is that of a per-pane directory.
    pub named: bool,
    /// The registry contains that pane.
    pub known: bool,
    /// ccmux created it: a directory (not a link) owned by the daemon's user.
    pub ours: bool,
    /// The user asked to keep it when its pane was closed.
    pub kept: bool,
    /// The pane has a directory in some session.
    pub claimed: bool,
    /// A process carries the pane's id.
    pub alive: bool,
    /// Time since the last change; none if that is in the future, as after the clock was set
    /// back.
    pub age: Option<Duration>,
}

/// The classification of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanVerdict {
    /// Not created by ccmux.
    Unknown,
    /// Belongs to a registered pane.
    InUse,
    /// Belonged to a closed pane, and is to be kept.
    Kept,
    /// Belongs to an unregistered pane that has a directory in a session.
    Claimed,
    /// Belonged to a pane that still has processes.
    Alive,
    /// Unused, but younger than the minimum age.
    Young,
    /// Unused.
    Orphan,
}

/// Classifies an entry; `min_age` is the minimum age of an orphan.
#[must_use]
pub fn judge(entry: EntryEvidence, min_age: Duration) -> OrphanVerdict {
    let EntryEvidence { named, known, ours, kept, claimed, alive, age } = entry;
    if !named {
        OrphanVerdict::Unknown
    } else if known {
        OrphanVerdict::InUse
    } else if !ours {
        OrphanVerdict::Unknown
    } else if kept {
        OrphanVerdict::Kept
    } else if claimed {
        OrphanVerdict::Claimed
    } else if alive {
        OrphanVerdict::Alive
    } else if age.is_none_or(|age| age < min_age) {
        OrphanVerdict::Young
    } else {
        OrphanVerdict::Orphan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// An entry without any reason to keep it.
    const ORPHAN: EntryEvidence = EntryEvidence {
        named: true,
        known: false,
        ours: true,
        kept: false,
        claimed: false,
        alive: false,
        age: Some(HOUR),
    };

    #[test]
    fn single_reason_keeps_an_entry() {
        let second = Duration::from_secs(1);
        #[rustfmt::skip]
        let table = [
            (ORPHAN,                                           OrphanVerdict::Orphan),
            (EntryEvidence { named: false, ..ORPHAN },                 OrphanVerdict::Unknown),
            (EntryEvidence { known: true, ..ORPHAN },                  OrphanVerdict::InUse),
            (EntryEvidence { ours: false, ..ORPHAN },                  OrphanVerdict::Unknown),
            (EntryEvidence { kept: true, ..ORPHAN },                   OrphanVerdict::Kept),
            (EntryEvidence { claimed: true, ..ORPHAN },                OrphanVerdict::Claimed),
            (EntryEvidence { alive: true, ..ORPHAN },                  OrphanVerdict::Alive),
            (EntryEvidence { age: Some(HOUR - second), ..ORPHAN },     OrphanVerdict::Young),
            (EntryEvidence { age: Some(Duration::ZERO), ..ORPHAN },    OrphanVerdict::Young),
            (EntryEvidence { age: None, ..ORPHAN },                    OrphanVerdict::Young),
            // An entry of a registered pane is in use, even if ccmux did not create it.
            (EntryEvidence { known: true, ours: false, ..ORPHAN },     OrphanVerdict::InUse),
            (EntryEvidence { known: true, kept: true, ..ORPHAN },      OrphanVerdict::InUse),
            // A keep mark does not make a foreign directory one of ours.
            (EntryEvidence { kept: true, ours: false, ..ORPHAN },      OrphanVerdict::Unknown),
            (EntryEvidence { kept: true, alive: true, ..ORPHAN },      OrphanVerdict::Kept),
            (EntryEvidence { claimed: true, age: None, ..ORPHAN },     OrphanVerdict::Claimed),
        ];
        for (entry, verdict) in table {
            assert_eq!(judge(entry, HOUR), verdict, "{entry:?}");
        }
    }

    #[test]
    fn entry_with_future_mtime_is_young_even_without_a_minimum_age() {
        let now = EntryEvidence { age: Some(Duration::ZERO), ..ORPHAN };
        let future = EntryEvidence { age: None, ..ORPHAN };

        assert_eq!(judge(now, Duration::ZERO), OrphanVerdict::Orphan);
        assert_eq!(judge(future, Duration::ZERO), OrphanVerdict::Young);
    }

    #[test]
    fn exactly_one_combination_is_an_orphan() {
        let either = [false, true];
        let ages = [None, Some(Duration::ZERO), Some(HOUR), Some(2 * HOUR)];
        let mut orphans = 0;
        for bits in 0..64_u8 {
            let bit = |n: u8| either[usize::from(bits >> n & 1)];
            for age in ages {
                let found = EntryEvidence {
                    named: bit(0),
                    known: bit(1),
                    ours: bit(2),
                    kept: bit(3),
                    claimed: bit(4),
                    alive: bit(5),
                    age,
                };
                orphans += u32::from(judge(found, HOUR) == OrphanVerdict::Orphan);
            }
        }
        assert_eq!(orphans, 2, "at the minimum age, and older");
    }
}
