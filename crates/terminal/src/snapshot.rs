//! Snapshots: bytes that rebuild the whole screen in a new terminal of the same size.
//!
//! The order matters, since most sequences have side effects:
//!
//! ```text
//! palette, titles
//! main screen:       cells; cursor and keyboard too if the alternate screen is active
//! alternate screen:  cells                                  (if active)
//! tab stops, margins (homes the cursor)
//! saved cursor
//! origin mode        (homes the cursor; positions now count from the margin)
//! cursor: position, pending wrap, pen, character sets
//! keyboard, all other modes, active character set
//! ```

use alacritty_terminal::grid::{Charsets, Cursor, Dimensions as _, Grid};
use alacritty_terminal::index::Column;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{
    CharsetIndex, Color, CursorShape, CursorStyle, KeyboardModes, NamedColor, Rgb,
};

use unicode_width::UnicodeWidthChar as _;

use crate::coordinates::{line_at, row_index};
use crate::pen::{Pen, decimal};
use crate::repair::repair;
use crate::screen::{Keyboard, SavedState, Screen, is_default_tab};
use crate::tracked::{CLUSTERS, SIDE_MARGINS};
use crate::writer::{CursorPosition, Writer};

/// A blank character of two columns.
const WIDE: char = '\u{3000}';
/// Number of blanks from which moving over them is shorter than printing them.
const MIN_SKIP: usize = 5;
/// Number of colored blanks from which erasing them is shorter than printing them.
const MIN_ERASE: usize = 8;

/// Modes whose sequences neither move the cursor nor clear the screen.
const MODES: [(TermMode, &[u8], &[u8]); 15] = [
    (TermMode::SHOW_CURSOR, b"\x1b[?25h", b"\x1b[?25l"),
    (TermMode::APP_CURSOR, b"\x1b[?1h", b"\x1b[?1l"),
    (TermMode::APP_KEYPAD, b"\x1b=", b"\x1b>"),
    (TermMode::MOUSE_REPORT_CLICK, b"\x1b[?1000h", b"\x1b[?1000l"),
    (TermMode::MOUSE_DRAG, b"\x1b[?1002h", b"\x1b[?1002l"),
    (TermMode::MOUSE_MOTION, b"\x1b[?1003h", b"\x1b[?1003l"),
    (TermMode::UTF8_MOUSE, b"\x1b[?1005h", b"\x1b[?1005l"),
    (TermMode::SGR_MOUSE, b"\x1b[?1006h", b"\x1b[?1006l"),
    (TermMode::ALTERNATE_SCROLL, b"\x1b[?1007h", b"\x1b[?1007l"),
    (TermMode::URGENCY_HINTS, b"\x1b[?1042h", b"\x1b[?1042l"),
    (TermMode::BRACKETED_PASTE, b"\x1b[?2004h", b"\x1b[?2004l"),
    (TermMode::FOCUS_IN_OUT, b"\x1b[?1004h", b"\x1b[?1004l"),
    (TermMode::LINE_FEED_NEW_LINE, b"\x1b[20h", b"\x1b[20l"),
    (TermMode::LINE_WRAP, b"\x1b[?7h", b"\x1b[?7l"),
    (TermMode::INSERT, b"\x1b[4h", b"\x1b[4l"),
];

/// Returns the snapshot, and the character that REP repeats after it.
///
/// That is [`Screen::last_printed`], except for some screens without blanks; the caller must then
/// adjust the original terminal.
pub(crate) fn snapshot(screen: &mut Screen) -> (Vec<u8>, Option<char>) {
    repair(screen.grid_mut());
    let mut writer = Writer::new(screen.columns());
    palette(screen, &mut writer);
    titles(screen, &mut writer);
    inactive_alternate(screen, &mut writer);
    // Print a character, so that there is one for REP to repeat.
    if screen.last_printed.is_some() {
        writer.put(' ');
        writer.at = CursorPosition::Cell(0, 1);
    }

    if screen.is_alternate() {
        let saved = screen.saved;
        // Set while the main screen is active.
        keyboard(&screen.keyboards[0], &mut writer);
        screen.with_main(|main| {
            repair(main);
            cells(main, &mut writer);
            save_cursor(&main.cursor, saved[0], main, b"\x1b[?1049h", &mut writer);
        });
        let filled = writer.pen != Pen::default();
        writer.pen.switch_to(Pen::default(), &mut writer.out);
        if filled {
            writer.raw(b"\x1b[2J");
        }
        writer.set_charsets(Charsets::default());
    }
    cells(screen.grid(), &mut writer);
    tabs(screen, &mut writer);

    let grid = screen.grid();
    let saved = screen.saved[usize::from(screen.is_alternate())];
    if grid.saved_cursor != Cursor::default() || saved != SavedState::default() {
        save_cursor(&grid.saved_cursor, saved, grid, b"\x1b7", &mut writer);
    }
    margins(screen, &mut writer);
    restore_last_printed(screen, &mut writer);
    side_margins(screen, &mut writer);
    if screen.mode().contains(TermMode::ORIGIN) {
        writer.raw(b"\x1b[?6h");
        writer.origin = screen.margins.0;
        writer.origin_column = screen.sides.0;
        writer.at = CursorPosition::Unknown;
    }
    restore_cursor(&grid.cursor, grid, &mut writer);
    keyboard(screen.keyboard(), &mut writer);
    modes(screen, &mut writer);
    (writer.out, writer.last)
}

