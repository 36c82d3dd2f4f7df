//! The terminal modes that a program has set.

/// A copy of the terminal modes.
///
/// # Invariant
///
/// `Default` has every mode off, which is not the initial state of a terminal: `cursor_visible` and
/// `autowrap` are then on. Obtain modes from [`crate::Terminal::modes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// The alternate screen, which has no scrollback, is active (`?1049` and its predecessors).
    pub alternate_screen: bool,
    /// Pasted text is enclosed in brackets (`?2004`).
    pub bracketed_paste: bool,
    /// Arrow keys, Home and End are sent as `SS3` instead of `CSI` (DECCKM, `?1`).
    pub application_cursor: bool,
    /// The keypad sends sequences instead of digits (DECKPAM, `ESC =`).
    pub application_keypad: bool,
    /// Focus changes are reported (`?1004`).
    pub focus_events: bool,
    /// Mouse buttons are reported (`?1000`).
    pub mouse_click: bool,
    /// Mouse moves are reported while a button is held (`?1002`).
    pub mouse_drag: bool,
    /// Every mouse move is reported (`?1003`).
    pub mouse_motion: bool,
    /// Mouse reports use decimal numbers, without a column limit (`?1006`).
    pub mouse_sgr: bool,
    /// Mouse reports use UTF-8 characters (`?1005`).
    pub mouse_utf8: bool,
    /// The mouse wheel sends arrow keys on the alternate screen (`?1007`).
    pub alternate_scroll: bool,
    /// The cursor is shown (DECTCEM, `?25`).
    pub cursor_visible: bool,
    /// Text wraps at the right edge (DECAWM, `?7`).
    pub autowrap: bool,
    /// Row 1 is the first row of the scroll region (DECOM, `?6`).
    pub origin: bool,
    /// Printed characters shift the rest of the row to the right (IRM, `4`).
    pub insert: bool,
    /// A line feed also returns to the first column (LNM, `20`).
    pub linefeed_newline: bool,
    /// Flags of the kitty keyboard protocol; 0 if the program does not use it.
    pub kitty_flags: u8,
}
