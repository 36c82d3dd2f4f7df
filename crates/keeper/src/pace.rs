//! How often those who follow the output are served while the pane floods.
//!
//! Every byte goes to every follower, so twenty of them take more of the keeper's time than the pane
//! itself does. While it floods they share what a single one could read as fast as any pane writes;
//! what they have not got is in the log, and they get it as soon as the flood is over.

use std::time::{Duration, Instant};

/// The longest that followers wait while the pane floods.
const EVERY: Duration = Duration::from_millis(16);

/// What all of them together get each time: 125 MB a second.
const TOGETHER: usize = 2 << 20;

/// When the followers are served next.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// A flood that has not gone on by then is over.
    over: Option<Instant>,
    next: Option<Instant>,
}

impl Pace {
    /// The pane has written so much at once that more is to come.
    pub(crate) fn flooded(&mut self, now: Instant) {
        self.over = Some(now + EVERY);
    }

    /// The most bytes that each of them gets now.
    pub(crate) fn share(&mut self, followers: usize, now: Instant) -> usize {
        if self.over.is_none_or(|over| over <= now) {
            self.next = None;
            return usize::MAX;
        }
        if self.next.is_some_and(|at| now < at) {
            return 0;
        }
        self.next = Some(now + EVERY);
        TOGETHER / followers.max(1)
    }

    /// When to look at them again if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_share_a_flood_and_get_everything_after_it() {
        let mut pace = Pace::default();
        let now = Instant::now();

        assert_eq!(pace.share(20, now), usize::MAX, "no flood");
        pace.flooded(now);
        assert_eq!(pace.share(20, now), TOGETHER / 20);
        assert_eq!(pace.share(20, now + EVERY / 2), 0, "not yet");
        pace.flooded(now + EVERY / 2);
        assert_eq!(pace.deadline(), Some(now + EVERY));
        assert_eq!(pace.share(1, now + EVERY), TOGETHER);

        assert_eq!(pace.share(20, now + EVERY * 2), usize::MAX, "it did not go on");
        assert_eq!(pace.deadline(), None);
    }
}