/// Transfers the state that the alternate screen keeps while the main screen is active.
fn inactive_alternate(screen: &Screen, writer: &mut Writer) {
    let (cursor, saved) = (&screen.alternate_saved, screen.saved[1]);
    let has_saved = *cursor != Cursor::default() || saved != SavedState::default();
    if screen.is_alternate() || (screen.keyboards[1] == Keyboard::default() && !has_saved) {
        return;
    }
    writer.raw(b"\x1b[?1049h");
    if has_saved {
        let blank = Grid::new(screen.rows(), screen.columns(), 0);
        save_cursor(cursor, saved, &blank, b"\x1b7", writer);
    }
    keyboard(&screen.keyboards[1], writer);
    // Restores the initial cursor.
    writer.raw(b"\x1b[?1049l");
    writer.pen = Pen::default();
    writer.charsets = Charsets::default();
    writer.at = CursorPosition::Cell(0, 0);
}

/// Saves `cursor` with `sequence`, together with the modes that are saved with it.
fn save_cursor(
    cursor: &Cursor<Cell>,
    saved: SavedState,
    grid: &Grid<Cell>,
    sequence: &[u8],
    writer: &mut Writer,
) {
    // Only a right margin causes a pending wrap before the last column.
    let column = cursor.point.column.0;
    let sides = cursor.input_needs_wrap && column + 1 < grid.columns();
    if sides {
        writer.raw(b"\x1b[?69h");
        writer.csi(1, b";");
        decimal(column + 1, &mut writer.out);
        writer.raw(b"s");
        writer.at = CursorPosition::Unknown;
    }
    if saved.origin {
        writer.raw(b"\x1b[?6h");
        writer.at = CursorPosition::Unknown;
    }
    restore_cursor(cursor, grid, writer);
    if saved.charset == CharsetIndex::G1 {
        writer.raw(b"\x0e");
    }
    writer.raw(sequence);
    if saved.charset == CharsetIndex::G1 {
        writer.raw(b"\x0f");
    }
    if saved.origin {
        writer.raw(b"\x1b[?6l");
        writer.at = CursorPosition::Unknown;
    }
    if sides {
        writer.raw(b"\x1b[?69l");
        writer.at = CursorPosition::Unknown;
    }
}

fn side_margins(screen: &Screen, writer: &mut Writer) {
    if !screen.tracked.contains(SIDE_MARGINS) {
        return;
    }
    writer.raw(b"\x1b[?69h");
    if screen.has_sides() {
        let (left, right) = screen.sides;
        writer.csi(left + 1, b";");
        decimal(right, &mut writer.out);
        writer.raw(b"s");
        writer.at = CursorPosition::Unknown;
    }
}

fn palette(screen: &Screen, writer: &mut Writer) {
    for (index, color) in screen.changed_colors() {
        set_color(index, color, writer);
    }
}

/// Changes a color of the palette, or the foreground, background or cursor color.
pub(crate) fn set_color(index: usize, color: Rgb, writer: &mut Writer) {
    writer.raw(b"\x1b]");
    match index.checked_sub(NamedColor::Foreground as usize) {
        None => {
            writer.raw(b"4;");
            decimal(index, &mut writer.out);
        }
        Some(dynamic) => decimal(10 + dynamic, &mut writer.out),
    }
    writer.raw(format!(";{color}\x1b\\").as_bytes());
}

