//! The size of a screen, in cells.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Columns and rows of a pane.
///
/// # Invariant
///
/// Both lie within [`Size::MIN`] and [`Size::MAX`]. The lower bound keeps the emulator away from
/// screens on which wide characters and scroll regions have no meaning; the upper bound keeps one
/// hostile request from costing gigabytes of grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawSize")]
pub struct Size {
    cols: u16,
    rows: u16,
}

#[derive(Deserialize)]
struct RawSize {
    cols: u16,
    rows: u16,
}

/// Why a text or a pair of numbers is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSize {
    /// Not of the form `COLSxROWS`.
    #[error("a size is written COLSxROWS, as in 80x24, not {0:?}")]
    Form(String),
    /// Outside of what a pane may be.
    #[error("a pane has 2 to 1000 columns and rows, not {cols}x{rows}")]
    Range {
        /// The columns asked for.
        cols: u16,
        /// The rows asked for.
        rows: u16,
    },
}

impl Size {
    /// The fewest columns, and the fewest rows.
    pub const MIN: u16 = 2;
    /// The most columns, and the most rows.
    pub const MAX: u16 = 1000;
    /// What a pane gets when nobody says anything else.
    pub const DEFAULT: Self = Self { cols: 80, rows: 24 };

    /// A size of exactly these dimensions.
    ///
    /// # Errors
    ///
    /// [`InvalidSize::Range`] outside of the bounds.
    pub fn new(cols: u16, rows: u16) -> Result<Self, InvalidSize> {
        let legal = Self::MIN..=Self::MAX;
        if legal.contains(&cols) && legal.contains(&rows) {
            Ok(Self { cols, rows })
        } else {
            Err(InvalidSize::Range { cols, rows })
        }
    }

    /// The nearest legal size, for numbers that a terminal reported and nobody chose.
    #[must_use]
    pub fn clamped(cols: u16, rows: u16) -> Self {
        Self { cols: cols.clamp(Self::MIN, Self::MAX), rows: rows.clamp(Self::MIN, Self::MAX) }
    }

    /// The columns.
    #[must_use]
    pub fn cols(self) -> u16 {
        self.cols
    }

    /// The rows.
    #[must_use]
    pub fn rows(self) -> u16 {
        self.rows
    }

    /// The largest size that fits into both.
    #[must_use]
    pub fn smallest(self, other: Self) -> Self {
        Self { cols: self.cols.min(other.cols), rows: self.rows.min(other.rows) }
    }
}

impl Default for Size {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.cols, self.rows)
    }
}

impl FromStr for Size {
    type Err = InvalidSize;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || InvalidSize::Form(text.to_owned());
        let (cols, rows) = text.split_once('x').ok_or_else(form)?;
        Self::new(cols.parse().map_err(|_| form())?, rows.parse().map_err(|_| form())?)
    }
}

impl TryFrom<RawSize> for Size {
    type Error = InvalidSize;

    fn try_from(raw: RawSize) -> Result<Self, Self::Error> {
        Self::new(raw.cols, raw.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_from_its_text_and_nothing_else() {
        let cases = [
            ("80x24", Ok(Size { cols: 80, rows: 24 })),
            ("80", Err(InvalidSize::Form("80".to_owned()))),
            ("80X24", Err(InvalidSize::Form("80X24".to_owned()))),
            ("-1x24", Err(InvalidSize::Form("-1x24".to_owned()))),
            ("1x24", Err(InvalidSize::Range { cols: 1, rows: 24 })),
            ("80x5000", Err(InvalidSize::Range { cols: 80, rows: 5000 })),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Size>(), expected, "input: {text:?}");
        }
    }
}
