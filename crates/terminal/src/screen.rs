//! The emulator's grid, and a copy of the state that the emulator does not expose.
//!
//! Every parsed action passes through [`Screen`] on its way from the parser to alacritty's `Term`.
//! This makes an exact snapshot possible, since `Term` exposes neither its margins nor its tab stops
//! nor its stacks. State that `Term` does not need for drawing (title, saved titles, saved keyboard
//! flags) is kept only here, in bounded size.
//!
//! # Invariant
//!
//! While the alternate screen is active, the main screen's saved cursor equals its cursor. In
//! origin mode, the cursor is inside the margins. A pending wrap of the active cursor occurs only in
//! the last column or before the right margin. Snapshots rely on all three.

use std::mem;
use std::sync::Arc;

use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::{Charsets, Cursor, Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Osc52, Term, TermMode};
use alacritty_terminal::vte::ansi::{
    CharsetIndex, CursorStyle, Handler as _, KeyboardModes, KeyboardModesApplyBehavior, NamedColor,
    Rgb,
};
use parking_lot::Mutex;

use crate::coordinates::{line_at, row_index};
use crate::repair::repair;
use crate::tracked::{REVERSE_WRAP, SIDE_MARGINS, TrackedModes};

/// Maximum number of saved keyboard states per screen. The protocol requires a limit but names
/// none.
const KEYBOARD_DEPTH: usize = 32;
/// Maximum number of saved titles; xterm keeps ten.
const TITLE_DEPTH: usize = 16;
/// Maximum length of a title in bytes.
const TITLE_LENGTH: usize = 1024;
/// Maximum number of cells of the rows that shrinking pushed off a screen and growing brings back.
const MAX_PUSHED_OFF: usize = 64 * 1024;
/// Distance between the default tab stops.
pub(crate) const TAB_WIDTH: usize = 8;

/// All state that the parser changes.
pub(crate) struct Screen {
    pub(crate) term: Term<Outbox>,
    outbox: Outbox,
    /// The scroll region: first row, and the row after the last; at least two rows.
    pub(crate) margins: (usize, usize),
    /// The left margin, and the column after the right margin; at least two columns.
    pub(crate) sides: (usize, usize),
    /// The side margins are narrower than the screen.
    pub(crate) narrowed: bool,
    pub(crate) tabs: Vec<bool>,
    /// The saved cursor of the alternate screen while the main screen is active.
    pub(crate) alternate_saved: Cursor<Cell>,
    /// State saved with the cursors of the main and the alternate screen.
    pub(crate) saved: [SavedState; 2],
    pub(crate) tracked: TrackedModes,
    /// Whether the program ever changed a tab stop.
    pub(crate) tabs_touched: bool,
    /// Whether the grid has a scrollback of a fixed size. Otherwise its history holds exactly the rows
    /// that shrinking pushed off the screen.
    scrollback: bool,
    pub(crate) active_charset: CharsetIndex,
    /// No other charset was ever configured, so characters are shown as printed.
    pub(crate) only_ascii: bool,
    pub(crate) title: Option<String>,
    pub(crate) titles: Vec<Option<String>>,
    /// Keyboard flags of the main and the alternate screen.
    pub(crate) keyboards: [Keyboard; 2],
    /// The `modifyOtherKeys` level, 0 to 2.
    pub(crate) modify_other_keys: u8,
    /// The last printed character, which REP repeats.
    pub(crate) last_printed: Option<char>,
    /// Whether the applied bytes end inside a synchronized update.
    pub(crate) synchronized: bool,
}

/// State that is saved and restored with the cursor, and that the emulator does not save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedState {
    pub(crate) origin: bool,
    pub(crate) charset: CharsetIndex,
}

/// The kitty keyboard flags of one screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyboard {
    pub(crate) flags: KeyboardModes,
    pub(crate) saved: Vec<KeyboardModes>,
}

/// Queue of answers to be written to the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Arc<Mutex<Vec<u8>>>);

impl Outbox {
    /// Appends an answer.
    pub(crate) fn push(&self, answer: &[u8]) {
        self.0.lock().extend_from_slice(answer);
    }