/// Restores the color that the user configured.
pub(crate) fn reset_color(index: usize, writer: &mut Writer) {
    writer.raw(b"\x1b]");
    match index.checked_sub(NamedColor::Foreground as usize) {
        None => {
            writer.raw(b"104;");
            decimal(index, &mut writer.out);
        }
        Some(dynamic) => decimal(110 + dynamic, &mut writer.out),
    }
    writer.raw(b"\x1b\\");
}

/// Writes the title and the saved titles. Only the first saved titles can be `None`.
fn titles(screen: &Screen, writer: &mut Writer) {
    let write = |title: &str, writer: &mut Writer| {
        writer.raw(b"\x1b]2;");
        writer.raw(title.as_bytes());
        writer.raw(b"\x1b\\");
    };
    for title in &screen.titles {
        if let Some(title) = title {
            write(title, writer);
        }
        writer.raw(b"\x1b[22t");
    }
    if let Some(title) = &screen.title {
        write(title, writer);
    }
}

/// Draws all cells on a blank screen.
fn cells(grid: &Grid<Cell>, writer: &mut Writer) {
    let (rows, columns) = (grid.screen_lines(), grid.columns());
    let mut tabs = Vec::new();
    let mut bottom_end = columns;
    let bottom = &grid[line_at(rows - 1)][..];
    if bottom[columns - 1].flags.contains(Flags::WRAPLINE) {
        bottom_end = wrapped_bottom(bottom, rows, writer, &mut tabs);
    }
    // Whether the first character of the row must follow directly, so that the row above wraps.
    let mut continued = false;
    for row in 0..rows {
        let cells = &grid[line_at(row)][..];
        let end = if row + 1 == rows { bottom_end } else { columns };
        let mut painting = Row { cells, row, end, continued, writer, tabs: &mut tabs };
        painting.paint();
        continued = end == columns && cells[columns - 1].flags.contains(Flags::WRAPLINE);
        if end == columns && cells[columns - 1].flags.contains(Flags::LEADING_WIDE_CHAR_SPACER) {
            let next = &grid[line_at(row + 1)][Column(0)];
            continued = draw_leading_spacer(&cells[columns - 1], next, row, columns, writer);
        }
    }
    for (row, column) in tabs {
        writer.goto(row, column);
        writer.raw(b"\t");
        writer.at = CursorPosition::Unknown;
    }
}

/// Draws the end of a last row that wraps, and returns the number of cells left to draw.
///
/// It is drawn one row higher, where there is a row to wrap into. The wrapped character is then
/// erased, and the otherwise blank screen is scrolled down.
fn wrapped_bottom(
    cells: &[Cell],
    rows: usize,
    writer: &mut Writer,
    tabs: &mut Vec<(usize, usize)>,
) -> usize {
    let (row, last) = (rows - 2, cells.len() - 1);
    let mut from = last;
    if cells[last].flags.contains(Flags::LEADING_WIDE_CHAR_SPACER) {
        writer.goto(row, last);
        writer.pen.match_cell(&cells[last], &mut writer.out);
        writer.put(WIDE);
    } else {
        if cells[last].flags.contains(Flags::WIDE_CHAR_SPACER) {
            from = last - 1;
        }
        writer.goto(row, from);
        writer.print(&cells[from], row, from);
        if cells[from].c == '\t' {
            tabs.push((row + 1, from));
        }
        writer.put(WIDE);
    }
    erase_first(row + 1, writer);
    writer.raw(b"\x1b[T");
    from
}

/// Draws the spacer in the last column before a wide character that wrapped to the next row.
///
/// Returns whether printing the next character draws it.
fn draw_leading_spacer(
    cell: &Cell,
    next: &Cell,
    row: usize,
    columns: usize,
    writer: &mut Writer,
) -> bool {
    writer.goto(row, columns - 1);
    writer.pen.match_cell(cell, &mut writer.out);
    // An emoji presentation selector widens its base only after it was printed.
    if next.c.width() == Some(2)
        && next.flags.contains(Flags::WIDE_CHAR)
        && writer.pen.matches(next)
    {
        return true;
    }
    writer.put(WIDE);
    erase_first(row + 1, writer);
    false
}

/// Erases the first two cells of a row. Overwriting them would remove the spacer before them.
fn erase_first(row: usize, writer: &mut Writer) {
    writer.at = CursorPosition::Unknown;
    writer.goto(row, 0);
    writer.pen.switch_to(Pen::default(), &mut writer.out);
    writer.raw(b"\x1b[2X");
}

