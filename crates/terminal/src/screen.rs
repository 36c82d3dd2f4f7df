//! The emulator's grid, with the state that the emulator keeps to itself kept here as well.
//!
//! [`Screen`] stands between the parser and alacritty's `Term`: every parsed action passes through
//! it. That is what makes an exact snapshot possible, since `Term` shows neither its margins nor
//! its tab stops nor its stacks. What `Term` does not need for drawing (title, titles saved,
//! keyboard flags saved) lives only here, bounded.
//!
//! # Invariant
//!
//! While the alternate screen is active, the main screen's saved cursor equals its cursor. With
//! origin mode set, the cursor is inside the margins. A pending wrap is only ever in the last
//! column. Snapshots rely on all three.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Osc52, Term, TermMode};
use alacritty_terminal::vte::ansi::{
    CharsetIndex, CursorStyle, Handler as _, KeyboardModes, KeyboardModesApplyBehavior,
};

use crate::repair::repair;

/// How many keyboard states one screen can save. The protocol asks for a limit and names none.
const KEYBOARD_DEPTH: usize = 32;
/// How many titles can be saved; xterm keeps ten.
const TITLE_DEPTH: usize = 16;
/// The longest title kept, in bytes.
const TITLE_LENGTH: usize = 1024;
/// The distance of the tab stops of a fresh terminal.
pub(crate) const TAB_WIDTH: usize = 8;

/// Everything the parser can change.
pub(crate) struct Screen {
    pub(crate) term: Term<Outbox>,
    outbox: Outbox,
    /// The scroll region as rows from the top, the end excluded; at least two rows.
    pub(crate) margins: (usize, usize),
    pub(crate) tabs: Vec<bool>,
    pub(crate) active_charset: CharsetIndex,
    /// No other charset was ever configured, so what is printed is what is shown.
    pub(crate) only_ascii: bool,
    pub(crate) title: Option<String>,
    pub(crate) titles: Vec<Option<String>>,
    /// Of the main and of the alternate screen.
    pub(crate) keyboards: [Keyboard; 2],
    /// The `modifyOtherKeys` level, 0 to 2.
    pub(crate) modify_other_keys: u8,
    /// The last printed character: what REP repeats.
    pub(crate) last_printed: Option<char>,
    pub(crate) bell: bool,
    /// A synchronized update is going on, as of the bytes applied.
    pub(crate) synchronized: bool,
}

/// The kitty keyboard flags of one screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyboard {
    pub(crate) flags: KeyboardModes,
    pub(crate) saved: Vec<KeyboardModes>,
}

/// Where the emulator leaves what it wants written to the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Arc<Mutex<Vec<u8>>>);

impl Outbox {
    /// Adds an answer.
    pub(crate) fn push(&self, answer: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(answer);
    }