    fn take(&self) -> Vec<u8> {
        mem::take(&mut self.0.lock())
    }
}

impl EventListener for Outbox {
    fn send_event(&self, event: Event) {
        if let Event::PtyWrite(answer) = event {
            self.push(answer.as_bytes());
        }
    }
}

/// Columns and rows of a grid.
pub(crate) struct GridSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Dimensions for GridSize {
    fn total_lines(&self) -> usize {
        self.rows
    }

    fn screen_lines(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns
    }
}

impl Screen {
    pub(crate) fn new(extent: &GridSize, history: usize) -> Self {
        let config = Config {
            scrolling_history: history,
            kitty_keyboard: true,
            osc52: Osc52::Disabled,
            ..Config::default()
        };
        let outbox = Outbox::default();
        Self {
            term: Term::new(config, extent, outbox.clone()),
            outbox,
            margins: (0, extent.rows),
            sides: (0, extent.columns),
            narrowed: false,
            alternate_saved: Cursor::default(),
            saved: [SavedState::default(); 2],
            tracked: TrackedModes::default(),
            tabs_touched: false,
            scrollback: history > 0,
            tabs: (0..extent.columns).map(is_default_tab).collect(),
            active_charset: CharsetIndex::default(),
            title: None,
            titles: Vec::new(),
            keyboards: [Keyboard::default(), Keyboard::default()],
            modify_other_keys: 0,
            last_printed: None,
            only_ascii: true,
            synchronized: false,
        }
    }

    pub(crate) fn columns(&self) -> usize {
        self.term.columns()
    }

    pub(crate) fn rows(&self) -> usize {
        self.term.screen_lines()
    }

    pub(crate) fn grid(&self) -> &Grid<Cell> {
        self.term.grid()
    }

    pub(crate) fn grid_mut(&mut self) -> &mut Grid<Cell> {
        self.term.grid_mut()
    }

    pub(crate) fn mode(&self) -> TermMode {
        *self.term.mode()
    }

    /// Writes a single-width character if no special case applies; otherwise returns false, and the
    /// emulator must write it.
    ///
    /// A fast path: it covers most printed characters, and the emulator takes several times as
    /// long.
    #[inline]
    pub(crate) fn write_narrow(&mut self, c: char) -> bool {
        if !self.only_ascii || self.narrowed || self.term.mode().contains(TermMode::INSERT) {
            return false;
        }
        let grid = self.term.grid_mut();
        let last = grid.columns() - 1;
        let template = &grid.cursor.template;
        if grid.cursor.input_needs_wrap || template.extra.is_some() {
            return false;
        }
        let (fg, bg, flags) = (template.fg, template.bg, template.flags);
        let cell = grid.cursor_cell();
        if cell.flags.intersects(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER) {
            return false;
        }
        (cell.c, cell.fg, cell.bg, cell.flags, cell.extra) = (c, fg, bg, flags, None);
        if grid.cursor.point.column.0 < last {
            grid.cursor.point.column += 1;
        } else {
            grid.cursor.input_needs_wrap = true;
        }
        true
    }

    pub(crate) fn is_alternate(&self) -> bool {
        self.mode().contains(TermMode::ALT_SCREEN)
    }

    pub(crate) fn cursor_style(&self) -> CursorStyle {
        self.term.cursor_style()
    }

    /// Returns the colors that the program changed: of the palette, then foreground, background and
    /// cursor.
    pub(crate) fn changed_colors(&self) -> impl Iterator<Item = (usize, Rgb)> {
        let colors = self.term.colors();
        (0..=NamedColor::Cursor as usize).filter_map(|index| Some((index, colors[index]?)))
    }

    /// Returns the keyboard flags of the active screen.
    pub(crate) fn keyboard(&self) -> &Keyboard {
        &self.keyboards[usize::from(self.is_alternate())]
    }

    fn keyboard_mut(&mut self) -> &mut Keyboard {
        let at = usize::from(self.is_alternate());
        &mut self.keyboards[at]
    }

