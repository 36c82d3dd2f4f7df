//! Grapheme clusters: emoji sequences that occupy the columns of one character (mode 2027).
//!
//! The emulator gives every character its own columns. Here a character joins the cell before the
//! cursor if it continues an emoji sequence and the sequence stays as wide as before: after a
//! zero-width joiner, as a skin tone, or as a variation selector, which may widen its base. Whether it
//! joins depends only on the cells, so a snapshot need not carry additional state.

use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::areas::cut;
use crate::screen::Screen;
use crate::tracked::CLUSTERS;

/// Joins two emoji.
pub(crate) const JOINER: char = '\u{200d}';
/// Requests the emoji presentation, which is two columns wide.
pub(crate) const EMOJI_PRESENTATION: char = '\u{fe0f}';
/// Maximum number of characters that join a cell. The longest emoji in use have nine.
const MAX_LENGTH: usize = 16;

/// Returns whether a character may continue an emoji sequence.
#[inline]
pub(crate) fn may_join(c: char) -> bool {
    c == EMOJI_PRESENTATION || is_symbol(c)
}

/// Blocks that contain the characters that follow a joiner.
fn is_symbol(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Skin tones.
pub(crate) fn is_modifier(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

/// The mode 2027 in which printing reproduces a part of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    On,
    Off,
    Either,
}

/// Returns the mode for the first character of a cell, printed after `previous`.
pub(crate) fn base_needs(cell: &Cell, previous: Option<char>) -> Needs {
    let joins = is_modifier(cell.c) || (is_symbol(cell.c) && previous == Some(JOINER));
    if joins { Needs::Off } else { Needs::Either }
}

/// Returns the mode for the other characters of a cell.
pub(crate) fn marks_need(cell: &Cell) -> Needs {
    let Some(marks) = cell.zerowidth().filter(|marks| !marks.is_empty()) else {
        return Needs::Either;
    };
    let wide = cell.flags.contains(Flags::WIDE_CHAR);
    if marks.iter().any(|mark| mark.width().unwrap_or(0) > 0) || (wide && cell.c.width() == Some(1))
    {
        Needs::On
    } else if !wide && marks.contains(&EMOJI_PRESENTATION) && has_emoji_presentation(cell.c) {
        Needs::Off
    } else {
        Needs::Either
    }
}

/// Returns a cell with less combining characters, if a client's terminal would widen it, or would
/// join `next` to it, although the pane did not.
pub(crate) fn unjoined(cell: &Cell, next: Option<&Cell>) -> Option<Cell> {
    let marks = cell.zerowidth()?;
    let joins_next = marks.last() == Some(&JOINER) && next.is_some_and(|next| is_symbol(next.c));
    let widens = marks_need(cell) == Needs::Off;
    if !joins_next && !widens {
        return None;
    }
    let mut plain = cell.clone();
    // Removes the combining characters as well.
    plain.clear_wide();
    (plain.c, plain.flags) = (cell.c, cell.flags);
    let end = marks.iter().rposition(|&mark| mark != JOINER).map_or(0, |at| at + 1);
    let kept = if joins_next { &marks[..end] } else { marks };
    for &mark in kept.iter().filter(|&&mark| !widens || mark != EMOJI_PRESENTATION) {
        plain.push_zerowidth(mark);
    }
    Some(plain)
}

/// Returns whether a selector makes this character two columns wide.
fn has_emoji_presentation(c: char) -> bool {
    String::from_iter([c, EMOJI_PRESENTATION]).width() == 2
}

/// Returns whether terminals disagree about the width of a cell.
pub(crate) fn is_ambiguous(cell: &Cell) -> bool {
    marks_need(cell) != Needs::Either
}

impl Screen {
    /// Adds a character to the cell before the cursor if it continues an emoji sequence; otherwise
    /// returns false, and the character must be printed.
    pub(crate) fn join(&mut self, c: char) -> bool {
        if !self.tracked.contains(CLUSTERS) {
            return false;
        }
        let Some((line, column)) = self.cell_before_cursor() else { return false };
        let cell = &self.grid()[line][column];
        let marks = cell.zerowidth().unwrap_or_default();
        if marks.len() >= MAX_LENGTH {
            return false;
        }
        let continues = c == EMOJI_PRESENTATION || is_modifier(c) || marks.last() == Some(&JOINER);
        if !continues {
            return false;
        }
        let width = if cell.flags.contains(Flags::WIDE_CHAR) { 2 } else { 1 };
        let text: String = [cell.c].iter().chain(marks).chain([&c]).collect();
        let joined = text.width();
        if c == EMOJI_PRESENTATION {
            if width == 1 && joined == 2 {
                self.widen(line, column);
            }
        } else if joined > width {
            return false;
        }
        self.grid_mut()[line][column].push_zerowidth(c);
        true
    }

    /// Returns whether the next character may join the cell before the cursor.
    pub(crate) fn ends_with_joiner(&self) -> bool {
        self.cell_before_cursor().is_some_and(|(line, column)| {
            self.grid()[line][column].zerowidth().and_then(<[char]>::last) == Some(&JOINER)
        })
    }

    /// Returns the cell that a combining character at the cursor joins; `None` at the left edge.
    fn cell_before_cursor(&self) -> Option<(Line, Column)> {
        let grid = self.grid();
        let cursor = &grid.cursor;
        let (line, mut column) = (cursor.point.line, cursor.point.column);
        if !cursor.input_needs_wrap {
            column = Column(column.0.checked_sub(1)?);
        }
        if grid[line][column].flags.contains(Flags::WIDE_CHAR_SPACER) {
            column = Column(column.0.checked_sub(1)?);
        }
        Some((line, column))
    }

    /// Makes the cell before the cursor two columns wide if there is room.
    fn widen(&mut self, line: Line, column: Column) {
        let limit = self.right_limit(column.0);
        if column.0 + 1 >= limit {
            return;
        }
        let columns = self.grid().columns();
        let row = &mut self.grid_mut()[line][..];
        cut(row, column.0 + 2);
        row[column.0].flags.insert(Flags::WIDE_CHAR);
        let mut spacer = row[column.0].clone();
        spacer.c = ' ';
        spacer.extra = None;
        spacer.flags.remove(Flags::WIDE_CHAR | Flags::WRAPLINE);
        spacer.flags.insert(Flags::WIDE_CHAR_SPACER);
        let (underline, link) = (row[column.0].underline_color(), row[column.0].hyperlink());
        spacer.set_underline_color(underline);
        spacer.set_hyperlink(link);
        row[column.0 + 1] = spacer;
        let cursor = &mut self.grid_mut().cursor;
        let next = column.0 + 2;
        cursor.input_needs_wrap = next >= limit.min(columns);
        cursor.point.column = Column(next.min(limit - 1));
    }
}
