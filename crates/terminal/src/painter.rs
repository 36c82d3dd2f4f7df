//! Painter that draws a screen on a client's terminal and brings that terminal to the same state.
//!
//! A client's terminal receives the program's output while it keeps up, and a frame to bring it to a
//! known state: on attach, after falling behind, after a resize. The state of the outer terminal
//! before a frame is unknown except for the rows that this painter drew, so a frame sets everything
//! else.
//!
//! Modes that few terminals have are not transferred: while a program uses them, its client is painted
//! ([`Terminal::needs_frames`]).
//!
//! The outer terminal stays on its alternate screen, whichever screen the program uses, so a frame
//! never switches screens.

use std::mem;

use alacritty_terminal::grid::{Charsets, Cursor};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CharsetIndex, Color, CursorStyle};

use crate::clusters::unjoined;
use crate::coordinates::{line_at, row_index};
use crate::pen::{Pen, decimal};
use crate::screen::{Screen, is_default_tab};
use crate::snapshot::{is_blank, reset_color, set_color, style_number};
use crate::terminal::Terminal;
use crate::tracked::OUTER;
use crate::writer::{CursorPosition, Writer};

/// Starts a synchronized update and sets the state required for drawing: cursor hidden, no margins,
/// absolute positions, no autowrap, no insert mode, plain line feeds, no attributes, no protection, no link, ASCII
/// character sets.
const BEGIN: &[u8] =
    b"\x1b[?2026h\x1b[?25l\x1b[?6l\x1b[r\x1b[?7l\x1b[4;20l\x1b[m\x1b[0\"q\x1b]8;;\x1b\\\x1b(B\x1b)B\x1b*B\x1b+B\x0f";
const END: &[u8] = b"\x1b[?2026l";
/// Fill character for the area of an outer terminal outside the pane.
const OUTSIDE: &str = "·";

/// Private modes that a frame sets or resets, in this order.
const PRIVATE_MODES: [(TermMode, usize); 12] = [
    (TermMode::APP_CURSOR, 1),
    (TermMode::MOUSE_REPORT_CLICK, 1000),
    (TermMode::MOUSE_DRAG, 1002),
    (TermMode::MOUSE_MOTION, 1003),
    (TermMode::FOCUS_IN_OUT, 1004),
    (TermMode::UTF8_MOUSE, 1005),
    (TermMode::SGR_MOUSE, 1006),
    (TermMode::ALTERNATE_SCROLL, 1007),
    (TermMode::URGENCY_HINTS, 1042),
    (TermMode::BRACKETED_PASTE, 2004),
    (TermMode::LINE_WRAP, 7),
    (TermMode::SHOW_CURSOR, 25),
];

/// Draws one terminal on the terminal of one client.
#[derive(Debug, Default)]
pub struct Painter {
    /// Fingerprints of the rows as last drawn.
    drawn: Vec<u64>,
    /// Sizes of the pane and of the outer terminal at that time.
    sizes: Option<(model::Size, model::Size)>,
    title: Option<String>,
    /// Colors that frames changed in the outer terminal.
    colors: Vec<usize>,
    /// Tab stops that the last frame set in the outer terminal.
    tabs: Vec<bool>,
}

impl Painter {
    /// Creates a painter; its first frame draws everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the next frame draw everything.
    ///
    /// Required whenever the outer terminal received bytes other than this painter's frames.
    pub fn invalidate(&mut self) {
        *self = Self { colors: mem::take(&mut self.colors), ..Self::default() };
    }

    /// Returns the bytes that undo the changes of the pane that outlive it in the outer terminal and
    /// that [`crate::outer::leave`] does not undo, because a user may have made such changes too:
    /// colors and tab stops.
    #[must_use]
    pub fn undo(&self, terminal: &mut Terminal, outer: model::Size) -> Vec<u8> {
        terminal.flush();
        let mut writer = Writer::for_client(usize::from(outer.cols()));
        let changed = terminal.screen.changed_colors().map(|(index, _)| index);
        for index in self.colors.iter().copied().chain(changed) {
            reset_color(index, &mut writer);
        }
        if terminal.screen.tabs_touched {
            let defaults: Vec<bool> = (0..usize::from(outer.cols())).map(is_default_tab).collect();
            set_tabs(&defaults, &mut writer);
        }
        writer.out
    }

