//! When to measure the disk usage of a pane.
//!
//! A measurement walks all directories of the pane, so it is made only if it may show something new.
//! The number of bytes that the processes of a pane have written is cheap to query, and a pane cannot
//! have grown by more than that. Therefore, at each check:
//!
//! - nothing was written since the last check: no measurement unless the pane is over its limit and
//!   may have shrunk, and the interval doubles;
//! - even if everything written were new, the pane would be below half of its limit: no measurement;
//! - otherwise, measure. The closer the limit, the shorter the interval, but measurements never take
//!   more than a small part of the time.

use std::time::Duration;

/// The interval before the first check, and after something was written.
pub const SOON: Duration = Duration::from_secs(1);

/// The minimum interval between two measurements of a pane close to its limit.
const NEAR: Duration = Duration::from_millis(250);

/// The maximum interval between two checks of an idle pane.
pub const RARELY: Duration = Duration::from_secs(64);

/// The maximum interval between two measurements of a writing pane that is far from its limit, as
/// other processes may also write to its directories.
const AT_LEAST: Duration = Duration::from_secs(30);

/// The maximum part of the time that measurements may take.
const PART: u32 = 20;

/// A disk limit and the state of its measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    limit: u64,
    measured: Option<Measured>,
    written: Option<u64>,
    since_measured: Duration,
    interval: Duration,
    /// Whether nothing was written before the last check.
    idle: bool,
    level: Level,
}

/// The last measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    used: u64,
    /// The bytes written until then.
    written: Option<u64>,
    /// The duration of the measurement.
    took: Duration,
}

/// The fill level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Below four fifths.
    Fine,
    /// At least four fifths of the limit.
    Near,
    /// Over the limit.
    Over,
}

