//! The modes a program has switched on, as far as others have to know them.
//!
//! The emulator owns the modes; this is the copy it hands out. Whoever encodes a key press, paints
//! a screen or restores an outer terminal reads them here and never asks the emulator itself.

/// Which modes are on.
///
/// # Invariant
///
/// `Default` is everything off, which is not how a terminal starts: `cursor_visible` and `autowrap`
/// are on then. Ask the terminal for its modes and do not invent them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// The program draws on the alternate screen, which has no history (`?1049` and its elders).
    pub alternate_screen: bool,
    /// Pasted text arrives between brackets (`?2004`).
    pub bracketed_paste: bool,
    /// Arrows, home and end are sent as `SS3` and not as `CSI` (DECCKM, `?1`).
    pub application_cursor: bool,
    /// The keypad sends sequences and not digits (DECKPAM, `ESC =`).
    pub application_keypad: bool,
    /// The program is told when the terminal gains or loses the focus (`?1004`).
    pub focus_events: bool,
    /// Mouse buttons are reported (`?1000`).
    pub mouse_click: bool,
    /// Mouse moves are reported while a button is held (`?1002`).
    pub mouse_drag: bool,
    /// Every mouse move is reported (`?1003`).
    pub mouse_motion: bool,
    /// Mouse reports are written in decimal, without a limit on the column (`?1006`).
    pub mouse_sgr: bool,
    /// Mouse reports are written as UTF-8 characters (`?1005`).
    pub mouse_utf8: bool,
    /// The wheel becomes arrow keys on the alternate screen (`?1007`).
    pub alternate_scroll: bool,
    /// The cursor is shown (DECTCEM, `?25`).
    pub cursor_visible: bool,
    /// Text continues on the next line at the right edge (DECAWM, `?7`).
    pub autowrap: bool,
    /// Row 1 is the first row of the scrolling region (DECOM, `?6`).
    pub origin: bool,
    /// Characters push what is right of the cursor away (IRM, `4`).
    pub insert: bool,
    /// A line feed also returns to the first column (LNM, `20`).
    pub linefeed_newline: bool,
    /// The flags of the kitty keyboard protocol; 0 when the program does not use it.
    pub kitty_flags: u8,
}