    /// Returns the bytes that make an outer terminal of size `outer` show the screen.
    ///
    /// If the sizes differ, the screen is placed in the upper left corner.
    pub fn frame(&mut self, terminal: &mut Terminal, outer: model::Size) -> Vec<u8> {
        self.frame_with_notice(terminal, outer, None)
    }

    /// Returns the same as [`Painter::frame`], with a line of text instead of the last row of the
    /// outer terminal. When the text changes, the caller calls [`Painter::invalidate`].
    pub fn frame_with_notice(
        &mut self,
        terminal: &mut Terminal,
        outer: model::Size,
        notice: Option<&str>,
    ) -> Vec<u8> {
        terminal.flush();
        let size = terminal.size();
        let screen = &terminal.screen;
        let everything = self.sizes != Some((size, outer));
        if everything {
            self.sizes = Some((size, outer));
            self.drawn.clear();
            self.drawn.resize(usize::from(size.rows()), 0);
        }

        let mut frame = Frame::new(screen, outer);
        frame.writer.raw(BEGIN);
        frame.colors(&mut self.colors);
        frame.tabs(&mut self.tabs);
        frame.writer.at = CursorPosition::Unknown;
        for row in 0..frame.rows {
            let cells = &screen.grid()[line_at(row)][..];
            let seen = fingerprint(cells);
            if everything || self.drawn[row] != seen {
                self.drawn[row] = seen;
                frame.row(cells, row);
            }
        }
        if everything {
            frame.fill_outside();
        }
        if self.title != screen.title {
            self.title.clone_from(&screen.title);
            frame.title();
        }
        if let Some(text) = notice {
            frame.notice(text);
        }
        frame.state();
        frame.writer.out
    }
}

/// A frame under construction.
struct Frame<'a> {
    screen: &'a Screen,
    writer: Writer,
    outer_columns: usize,
    outer_rows: usize,
    /// The visible part of the pane.
    columns: usize,
    rows: usize,
}

impl<'a> Frame<'a> {
    fn new(screen: &'a Screen, outer: model::Size) -> Self {
        let (outer_columns, outer_rows) = (usize::from(outer.cols()), usize::from(outer.rows()));
        Self {
            screen,
            writer: Writer::for_client(outer_columns),
            outer_columns,
            outer_rows,
            columns: screen.columns().min(outer_columns),
            rows: screen.rows().min(outer_rows),
        }
    }

    /// Returns whether the program's output can be forwarded after this frame.
    fn is_followed(&self) -> bool {
        !self.screen.needs_frames()
            && (self.outer_columns, self.outer_rows) == (self.screen.columns(), self.screen.rows())
    }

    /// Transfers the colors that the program changed, and restores those in `known` that it reset.
    fn colors(&mut self, known: &mut Vec<usize>) {
        let changed: Vec<_> = self.screen.changed_colors().collect();
        known.retain(|index| {
            let kept = changed.iter().any(|(changed, _)| changed == index);
            if !kept {
                reset_color(*index, &mut self.writer);
            }
            kept
        });
        for (index, color) in changed {
            set_color(index, color, &mut self.writer);
            if !known.contains(&index) {
                known.push(index);
            }
        }
    }

    /// Transfers the tab stops if the program ever changed one, and if its output can be forwarded
    /// after this frame.
    fn tabs(&mut self, known: &mut Vec<bool>) {
        if self.screen.tabs_touched && self.is_followed() && *known != self.screen.tabs {
            set_tabs(&self.screen.tabs, &mut self.writer);
            known.clone_from(&self.screen.tabs);
        }
    }

