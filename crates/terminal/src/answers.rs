//! Answers to queries that the emulator does not answer, or answers incorrectly.

use alacritty_terminal::vte::ansi::{NamedColor, Rgb};

/// The answer to DA3: the unit id zero, which identifies no terminal.
pub(crate) const TERTIARY_ATTRIBUTES: &[u8] = b"\x1bP!|00000000\x1b\\";

/// Reported width and height of a cell in pixels. A pane has no pixels, and clients differ; these
/// are common values.
const CELL: (usize, usize) = (10, 20);

/// The sixteen named colors, of a dark theme close to most terminals.
const NAMED: [u32; 16] = [
    0x0000_0000,
    0x00cd_3131,
    0x000d_bc79,
    0x00e5_e510,
    0x0024_72c8,
    0x00bc_3fbc,
    0x0011_a8cd,
    0x00e5_e5e5,
    0x0066_6666,
    0x00f1_4c4c,
    0x0023_d18b,
    0x00f5_f543,
    0x003b_8eea,
    0x00d6_70d6,
    0x0029_b8db,
    0x00ff_ffff,
];
const FOREGROUND: u32 = 0x00e5_e5e5;
const BACKGROUND: u32 = 0x0000_0000;

/// Returns the default color of a palette entry.
pub(crate) fn default_color(index: usize) -> Rgb {
    const BACKGROUND_INDEX: usize = NamedColor::Background as usize;
    match index {
        0..=15 => rgb(NAMED[index]),
        16..=231 => {
            let level = |step: usize| match step % 6 {
                0 => 0,
                step => u8::try_from(55 + 40 * step).unwrap_or(u8::MAX),
            };
            let cube = index - 16;
            Rgb { r: level(cube / 36), g: level(cube / 6), b: level(cube) }
        }
        232..=255 => {
            let grey = u8::try_from(8 + 10 * (index - 232)).unwrap_or(u8::MAX);
            Rgb { r: grey, g: grey, b: grey }
        }
        BACKGROUND_INDEX => rgb(BACKGROUND),
        _ => rgb(FOREGROUND),
    }
}

/// Returns the answer to a color query that starts with `OSC prefix`.
pub(crate) fn color(prefix: &str, color: Rgb, terminator: &str) -> String {
    let Rgb { r, g, b } = color;
    format!("\x1b]{prefix};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}{terminator}")
}

/// Returns the answer to `CSI 14 t`.
pub(crate) fn pixels(columns: usize, rows: usize) -> String {
    format!("\x1b[4;{};{}t", rows * CELL.1, columns * CELL.0)
}

/// Returns the answer to XTVERSION.
pub(crate) fn version() -> String {
    format!("\x1bP>|ccmux({})\x1b\\", env!("CARGO_PKG_VERSION"))
}

/// Returns the answer to `CSI ? 6 n`; `row` and `column` count from 0.
pub(crate) fn extended_position(row: usize, column: usize) -> String {
    format!("\x1b[?{};{};1R", row + 1, column + 1)
}

/// Returns the answer to DECRQSS: the requested setting, or an error if `value` is `None`.
pub(crate) fn setting(value: Option<&str>) -> String {
    match value {
        Some(value) => format!("\x1bP1$r{value}\x1b\\"),
        None => "\x1bP0$r\x1b\\".to_owned(),
    }
}

/// Returns the answer to DECRQCRA.
pub(crate) fn checksum(id: u16, sum: u16) -> String {
    format!("\x1bP{id}!~{sum:04X}\x1b\\")
}

fn rgb(color: u32) -> Rgb {
    let [_, r, g, b] = color.to_be_bytes();
    Rgb { r, g, b }
}