    fn take(&self) -> Vec<u8> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EventListener for Outbox {
    fn send_event(&self, event: Event) {
        if let Event::PtyWrite(answer) = event {
            self.push(answer.as_bytes());
        }
    }
}

/// Columns and rows, as the emulator wants to be told.
pub(crate) struct Extent {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Dimensions for Extent {
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
    pub(crate) fn new(extent: &Extent, history: usize) -> Self {
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
            tabs: (0..extent.columns).map(is_default_tab).collect(),
            active_charset: CharsetIndex::default(),
            title: None,
            titles: Vec::new(),
            keyboards: [Keyboard::default(), Keyboard::default()],
            modify_other_keys: 0,
            last_printed: None,
            only_ascii: true,
            bell: false,
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

    /// Writes a character of one cell, if nothing about it needs the emulator's attention;
    /// false if something does.
    ///
    /// Most of what is printed is of this kind, and the emulator takes several times as long to
    /// find out.
    #[inline]
    pub(crate) fn write(&mut self, c: char) -> bool {
        if !self.only_ascii || self.term.mode().contains(TermMode::INSERT) {
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

    /// The keyboard flags of the active screen.
    pub(crate) fn keyboard(&self) -> &Keyboard {
        &self.keyboards[usize::from(self.is_alternate())]
    }

    fn keyboard_mut(&mut self) -> &mut Keyboard {
        let at = usize::from(self.is_alternate());
        &mut self.keyboards[at]
    }

    /// What has to be written to the program, and was not yet taken.
    pub(crate) fn take_answers(&mut self) -> Vec<u8> {
        self.outbox.take()
    }

    pub(crate) fn answer(&mut self, answer: &[u8]) {
        self.outbox.push(answer);
    }

    /// Changes the size: the main screen reflows, the alternate one is cut or padded.
    pub(crate) fn resize(&mut self, extent: &Extent) {
        if extent.columns == self.columns() && extent.rows == self.rows() {
            return;
        }
        let known = self.tabs.len();
        self.tabs.truncate(extent.columns);
        self.tabs.extend((known..extent.columns).map(is_default_tab));
        self.margins = (0, extent.rows);
        self.term.resize(Extent { columns: extent.columns, rows: extent.rows });

        tidy(self.grid_mut());
        if self.is_alternate() {
            self.with_main(tidy);
        } else {
            // The alternate grid holds nothing while it is not shown, and is emptied when it is;
            // showing it once only gives back the spare rows that growing left in it.
            let main = mem::replace(self.grid_mut(), Grid::new(1, 1, 0));
            self.term.swap_alt();
            tidy(self.grid_mut());
            self.term.swap_alt();
            *self.grid_mut() = main;
            self.apply_keyboard();
        }
    }

    /// Shows the main screen's grid, whichever screen is active.
    pub(crate) fn with_main<R>(&mut self, look: impl FnOnce(&mut Grid<Cell>) -> R) -> R {
        if !self.is_alternate() {
            return look(self.grid_mut());
        }
        // Leaving the alternate screen is a plain swap; entering it empties the alternate grid,
        // so that one is put aside. Entering also makes the main screen's saved cursor its cursor.
        let alternate = mem::replace(self.grid_mut(), Grid::new(1, 1, 0));
        self.term.swap_alt();
        let result = look(self.grid_mut());
        self.term.swap_alt();
        *self.grid_mut() = alternate;
        self.apply_keyboard();
        result
    }

    /// Goes to the alternate screen or back.
    pub(crate) fn swap(&mut self) {
        self.term.swap_alt();
        if self.is_alternate() {
            // What an earlier program on the alternate screen saved is nobody's any more.
            let grid = self.grid_mut();
            grid.saved_cursor = alacritty_terminal::grid::Cursor::default();
        }
        self.apply_keyboard();
        self.keep_cursor_inside();
    }

    /// Tells the emulator the keyboard flags of the active screen; it has no stack of its own.
    pub(crate) fn apply_keyboard(&mut self) {
        let flags = self.keyboard().flags;
        self.term.set_keyboard_mode(flags, KeyboardModesApplyBehavior::Replace);
    }

    pub(crate) fn change_keyboard(&mut self, change: impl FnOnce(&mut Keyboard)) {
        change(self.keyboard_mut());
        self.apply_keyboard();
    }

    /// With origin mode set, moves a cursor that came from elsewhere into the margins.
    pub(crate) fn keep_cursor_inside(&mut self) {
        if !self.mode().contains(TermMode::ORIGIN) {
            return;
        }
        let (top, end) = self.margins;
        let point = &mut self.grid_mut().cursor.point;
        point.line = line_at(row_index(point.line).clamp(top, end - 1));
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

    /// Forgets what a reset forgets, beside what the emulator itself does.
    pub(crate) fn forget(&mut self) {
        self.margins = (0, self.rows());
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

/// Whether a fresh terminal has a tab stop in this column.
pub(crate) fn is_default_tab(column: usize) -> bool {
    column.is_multiple_of(TAB_WIDTH)
}

/// The emulator's name for a row of the screen.
pub(crate) fn line_at(row: usize) -> Line {
    Line(i32::try_from(row).unwrap_or(i32::MAX))
}

/// The row of the screen that the emulator calls `line`; the first one for a line in the history.
pub(crate) fn row_index(line: Line) -> usize {
    usize::try_from(line.0).unwrap_or(0)
}

/// A title without what could end the sequence that carries it, and of a bounded length.
fn clean_title(title: &str) -> String {
    let mut clean: String = title.chars().filter(|c| !c.is_control()).collect();
    if clean.len() > TITLE_LENGTH {
        let cut = (0..=TITLE_LENGTH).rev().find(|&at| clean.is_char_boundary(at)).unwrap_or(0);
        clean.truncate(cut);
    }
    clean.trim().to_owned()
}

/// Brings a grid that was just resized back to what only a fresh one guarantees.
fn tidy(grid: &mut Grid<Cell>) {
    // Half of a wide character in the last column would take its neighbour with it when overwritten.
    repair(grid);
    // Growing keeps a thousand spare rows: megabytes, for the next time.
    grid.truncate();

    let last = grid.columns() - 1;
    let rows = grid.screen_lines();
    for cursor in [&mut grid.cursor, &mut grid.saved_cursor] {
        cursor.point.line = line_at(row_index(cursor.point.line).min(rows - 1));
        cursor.point.column = Column(cursor.point.column.0.min(last));
        // A row that grew has room for what was about to wrap.
        if cursor.input_needs_wrap && cursor.point.column.0 < last {
            cursor.input_needs_wrap = false;
            cursor.point.column += 1;
        }
    }
    // Rows remember how far they were written to and clear no further. Reflow gets that wrong;
    // borrowing a whole row for writing sets it right.
    for line in grid.topmost_line().0..=grid.bottommost_line().0 {
        let _: &mut [Cell] = &mut grid[Line(line)][..];
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