    fn row(&mut self, cells: &[Cell], row: usize) {
        let cells = &cells[..self.columns];
        let end = cells.iter().rposition(|cell| !is_blank(cell)).map_or(0, |at| at + 1);
        let mut column = 0;
        self.writer.goto(row, 0);
        while column < end {
            column += self.cell(cells, row, column);
            // Fast path: most cells have the same style as the previous one.
            let drawn = &cells[column - 1];
            let alike = cells[column..end].iter().take_while(|cell| is_alike(cell, drawn));
            let mut count = 0;
            for cell in alike {
                self.writer.put(cell.c);
                count += 1;
            }
            if count > 0 {
                column += count;
                self.writer.moved_to(row, column);
            }
        }
        if end < self.columns {
            self.writer.pen.switch_to(Pen::default(), &mut self.writer.out);
            if self.columns == self.outer_columns {
                self.writer.raw(b"\x1b[K");
            } else {
                self.writer.csi(self.columns - end, b"X");
            }
        }
    }

    /// Draws one character, or a blank for half of a wide character.
    #[inline]
    fn cell(&mut self, cells: &[Cell], row: usize, column: usize) -> usize {
        const HALVES: Flags = Flags::WIDE_CHAR.union(Flags::WIDE_CHAR_SPACER);
        let cell = &cells[column];
        if !cell.flags.intersects(HALVES) && cell.extra.is_none() {
            self.writer.pen.match_cell(cell, &mut self.writer.out);
            self.writer.put(if cell.c == '\t' { ' ' } else { cell.c });
            self.writer.moved_to(row, column + 1);
            return 1;
        }
        let whole = cell.flags.contains(Flags::WIDE_CHAR)
            && cells.get(column + 1).is_some_and(|c| c.flags.contains(Flags::WIDE_CHAR_SPACER));
        let width = if whole { 2 } else { 1 };
        let plain = unjoined(cell, cells.get(column + width));
        let cell = plain.as_ref().unwrap_or(cell);
        if whole {
            self.writer.print(cell, row, column);
            return 2;
        }
        let mut plain = cell.clone();
        if cell.flags.intersects(HALVES) {
            plain.clear_wide();
            plain.c = ' ';
        }
        self.writer.print(&plain, row, column);
        1
    }

    /// Fills the area outside the pane.
    fn fill_outside(&mut self) {
        let beside = self.outer_columns - self.columns;
        if beside == 0 && self.rows == self.outer_rows {
            return;
        }
        let mut dim = Cell::default();
        dim.flags.insert(Flags::DIM);
        self.writer.pen.match_cell(&dim, &mut self.writer.out);
        for row in 0..self.outer_rows {
            let (from, count) =
                if row < self.rows { (self.columns, beside) } else { (0, self.outer_columns) };
            if count > 0 {
                self.writer.at = CursorPosition::Unknown;
                self.writer.goto(row, from);
                self.writer.raw(OUTSIDE.repeat(count).as_bytes());
                self.writer.at = CursorPosition::Unknown;
            }
        }
    }

    /// Draws a text in reverse video on the last row.
    fn notice(&mut self, text: &str) {
        let mut reverse = Cell::default();
        reverse.flags.insert(Flags::INVERSE);
        self.writer.pen.match_cell(&reverse, &mut self.writer.out);
        self.writer.at = CursorPosition::Unknown;
        self.writer.goto(self.outer_rows - 1, 0);
        let line: String = text.chars().take(self.outer_columns).collect();
        self.writer.raw(format!("{line:<0$}", self.outer_columns).as_bytes());
        self.writer.at = CursorPosition::Unknown;
    }

    fn title(&mut self) {
        self.writer.raw(b"\x1b]2;");
        self.writer.raw(self.screen.title.as_deref().unwrap_or_default().as_bytes());
        self.writer.raw(b"\x1b\\");
    }

    /// Writes all state except the cells.
    fn state(&mut self) {
        let screen = self.screen;
        let mode = outer_modes(screen.mode());
        let grid = screen.grid();
        if self.is_followed() {
            self.save_cursor(&grid.saved_cursor);
            let (top, end) = screen.margins;
            if (top, end) != (0, screen.rows()) {
                self.writer.csi(top + 1, b";");
                decimal(end, &mut self.writer.out);
                self.writer.raw(b"r");
            }
            if mode.contains(TermMode::ORIGIN) {
                self.writer.raw(b"\x1b[?6h");
                self.writer.origin = screen.margins.0;
            }
        }
        self.restore_cursor(&grid.cursor);
        self.modes(mode);
        self.writer.raw(END);
    }

