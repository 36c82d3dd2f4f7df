//! Left and right margins (DECLRMM), and cursor motion that depends on them.
//!
//! The emulator knows only the top and bottom margins. While the side margins are narrower than the
//! screen, everything that prints, scrolls or moves relative to them is done here; otherwise by the
//! emulator, which is faster.

use alacritty_terminal::index::Column;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::Handler as _;
use unicode_width::UnicodeWidthChar as _;

use crate::areas::{Area, cut};
use crate::clusters::may_join;
use crate::coordinates::{line_at, row_index};
use crate::screen::Screen;
use crate::tracked::{REVERSE_WRAP, SIDE_MARGINS};

impl Screen {
    /// Returns whether the side margins are narrower than the screen.
    #[inline]
    pub(crate) fn has_sides(&self) -> bool {
        self.narrowed
    }

    pub(crate) fn set_sides(&mut self, left: usize, right: usize) {
        self.sides = (left, right);
        self.narrowed = self.sides != (0, self.columns());
    }

    /// Returns the column before which printing and moving right from `column` stop.
    pub(crate) fn right_limit(&self, column: usize) -> usize {
        if column < self.sides.1 { self.sides.1 } else { self.columns() }
    }

    /// Returns the column at which moving left from `column` stops.
    fn left_limit(&self, column: usize) -> usize {
        if column >= self.sides.0 { self.sides.0 } else { 0 }
    }

    /// Returns whether the cursor is between the side margins.
    pub(crate) fn is_between_sides(&self) -> bool {
        let column = self.grid().cursor.point.column.0;
        (self.sides.0..self.sides.1).contains(&column)
    }

    /// Returns whether the cursor is inside all margins.
    pub(crate) fn is_inside_margins(&self) -> bool {
        let row = row_index(self.grid().cursor.point.line);
        self.is_between_sides() && (self.margins.0..self.margins.1).contains(&row)
    }

    /// Handles `CSI s`: sets the side margins if mode 69 is set, and saves the cursor otherwise.
    pub(crate) fn set_side_margins(&mut self, left: u16, right: u16) {
        if !self.tracked.contains(SIDE_MARGINS) {
            self.save_cursor_position();
            return;
        }
        let columns = self.columns();
        let left = usize::from(left.max(1)) - 1;
        let right = if right == 0 { columns } else { usize::from(right).min(columns) };
        if left + 1 < right {
            self.set_sides(left, right);
            self.goto(0, 0);
        }
    }

    /// Sets or resets mode 69; resetting it removes the side margins.
    pub(crate) fn allow_side_margins(&mut self, on: bool) {
        self.tracked.set(SIDE_MARGINS, on);
        if !on {
            self.set_sides(0, self.columns());
            self.settle_cursor();
        }
    }

    /// Moves the cursor left, and with reverse wrap to the rows above.
    pub(crate) fn move_left(&mut self, count: usize) {
        let wraps =
            self.tracked.contains(REVERSE_WRAP) && self.mode().contains(TermMode::LINE_WRAP);
        let cursor = &self.grid().cursor;
        let (mut row, mut column) = (row_index(cursor.point.line), cursor.point.column.0);
        let mut left = count;
        if wraps && cursor.input_needs_wrap {
            left -= 1;
        }
        let top = if row >= self.margins.0 { self.margins.0 } else { 0 };
        loop {
            let limit = self.left_limit(column);
            let step = left.min(column - limit);
            column -= step;
            left -= step;
            if left == 0 || !wraps || row == top {
                break;
            }
            row -= 1;
            left -= 1;
            column = self.right_limit(limit) - 1;
        }
        let cursor = &mut self.grid_mut().cursor;
        cursor.point.line = line_at(row);
        cursor.point.column = Column(column);
        cursor.input_needs_wrap = false;
    }

    pub(crate) fn move_right(&mut self, count: usize) {
        let column = self.grid().cursor.point.column.0;
        let limit = self.right_limit(column);
        let cursor = &mut self.grid_mut().cursor;
        cursor.point.column = Column((column + count).min(limit - 1));
        cursor.input_needs_wrap = false;
    }

    /// Moves the cursor to the left margin.
    pub(crate) fn return_to_margin(&mut self) {
        let column = self.grid().cursor.point.column.0;
        let limit = self.left_limit(column);
        let cursor = &mut self.grid_mut().cursor;
        cursor.point.column = Column(limit);
        cursor.input_needs_wrap = false;
    }