/// A row being drawn.
struct Row<'a> {
    cells: &'a [Cell],
    row: usize,
    /// Cells from this column on are already drawn.
    end: usize,
    /// The first cell must be printed without moving the cursor first.
    continued: bool,
    writer: &'a mut Writer,
    /// Positions of tabs, which are written after everything else.
    tabs: &'a mut Vec<(usize, usize)>,
}

impl Row<'_> {
    fn paint(&mut self) {
        let last = self.cells.len() - 1;
        let wraps = self.end > last && self.cells[last].flags.contains(Flags::WRAPLINE);
        // The spacer in the last column is drawn by `draw_leading_spacer`.
        let leading = self.cells[last].flags.contains(Flags::LEADING_WIDE_CHAR_SPACER);
        let limit = if leading { self.end.min(last) } else { self.end };
        let end = if wraps && !leading {
            limit
        } else {
            self.cells[..limit].iter().rposition(|cell| !is_blank(cell)).map_or(0, |at| at + 1)
        };
        let mut column = 0;
        if self.continued {
            column = self.draw(0);
        }
        while column < end {
            let fixed = wraps && column == last;
            column = if fixed { self.draw(column) } else { self.step(column, end, wraps) };
        }
    }

    /// Draws as many cells from `column` as one operation can; returns the next column.
    fn step(&mut self, column: usize, end: usize, wraps: bool) -> usize {
        let limit = if wraps { end - 1 } else { end };
        let cell = &self.cells[column];
        let run = |is: &dyn Fn(&Cell) -> bool| {
            self.cells[column..limit].iter().position(|cell| !is(cell)).unwrap_or(limit - column)
        };
        if is_blank(cell) {
            let blanks = run(&is_blank);
            if blanks >= MIN_SKIP || self.writer.pen != Pen::default() {
                return column + blanks;
            }
        } else if is_erased(cell) {
            let filled = run(&|other| is_erased(other) && other.bg == cell.bg);
            if filled >= MIN_ERASE {
                self.writer.goto(self.row, column);
                self.writer.pen.switch_to(Pen::background_only(cell.bg), &mut self.writer.out);
                self.writer.csi(filled, b"X");
                return column + filled;
            }
        } else if cell.c == '\t'
            && let Some(next) = self.tab_over(column, end)
        {
            self.writer.goto(self.row, column);
            self.writer.raw(b"\t");
            self.writer.at = CursorPosition::Cell(self.row, next);
            return next.max(column + 1);
        }
        self.draw(column)
    }

    /// Returns the target column of a tab that passes over blanks only.
    fn tab_over(&self, column: usize, end: usize) -> Option<usize> {
        let cell = &self.cells[column];
        let last = self.cells.len() - 1;
        let next = Screen::next_default_tab(self.cells.len(), column);
        let plain = Pen::default().matches(cell)
            && cell.flags.is_empty()
            && cell.zerowidth().is_none_or(<[char]>::is_empty)
            && column < last
            && next <= end
            && self.cells[column + 1..next].iter().all(is_blank);
        plain.then_some(next)
    }

    /// Prints one character; returns the next column.
    fn draw(&mut self, column: usize) -> usize {
        let cell = &self.cells[column];
        if column > 0 || !self.continued {
            self.writer.goto(self.row, column);
        }
        self.writer.print(cell, self.row, column);
        if cell.c == '\t' {
            self.tabs.push((self.row, column));
        }
        column + if cell.flags.contains(Flags::WIDE_CHAR) { 2 } else { 1 }
    }
}

/// Returns whether a cell looks as in a new terminal.
pub(crate) fn is_blank(cell: &Cell) -> bool {
    is_erased(cell) && cell.bg == Color::Named(NamedColor::Background)
}

/// Returns whether a cell looks as after erasing, in any background color.
pub(crate) fn is_erased(cell: &Cell) -> bool {
    cell.c == ' '
        && cell.fg == Color::Named(NamedColor::Foreground)
        && cell.flags.is_empty()
        && (cell.extra.is_none()
            || (cell.zerowidth().is_none_or(<[char]>::is_empty)
                && cell.underline_color().is_none()
                && cell.hyperlink().is_none()))
}

fn tabs(screen: &Screen, writer: &mut Writer) {
    for (column, &set) in screen.tabs.iter().enumerate() {
        if set != is_default_tab(column) {
            writer.at = CursorPosition::Unknown;
            writer.goto(0, column);
            writer.raw(if set { b"\x1bH" } else { b"\x1b[g" });
        }
    }
}

