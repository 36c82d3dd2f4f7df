//! When to measure the disk that a pane takes, and what follows from it.
//!
//! Measuring means going through every directory of the pane, so it is done only where it can tell
//! something new. What the processes of a pane have written in their lives is cheap to ask, and a
//! pane cannot have grown by more than that. So:
//!
//! - nothing written since the last look: nothing has grown, and the next look comes twice as late;
//! - written, and even if all of it was new the pane is below half of its limit: not measured;
//! - otherwise measured, the sooner again the nearer the limit is, but never so often that
//!   measuring takes more than a small part of the time.

use std::time::Duration;

/// The first look, and the one after something was written.
pub const SOON: Duration = Duration::from_secs(1);

/// The shortest time between two measurements of a pane near its limit.
const NEAR: Duration = Duration::from_millis(250);

/// An idle pane is looked at this rarely in the end.
pub const RARELY: Duration = Duration::from_secs(64);

/// A pane that writes, but is far from its limit, is measured at least this often: not everything
/// that takes disk is written by its own processes.
const AT_LEAST: Duration = Duration::from_secs(30);

/// Measuring may take this part of the time.
const PART: u32 = 20;

/// A limit and what is known about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    limit: u64,
    measured: Option<Measured>,
    written: Option<u64>,
    since_measured: Duration,
    interval: Duration,
    level: Level,
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    used: u64,
    /// What had been written by then.
    written: Option<u64>,
    /// How long it took.
    took: Duration,
}

/// How full it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// There is room.
    Fine,
    /// Four fifths are taken.
    Near,
    /// More is taken than may be.
    Over,
}

impl Level {
    /// How full something is of which `used` is taken and `limit` may be.
    #[must_use]
    pub fn of(used: u64, limit: u64) -> Self {
        if used > limit {
            Self::Over
        } else if used >= limit - limit / 5 {
            Self::Near
        } else {
            Self::Fine
        }
    }
}

impl Gauge {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            measured: None,
            written: None,
            since_measured: Duration::ZERO,
            interval: SOON,
            level: Level::Fine,
        }
    }

    /// Another limit for the same pane. What is told about the old one may be told again.
    #[must_use]
    pub fn with_limit(self, limit: u64) -> Self {
        Self { limit, interval: SOON, level: Level::Fine, ..self }
    }

    /// What may be taken.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// What was taken when it was last measured.
    #[must_use]
    pub fn used(&self) -> Option<u64> {
        self.measured.map(|measured| measured.used)
    }

    /// How long until the next look.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Something happened in the pane: the next look need not wait as long as for an idle one.
    pub fn stir(&mut self) {
        self.interval = self.interval.min(SOON);
    }

    /// A look found that so much has been written in the pane's life, as far as that can be told,
    /// `waited` after the look before. Whether to measure now.
    pub fn look(&mut self, written: Option<u64>, waited: Duration) -> bool {
        self.since_measured = self.since_measured.saturating_add(waited);
        let before = std::mem::replace(&mut self.written, written);
        let Some(Measured { used, written: then, took }) = self.measured else { return true };
        let (Some(written), Some(then)) = (written, then) else {
            // Nobody can tell: measured as often as a busy pane that is far from its limit.
            self.interval = self.pace(used, took);
            return self.since_measured >= AT_LEAST.min(self.interval);
        };
        if before == Some(written) {
            self.interval = (self.interval * 2).min(RARELY);
            // What was written before that look may not have been worth a measurement then.
            return written > then && self.since_measured >= AT_LEAST;
        }
        self.interval = self.pace(used, took);
        let at_most = used.saturating_add(written.saturating_sub(then));
        let rested = self.since_measured >= took * PART;
        let could_be_near = at_most > self.limit / 2;
        rested && could_be_near || self.since_measured >= AT_LEAST
    }

    /// A measurement found so much, and took so long. What is new about it, if anything is.
    pub fn measure(&mut self, used: u64, took: Duration) -> Option<Level> {
        self.measured = Some(Measured { used, written: self.written, took });
        self.since_measured = Duration::ZERO;
        self.interval = self.pace(used, took);
        let level = Level::of(used, self.limit);
        let before = std::mem::replace(&mut self.level, level);
        (level > before).then_some(level)
    }

    /// The time to the next look at a pane that writes.
    fn pace(&self, used: u64, took: Duration) -> Duration {
        let wish = if used >= self.limit / 2 { NEAR } else { SOON };
        wish.max(took * PART).min(AT_LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const QUICK: Duration = Duration::from_millis(1);

    fn measured(used: u64) -> Gauge {
        let mut gauge = Gauge::new(GIB);
        assert!(gauge.look(Some(0), SOON), "nothing is known yet");
        gauge.measure(used, QUICK);
        gauge
    }

    #[test]
    fn an_idle_pane_is_looked_at_ever_more_rarely_and_never_measured() {
        let mut gauge = measured(5);

        let mut waits = Vec::new();
        for _ in 0..9 {
            waits.push(gauge.interval().as_secs());
            assert!(!gauge.look(Some(0), gauge.interval()));
        }

        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn what_cannot_come_near_the_limit_is_not_measured_at_once() {
        let mut gauge = measured(GIB / 10);

        assert!(!gauge.look(Some(GIB / 10), SOON));
        assert!(gauge.look(Some(GIB / 2), SOON));
    }

    #[test]
    fn a_pane_that_goes_on_writing_little_is_measured_now_and_then() {
        let mut gauge = measured(5);

        let measured = (1..=60).filter(|second| {
            let due = gauge.look(Some(second * 10), SOON);
            if due {
                gauge.measure(5, QUICK);
            }
            due
        });

        assert_eq!(measured.collect::<Vec<_>>(), [30, 60]);
    }

    #[test]
    fn near_the_limit_looks_are_frequent_unless_measuring_is_slow() {
        let mut gauge = measured(GIB / 2);
        assert_eq!(gauge.interval(), NEAR);

        gauge.measure(GIB / 2, Duration::from_millis(500));
        assert_eq!(gauge.interval(), Duration::from_secs(10));
        assert!(!gauge.look(Some(GIB), Duration::from_secs(9)));
        assert!(gauge.look(Some(GIB + 1), Duration::from_secs(2)));
    }

    #[test]
    fn every_level_is_told_once_until_there_is_room_again() {
        let mut gauge = Gauge::new(100);
        let told =
            [10, 79, 80, 90, 100, 101, 200, 50, 85, 300].map(|used| gauge.measure(used, QUICK));

        let (near, over) = (Some(Level::Near), Some(Level::Over));
        assert_eq!(told, [None, None, near, None, None, over, None, None, near, over]);
    }

    #[test]
    fn a_larger_limit_is_a_new_one() {
        let mut gauge = Gauge::new(100);
        assert_eq!(gauge.measure(200, QUICK), Some(Level::Over));

        let mut gauge = gauge.with_limit(220);

        assert_eq!(gauge.measure(200, QUICK), Some(Level::Near));
        assert_eq!(gauge.measure(230, QUICK), Some(Level::Over));
    }

    #[test]
    fn where_nobody_can_tell_what_was_written_it_is_measured_regularly() {
        let mut gauge = Gauge::new(GIB);
        assert!(gauge.look(None, SOON));
        gauge.measure(5, QUICK);

        assert!(gauge.look(None, SOON));
    }
}
