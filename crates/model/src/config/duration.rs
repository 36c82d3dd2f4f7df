//! Durations in configuration files: `45s`, `30m`, `12h`, `7d`.

use std::time::Duration;

/// The units, longest first.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

/// The maximum duration, so that adding it to a point in time cannot overflow.
pub const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

/// A text that is not a valid duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    /// Not a number and a unit.
    #[error("{0:?} is not a duration: write a whole number and one of s, m, h, d")]
    Form(String),
    /// Out of range.
    #[error("{found:?} is not between {least} and {}", text(LONGEST))]
    Range {
        /// The text.
        found: String,
        /// The minimum.
        least: String,
    },
}

/// Parses a duration of at least `least`.
///
/// # Errors
///
/// [`InvalidDuration`].
pub fn parse(text: &str, least: Duration) -> Result<Duration, InvalidDuration> {
    let form = || InvalidDuration::Form(text.to_owned());
    let range = || InvalidDuration::Range { found: text.to_owned(), least: self::text(least) };

    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(form)?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = UNITS.iter().find(|(letter, _)| unit.chars().eq([*letter])).map(|(_, s)| *s);
    let seconds = seconds.filter(|_| is_number).ok_or_else(form)?;

    // A number that overflows is well-formed, but out of range.
    let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    let duration = Duration::from_secs(total.ok_or_else(range)?);
    if (least..=LONGEST).contains(&duration) { Ok(duration) } else { Err(range()) }
}

/// Formats a duration in the largest unit that needs no fraction; [`parse`] reads it back.
#[must_use]
pub fn text(duration: Duration) -> String {
    let total = duration.as_secs();
    let fits = |(_, seconds): &&(char, u64)| total > 0 && total.is_multiple_of(*seconds);
    let (unit, seconds) = UNITS.iter().find(fits).unwrap_or(&('s', 1));
    format!("{}{unit}", total / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_a_whole_number_and_a_unit() {
        let form = |text: &str| Err(InvalidDuration::Form(text.to_owned()));
        let range = |text: &str| {
            Err(InvalidDuration::Range { found: text.to_owned(), least: "1s".to_owned() })
        };
        let cases = [
            ("45s", Ok(45)),
            ("30m", Ok(1800)),
            ("12h", Ok(43_200)),
            ("7d", Ok(604_800)),
            ("007d", Ok(604_800)),
            ("3650d", Ok(315_360_000)),
            ("", form("")),
            ("7", form("7")),
            ("d", form("d")),
            ("-1s", form("-1s")),
            ("+1s", form("+1s")),
            ("1.5h", form("1.5h")),
            ("1h30m", form("1h30m")),
            ("7 d", form("7 d")),
            ("7é", form("7é")),
            ("1w", form("1w")),
            ("0s", range("0s")),
            ("3651d", range("3651d")),
            ("99999999999999999999s", range("99999999999999999999s")),
            ("18446744073709551615d", range("18446744073709551615d")),
        ];
        for (text, expected) in cases {
            let parsed = parse(text, Duration::from_secs(1));
            assert_eq!(parsed, expected.map(Duration::from_secs), "input: {text:?}");
        }
    }

    #[test]
    fn text_is_parsed_back() {
        for (seconds, expected) in
            [(0, "0s"), (59, "59s"), (90, "90s"), (3600, "1h"), (86_400, "1d"), (90_000, "25h")]
        {
            let duration = Duration::from_secs(seconds);
            assert_eq!(text(duration), expected);
            assert_eq!(parse(expected, Duration::ZERO), Ok(duration));
        }
    }
}
