//! Escape sequences for the terminal that the user sits at.

/// What puts it back as it was before a pane was painted on it.
pub(super) fn leave() -> Vec<u8> {
    // To be replaced by `terminal::outer::leave()`.
    b"\x1b[0m\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[?1l\x1b>\x1b[<u\
\x1b[?1049l\x1b[?25h"
        .to_vec()
}

/// What makes it ready to have a pane painted on it.
pub(super) fn enter() -> Vec<u8> {
    // To be replaced by `terminal::outer::enter()`.
    b"\x1b[?1049h\x1b[H\x1b[2J".to_vec()
}
