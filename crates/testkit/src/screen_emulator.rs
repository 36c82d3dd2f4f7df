//! The emulator of a [`Screen`](crate::Screen).

use std::cell::RefCell;

use model::Size;
use terminal::Terminal;

/// A terminal emulator that can be read through a shared reference.
///
/// The emulator processes pending bytes when it is read, which changes it.
#[derive(Debug)]
pub(crate) struct Emulator(RefCell<Terminal>);

impl Emulator {
    pub(crate) fn new(size: Size) -> Self {
        Self(RefCell::new(Terminal::new(size, 0)))
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.0.get_mut().feed(bytes);
    }

    pub(crate) fn take_answers(&mut self) -> Vec<u8> {
        self.0.get_mut().take_answers()
    }

    /// Returns the visible rows without trailing blanks.
    pub(crate) fn screen_text(&self) -> String {
        self.0.borrow_mut().screen_text()
    }

    /// Returns the cursor's column and row, starting at 0.
    pub(crate) fn cursor(&self) -> (u16, u16) {
        let cursor = self.0.borrow_mut().cursor();
        (cursor.col, cursor.row)
    }

    pub(crate) fn title(&self) -> String {
        self.0.borrow_mut().title()
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.0.get_mut().resize(size);
    }
}
