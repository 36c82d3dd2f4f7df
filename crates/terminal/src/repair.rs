//! Repair of grid states that no output can reproduce.
//!
//! Overwriting, shifting and resizing leave inconsistent cells in the emulator's grid: halves of
//! wide characters, wrap flags in the middle of a row. They look like blanks. A snapshot cannot
//! reproduce them, so taking one first removes them from the original grid. Original and copy are
//! then equal, and stay equal after further output.

use alacritty_terminal::grid::{Dimensions as _, Grid};
use alacritty_terminal::term::cell::{Cell, Flags};

use crate::coordinates::line_at;

const MARKS: Flags = Flags::WRAPLINE
    .union(Flags::WIDE_CHAR)
    .union(Flags::WIDE_CHAR_SPACER)
    .union(Flags::LEADING_WIDE_CHAR_SPACER);

/// Repairs the visible rows of a grid.
pub(crate) fn repair(grid: &mut Grid<Cell>) {
    let rows = grid.screen_lines();
    let columns = grid.columns();
    for row in 0..rows {
        let line = line_at(row);
        let is_marked = |column: usize| {
            let flags = grid[line][alacritty_terminal::index::Column(column)].flags;
            flags.intersects(MARKS)
        };
        if !(0..columns).any(is_marked) {
            continue;
        }
        // With two columns there is no room to draw the wrap of the last row.
        let may_wrap = row + 1 < rows || columns > 2;
        repair_row(&mut grid[line][..], may_wrap);
    }
}

fn repair_row(cells: &mut [Cell], may_wrap: bool) {
    let last = cells.len() - 1;
    for column in 0..=last {
        let flags = cells[column].flags;
        if !flags.intersects(MARKS) {
            continue;
        }
        if flags.contains(Flags::WRAPLINE) && (column != last || !may_wrap) {
            cells[column].flags.remove(Flags::WRAPLINE);
        }
        if flags.contains(Flags::LEADING_WIDE_CHAR_SPACER) {
            repair_leading(&mut cells[column]);
        }
        if flags.contains(Flags::WIDE_CHAR) {
            let whole = column < last && cells[column + 1].flags.contains(Flags::WIDE_CHAR_SPACER);
            if !whole {
                cells[column].clear_wide();
            }
        }
        if flags.contains(Flags::WIDE_CHAR_SPACER) {
            let (before, rest) = cells.split_at_mut(column);
            match before.last() {
                Some(wide) if wide.flags.contains(Flags::WIDE_CHAR) => {
                    copy_style_to_spacer(&mut rest[0], wide);
                }
                _ => rest[0].flags.remove(Flags::WIDE_CHAR_SPACER),
            }
        }
    }
}

/// Ensures that a leading spacer is blank and in the last column of a wrapped row.
fn repair_leading(cell: &mut Cell) {
    if !cell.flags.contains(Flags::WRAPLINE) {
        cell.flags.remove(Flags::LEADING_WIDE_CHAR_SPACER);
        return;
    }
    cell.c = ' ';
    remove_combining(cell);
}

/// Copies the style of a wide character to its spacer.
fn copy_style_to_spacer(spacer: &mut Cell, wide: &Cell) {
    let kept = spacer.flags.intersection(Flags::WRAPLINE);
    let mut next = wide.clone();
    next.c = ' ';
    next.flags.remove(Flags::WIDE_CHAR | Flags::WRAPLINE);
    next.flags.insert(Flags::WIDE_CHAR_SPACER | kept);
    remove_combining(&mut next);
    *spacer = next;
}

/// Removes the combining characters of a cell.
fn remove_combining(cell: &mut Cell) {
    if cell.zerowidth().is_some_and(|combining| !combining.is_empty()) {
        let (underline, link) = (cell.underline_color(), cell.hyperlink());
        cell.extra = None;
        cell.set_underline_color(underline);
        cell.set_hyperlink(link);
    }
}