    /// Moves the cursor down (`by` = 1) or up one row, or scrolls at the margin.
    pub(crate) fn index(&mut self, by: isize) {
        let row = row_index(self.grid().cursor.point.line);
        let edge = if by > 0 { self.margins.1 - 1 } else { self.margins.0 };
        if row == edge {
            if self.is_between_sides() {
                self.shift_rows(self.scroll_area(), by);
            }
            self.grid_mut().cursor.input_needs_wrap = false;
        } else {
            self.move_to_row(row.saturating_add_signed(by).min(self.rows() - 1));
        }
    }

    /// Shifts the rows from the cursor to the bottom margin: deletes (positive) or inserts rows.
    pub(crate) fn shift_rows_at_cursor(&mut self, by: isize) {
        if self.is_inside_margins() {
            let top = row_index(self.grid().cursor.point.line);
            self.shift_rows(Area { top, ..self.scroll_area() }, by);
        }
    }

    /// Shifts the cells from the cursor to the right margin: deletes (positive) or inserts cells.
    pub(crate) fn shift_cells_at_cursor(&mut self, by: isize) {
        if self.is_between_sides() {
            let point = self.grid().cursor.point;
            let (top, left) = (row_index(point.line), point.column.0);
            let area = Area { top, left, end: top + 1, right: self.sides.1 };
            self.shift_columns(area, by);
        }
    }

    /// Moves to the next tab stop, at most to the right margin.
    pub(crate) fn tab_between_sides(&mut self, count: u16) {
        let mut column = self.grid().cursor.point.column.0;
        let last = self.right_limit(column) - 1;
        for _ in 0..count {
            let next = (column + 1..last).find(|&at| self.tabs[at]);
            column = next.unwrap_or(last.max(column));
        }
        let cursor = &mut self.grid_mut().cursor;
        cursor.point.column = Column(column);
    }

    /// Writes a character by the general rules.
    pub(crate) fn write_any(&mut self, c: char) {
        if may_join(c) && self.join(c) {
            return;
        }
        if self.narrowed {
            return self.input_between_sides(c);
        }
        if self.mode().contains(TermMode::INSERT) && !self.grid().cursor.input_needs_wrap {
            let point = self.grid().cursor.point;
            let width = c.width().unwrap_or(0);
            if width > 0 {
                self.cut(point.line, point.column.0);
                self.cut(point.line, self.columns() - width);
            }
        }
        self.term.input(c);
    }

    /// Returns the row and column of the cursor as reported, from 0.
    pub(crate) fn reported_position(&self) -> (usize, usize) {
        let (point, area) = (self.grid().cursor.point, self.addressable());
        (row_index(point.line) - area.top, point.column.0 - area.left)
    }

    /// Prints a character between the side margins.
    pub(crate) fn input_between_sides(&mut self, c: char) {
        let Some(width) = c.width() else { return };
        if width == 0 {
            self.term.input(c);
            return;
        }
        let wraps = self.mode().contains(TermMode::LINE_WRAP);
        if self.grid().cursor.input_needs_wrap && wraps {
            self.wrap_to_margin();
        }
        let mut column = self.grid().cursor.point.column.0;
        let mut limit = self.right_limit(column);
        if column + width > limit {
            if !wraps {
                self.grid_mut().cursor.input_needs_wrap = true;
                return;
            }
            self.wrap_to_margin();
            column = self.grid().cursor.point.column.0;
            limit = self.right_limit(column);
        }
        if column + width > limit {
            return;
        }
        if self.mode().contains(TermMode::INSERT) {
            self.shift_cells_at_cursor(-(isize::try_from(width).unwrap_or(1)));
        }
        let charset = self.active_charset;
        let cursor = &self.grid().cursor;
        let line = cursor.point.line;
        let shown = cursor.charsets[charset].map(c);
        let mut cell = Cell { c: shown, ..cursor.template.clone() };
        let row = &mut self.grid_mut()[line][..];
        cut(row, column);
        cut(row, column + width);
        if width == 2 {
            let mut spacer = cell.clone();
            spacer.c = ' ';
            spacer.flags.insert(Flags::WIDE_CHAR_SPACER);
            row[column + 1] = spacer;
            cell.flags.insert(Flags::WIDE_CHAR);
        }
        row[column] = cell;
        let next = column + width;
        let cursor = &mut self.grid_mut().cursor;
        cursor.point.column = Column(next.min(limit - 1));
        cursor.input_needs_wrap = next >= limit;
    }

    /// Continues in the next row, at the left margin if the cursor is inside the side margins.
    fn wrap_to_margin(&mut self) {
        self.index(1);
        self.return_to_margin();
    }
}