fn margins(screen: &Screen, writer: &mut Writer) {
    let (top, end) = screen.margins;
    if (top, end) != (0, screen.rows()) {
        writer.csi(top + 1, b";");
        decimal(end, &mut writer.out);
        writer.raw(b"r");
        writer.at = CursorPosition::Unknown;
        writer.bottom = Some(end - 1);
    }
}

/// Restores the position, pen and character sets of `cursor`.
fn restore_cursor(cursor: &Cursor<Cell>, grid: &Grid<Cell>, writer: &mut Writer) {
    let row = row_index(cursor.point.line);
    let last = cursor.point.column.0;
    // Characters printed here must not be translated.
    writer.set_charsets(Charsets::default());
    if cursor.input_needs_wrap {
        let cells = &grid[cursor.point.line][..];
        let spacer = cells[last].flags.contains(Flags::WIDE_CHAR_SPACER);
        let from = if spacer { last - 1 } else { last };
        let marked = Flags::WRAPLINE | Flags::LEADING_WIDE_CHAR_SPACER;
        writer.at = CursorPosition::Unknown;
        // Reprinting would remove the flag, the tab, or the spacer at the end of the row above.
        let unique = cells[last].flags.intersects(marked) || cells[last].c == '\t';
        if unique || (spacer && from <= 1) {
            // Without autowrap, a wide character that does not fit changes only the cursor.
            writer.goto(row, last);
            writer.raw(b"\x1b[?7l");
            writer.put(WIDE);
            writer.raw(b"\x1b[?7h");
        } else {
            writer.goto(row, from);
            writer.print(&cells[from], row, from);
        }
        writer.at = CursorPosition::PendingWrap(row);
    } else {
        writer.goto(row, cursor.point.column.0);
    }
    writer.set_style(cursor);
}

/// Prints the character that REP repeats, where it can be erased without a trace.
fn restore_last_printed(screen: &Screen, writer: &mut Writer) {
    /// A blank and a character of up to two columns; a combining character joins the blank.
    const ROOM: usize = 3;
    let Some(wanted) = screen.last_printed else { return };
    let grid = screen.grid();
    let ends_printing = grid.cursor.input_needs_wrap;
    if writer.last == Some(wanted) || ends_printing {
        return;
    }
    for row in (0..screen.rows()).rev() {
        let cells = &grid[line_at(row)][..];
        let room = cells
            .windows(ROOM)
            .position(|run| run.iter().all(|cell| is_erased(cell) && cell.bg == run[0].bg));
        if let Some(column) = room {
            writer.set_charsets(Charsets::default());
            writer.at = CursorPosition::Unknown;
            writer.goto(row, column);
            writer.pen.switch_to(Pen::background_only(cells[column].bg), &mut writer.out);
            writer.put(' ');
            writer.put(wanted);
            writer.at = CursorPosition::Unknown;
            writer.goto(row, column);
            writer.csi(ROOM, b"X");
            return;
        }
    }
}

fn keyboard(keyboard: &Keyboard, writer: &mut Writer) {
    let mut states = keyboard.saved.iter().chain([&keyboard.flags]);
    if let Some(first) = states.next().filter(|first| **first != KeyboardModes::NO_MODE) {
        writer.raw(b"\x1b[=");
        decimal(usize::from(first.bits()), &mut writer.out);
        writer.raw(b"u");
    }
    for state in states {
        writer.raw(b"\x1b[>");
        decimal(usize::from(state.bits()), &mut writer.out);
        writer.raw(b"u");
    }
}

fn modes(screen: &Screen, writer: &mut Writer) {
    let (mode, fresh) = (screen.mode(), TermMode::default());
    for (flag, on, off) in MODES {
        if mode.contains(flag) != fresh.contains(flag) {
            writer.raw(if mode.contains(flag) { on } else { off });
        }
    }
    for (number, on) in screen.tracked.changed() {
        if number != CLUSTERS && number != SIDE_MARGINS {
            writer.raw(b"\x1b[?");
            decimal(number.into(), &mut writer.out);
            writer.raw(if on { b"h" } else { b"l" });
        }
    }
    writer.set_clusters(screen.tracked.contains(CLUSTERS));
    if screen.modify_other_keys != 0 {
        writer.raw(b"\x1b[>4;");
        decimal(usize::from(screen.modify_other_keys), &mut writer.out);
        writer.raw(b"m");
    }
    if screen.cursor_style() != CursorStyle::default() {
        writer.csi(style_number(screen.cursor_style()), b" q");
    }
    if screen.active_charset == CharsetIndex::G1 {
        writer.raw(b"\x0e");
    }
}

