//! Writer that tracks the cursor and attributes of the terminal, so that neither is sent twice.

use alacritty_terminal::grid::{Charsets, Cursor};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CharsetIndex, StandardCharset};

use crate::clusters::{Needs, base_needs, is_ambiguous, marks_need};
use crate::pen::{Pen, decimal};

/// Cursor position of the target terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CursorPosition {
    /// At this row and column.
    Cell(usize, usize),
    /// After the last column of this row; the next character wraps.
    PendingWrap(usize),
    Unknown,
}

/// Collects output and tracks its effect on the target terminal.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) out: Vec<u8>,
    pub(crate) pen: Pen,
    pub(crate) at: CursorPosition,
    pub(crate) charsets: Charsets,
    /// The last printed character, which REP repeats.
    pub(crate) last: Option<char>,
    columns: usize,
    /// Row offset that the terminal adds to cursor positions.
    pub(crate) origin: usize,
    /// Column offset that the terminal adds to cursor positions.
    pub(crate) origin_column: usize,
    /// Mode 2027 of the target terminal; `None` if it is unknown and must not be changed.
    clusters: Option<bool>,
    /// The last row of the scroll region, if one is set: a line feed there does not move the cursor.
    pub(crate) bottom: Option<usize>,
}

impl Writer {
    /// Creates a writer for a terminal in its initial state.
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            out: Vec::with_capacity(2048),
            pen: Pen::default(),
            at: CursorPosition::Cell(0, 0),
            charsets: Charsets::default(),
            last: None,
            columns,
            origin: 0,
            origin_column: 0,
            clusters: Some(true),
            bottom: None,
        }
    }

    /// Creates a writer for a client's terminal, which may not support mode 2027 and whose widths of
    /// emoji sequences are unknown.
    pub(crate) fn for_client(columns: usize) -> Self {
        Self { clusters: None, ..Self::new(columns) }
    }

    /// Sets mode 2027 of the target terminal.
    pub(crate) fn set_clusters(&mut self, on: bool) {
        if self.clusters.is_some_and(|current| current != on) {
            self.clusters = Some(on);
            self.raw(if on { b"\x1b[?2027h" } else { b"\x1b[?2027l" });
        }
    }

    fn set_needed_clusters(&mut self, needs: Needs) {
        match needs {
            Needs::On => self.set_clusters(true),
            Needs::Off => self.set_clusters(false),
            Needs::Either => {}
        }
    }

    /// Writes bytes that change no tracked state.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes `CSI`, a number, and `rest`.
    pub(crate) fn csi(&mut self, number: usize, rest: &[u8]) {
        self.raw(b"\x1b[");
        decimal(number, &mut self.out);
        self.raw(rest);
    }

    /// Moves the cursor unless it is already there.
    pub(crate) fn goto(&mut self, row: usize, column: usize) {
        match self.at {
            CursorPosition::Cell(r, c) if (r, c) == (row, column) => return,
            CursorPosition::Cell(r, c) if r == row && c < column => self.csi(column - c, b"C"),
            CursorPosition::Cell(r, _) | CursorPosition::PendingWrap(r)
                if r + 1 == row && column == 0 && self.origin == 0 && self.bottom != Some(r) =>
            {
                self.raw(b"\r\n");
            }
            CursorPosition::Cell(..) | CursorPosition::PendingWrap(_) | CursorPosition::Unknown => {
                self.csi(row - self.origin.min(row) + 1, b";");
                decimal(column - self.origin_column.min(column) + 1, &mut self.out);
                self.raw(b"H");
            }
        }
        self.at = CursorPosition::Cell(row, column);
    }

    /// Prints the character of a cell, with its combining characters, in the pen of the cell.
    ///
    /// The cursor must already be at `row` and `column`.
    pub(crate) fn print(&mut self, cell: &Cell, row: usize, column: usize) {
        self.pen.match_cell(cell, &mut self.out);
        let c = if cell.c == '\t' { ' ' } else { cell.c };
        if !c.is_ascii() {
            self.set_needed_clusters(base_needs(cell, self.last));
        }
        self.put(c);
        if cell.extra.is_some() {
            self.set_needed_clusters(marks_need(cell));
            for &mark in cell.zerowidth().unwrap_or_default() {
                self.put(mark);
            }
        }
        let width = if cell.flags.contains(Flags::WIDE_CHAR) { 2 } else { 1 };
        self.moved_to(row, column + width);
        if column + width < self.columns && is_ambiguous(cell) {
            self.at = CursorPosition::Unknown;
        }
    }

    /// Records that printing moved the cursor to this column, or to the edge.
    #[inline]
    pub(crate) fn moved_to(&mut self, row: usize, column: usize) {
        self.at = if column < self.columns {
            CursorPosition::Cell(row, column)
        } else {
            CursorPosition::PendingWrap(row)
        };
    }

    /// Prints a character without updating the cursor position.
    #[inline]
    pub(crate) fn put(&mut self, c: char) {
        if c.is_ascii() {
            self.out.push(c as u8);
        } else {
            self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        self.last = Some(c);
    }

    /// Designates `charsets`.
    pub(crate) fn set_charsets(&mut self, charsets: Charsets) {
        const SLOTS: [(CharsetIndex, u8); 4] = [
            (CharsetIndex::G0, b'('),
            (CharsetIndex::G1, b')'),
            (CharsetIndex::G2, b'*'),
            (CharsetIndex::G3, b'+'),
        ];
        for (index, slot) in SLOTS {
            if self.charsets[index] != charsets[index] {
                let name = match charsets[index] {
                    StandardCharset::Ascii => b'B',
                    StandardCharset::SpecialCharacterAndLineDrawing => b'0',
                };
                self.raw(&[0x1b, slot, name]);
            }
        }
        self.charsets = charsets;
    }

    /// Sets the pen and the character sets of `cursor`, but not its position.
    pub(crate) fn set_style(&mut self, cursor: &Cursor<Cell>) {
        self.pen.match_cell(&cursor.template, &mut self.out);
        self.set_charsets(cursor.charsets);
    }
}