    /// Removes and returns the answers to be written to the program.
    pub(crate) fn take_answers(&mut self) -> Vec<u8> {
        self.outbox.take()
    }

    pub(crate) fn answer(&mut self, answer: &[u8]) {
        self.outbox.push(answer);
    }

    /// Changes the size. The main screen reflows; the alternate screen is cropped or padded. Rows that
    /// are pushed off the top return when there is room again.
    pub(crate) fn resize(&mut self, extent: &GridSize) {
        if extent.columns == self.columns() && extent.rows == self.rows() {
            return;
        }
        let known = self.tabs.len();
        self.tabs.truncate(extent.columns);
        self.tabs.extend((known..extent.columns).map(is_default_tab));
        self.margins = (0, extent.rows);
        self.sides = (0, extent.columns);
        self.narrowed = false;
        fit_cursor(&mut self.alternate_saved, extent.columns, extent.rows);
        let scrollback = self.scrollback;
        if !scrollback {
            let rows = MAX_PUSHED_OFF / extent.columns.max(self.columns());
            self.grid_mut().update_history(rows);
            self.with_main(|main| main.update_history(rows));
        }
        self.term.resize(GridSize { columns: extent.columns, rows: extent.rows });

        normalize_resized(self.grid_mut());
        if !scrollback {
            keep_pushed_off(self.grid_mut());
        }
        if self.is_alternate() {
            self.with_main(|main| {
                normalize_resized(main);
                if !scrollback {
                    keep_pushed_off(main);
                }
            });
        } else {
            // The alternate grid is empty while inactive and is cleared on activation. Activating
            // it here only releases the spare rows that growing left in it.
            let main = mem::replace(self.grid_mut(), Grid::new(1, 1, 0));
            self.term.swap_alt();
            normalize_resized(self.grid_mut());
            self.term.swap_alt();
            *self.grid_mut() = main;
            self.apply_keyboard();
        }
    }

    /// Returns whether a client's terminal must be painted, because it might interpret the program's
    /// output differently: with side margins or reverse wrap, which few terminals have, and in an
    /// unfinished emoji sequence.
    pub(crate) fn needs_frames(&self) -> bool {
        self.tracked.contains(SIDE_MARGINS)
            || self.tracked.contains(REVERSE_WRAP)
            || self.ends_with_joiner()
    }

    /// Forgets the rows that shrinking pushed off the active screen.
    pub(crate) fn forget_pushed_off(&mut self) {
        if !self.scrollback {
            self.grid_mut().update_history(0);
        }
    }

    /// Sets the keyboard flags of the active screen in the emulator, which has no stack for them.
    pub(crate) fn apply_keyboard(&mut self) {
        let flags = self.keyboard().flags;
        self.term.set_keyboard_mode(flags, KeyboardModesApplyBehavior::Replace);
    }

    pub(crate) fn change_keyboard(&mut self, change: impl FnOnce(&mut Keyboard)) {
        change(self.keyboard_mut());
        self.apply_keyboard();
    }

    /// Restores the invariants of the cursor after the cursor, the origin mode or a margin changed.
    pub(crate) fn settle_cursor(&mut self) {
        let area = self.addressable();
        let cursor = &mut self.grid_mut().cursor;
        let row = row_index(cursor.point.line).clamp(area.top, area.end - 1);
        let column = cursor.point.column.0.clamp(area.left, area.right - 1);
        cursor.point.line = line_at(row);
        cursor.point.column = Column(column);
        if column + 1 != self.right_limit(column) {
            self.grid_mut().cursor.input_needs_wrap = false;
        }
    }

    /// Removes the top and bottom margins without moving the cursor.
    pub(crate) fn reset_scroll_region(&mut self) {
        let cursor = &self.grid().cursor;
        let (point, wraps) = (cursor.point, cursor.input_needs_wrap);
        self.margins = (0, self.rows());
        self.term.set_scrolling_region(1, None);
        let cursor = &mut self.grid_mut().cursor;
        (cursor.point, cursor.input_needs_wrap) = (point, wraps);
    }

