//! Amounts of bytes: `512M`, `1G`, `1536K`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The units, largest first.
const UNITS: [(char, u64); 4] = [('T', 1 << 40), ('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)];

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Amount(pub u64);

/// A text that is not a valid amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAmount {
    /// Not a number and a unit.
    #[error("{0:?} is not an amount: write a whole number and one of K, M, G, T")]
    Form(String),
    /// The number of bytes overflows.
    #[error("{0:?} is too large")]
    TooMuch(String),
    /// The amount is below the minimum.
    #[error("{found:?} is less than {least}")]
    TooLittle {
        /// The text.
        found: String,
        /// The minimum.
        least: Amount,
    },
}

impl Amount {
    /// Parses an amount of at least `least`.
    ///
    /// # Errors
    ///
    /// [`InvalidAmount`].
    pub fn at_least(text: &str, least: Self) -> Result<Self, InvalidAmount> {
        let amount: Self = text.parse()?;
        if amount < least {
            return Err(InvalidAmount::TooLittle { found: text.to_owned(), least });
        }
        Ok(amount)
    }

    /// Formats the amount with at most one decimal digit, rounded up.
    #[must_use]
    pub fn about(self) -> String {
        let Some((unit, size)) = UNITS.iter().find(|(_, size)| self.0 >= *size) else {
            return self.0.to_string();
        };
        // Saturating: the last digit of such a number does not matter.
        let tenths = self.0.saturating_mul(10).div_ceil(*size);
        match tenths % 10 {
            0 => format!("{}{unit}", tenths / 10),
            rest => format!("{}.{rest}{unit}", tenths / 10),
        }
    }
}

/// Formats the amount in the largest unit that needs no fraction; [`FromStr`] reads it back.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, size): &&(char, u64)| self.0 > 0 && self.0.is_multiple_of(*size);
        match UNITS.iter().find(fits) {
            Some((unit, size)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Amount {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || InvalidAmount::Form(text.to_owned());
        // `1G`, `1GB` and `1GiB` mean the same.
        let short = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
        let unit = short.chars().last().map(|last| last.to_ascii_uppercase());
        let unit = UNITS.iter().find(|(letter, _)| Some(*letter) == unit);
        let (number, size) = match unit {
            Some((_, size)) => (&short[..short.len() - 1], *size),
            None => (short, 1),
        };
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(form());
        }
        let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(size));
        total.map(Self).ok_or_else(|| InvalidAmount::TooMuch(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_parses_a_number_and_a_unit() {
        let cases = [
            ("1G", Some(1 << 30)),
            ("1GiB", Some(1 << 30)),
            ("512m", Some(512 << 20)),
            ("3KB", Some(3 << 10)),
            ("2T", Some(2 << 40)),
            ("1234", Some(1234)),
            ("0", Some(0)),
            ("", None),
            ("G", None),
            ("1.5G", None),
            ("-1G", None),
            ("+1G", None),
            ("1 G", None),
            ("1GG", None),
            ("ä", None),
            ("99999999999999999999", None),
            ("18446744073709551615T", None),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse().ok().map(|Amount(bytes)| bytes), expected, "{text:?}");
        }
    }

    #[test]
    fn amount_round_trips() {
        for bytes in [0, 1, 1023, 1024, 1 << 20, (1 << 30) + 1, 3 << 40, u64::MAX] {
            assert_eq!(Amount(bytes).to_string().parse(), Ok(Amount(bytes)));
        }
    }

    #[test]
    fn about_shows_one_decimal_digit() {
        let cases =
            [(0, "0"), (1023, "1023"), (1536, "1.5K"), (1 << 30, "1G"), (880 << 20, "880M")];
        for (bytes, text) in cases {
            assert_eq!(Amount(bytes).about(), text);
        }
    }
}
