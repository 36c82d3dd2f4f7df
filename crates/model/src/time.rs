//! Points in time.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 UTC.
///
/// The wall clock may jump, so timestamps are for display and for retention periods, where a jump
/// does no harm; they do not order events.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the days since the epoch and the milliseconds within the day.
    fn split(self) -> (i64, i64) {
        const DAY: i64 = 86_400_000;
        (self.0.div_euclid(DAY), self.0.rem_euclid(DAY))
    }
}

/// Formats the time as RFC 3339 with seconds, in UTC: `2026-11-15T20:58:54Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, millis) = self.split();
        let (year, month, day) = civil_from_days(days);
        let seconds = millis / 1000;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Returns the proleptic Gregorian date (year, month, day) of a day counted from 1970-01-01. Years
/// start in March, so that the leap day is the last day of a year; 400-year cycles are equal.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    const CYCLE: i64 = 146_097;
    let shifted = days + 719_468;
    let (cycle, day) = (shifted.div_euclid(CYCLE), shifted.rem_euclid(CYCLE));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (cycle * 400 + year + i64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_displays_as_utc_date() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_794_776_334_999, "2026-11-15T20:58:54Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ];
        for (millis, text) in cases {
            assert_eq!(Timestamp(millis).to_string(), text);
        }
    }
}