    /// Saves a cursor in the client's terminal, with the modes that are saved with it. There are no
    /// margins yet, so that any position can be reached in origin mode.
    fn save_cursor(&mut self, cursor: &Cursor<Cell>) {
        let saved = self.screen.saved[usize::from(self.screen.is_alternate())];
        if saved.origin {
            self.writer.raw(b"\x1b[?6h");
        }
        self.restore_cursor(cursor);
        match saved.charset {
            CharsetIndex::G1 => self.writer.raw(b"\x0e\x1b7\x0f"),
            CharsetIndex::G0 | CharsetIndex::G2 | CharsetIndex::G3 => self.writer.raw(b"\x1b7"),
        }
        if saved.origin {
            self.writer.raw(b"\x1b[?6l");
        }
    }

    /// Restores the position, pen and character sets of `cursor`.
    fn restore_cursor(&mut self, cursor: &Cursor<Cell>) {
        let row = row_index(cursor.point.line);
        let column = cursor.point.column.0;
        self.writer.set_charsets(Charsets::default());
        self.writer.at = CursorPosition::Unknown;
        let at_edge = column + 1 == self.outer_columns;
        if cursor.input_needs_wrap && at_edge && row < self.rows {
            // Only printing in the last column causes a pending wrap.
            let cells = &self.screen.grid()[cursor.point.line][..];
            let spacer =
                cells.get(column).is_some_and(|c| c.flags.contains(Flags::WIDE_CHAR_SPACER));
            let from = if spacer { column.saturating_sub(1) } else { column };
            if from < self.columns {
                self.writer.goto(row, from);
                self.writer.raw(b"\x1b[?7h");
                self.cell(&cells[..self.columns], row, from);
            }
        } else {
            self.writer.goto(row.min(self.outer_rows - 1), column.min(self.outer_columns - 1));
        }
        self.writer.set_style(cursor);
    }

    fn modes(&mut self, mode: TermMode) {
        for (last, wanted) in [(b"l", false), (b"h", true)] {
            let mut begun = false;
            for (flag, number) in PRIVATE_MODES {
                if mode.contains(flag) == wanted {
                    self.writer.raw(if begun { b";" } else { b"\x1b[?" });
                    decimal(number, &mut self.writer.out);
                    begun = true;
                }
            }
            for number in OUTER {
                if self.screen.tracked.contains(number) == wanted {
                    self.writer.raw(if begun { b";" } else { b"\x1b[?" });
                    decimal(number.into(), &mut self.writer.out);
                    begun = true;
                }
            }
            if begun {
                self.writer.raw(last);
            }
        }
        if mode.contains(TermMode::INSERT) {
            self.writer.raw(b"\x1b[4h");
        }
        if mode.contains(TermMode::LINE_FEED_NEW_LINE) {
            self.writer.raw(b"\x1b[20h");
        }
        let keypad = if mode.contains(TermMode::APP_KEYPAD) { b"\x1b=" } else { b"\x1b>" };
        self.writer.raw(keypad);
        self.writer.raw(b"\x1b[=");
        decimal(usize::from(self.screen.keyboard().flags.bits()), &mut self.writer.out);
        self.writer.raw(b"u\x1b[>4;");
        decimal(usize::from(self.screen.modify_other_keys), &mut self.writer.out);
        self.writer.raw(b"m");
        let style = self.screen.cursor_style();
        // The default style selects the one configured by the user.
        let style = if style == CursorStyle::default() { 0 } else { style_number(style) };
        self.writer.csi(style, b" q");
        if self.screen.active_charset == CharsetIndex::G1 {
            self.writer.raw(b"\x0e");
        }
    }
}

/// Returns the modes of the outer terminal. It is always on its alternate screen, where the mouse
/// wheel would send arrow keys to a shell that does not use its alternate screen.
pub(crate) fn outer_modes(mut mode: TermMode) -> TermMode {
    if !mode.contains(TermMode::ALT_SCREEN) {
        mode.remove(TermMode::ALTERNATE_SCROLL);
    }
    mode
}

