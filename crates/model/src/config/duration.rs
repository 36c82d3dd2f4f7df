//! Lengths of time as the user writes them: `45s`, `30m`, `12h`, `7d`.

use std::time::Duration;

/// The units, the longest first.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

/// The longest that can be asked for. Whoever writes more means "for ever", and adding it to a
/// point in time must not overflow.
pub const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

/// Why a text is not a length of time that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    /// Not a number and a unit.
    #[error("{0:?} is not a duration: write a whole number and one of s, m, h, d")]
    Form(String),
    /// Shorter or longer than makes sense where it stands.
    #[error("{found:?} is not between {least} and {}", text(LONGEST))]
    Range {
        /// What was written.
        found: String,
        /// The least that is possible.
        least: String,
    },
}

/// Reads a length of time that is at least `least`.
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

    // A number that does not fit is a number all the same, and too large.
    let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    let duration = Duration::from_secs(total.ok_or_else(range)?);
    if (least..=LONGEST).contains(&duration) { Ok(duration) } else { Err(range()) }
}

/// The same as [`parse`] reads, in the largest unit that takes no fraction.
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
    fn a_duration_is_a_whole_number_and_a_unit() {
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
    fn what_is_written_is_read_back() {
        for (seconds, expected) in
            [(0, "0s"), (59, "59s"), (90, "90s"), (3600, "1h"), (86_400, "1d"), (90_000, "25h")]
        {
            let duration = Duration::from_secs(seconds);
            assert_eq!(text(duration), expected);
            assert_eq!(parse(expected, Duration::ZERO), Ok(duration));
        }
    }
}