impl Level {
    /// Returns the level of a usage.
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
    /// Makes a gauge without a measurement.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            measured: None,
            written: None,
            since_measured: Duration::ZERO,
            interval: SOON,
            idle: false,
            level: Level::Fine,
        }
    }

    /// Returns the gauge with another limit. All levels can be reported again, and the next check
    /// measures if the pane may be near the limit, even if nothing was written.
    #[must_use]
    pub fn with_limit(self, limit: u64) -> Self {
        Self { limit, interval: SOON, level: Level::Fine, written: None, ..self }
    }

    /// Returns whether the pane was over its limit at the last measurement.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.level == Level::Over
    }

    /// Returns the limit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the usage at the last measurement.
    #[must_use]
    pub fn used(&self) -> Option<u64> {
        self.measured.map(|measured| measured.used)
    }

    /// Returns the time until the next check.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Shortens the interval of an idle pane, because there was activity in it.
    pub fn stir(&mut self) {
        self.interval = self.interval.min(SOON);
    }

    /// Performs a check, `waited` after the previous one, with the number of bytes ever written by
    /// the pane if known. Returns true if a measurement must be made now.
    pub fn look(&mut self, written: Option<u64>, waited: Duration) -> bool {
        self.since_measured = self.since_measured.saturating_add(waited);
        let before = std::mem::replace(&mut self.written, written);
        let Some(Measured { used, written: then, took }) = self.measured else { return true };
        let (Some(written), Some(then)) = (written, then) else {
            // Unknown: measure as often as a writing pane that is far from its limit.
            self.interval = self.pace(used, took);
            return self.since_measured >= AT_LEAST.min(self.interval);
        };
        let rested = self.since_measured >= took * PART;
        self.idle = before == Some(written);
        if self.idle {
            self.interval = (self.interval * 2).min(RARELY);
            // The bytes written before that check may not have been measured.
            let late = written > then && self.since_measured >= AT_LEAST;
            return late || self.is_over() && rested;
        }
        self.interval = self.pace(used, took);
        let at_most = used.saturating_add(written.saturating_sub(then));
        let could_be_near = at_most > self.limit / 2;
        rested && could_be_near || self.since_measured >= AT_LEAST
    }

    /// Records a measurement and its duration. Returns the level if it must be reported.
    pub fn measure(&mut self, used: u64, took: Duration) -> Option<Level> {
        self.measured = Some(Measured { used, written: self.written, took });
        self.since_measured = Duration::ZERO;
        if !self.idle {
            self.interval = self.pace(used, took);
        }
        let level = Level::of(used, self.limit);
        let before = std::mem::replace(&mut self.level, level);
        (level > before).then_some(level)
    }

    /// Returns the interval of a writing pane.
    fn pace(&self, used: u64, took: Duration) -> Duration {
        let interval = if used >= self.limit / 2 { NEAR } else { SOON };
        interval.max(took * PART).min(AT_LEAST)
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
    fn idle_pane_is_checked_less_often_and_never_measured() {
        let mut gauge = measured(5);

        let mut waits = Vec::new();
        for _ in 0..9 {
            waits.push(gauge.interval().as_secs());
            assert!(!gauge.look(Some(0), gauge.interval()));
        }

        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn pane_far_from_its_limit_is_not_measured() {
        let mut gauge = measured(GIB / 10);

        assert!(!gauge.look(Some(GIB / 10), SOON));
        assert!(gauge.look(Some(GIB / 2), SOON));
    }

    #[test]
    fn slowly_writing_pane_is_measured_occasionally() {
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
    fn pane_close_to_its_limit_is_checked_often_unless_measuring_is_slow() {
        let mut gauge = measured(GIB / 2);
        assert_eq!(gauge.interval(), NEAR);

        gauge.measure(GIB / 2, Duration::from_millis(500));
        assert_eq!(gauge.interval(), Duration::from_secs(10));
        assert!(!gauge.look(Some(GIB), Duration::from_secs(9)));
        assert!(gauge.look(Some(GIB + 1), Duration::from_secs(2)));
    }

    #[test]
    fn level_is_reported_once_until_usage_drops() {
        let mut gauge = Gauge::new(100);
        let reported =
            [10, 79, 80, 90, 100, 101, 200, 50, 85, 300].map(|used| gauge.measure(used, QUICK));

        let (near, over) = (Some(Level::Near), Some(Level::Over));
        assert_eq!(reported, [None, None, near, None, None, over, None, None, near, over]);
    }

    #[test]
    fn changed_limit_is_reported_again() {
        let mut gauge = Gauge::new(100);
        assert_eq!(gauge.measure(200, QUICK), Some(Level::Over));

        let mut gauge = gauge.with_limit(220);

        assert_eq!(gauge.measure(200, QUICK), Some(Level::Near));
        assert_eq!(gauge.measure(230, QUICK), Some(Level::Over));
    }

    #[test]
    fn lowered_limit_is_noticed_without_writes() {
        let mut gauge = measured(GIB / 10);
        assert!(!gauge.look(Some(0), SOON));

        let mut gauge = gauge.with_limit(GIB / 20);

        assert!(gauge.look(Some(0), SOON));
        assert_eq!(gauge.measure(GIB / 10, QUICK), Some(Level::Over));
    }

    #[test]
    fn idle_pane_over_its_limit_is_measured_at_growing_intervals() {
        let mut gauge = measured(GIB * 2);
        assert!(gauge.is_over());

        let mut waits = Vec::new();
        for _ in 0..9 {
            let wait = gauge.interval();
            waits.push(wait.as_millis());
            assert!(gauge.look(Some(0), wait));
            gauge.measure(GIB * 2, QUICK);
        }
        gauge.measure(5, QUICK);

        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000]);
        assert!(!gauge.is_over() && !gauge.look(Some(0), RARELY));
    }

    #[test]
    fn pane_with_unknown_writes_is_measured_regularly() {
        let mut gauge = Gauge::new(GIB);
        assert!(gauge.look(None, SOON));
        gauge.measure(5, QUICK);

        assert!(gauge.look(None, SOON));
    }
}