/// Replaces the tab stops.
fn set_tabs(tabs: &[bool], writer: &mut Writer) {
    writer.raw(b"\x1b[3g");
    for (column, _) in tabs.iter().enumerate().filter(|(_, set)| **set) {
        writer.csi(column + 1, b"G\x1bH");
    }
}

/// Returns whether a cell can be drawn after `drawn` without style changes.
#[inline]
fn is_alike(cell: &Cell, drawn: &Cell) -> bool {
    const ODD: Flags =
        Flags::WIDE_CHAR.union(Flags::WIDE_CHAR_SPACER).union(Flags::LEADING_WIDE_CHAR_SPACER);
    cell.fg == drawn.fg
        && cell.bg == drawn.bg
        && cell.flags == drawn.flags
        && !cell.flags.intersects(ODD)
        && cell.extra.is_none()
        && drawn.extra.is_none()
        && cell.c != '\t'
}

/// Returns a hash of the appearance of a row; never 0.
///
/// Computed in four independent lanes, so that their steps can run in parallel.
fn fingerprint(cells: &[Cell]) -> u64 {
    const LANES: usize = 4;
    let mut lanes = [1u64, 2, 3, 4];
    let mut blocks = cells.chunks_exact(LANES);
    for block in &mut blocks {
        for (lane, cell) in lanes.iter_mut().zip(block) {
            *lane = mix(*lane, cell);
        }
    }
    let rest = blocks.remainder().iter().fold(0, mix);
    lanes.iter().fold(rest, |sum, lane| (sum.rotate_left(23) ^ lane).wrapping_mul(SPREAD)) | 1
}

/// Spreads a change of any bit over the upper bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mix(sum: u64, cell: &Cell) -> u64 {
    let shape = u64::from(u32::from(cell.c)) << 32 | u64::from(cell.flags.bits());
    let colors = u64::from(color_bits(cell.fg)) << 32 | u64::from(color_bits(cell.bg));
    let extra = if cell.extra.is_some() { extra_bits(cell) } else { 0 };
    let look = shape ^ colors.wrapping_mul(SPREAD.rotate_left(32) | 1) ^ extra;
    (sum.rotate_left(23) ^ look).wrapping_mul(SPREAD)
}

#[inline]
fn color_bits(color: Color) -> u32 {
    match color {
        Color::Named(name) => name as u32,
        Color::Indexed(index) => 1 << 24 | u32::from(index),
        Color::Spec(rgb) => 2 << 24 | u32::from_be_bytes([0, rgb.r, rgb.g, rgb.b]),
    }
}

