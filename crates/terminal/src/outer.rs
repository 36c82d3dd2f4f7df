//! Sequences that prepare a client's terminal on attach and restore it on detach.
//!
//! Programs set modes in the outer terminal, and the modes still set at detach are not known (a
//! program may have been killed, or continues to run). Detaching therefore resets every mode that
//! outlives a program, which costs a few hundred bytes.

/// Returns the bytes to write on attach: saves the title and switches to an empty screen.
#[must_use]
pub fn enter() -> Vec<u8> {
    [
        "\x1b[22;0t",             // Save the title.
        "\x1b[?1007s\x1b[?1007l", // Save alternate scroll, and turn it off.
        "\x1b[?1049h",            // Switch to the alternate screen, which preserves the user's.
        "\x1b[m\x1b[2J",          // Clear it in the default colors.
        "\x1b[H",                 // Move the cursor home.
    ]
    .concat()
    .into_bytes()
}

/// Returns the bytes to write when a client detaches or dies, for any state of the outer terminal.
#[must_use]
pub fn leave() -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in [
        // An unfinished string or sequence, a synchronized update.
        "\x1b\\\x1b[?2026l",
        // Mouse reporting and its encoding.
        "\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l",
        "\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l",
        // Focus and color scheme reports, bracketed paste.
        "\x1b[?1004l\x1b[?2031l\x1b[?2004l",
        // Cursor keys, keypad, modifyOtherKeys, kitty flags and their stack.
        "\x1b[?1l\x1b>\x1b[>4m\x1b[=0u\x1b[<9u",
        // Reverse video, origin, insert and newline mode, margins, autowrap.
        "\x1b[?5l\x1b[?6l\x1b[4l\x1b[20l\x1b[?45l\x1b[?69l\x1b[r\x1b[?7h",
        // ASCII, no hyperlink, no protection, no attributes.
        "\x1b(B\x1b)B\x0f\x1b]8;;\x1b\\\x1b[0\"q\x1b[m",
        // The user's cursor style, visible.
        "\x1b[0 q\x1b[?25h",
        // Alternate scroll: on, as most terminals start, or as saved by those that can.
        "\x1b[?1007h\x1b[?1007r",
        // The user's screen, cursor position and title.
        "\x1b[?1049l\x1b[23;0t",
    ] {
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use alacritty_terminal::event::VoidListener;
    use alacritty_terminal::grid::Dimensions;
    use alacritty_terminal::term::{Config, Term, TermMode, test::TermSize};
    use alacritty_terminal::vte::ansi::{Color, NamedColor, Processor};

    use super::*;

    struct Outer {
        term: Term<VoidListener>,
        parser: Processor,
    }

    impl Outer {
        fn new() -> Self {
            let config = Config { kitty_keyboard: true, ..Config::default() };
            let term = Term::new(config, &TermSize::new(20, 5), VoidListener);
            let mut outer = Self { term, parser: Processor::new() };
            outer.write(b"$ ccmux attach\r\n");
            outer
        }

        fn write(&mut self, bytes: &[u8]) {
            self.parser.advance(&mut self.term, bytes);
        }

        fn row(&self, row: i32) -> String {
            use alacritty_terminal::index::{Column, Line};
            let columns = self.term.grid().columns();
            (0..columns).map(|column| self.term.grid()[Line(row)][Column(column)].c).collect()
        }
    }

    #[test]
    fn enter_switches_to_an_empty_screen() {
        let mut outer = Outer::new();
        outer.write(b"\x1b[41m");

        outer.write(&enter());

        assert!(outer.term.mode().contains(TermMode::ALT_SCREEN));
        assert_eq!(outer.row(0).trim(), "");
        assert_eq!(outer.term.grid().cursor.point, Default::default());
        let background = Color::Named(NamedColor::Background);
        assert_eq!(outer.term.grid().cursor.template.bg, background);
    }

    #[test]
    fn leave_resets_modes_set_by_a_program() {
        let mut outer = Outer::new();
        let fresh = *outer.term.mode();
        let point = outer.term.grid().cursor.point;
        outer.write(&enter());
        outer.write(
            b"\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1005h\x1b[?1006h\x1b[?1004h\x1b[?2004h\
              \x1b[?1h\x1b=\x1b[>1u\x1b[>31u\x1b[?7l\x1b[?25l\x1b[4 q\x1b[2;3r\x1b[?6h\x1b[4h\
              \x1b[20h\x1b(0\x1b[31mtext\x1b]8;;http://x/\x1b\\link\x1b]0;cut off",
        );

        outer.write(&leave());

        assert_eq!(*outer.term.mode(), fresh);
        assert_eq!(outer.term.grid().cursor.point, point);
        assert!(outer.row(0).starts_with("$ ccmux attach"));
        outer.write(b"x\x1b[9Ay");
        assert_eq!(outer.row(1).trim(), "x");
        assert!(outer.row(0).starts_with("$yccmux"), "margins still set: {}", outer.row(0));
    }

    #[test]
    fn leave_resets_modes_the_emulator_does_not_support() {
        let bytes = String::from_utf8(leave()).unwrap();

        for mode in [9, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2026, 2031, 1, 6] {
            assert!(bytes.contains(&format!("\x1b[?{mode}l")), "mode {mode}");
        }
        for reset in
            ["\x1b[>4m", "\x1b[=0u", "\x1b[<9u", "\x1b[0 q", "\x1b(B", "\x0f", "\x1b]8;;\x1b\\"]
        {
            assert!(bytes.contains(reset), "{reset:?}");
        }
        assert!(bytes.ends_with("\x1b[?1049l\x1b[23;0t"));
    }
}
