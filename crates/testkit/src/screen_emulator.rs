//! What a [`Screen`](crate::Screen) shows: the emulator behind the few questions that tests ask.

use std::cell::RefCell;

use model::Size;
use terminal::Terminal;

/// A screen that is fed bytes.
///
/// A terminal catches up with its bytes when it is looked at, so even looking changes it; tests
/// should not have to know.
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

    /// The visible rows, without blanks at their ends.
    pub(crate) fn screen_text(&self) -> String {
        self.0.borrow_mut().screen_text()
    }

    /// Column and row of the cursor, counted from 0.
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