#[cold]
fn extra_bits(cell: &Cell) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    cell.zerowidth().hash(&mut hasher);
    cell.underline_color().map(color_bits).hash(&mut hasher);
    cell.hyperlink().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clusters::{EMOJI_PRESENTATION, JOINER};
    use crate::testing::{GridState, Step, assert_same, run, size, state, steps};
    use crate::tracked::TrackedModes;
    use crate::{Filter, Passed, outer};

    /// A client with its terminal, painter and filter.
    struct Client {
        outer: Terminal,
        painter: Painter,
        filter: Filter,
        /// The next output must be painted too.
        frames: bool,
    }

    impl Client {
        fn new(size: model::Size) -> Self {
            let mut outer = Terminal::new(size, 0);
            outer.feed(&outer::enter());
            Self { outer, painter: Painter::new(), filter: Filter::new(), frames: false }
        }

        fn paint(&mut self, pane: &mut Terminal, fed: &[u8]) {
            let frame = self.painter.frame(pane, self.outer.size());
            self.outer.feed(&frame);
            self.frames = pane.needs_frames();
            if self.frames {
                return;
            }
            self.filter = Filter::new();
            let mut rest = Vec::new();
            let unfinished = &fed[fed.len() - pane.unfinished()..];
            assert_eq!(self.filter.pass(unfinished, &mut rest), Passed::All);
            self.outer.feed(&rest);
        }

        fn pass(&mut self, pane: &mut Terminal, bytes: &[u8], fed: &[u8]) {
            let mut passed = Vec::new();
            if !self.frames && self.filter.pass(bytes, &mut passed) == Passed::All {
                self.outer.feed(&passed);
            } else {
                self.painter.invalidate();
                self.paint(pane, fed);
            }
        }
    }

    /// Removes steps after which a client cannot show the screen exactly: it joins a skin tone to an
    /// emoji even if the program printed it separately, or reset mode 2027.
    fn comparable(mut steps: Vec<Step>) -> Vec<Step> {
        steps.retain(|step| match step {
            Step::Feed(bytes) => bytes != "🏽".as_bytes() && bytes != b"\x1b[?2027l",
            Step::Resize(..) => true,
        });
        steps
    }

    /// Compares all state that is visible to an attached user, now or after further output.
    fn assert_shows(client: &mut Client, pane: &mut Terminal, about: &str) {
        let is_followed = !pane.needs_frames();
        let mut wanted = state(pane);
        wanted.mode = outer_modes(wanted.mode);
        let mut shown = state(&mut client.outer);
        for state in [&mut wanted, &mut shown] {
            state.main = None;
            state.mode.remove(TermMode::ALT_SCREEN | TermMode::URGENCY_HINTS);
            state.keyboards = Default::default();
            state.titles = Default::default();
            state.synchronized = false;
            state.repeats = None;
            state.history.clear();
            state.alternate_saved = None;
            state.saved = state.saved.filter(|_| is_followed);
            state.tracked = TrackedModes::default();
            if !is_followed {
                state.tabs.clear();
                state.margins = (0, 0);
                state.sides = (0, 0);
                state.mode.remove(TermMode::ORIGIN);
                state.active.saved = state.active.cursor.clone();
                state.active.cursor.wraps = false;
                state.active.saved.wraps = false;
            }
            let GridState { rows, .. } = &mut state.active;
            for look in rows.iter_mut().flatten() {
                look.flags.remove(Flags::WRAPLINE | Flags::LEADING_WIDE_CHAR_SPACER);
                if look.c == '\t' {
                    look.c = ' ';
                }
                if !look.flags.contains(Flags::WIDE_CHAR) {
                    look.marks.retain(|&mark| mark != EMOJI_PRESENTATION);
                }
                while look.marks.last() == Some(&JOINER) {
                    look.marks.pop();
                }
            }
        }
        assert_same(&wanted, &shown, about);
    }

    /// Returns whether the effect of `bytes` is independent of state that a frame does not transfer:
    /// the character that REP repeats, saved keyboard flags, tab stops. `inside` is set if the bytes
    /// continue a sequence.
    fn is_transferred(bytes: &[u8], inside: bool) -> bool {
        let is_lost = |byte: &u8| b"ubtIZW".contains(byte);
        let ends_sequence = if inside {
            bytes.iter().any(is_lost)
        } else {
            bytes.contains(&0x1b) && bytes.last().is_some_and(is_lost)
        };
        // ENQ is removed from the stream, and may have separated the parts of a character.
        !ends_sequence && !bytes.contains(&b'\t') && !bytes.contains(&0x05)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn frame_shows_the_screen_and_further_output_matches(
            (cols, rows) in (2u16..24, 2u16..10),
            before in steps(40).prop_map(comparable),
            more in steps(12).prop_map(comparable),
        ) {
            let mut pane = Terminal::new(size(cols, rows), 0);
            run(&mut pane, &before);
            // Taking a snapshot removes cells that cannot be drawn.
            drop(pane.snapshot());
            let mut fed: Vec<u8> = before.iter().flat_map(|step| match step {
                Step::Feed(bytes) => bytes.clone(),
                Step::Resize(..) => Vec::new(),
            }).collect();
            // Tab stops are not transferred, and an unfinished sequence may contain a tab.
            prop_assume!(!fed[fed.len() - pane.unfinished()..].contains(&b'\t'));
            let mut client = Client::new(pane.size());

            client.paint(&mut pane, &fed);
            if pane.unfinished() == 0 {
                assert_shows(&mut client, &mut pane, "first frame");
            }
            // A control inside an unfinished sequence is forwarded immediately, but drawn in the
            // pane only when the sequence is complete: CAN completes it.
            let end = Step::Feed(vec![0x18]);
            for step in more.iter().chain([&end]) {
                let Step::Feed(bytes) = step else { continue };
                if !is_transferred(bytes, pane.unfinished() > 0) {
                    continue;
                }
                pane.feed(bytes);
                fed.extend_from_slice(bytes);
                client.pass(&mut pane, bytes, &fed);
            }
            drop(pane.snapshot());
            drop(client.outer.snapshot());
            assert_shows(&mut client, &mut pane, &format!("after {more:?}"));
        }

        #[test]
        fn second_frame_brings_the_client_up_to_date(
            (cols, rows) in (2u16..24, 2u16..10),
            before in steps(30).prop_map(comparable),
            more in steps(10).prop_map(comparable),
        ) {
            let mut pane = Terminal::new(size(cols, rows), 0);
            run(&mut pane, &before);
            let mut client = Client::new(pane.size());
            let frame = client.painter.frame(&mut pane, client.outer.size());
            client.outer.feed(&frame);
            run(&mut pane, &more);
            drop(pane.snapshot());
            if pane.size() != client.outer.size() {
                client.outer.resize(pane.size());
            }

            let frame = client.painter.frame(&mut pane, client.outer.size());

            client.outer.feed(&frame);
            assert_shows(&mut client, &mut pane, "second frame");
        }

        #[test]
        fn outer_terminal_of_any_size_shows_the_upper_left_corner(
            before in steps(30).prop_map(comparable),
            (cols, rows) in (2u16..30, 2u16..14),
        ) {
            let mut pane = Terminal::new(size(16, 6), 0);
            run(&mut pane, &before);
            drop(pane.snapshot());
            let mut outer = Terminal::new(size(cols, rows), 0);
            outer.feed(&outer::enter());

            outer.feed(&Painter::new().frame(&mut pane, size(cols, rows)));

            let pane_state = state(&mut pane).active;
            let outer_state = state(&mut outer).active;
            for (row, cells) in outer_state.rows.iter().enumerate() {
                for (column, cell) in cells.iter().enumerate() {
                    match pane_state.rows.get(row).and_then(|cells| cells.get(column)) {
                        None => prop_assert_eq!(cell.c, '·'),
                        // A wide character at the edge is replaced by a blank.
                        Some(wanted) if wanted.flags.contains(Flags::WIDE_CHAR)
                            && column + 1 == cells.len() => prop_assert_eq!(cell.c, ' '),
                        Some(wanted) => {
                            let c = if wanted.c == '\t' { ' ' } else { wanted.c };
                            prop_assert_eq!(cell.c, c);
                            prop_assert_eq!(cell.colors, wanted.colors);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn client_that_attaches_gets_colors_tab_stops_and_modes_and_loses_them_on_detach() {
        let mut pane = Terminal::new(size(20, 2), 0);
        pane.feed(b"\x1b]4;3;#123456\x07\x1b]11;#fefefe\x07\x1b[3g\x1b[5G\x1bH\x1b[?5;1016;2031h\x1b[?1042l");
        let fresh = state(&mut Terminal::new(size(20, 2), 0));
        let mut client = Client::new(size(20, 2));

        client.paint(&mut pane, b"");
        let shown = state(&mut client.outer);
        assert_eq!(shown.tabs, state(&mut pane).tabs);
        assert_eq!(shown.palette, state(&mut pane).palette);
        assert_eq!(shown.tracked, state(&mut pane).tracked);

        client.outer.feed(&client.painter.undo(&mut pane, size(20, 2)));
        client.outer.feed(&outer::leave());
        let left = state(&mut client.outer);
        assert_eq!(
            (left.tabs, left.palette, left.tracked),
            (fresh.tabs, fresh.palette, fresh.tracked)
        );
    }

    #[test]
    fn unchanged_rows_are_not_redrawn() {
        let mut pane = Terminal::new(size(80, 24), 0);
        pane.feed(b"hello\r\nworld");
        let mut painter = Painter::new();
        let first = painter.frame(&mut pane, size(80, 24));

        let second = painter.frame(&mut pane, size(80, 24));

        assert!(first.windows(5).any(|part| part == b"hello"));
        assert!(!second.windows(5).any(|part| part == b"hello" || part == b"world"));
        assert!(second.starts_with(b"\x1b[?2026h") && second.ends_with(b"\x1b[?2026l"));
    }
}
