//! Cell attributes, and the sequences that change them.

use std::io::Write as _;

use alacritty_terminal::term::cell::{Cell, Flags, Hyperlink};
use alacritty_terminal::vte::ansi::{Color, NamedColor};

/// Cell flags that SGR sets. The others describe the layout of the cell.
pub(crate) const STYLE: Flags = Flags::INVERSE
    .union(Flags::BOLD)
    .union(Flags::ITALIC)
    .union(Flags::DIM)
    .union(Flags::HIDDEN)
    .union(Flags::STRIKEOUT)
    .union(Flags::ALL_UNDERLINES);

/// The cell is protected from selective erasure (DECSCA). A flag that the emulator does not use.
pub(crate) const PROTECTED: Flags = Flags::from_bits_retain(1 << 15);

/// All flags that belong to a pen.
const PEN: Flags = STYLE.union(PROTECTED);

/// The attributes set by SGR, DECSCA and OSC 8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pen {
    foreground: Color,
    background: Color,
    style: Flags,
    underline: Option<Color>,
    link: Option<Hyperlink>,
}

impl Default for Pen {
    fn default() -> Self {
        Self {
            foreground: Color::Named(NamedColor::Foreground),
            background: Color::Named(NamedColor::Background),
            style: Flags::empty(),
            underline: None,
            link: None,
        }
    }
}

impl Pen {
    /// Returns the attributes of `cell`.
    pub(crate) fn from_cell(cell: &Cell) -> Self {
        let (underline, link) = match &cell.extra {
            Some(_) => (cell.underline_color(), cell.hyperlink()),
            None => (None, None),
        };
        let style = cell.flags.intersection(PEN);
        Self { foreground: cell.fg, background: cell.bg, style, underline, link }
    }

    /// Returns a pen with only a background color, as used by erasing.
    pub(crate) fn background_only(background: Color) -> Self {
        Self { background, ..Self::default() }
    }

    /// Returns whether `cell` has these attributes.
    #[inline]
    pub(crate) fn matches(&self, cell: &Cell) -> bool {
        if cell.fg != self.foreground
            || cell.bg != self.background
            || cell.flags.intersection(PEN) != self.style
        {
            return false;
        }
        match &cell.extra {
            None => self.underline.is_none() && self.link.is_none(),
            Some(_) => cell.underline_color() == self.underline && cell.hyperlink() == self.link,
        }
    }

    /// Switches to the attributes of `cell` and writes the sequences that do so.
    #[inline]
    pub(crate) fn match_cell(&mut self, cell: &Cell, out: &mut Vec<u8>) {
        if !self.matches(cell) {
            self.switch_to(Self::from_cell(cell), out);
        }
    }

    /// Switches to `next` and writes the sequences that do so.
    pub(crate) fn switch_to(&mut self, next: Self, out: &mut Vec<u8>) {
        self.write_attributes(&next, out);
        let is_protected = next.style.contains(PROTECTED);
        if self.style.contains(PROTECTED) != is_protected {
            out.extend_from_slice(if is_protected { b"\x1b[1\"q" } else { b"\x1b[0\"q" });
        }
        if self.link != next.link {
            write_link(next.link.as_ref(), out);
        }
        *self = next;
    }

    fn write_attributes(&self, next: &Self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(b"\x1b[");
        let mut known = self;
        let blank = Self::default();
        let removed = self.style.intersection(STYLE).difference(next.style);
        let loses = !removed.is_empty() || (self.underline.is_some() && next.underline.is_none());
        if loses {
            out.extend_from_slice(b"0;");
            known = &blank;
        }
        write_style(next.style.difference(known.style), out);
        if known.foreground != next.foreground {
            write_color(next.foreground, 30, out);
        }
        if known.background != next.background {
            write_color(next.background, 40, out);
        }
        if let Some(color) = next.underline.filter(|_| known.underline != next.underline) {
            write_color(color, 50, out);
        }
        if out.len() == begin + 2 {
            out.truncate(begin);
        } else if out[begin..] == *b"\x1b[0;" {
            out.truncate(begin);
            out.extend_from_slice(b"\x1b[m");
        } else if let Some(last) = out.last_mut() {
            *last = b'm';
        }
    }
}

fn write_style(added: Flags, out: &mut Vec<u8>) {
    const CODES: [(Flags, &[u8]); 11] = [
        (Flags::BOLD, b"1;"),
        (Flags::DIM, b"2;"),
        (Flags::ITALIC, b"3;"),
        (Flags::UNDERLINE, b"4;"),
        (Flags::DOUBLE_UNDERLINE, b"4:2;"),
        (Flags::UNDERCURL, b"4:3;"),
        (Flags::DOTTED_UNDERLINE, b"4:4;"),
        (Flags::DASHED_UNDERLINE, b"4:5;"),
        (Flags::INVERSE, b"7;"),
        (Flags::HIDDEN, b"8;"),
        (Flags::STRIKEOUT, b"9;"),
    ];
    if added.is_empty() {
        return;
    }
    for (flag, code) in CODES {
        if added.contains(flag) {
            out.extend_from_slice(code);
        }
    }
}

/// Writes a color; `base` is 30 for the foreground, 40 for the background, 50 for underlines.
fn write_color(color: Color, base: u8, out: &mut Vec<u8>) {
    match color {
        Color::Named(NamedColor::Foreground | NamedColor::Background) => write_param(base + 9, out),
        Color::Named(name) => match name as usize {
            index @ 0..8 => write_param(base + low_byte(index), out),
            index @ 8..16 => write_param(base + 60 + low_byte(index - 8), out),
            _ => write_param(base + 9, out),
        },
        Color::Indexed(index) => {
            write_param(base + 8, out);
            out.extend_from_slice(b"5;");
            write_param(index, out);
        }
        Color::Spec(rgb) => {
            write_param(base + 8, out);
            out.extend_from_slice(b"2;");
            write_param(rgb.r, out);
            write_param(rgb.g, out);
            write_param(rgb.b, out);
        }
    }
}

fn low_byte(index: usize) -> u8 {
    u8::try_from(index).unwrap_or(u8::MAX)
}

/// Writes a parameter and a separator.
fn write_param(value: u8, out: &mut Vec<u8>) {
    decimal(usize::from(value), out);
    out.push(b';');
}

/// Writes `value` in decimal.
pub(crate) fn decimal(value: usize, out: &mut Vec<u8>) {
    let digit = |value: usize| b'0' + low_byte(value % 10);
    if value >= 1000 {
        // Rare: few screens are that large. Writing to a `Vec` cannot fail.
        write!(out, "{value}").unwrap_or_default();
        return;
    }
    if value >= 100 {
        out.push(digit(value / 100));
    }
    if value >= 10 {
        out.push(digit(value / 10));
    }
    out.push(digit(value));
}

fn write_link(link: Option<&Hyperlink>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x1b]8;");
    if let Some(link) = link {
        if !link.id().is_empty() {
            out.extend_from_slice(b"id=");
            out.extend_from_slice(link.id().as_bytes());
        }
        out.push(b';');
        out.extend_from_slice(link.uri().as_bytes());
    } else {
        out.push(b';');
    }
    out.extend_from_slice(b"\x1b\\");
}
