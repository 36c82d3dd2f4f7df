//! Conversion between screen rows and the emulator's line numbers.

use alacritty_terminal::index::Line;

/// Returns the emulator's line for a row of the screen.
pub(crate) fn line_at(row: usize) -> Line {
    Line(i32::try_from(row).unwrap_or(i32::MAX))
}

/// Returns the row of the screen for an emulator line; 0 for a line in the history.
pub(crate) fn row_index(line: Line) -> usize {
    usize::try_from(line.0).unwrap_or(0)
}
