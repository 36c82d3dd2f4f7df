//! The alternate screen: switching to it and back, and access to the main screen meanwhile.

use std::mem;

use alacritty_terminal::grid::Grid;
use alacritty_terminal::term::cell::Cell;

use crate::screen::Screen;

impl Screen {
    /// Calls `look` with the main screen's grid, whichever screen is active.
    pub(crate) fn with_main<R>(&mut self, look: impl FnOnce(&mut Grid<Cell>) -> R) -> R {
        if !self.is_alternate() {
            return look(self.grid_mut());
        }
        // Leaving the alternate screen is a plain swap. Entering it clears the alternate grid, so
        // that grid is moved out first. Entering also saves the main screen's cursor.
        let alternate = mem::replace(self.grid_mut(), Grid::new(1, 1, 0));
        self.term.swap_alt();
        let result = look(self.grid_mut());
        self.term.swap_alt();
        *self.grid_mut() = alternate;
        self.apply_keyboard();
        result
    }

    /// Switches to the alternate screen, which is then blank.
    ///
    /// The cursor moves along. The main screen's saved cursor stays as it is.
    pub(crate) fn enter_alternate(&mut self) {
        if self.is_alternate() {
            return;
        }
        let saved = self.grid().saved_cursor.clone();
        // Copies the cursor, and saves it for the main screen.
        self.term.swap_alt();
        self.grid_mut().saved_cursor = mem::take(&mut self.alternate_saved);
        self.grid_mut().update_history(0);
        self.with_main(|main| {
            main.cursor = saved.clone();
            main.saved_cursor = saved;
        });
    }

    /// Switches to the main screen. The cursor moves along.
    pub(crate) fn leave_alternate(&mut self) {
        if !self.is_alternate() {
            return;
        }
        let cursor = self.grid().cursor.clone();
        self.alternate_saved = self.grid().saved_cursor.clone();
        self.term.swap_alt();
        self.grid_mut().cursor = cursor;
        self.apply_keyboard();
    }
}