    /// Designates ASCII everywhere and selects G0.
    pub(crate) fn reset_charsets(&mut self) {
        self.grid_mut().cursor.charsets = Charsets::default();
        self.active_charset = CharsetIndex::default();
        self.term.set_active_charset(self.active_charset);
    }

    pub(crate) fn change_title(&mut self, title: Option<String>) {
        self.title = title.map(|title| clean_title(&title));
    }

    pub(crate) fn save_title(&mut self) {
        if self.titles.len() == TITLE_DEPTH {
            self.titles.remove(0);
        }
        self.titles.push(self.title.clone());
    }

    /// Resets the state that the emulator does not reset itself.
    pub(crate) fn reset_tracked_state(&mut self) {
        self.margins = (0, self.rows());
        self.set_sides(0, self.columns());
        self.alternate_saved = Cursor::default();
        self.saved = [SavedState::default(); 2];
        self.tracked = TrackedModes::default();
        self.forget_pushed_off();
        self.tabs = (0..self.columns()).map(is_default_tab).collect();
        self.active_charset = CharsetIndex::default();
        self.title = None;
        self.titles.clear();
        self.keyboards = [Keyboard::default(), Keyboard::default()];
        self.modify_other_keys = 0;
        self.synchronized = false;
    }
}

impl Keyboard {
    pub(crate) fn push(&mut self, flags: KeyboardModes) {
        if self.saved.len() == KEYBOARD_DEPTH {
            self.saved.remove(0);
        }
        self.saved.push(mem::replace(&mut self.flags, flags));
    }

    pub(crate) fn pop(&mut self, count: u16) {
        for _ in 0..count {
            match self.saved.pop() {
                Some(flags) => self.flags = flags,
                None => {
                    self.flags = KeyboardModes::NO_MODE;
                    break;
                }
            }
        }
    }
}

/// Returns whether a new terminal has a tab stop in this column.
pub(crate) fn is_default_tab(column: usize) -> bool {
    column.is_multiple_of(TAB_WIDTH)
}

/// Returns the title without control characters, which could end the sequence that carries it,
/// and in bounded length.
fn clean_title(title: &str) -> String {
    let mut clean: String = title.chars().filter(|c| !c.is_control()).collect();
    if clean.len() > TITLE_LENGTH {
        let cut = (0..=TITLE_LENGTH).rev().find(|&at| clean.is_char_boundary(at)).unwrap_or(0);
        clean.truncate(cut);
    }
    clean.trim().to_owned()
}

/// Restores the invariants of a grid that was just resized.
fn normalize_resized(grid: &mut Grid<Cell>) {
    // Overwriting half of a wide character in the last column would also clear its neighbor.
    repair(grid);
    // Growing keeps a thousand spare rows, which is megabytes.
    grid.truncate();

    let (columns, rows) = (grid.columns(), grid.screen_lines());
    fit_cursor(&mut grid.cursor, columns, rows);
    fit_cursor(&mut grid.saved_cursor, columns, rows);
    // Rows track how far they were written and clear no further. Reflow leaves that value wrong;
    // borrowing a whole row mutably corrects it.
    for line in grid.topmost_line().0..=grid.bottommost_line().0 {
        let _: &mut [Cell] = &mut grid[Line(line)][..];
    }
}

/// Limits the history to the rows that it holds. It is then always full, so that scrolling allocates
/// no rows.
fn keep_pushed_off(grid: &mut Grid<Cell>) {
    let rows = grid.history_size();
    grid.update_history(rows);
}

/// Moves a cursor into a screen that was just resized.
fn fit_cursor(cursor: &mut Cursor<Cell>, columns: usize, rows: usize) {
    let last = columns - 1;
    cursor.point.line = line_at(row_index(cursor.point.line).min(rows - 1));
    cursor.point.column = Column(cursor.point.column.0.min(last));
    // A longer row has room for the character that was about to wrap.
    if cursor.input_needs_wrap && cursor.point.column.0 < last {
        cursor.input_needs_wrap = false;
        cursor.point.column += 1;
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen")
            .field("columns", &self.columns())
            .field("rows", &self.rows())
            .field("mode", &self.mode())
            .field("margins", &self.margins)
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}
