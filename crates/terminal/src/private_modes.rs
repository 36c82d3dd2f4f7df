//! Private modes that the emulator does not know, applied to a [`Screen`].

use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{Handler as _, NamedPrivateMode, PrivateMode};

use crate::screen::Screen;
use crate::tracked::{MOUSE_ENCODINGS, SIDE_MARGINS, X10_MOUSE};

impl Screen {
    /// Sets a private mode that the emulator does not know.
    pub(crate) fn set_unknown_mode(&mut self, number: u16) {
        match number {
            47 | 1047 => {
                self.enter_alternate();
                self.settle_cursor();
            }
            66 => self.set_keypad_application_mode(),
            1048 => self.save_cursor_position(),
            SIDE_MARGINS => self.allow_side_margins(true),
            X10_MOUSE => {
                for other in [
                    NamedPrivateMode::ReportMouseClicks,
                    NamedPrivateMode::ReportCellMouseMotion,
                    NamedPrivateMode::ReportAllMouseMotion,
                ] {
                    self.term.unset_private_mode(PrivateMode::Named(other));
                }
                self.tracked.set(number, true);
            }
            _ if MOUSE_ENCODINGS.contains(&number) => {
                self.tracked.reset_mouse_encodings();
                for other in [NamedPrivateMode::SgrMouse, NamedPrivateMode::Utf8Mouse] {
                    self.term.unset_private_mode(PrivateMode::Named(other));
                }
                self.tracked.set(number, true);
            }
            _ => self.tracked.set(number, true),
        }
    }

    /// Resets a private mode that the emulator does not know.
    pub(crate) fn unset_unknown_mode(&mut self, number: u16) {
        match number {
            47 | 1047 => {
                self.leave_alternate();
                self.settle_cursor();
            }
            66 => self.unset_keypad_application_mode(),
            1048 => self.restore_cursor_position(),
            SIDE_MARGINS => self.allow_side_margins(false),
            _ => self.tracked.set(number, false),
        }
    }

    /// Returns whether such a mode is set; `None` if it is unknown here too.
    pub(crate) fn unknown_mode(&self, number: u16) -> Option<bool> {
        match number {
            47 | 1047 => Some(self.is_alternate()),
            66 => Some(self.mode().contains(TermMode::APP_KEYPAD)),
            _ => self.tracked.get(number),
        }
    }

    /// Handles a switch between 80 and 132 columns: resets the margins and clears the screen, but
    /// keeps the width.
    pub(crate) fn column_mode(&mut self) {
        self.margins = (0, self.rows());
        self.set_sides(0, self.columns());
        self.term.set_private_mode(PrivateMode::Named(NamedPrivateMode::ColumnMode));
        self.settle_cursor();
    }
}
