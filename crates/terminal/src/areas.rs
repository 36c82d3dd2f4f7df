//! Operations on rectangles of cells: shifting, copying, filling, erasing, and checksums.

use alacritty_terminal::index::Line;
use alacritty_terminal::term::cell::{Cell, Flags};

use crate::coordinates::{line_at, row_index};
use crate::csi::Csi;
use crate::pen::PROTECTED;
use crate::screen::Screen;

/// Rows and columns of the screen, from `top` and `left` up to but not including `end` and `right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) top: usize,
    pub(crate) left: usize,
    pub(crate) end: usize,
    pub(crate) right: usize,
}

/// Which cells an erasure affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Erase {
    All,
    /// All except those protected by DECSCA.
    Unprotected,
}

/// Separates `cells` before `column`: a wide character on both sides becomes two blanks.
#[inline]
pub(crate) fn cut(cells: &mut [Cell], column: usize) {
    if column == 0 || column >= cells.len() {
        return;
    }
    if cells[column].flags.contains(Flags::WIDE_CHAR_SPACER) {
        cells[column - 1].clear_wide();
        cells[column].flags.remove(Flags::WIDE_CHAR_SPACER);
    }
}

impl Screen {
    /// Separates a row before `column`.
    #[inline]
    pub(crate) fn cut(&mut self, line: Line, column: usize) {
        if column > 0 && column < self.columns() {
            let at = alacritty_terminal::index::Column(column);
            if self.grid()[line][at].flags.contains(Flags::WIDE_CHAR_SPACER) {
                cut(&mut self.grid_mut()[line][..], column);
            }
        }
    }

    /// Returns the cell that erasing leaves.
    pub(crate) fn erased(&self) -> Cell {
        Cell::from(self.grid().cursor.template.bg)
    }

    /// Returns the area inside all margins.
    pub(crate) fn scroll_area(&self) -> Area {
        let ((top, end), (left, right)) = (self.margins, self.sides);
        Area { top, left, end, right }
    }

    /// Returns the rows of an area for writing, separated at its sides.
    fn edit(&mut self, area: Area, row: usize) -> &mut [Cell] {
        let cells = &mut self.grid_mut()[line_at(row)][..];
        cut(cells, area.left);
        cut(cells, area.right);
        &mut cells[area.left..area.right]
    }

    /// Moves the rows of an area up (`by` > 0) or down, and erases the rows that become free.
    pub(crate) fn shift_rows(&mut self, area: Area, by: isize) {
        let blank = self.erased();
        let count = by.unsigned_abs().min(area.end - area.top);
        let rows = area.end - area.top;
        for step in 0..rows {
            let (to, from) = if by > 0 {
                (area.top + step, area.top + step + count)
            } else {
                (area.end - 1 - step, (area.end - 1 - step).wrapping_sub(count))
            };
            let moved = if step + count < rows {
                self.edit(area, from).to_vec()
            } else {
                vec![blank.clone(); area.right - area.left]
            };
            self.edit(area, to).clone_from_slice(&moved);
        }
    }

    /// Moves the columns of an area to the left (`by` > 0) or right, and erases those that become
    /// free.
    pub(crate) fn shift_columns(&mut self, area: Area, by: isize) {
        let blank = self.erased();
        let width = area.right - area.left;
        let count = by.unsigned_abs().min(width);
        for row in area.top..area.end {
            let cells = self.edit(area, row);
            cut(cells, if by > 0 { count } else { width - count });
            if by > 0 {
                cells.rotate_left(count);
                cells[width - count..].fill(blank.clone());
            } else {
                cells.rotate_right(count);
                cells[..count].fill(blank.clone());
            }
        }
    }

    /// Erases an area.
    pub(crate) fn erase(&mut self, area: Area, what: Erase) {
        let blank = self.erased();
        for row in area.top..area.end {
            for cell in self.edit(area, row) {
                if what == Erase::All || !cell.flags.contains(PROTECTED) {
                    *cell = blank.clone();
                }
            }
        }
    }

    /// Fills an area with a character in the current pen (DECFRA).
    pub(crate) fn fill(&mut self, area: Area, c: char) {
        let cell = Cell { c, ..self.grid().cursor.template.clone() };
        for row in area.top..area.end {
            self.edit(area, row).fill(cell.clone());
        }
    }

