//! Screen sizes in cells.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The size of a pane.
///
/// # Invariant
///
/// Both dimensions lie within [`Size::MIN`] and [`Size::MAX`]. The lower bound avoids screens on
/// which wide characters and scroll regions have no meaning; the upper bound limits the memory
/// that a request can make the emulator allocate.
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

/// A text or a pair of numbers that is not a valid size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSize {
    /// Not of the form `COLSxROWS`.
    #[error("a size is written COLSxROWS, as in 80x24, not {0:?}")]
    Form(String),
    /// Out of range.
    #[error("a pane has 2 to 1000 columns and rows, not {cols}x{rows}")]
    Range {
        /// The requested columns.
        cols: u16,
        /// The requested rows.
        rows: u16,
    },
}

impl Size {
    /// The minimum number of columns and of rows.
    pub const MIN: u16 = 2;
    /// The maximum number of columns and of rows.
    pub const MAX: u16 = 1000;
    /// The default size.
    pub const DEFAULT: Self = Self { cols: 80, rows: 24 };

    /// Makes a size of exactly these dimensions.
    ///
    /// # Errors
    ///
    /// [`InvalidSize::Range`] if a dimension is out of range.
    pub fn new(cols: u16, rows: u16) -> Result<Self, InvalidSize> {
        let legal = Self::MIN..=Self::MAX;
        if legal.contains(&cols) && legal.contains(&rows) {
            Ok(Self { cols, rows })
        } else {
            Err(InvalidSize::Range { cols, rows })
        }
    }

    /// Returns the nearest valid size, for dimensions that a terminal reported.
    #[must_use]
    pub fn clamped(cols: u16, rows: u16) -> Self {
        Self { cols: cols.clamp(Self::MIN, Self::MAX), rows: rows.clamp(Self::MIN, Self::MAX) }
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn cols(self) -> u16 {
        self.cols
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(self) -> u16 {
        self.rows
    }

    /// Returns the largest size that fits into both.
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
    fn size_parses_only_columns_x_rows_within_range() {
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
