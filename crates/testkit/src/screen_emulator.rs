//! What a [`Screen`](crate::Screen) shows: the emulator behind the few questions that tests ask.
//!
//! A stand-in for `terminal::Terminal` with the same questions: text, cursor motion and erasing as
//! far as shells and the tests of this crate use them, and nothing else.

use model::Size;

/// A screen that is fed bytes.
#[derive(Debug)]
pub(crate) struct Emulator {
    size: Size,
    rows: Vec<Vec<char>>,
    col: usize,
    row: usize,
    title: String,
    answers: Vec<u8>,
    /// An escape sequence or character that is not complete yet.
    pending: Vec<u8>,
}

impl Emulator {
    pub(crate) fn new(size: Size) -> Self {
        let (rows, title) = (vec![Vec::new(); usize::from(size.rows())], String::new());
        Self { size, rows, col: 0, row: 0, title, answers: Vec::new(), pending: Vec::new() }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.pending);
        let mut rest = bytes.as_slice();
        while let Some(&first) = rest.first() {
            let Some(length) = length_of_first(rest) else { break };
            let (one, after) = rest.split_at(length);
            match (first, one.get(1)) {
                (0x1b, Some(b'[')) => self.control(one.get(2..).unwrap_or_default()),
                (0x1b, Some(b']')) => self.command(&String::from_utf8_lossy(one)),
                (0x1b, _) => {}
                _ => String::from_utf8_lossy(one).chars().for_each(|c| self.print(c)),
            }
            rest = after;
        }
        self.pending = rest.to_vec();
    }

    pub(crate) fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answers)
    }

    /// The visible rows, without blanks at their ends, each ended by a newline.
    pub(crate) fn screen_text(&self) -> String {
        let line = |row: &Vec<char>| {
            let line: String = row.iter().collect();
            line.trim_end().to_owned() + "\n"
        };
        self.rows.iter().map(line).collect()
    }

    /// Column and row of the cursor, counted from 0.
    pub(crate) fn cursor(&self) -> (u16, u16) {
        let narrow = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        (narrow(self.col), narrow(self.row))
    }

    pub(crate) fn title(&self) -> String {
        self.title.clone()
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.size = size;
        self.rows.resize(usize::from(size.rows()), Vec::new());
        self.row = self.row.min(self.rows.len() - 1);
    }

    fn print(&mut self, c: char) {
        match c {
            '\r' => self.col = 0,
            '\n' if self.row + 1 == self.rows.len() => self.rows.rotate_left_and_clear(),
            '\n' => self.row += 1,
            '\u{8}' => self.col = self.col.saturating_sub(1),
            c if c.is_control() => {}
            c => {
                if self.col >= usize::from(self.size.cols()) {
                    self.print('\r');
                    self.print('\n');
                }
                let Some(row) = self.rows.get_mut(self.row) else { return };
                row.resize(row.len().max(self.col + 1), ' ');
                if let Some(cell) = row.get_mut(self.col) {
                    *cell = c;
                }
                self.col += 1;
            }
        }
    }

    fn control(&mut self, sequence: &[u8]) {
        let text = String::from_utf8_lossy(sequence);
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        let (first, second): (usize, usize) =
            (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        match sequence.last() {
            Some(b'H') => {
                self.row = first.saturating_sub(1).min(self.rows.len() - 1);
                self.col = second.saturating_sub(1);
            }
            Some(b'J') => self.rows.iter_mut().for_each(Vec::clear),
            Some(b'K') => {
                let col = self.col;
                self.rows.get_mut(self.row).into_iter().for_each(|row| row.truncate(col));
            }
            Some(b'n') if first == 6 => {
                let (col, row) = (self.col + 1, self.row + 1);
                self.answers.extend(format!("\x1b[{row};{col}R").bytes());
            }
            _ => {}
        }
    }

    fn command(&mut self, sequence: &str) {
        let sequence =
            sequence.trim_start_matches("\x1b]").trim_end_matches(['\x07', '\\', '\x1b']);
        if let Some(("0" | "2", title)) = sequence.split_once(';') {
            title.clone_into(&mut self.title);
        }
    }
}

trait Scroll {
    fn rotate_left_and_clear(&mut self);
}

impl Scroll for Vec<Vec<char>> {
    fn rotate_left_and_clear(&mut self) {
        self.rotate_left(1);
        self.last_mut().into_iter().for_each(Vec::clear);
    }
}

/// How long the first character or escape sequence is; `None` if more bytes have to come.
fn length_of_first(bytes: &[u8]) -> Option<usize> {
    let ends = |from: usize, end: fn(&u8) -> bool| {
        bytes.iter().skip(from).position(end).map(|at| at + from + 1)
    };
    match bytes {
        [0x1b, b'[', ..] => ends(2, |b| (0x40..0x7f).contains(b)),
        [0x1b, b']' | b'_' | b'P', ..] => ends(2, |b| matches!(b, 0x07 | b'\\')),
        [0x1b] => None,
        [0x1b, ..] => Some(2),
        [first, ..] => {
            let length = match first {
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xff => 4,
                _ => 1,
            };
            (bytes.len() >= length).then_some(length)
        }
        [] => None,
    }
}
