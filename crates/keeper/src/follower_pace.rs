//! Pacing of followers while the pane floods.
//!
//! Every follower gets every byte, so twenty followers take more of the keeper's time than the pane
//! itself. During a flood they share a fixed bandwidth, which is enough for a single follower to
//! keep up with any pane. The remaining output is in the log, and they get it after the flood.

use std::time::{Duration, Instant};

/// Interval at which followers are served during a flood.
const INTERVAL: Duration = Duration::from_millis(16);

/// Bytes for all followers together in each interval: 125 MB per second.
const BYTES_PER_INTERVAL: usize = 2 << 20;

/// Schedule of the followers.
#[derive(Debug, Default)]
pub(crate) struct FollowerPace {
    /// The flood is over at this time unless it continues.
    flood_until: Option<Instant>,
    next: Option<Instant>,
}

impl FollowerPace {
    /// Records that the pane wrote so much at once that more is to be expected.
    pub(crate) fn note_flood(&mut self, now: Instant) {
        self.flood_until = Some(now + INTERVAL);
    }

    /// Returns the number of bytes that each follower may get now.
    pub(crate) fn share(&mut self, followers: usize, now: Instant) -> usize {
        if self.flood_until.is_none_or(|until| until <= now) {
            self.next = None;
            return usize::MAX;
        }
        if self.next.is_some_and(|at| now < at) {
            return 0;
        }
        self.next = Some(now + INTERVAL);
        BYTES_PER_INTERVAL / followers.max(1)
    }

    /// Returns the time of the next share.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_share_bandwidth_during_a_flood_only() {
        let mut pace = FollowerPace::default();
        let now = Instant::now();

        assert_eq!(pace.share(20, now), usize::MAX, "no flood");
        pace.note_flood(now);
        assert_eq!(pace.share(20, now), BYTES_PER_INTERVAL / 20);
        assert_eq!(pace.share(20, now + INTERVAL / 2), 0, "not due yet");
        pace.note_flood(now + INTERVAL / 2);
        assert_eq!(pace.deadline(), Some(now + INTERVAL));
        assert_eq!(pace.share(1, now + INTERVAL), BYTES_PER_INTERVAL);

        assert_eq!(pace.share(20, now + INTERVAL * 2), usize::MAX, "the flood is over");
        assert_eq!(pace.deadline(), None);
    }
}