    /// Copies an area so that its upper left corner is at `top`, `left` (DECCRA).
    pub(crate) fn copy(&mut self, area: Area, top: usize, left: usize) {
        let (rows, columns) = (self.rows(), self.columns());
        let copies: Vec<Vec<Cell>> =
            (area.top..area.end).map(|row| self.edit(area, row).to_vec()).collect();
        for (row, cells) in (top..rows).zip(copies) {
            let right = (left + cells.len()).min(columns);
            let target = Area { top: row, left, end: row + 1, right };
            let width = right - left;
            let into = self.edit(target, row);
            into.clone_from_slice(&cells[..width]);
            if into[width - 1].flags.contains(Flags::WIDE_CHAR) {
                into[width - 1].clear_wide();
            }
        }
    }

    /// Erases the unprotected cells of a part of the screen (DECSED) or of the row (DECSEL).
    pub(crate) fn erase_selectively(&mut self, part: u16, only_row: bool) {
        let point = self.grid().cursor.point;
        let (row, column) = (row_index(point.line), point.column.0);
        let (rows, columns) = (self.rows(), self.columns());
        let (left, right) = match part {
            0 => (column, columns),
            1 => (0, column + 1),
            2 => (0, columns),
            _ => return,
        };
        let whole = |top, end| Area { top, left: 0, end, right: columns };
        self.erase(Area { top: row, left, end: row + 1, right }, Erase::Unprotected);
        if !only_row {
            if part != 0 {
                self.erase(whole(0, row), Erase::Unprotected);
            }
            if part != 1 {
                self.erase(whole(row + 1, rows), Erase::Unprotected);
            }
        }
    }

    /// Returns the rectangle of four parameters; `None` if it is empty. Positions count from the
    /// margins in origin mode.
    pub(crate) fn rectangle(&self, parameters: [u16; 4]) -> Option<Area> {
        let frame = self.addressable();
        let [top, left, bottom, right] = parameters.map(usize::from);
        let end_or = |value: usize, default: usize| if value == 0 { default } else { value };
        let area = Area {
            top: frame.top + top.max(1) - 1,
            left: frame.left + left.max(1) - 1,
            end: (frame.top + end_or(bottom, frame.end)).min(frame.end),
            right: (frame.left + end_or(right, frame.right)).min(frame.right),
        };
        (area.top < area.end && area.left < area.right).then_some(area)
    }

    /// Returns the checksum of an area as xterm computes it (DECRQCRA): the negated sum of the
    /// characters and attributes, without trailing blanks.
    pub(crate) fn checksum(&self, area: Area) -> u16 {
        let mut sum = 0u16;
        for row in area.top..area.end {
            let mut blanks = 0u16;
            for (at, cell) in
                self.grid()[line_at(row)][..][area.left..area.right].iter().enumerate()
            {
                let value = cell_value(cell);
                if at > 0 && value == u16::from(b' ') {
                    blanks = blanks.wrapping_add(value);
                } else {
                    sum = sum.wrapping_add(blanks).wrapping_add(value);
                    blanks = 0;
                }
            }
        }
        sum.wrapping_neg()
    }
}

fn cell_value(cell: &Cell) -> u16 {
    const ATTRIBUTES: [(Flags, u16); 4] =
        [(PROTECTED, 0x04), (Flags::HIDDEN, 0x08), (Flags::INVERSE, 0x20), (Flags::BOLD, 0x80)];
    let low = |c: char| u16::try_from(u32::from(c) & 0xffff).unwrap_or(0);
    let mut value = low(if cell.c == '\t' { ' ' } else { cell.c });
    for &mark in cell.zerowidth().unwrap_or_default() {
        value = value.wrapping_add(low(mark));
    }
    for (flag, weight) in ATTRIBUTES {
        if cell.flags.contains(flag) {
            value = value.wrapping_add(weight);
        }
    }
    if cell.flags.intersects(Flags::ALL_UNDERLINES) {
        value = value.wrapping_add(0x10);
    }
    value
}

/// Returns the first `N` parameters; omitted ones are 0.
pub(crate) fn parameters<const N: usize>(csi: &Csi<'_>) -> [u16; N] {
    let mut values = [0; N];
    for (value, given) in values.iter_mut().zip(csi.params()) {
        *value = given;
    }
    values
}
