//! The data that flows through panes.

use std::fmt::Write as _;

/// Columns and rows of every pane and every client.
pub(crate) const COLS: u16 = 200;
/// See [`COLS`].
pub(crate) const ROWS: u16 = 50;

/// The kinds of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Numbered log lines.
    Log,
    /// An agent's screen library: erases its output and draws it again.
    Ink,
    /// A new colour every few characters.
    Colour,
    /// A full-screen program: jump, a short text, erase.
    Tui,
    /// Wide, combining and joined characters.
    Unicode,
}

impl Stream {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Ink => "ink",
            Self::Colour => "colour",
            Self::Tui => "tui",
            Self::Unicode => "unicode",
        }
    }

    /// Returns at least `bytes` of it, complete frames or lines.
    pub(crate) fn bytes(self, bytes: usize) -> Vec<u8> {
        let mut text = String::with_capacity(bytes + 16 * 1024);
        let mut dice = Dice::new();
        let mut number = 0;
        if self == Self::Ink {
            // The first frame erases rows above it.
            text.push_str(&"\n".repeat(INK_ROWS));
        }
        while text.len() < bytes {
            number += 1;
            match self {
                Self::Log => log_line(&mut text, number, &mut dice),
                Self::Ink => ink_frame(&mut text, number, &mut dice),
                Self::Colour => colour_line(&mut text, number, &mut dice),
                Self::Tui => tui_frame(&mut text, number, &mut dice),
                Self::Unicode => unicode_line(&mut text, number, &mut dice),
            }
        }
        text.push_str("\x1b[0m");
        text.into_bytes()
    }
}

const INK_ROWS: usize = 30;

const WORDS: [&str; 16] = [
    "request",
    "served",
    "cache",
    "worker",
    "retry",
    "timeout",
    "GET",
    "/api/v1/items",
    "user=4711",
    "took",
    "ms",
    "connection",
    "closed",
    "upstream",
    "INFO",
    "queue",
];

const WIDE: [&str; 12] = [
    "端末",
    "多重化",
    "エージェント",
    "한국어",
    "ｆｕｌｌ",
    "🚀",
    "👩\u{200d}💻",
    "e\u{301}",
    "ñ\u{303}",
    "🇯🇵",
    "Ωμέγα",
    "日本",
];

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Returns a number below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from.get(self.roll(from.len())).copied().unwrap_or_default()
    }
}

/// Returns a text of `width` characters, blanks included.
fn words(dice: &mut Dice, width: usize) -> String {
    let mut text = String::with_capacity(width + 16);
    while text.len() < width {
        text.push_str(dice.pick(&WORDS));
        text.push(' ');
    }
    text.truncate(width);
    text
}

fn log_line(text: &mut String, number: usize, dice: &mut Dice) {
    put(text, format_args!("{number:08} {}\n", words(dice, 90)));
}

fn ink_frame(text: &mut String, number: usize, dice: &mut Dice) {
    for _ in 0..INK_ROWS {
        text.push_str("\x1b[2K\x1b[1A");
    }
    text.push_str("\x1b[2K\x1b[G");
    let line = "─".repeat(98);
    put(text, format_args!("\x1b[38;5;174m╭{line}╮\x1b[39m\n"));
    for row in 2..INK_ROWS {
        let width = 60 + dice.roll(36);
        let pad = 96 - width;
        let (colour, said) = (31 + dice.roll(6), words(dice, width));
        put(
            text,
            format_args!(
                "\x1b[38;5;174m│\x1b[39m \x1b[{colour}m●\x1b[39m{said}{:pad$}\x1b[38;5;174m│\x1b[39m\n",
                ""
            ),
        );
        if row == 2 {
            put(text, format_args!("\x1b[1m✳ Thinking… ({number}s · esc to interrupt)\x1b[22m\r"));
        }
    }
    put(text, format_args!("\x1b[38;5;174m╰{line}╯\x1b[39m\n"));
}

fn colour_line(text: &mut String, number: usize, dice: &mut Dice) {
    for at in 0..36 {
        let word = words(dice, 5);
        let (r, g, b) = (dice.roll(256), dice.roll(256), dice.roll(256));
        match (number + at) % 3 {
            0 => put(text, format_args!("\x1b[38;2;{r};{g};{b}m{word}")),
            1 => put(text, format_args!("\x1b[38;5;{r};48;5;{g}m{word}")),
            _ => put(text, format_args!("\x1b[1;4;48;2;{r};{g};{b}m{word}\x1b[22;24m")),
        }
    }
    text.push_str("\x1b[0m\n");
}

fn tui_frame(text: &mut String, number: usize, dice: &mut Dice) {
    text.push_str("\x1b[?25l\x1b[H");
    for _ in 0..80 {
        let (row, col) = (1 + dice.roll(usize::from(ROWS)), 1 + dice.roll(180));
        let (colour, width) = (30 + dice.roll(8), 4 + dice.roll(12));
        let word = words(dice, width);
        match dice.roll(4) {
            0 => put(text, format_args!("\x1b[{row};{col}H\x1b[K")),
            1 => put(text, format_args!("\x1b[{row};{col}H\x1b[{width}X\x1b[7m{word}\x1b[27m")),
            2 => {
                put(
                    text,
                    format_args!("\x1b[{row};1H\x1b[2K\x1b[{col}G\x1b[{colour}m{word}\x1b[m"),
                );
            }
            _ => put(text, format_args!("\x1b[{row};{col}H\x1b[{colour}m{word}\x1b[m")),
        }
    }
    put(text, format_args!("\x1b[{ROWS};1H frame {number}\x1b[K\x1b[?25h"));
}

fn unicode_line(text: &mut String, number: usize, dice: &mut Dice) {
    put(text, format_args!("{number:08} "));
    for _ in 0..24 {
        text.push_str(dice.pick(&WIDE));
        text.push(' ');
    }
    text.push('\n');
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("a string takes everything");
}