/// Returns the DECSCUSR number of a cursor style.
pub(crate) fn style_number(style: CursorStyle) -> usize {
    let steady = match style.shape {
        CursorShape::Underline => 4,
        CursorShape::Beam => 6,
        CursorShape::Block | CursorShape::HollowBlock | CursorShape::Hidden => 2,
    };
    steady - usize::from(style.blinking)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::terminal::Terminal;
    use crate::testing::{Step, assert_same, recut, run, size, state, steps};

    /// Rebuilds a terminal from a snapshot and compares the two, before and after `more`.
    fn check(cols: u16, rows: u16, before: &[Step], more: &[Step]) {
        let mut original = Terminal::new(size(cols, rows), 0);
        run(&mut original, before);

        let bytes = original.snapshot();
        // A copy has only the rows on the screen.
        original.screen.forget_pushed_off();
        original.screen.with_main(|main| main.update_history(0));
        let mut copy = Terminal::new(original.size(), 0);
        copy.feed(&bytes);

        let about = format!("snapshot {}", bytes.escape_ascii());
        assert_same(&state(&mut original), &state(&mut copy), &about);
        assert_eq!(copy.unfinished(), 0);
        assert_eq!(original.snapshot(), copy.snapshot(), "{about}");
        let missing = unfinished_bytes(before, original.unfinished());
        copy.feed(&missing);
        run(&mut original, more);
        run(&mut copy, more);
        let about = format!("then {more:?} after {about}");
        assert_same(&state(&mut original), &state(&mut copy), &about);
    }

    fn unfinished_bytes(steps: &[Step], count: usize) -> Vec<u8> {
        let fed: Vec<u8> = steps
            .iter()
            .flat_map(|step| match step {
                Step::Feed(bytes) => bytes.clone(),
                Step::Resize(..) => Vec::new(),
            })
            .collect();
        fed[fed.len() - count..].to_vec()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

        #[test]
        fn snapshot_rebuilds_every_cell_and_mode(
            (cols, rows) in (2u16..24, 2u16..10),
            before in steps(60),
            more in steps(20),
            length in 1usize..40,
        ) {
            check(cols, rows, &recut(&before, length), &more);
        }
    }

    /// For cases found and shrunk by the property above.
    fn check_bytes(cols: u16, rows: u16, before: &[u8], more: &[u8]) {
        check(cols, rows, &[Step::Feed(before.to_vec())], &[Step::Feed(more.to_vec())]);
    }

    #[test]
    fn full_row_without_wrap_is_not_joined_to_the_next() {
        check_bytes(2, 2, b"\x1b#8", b"");
    }

    #[test]
    fn cursor_below_the_scroll_region_does_not_scroll_it() {
        check_bytes(5, 3, b"\x1b[0;2rA0 0  AAaa \x1b[3HAaa0 A  \x1b[m\x1b[3f", b"");
    }

    #[test]
    fn pending_wrap_keeps_the_spacer_of_the_row_above() {
        check_bytes(2, 2, "00AA0A0ａ".as_bytes(), b"x");
    }

    #[test]
    fn scroll_region_below_the_screen_is_ignored() {
        check_bytes(2, 2, b"\x1b[?6h\x1b[200;300r\x1b[A", b"x");
    }

    #[test]
    fn keyboard_flags_of_the_inactive_screen_are_kept() {
        check_bytes(2, 2, b"\x1b[?1049h\x1b[>1u\x1b[?1049l0A", b"\x1b[?1049h\x1b[?u");
    }

    #[test]
    fn incomplete_character_before_unfinished_sequence_is_drawn() {
        check_bytes(2, 2, b"\xc2\xc2", b"A");
        check_bytes(2, 3, b"\xc2\x1b[1\n2", b"\x1b[@");
    }

    #[test]
    fn string_ended_by_unfinished_sequence_takes_effect() {
        check_bytes(2, 2, b"\x1b]2;t\x1b[1\n2", b"\x1b[@");
    }

    #[test]
    fn wrapped_last_row_is_rebuilt() {
        check_bytes(6, 3, b"\x1b[3;1Habcdef\x1b[1;2r\x1b[3;6Hfg", b"\x1b[rx");
        check_bytes(6, 2, "ab\r\nabcde日\x1bM\x1bM\x1b[2;3H".as_bytes(), b"x");
    }
}
