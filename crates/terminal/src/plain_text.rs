//! The screen as text.

use alacritty_terminal::grid::{Dimensions as _, Grid};
use alacritty_terminal::index::Line;
use alacritty_terminal::term::cell::{Cell, Flags};

/// Cells that are part of a neighbouring wide character.
const SPACERS: Flags = Flags::WIDE_CHAR_SPACER.union(Flags::LEADING_WIDE_CHAR_SPACER);

/// Returns the number of lines in the history.
pub(crate) fn history_len(grid: &Grid<Cell>) -> usize {
    grid.history_size()
}

/// Returns the last `count` rows, one line each, without trailing blanks and trailing empty rows.
pub(crate) fn last_rows(grid: &Grid<Cell>, count: usize) -> String {
    let count = count.min(grid.total_lines());
    let bottom = grid.bottommost_line().0;
    let first = bottom + 1 - i32::try_from(count).unwrap_or(i32::MAX);
    let mut text = String::new();
    for line in first..=bottom {
        row(&grid[Line(line)][..], &mut text);
        text.push('\n');
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

fn row(cells: &[Cell], text: &mut String) {
    let begin = text.len();
    for cell in cells {
        if cell.flags.intersects(SPACERS) {
            continue;
        }
        text.push(if cell.c == '\t' { ' ' } else { cell.c });
        text.extend(cell.zerowidth().unwrap_or_default());
    }
    let length = text[begin..].trim_end_matches(' ').len();
    text.truncate(begin + length);
}
