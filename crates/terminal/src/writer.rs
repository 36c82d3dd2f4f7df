//! Output for a terminal whose cursor and attributes are known, so that neither is sent twice.

use alacritty_terminal::grid::{Charsets, Cursor};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CharsetIndex, StandardCharset};

use crate::pen::{Pen, decimal};

/// Where the cursor of the terminal that is written to is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Row and column.
    Cell(usize, usize),
    /// Behind the last column of this row; the next character wraps.
    Wrapping(usize),
    /// Anywhere.
    Unknown,
}

/// Collects output and knows what it does.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) out: Vec<u8>,
    pub(crate) pen: Pen,
    pub(crate) at: At,
    pub(crate) charsets: Charsets,
    /// The last character printed, which REP would repeat.
    pub(crate) last: Option<char>,
    columns: usize,
    /// What the terminal adds to a row in a cursor position.
    pub(crate) origin: usize,
    /// The last row of the region that scrolls, where there is one: a new line there moves no cursor.
    pub(crate) bottom: Option<usize>,
}

impl Writer {
    /// A writer for a terminal in its initial state.
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            out: Vec::with_capacity(2048),
            pen: Pen::default(),
            at: At::Cell(0, 0),
            charsets: Charsets::default(),
            last: None,
            columns,
            origin: 0,
            bottom: None,
        }
    }

    /// Writes a sequence that changes nothing that is known here.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes `CSI`, a number, and what follows it.
    pub(crate) fn csi(&mut self, number: usize, rest: &[u8]) {
        self.raw(b"\x1b[");
        decimal(number, &mut self.out);
        self.raw(rest);
    }

    /// Moves the cursor, unless it is there.
    pub(crate) fn goto(&mut self, row: usize, column: usize) {
        match self.at {
            At::Cell(r, c) if (r, c) == (row, column) => return,
            At::Cell(r, c) if r == row && c < column => self.csi(column - c, b"C"),
            At::Cell(r, _) | At::Wrapping(r)
                if r + 1 == row && column == 0 && self.origin == 0 && self.bottom != Some(r) =>
            {
                self.raw(b"\r\n");
            }
            At::Cell(..) | At::Wrapping(_) | At::Unknown => {
                self.csi(row - self.origin.min(row) + 1, b";");
                decimal(column + 1, &mut self.out);
                self.raw(b"H");
            }
        }
        self.at = At::Cell(row, column);
    }

    /// Prints the character of a cell, with what combines with it, in the pen that drew it.
    ///
    /// The cursor must be where the character goes; `row` and `column` say where that is.
    pub(crate) fn print(&mut self, cell: &Cell, row: usize, column: usize) {
        self.pen.take_up(cell, &mut self.out);
        let c = if cell.c == '\t' { ' ' } else { cell.c };
        self.put(c);
        for &mark in cell.zerowidth().unwrap_or_default() {
            self.put(mark);
        }
        let width = if cell.flags.contains(Flags::WIDE_CHAR) { 2 } else { 1 };
        self.moved_to(row, column + width);
    }

    /// Printing has moved the cursor to this column, or up to the edge.
    #[inline]
    pub(crate) fn moved_to(&mut self, row: usize, column: usize) {
        self.at = if column < self.columns { At::Cell(row, column) } else { At::Wrapping(row) };
    }

    /// Prints a character; where the cursor is then is for the caller to say.
    #[inline]
    pub(crate) fn put(&mut self, c: char) {
        if c.is_ascii() {
            self.out.push(c as u8);
        } else {
            self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        self.last = Some(c);
    }

    /// Designates the character sets of `cursor`.
    pub(crate) fn take_charsets(&mut self, charsets: Charsets) {
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

    /// Takes over the pen and the character sets of `cursor`; its position is not touched.
    pub(crate) fn take_style(&mut self, cursor: &Cursor<Cell>) {
        self.pen.take_up(&cursor.template, &mut self.out);
        self.take_charsets(cursor.charsets);
    }
}
