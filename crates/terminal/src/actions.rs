//! The parser's actions, applied to a [`Screen`].
//!
//! Most actions are forwarded to the emulator. The others are handled here because the emulator
//! does not expose their result, does not answer a query, or differs from other terminals.

use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Cell;
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorShape, CursorStyle, Handler, Hyperlink, KeyboardModes,
    KeyboardModesApplyBehavior, LineClearMode, Mode, ModifyOtherKeys, NamedPrivateMode,
    PrivateMode, Rgb, StandardCharset, TabulationClearMode,
};

use crate::answers;
use crate::coordinates::{line_at, row_index};
use crate::pen::PROTECTED;
use crate::screen::{SavedState, Screen, TAB_WIDTH};
use crate::tracked::X10_MOUSE;

/// Forwards actions to the emulator.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[inline]
            fn $name(&mut self, $($argument: $type),*) {
                self.term.$name($($argument),*);
            }
        )*
    };
}

impl Handler for Screen {
    forward! {
        set_cursor_style(style: Option<CursorStyle>);
        set_cursor_shape(shape: CursorShape);
        substitute();
        set_mode(mode: Mode);
        unset_mode(mode: Mode);
        report_mode(mode: Mode);
        set_keypad_application_mode();
        unset_keypad_application_mode();
        set_color(index: usize, color: Rgb);
        reset_color(index: usize);
        text_area_size_chars();
    }

    #[inline]
    fn input(&mut self, c: char) {
        self.last_printed = Some(c);
        // ASCII, box drawing and block elements: one cell each.
        let is_narrow = matches!(c, ' '..='~' | '\u{2500}'..='\u{259f}');
        if !is_narrow || !self.write_narrow(c) {
            self.write_any(c);
        }
    }

    // In origin mode, the emulator would report an absolute position.
    fn device_status(&mut self, kind: usize) {
        if kind == 6 {
            let (row, column) = self.reported_position();
            self.answer(format!("\x1b[{};{}R", row + 1, column + 1).as_bytes());
        } else {
            self.term.device_status(kind);
        }
    }

    fn goto(&mut self, line: i32, column: usize) {
        if !self.narrowed {
            return self.term.goto(line, column);
        }
        let area = self.addressable();
        let row = area.top + usize::try_from(line).unwrap_or(0);
        let cursor = &mut self.grid_mut().cursor;
        cursor.point.line = line_at(row.min(area.end - 1));
        cursor.point.column = Column((area.left + column).min(area.right - 1));
        cursor.input_needs_wrap = false;
    }

    // The emulator would add the left margin to an absolute column.
    fn goto_line(&mut self, line: i32) {
        let area = self.addressable();
        let row = area.top + usize::try_from(line).unwrap_or(0);
        self.move_to_row(row.min(area.end - 1));
    }

    fn move_forward(&mut self, columns: usize) {
        self.move_right(columns);
    }

    fn move_backward(&mut self, columns: usize) {
        self.move_left(columns);
    }

    fn backspace(&mut self) {
        self.move_left(1);
    }

    fn carriage_return(&mut self) {
        self.return_to_margin();
    }

    // Moving to another row cancels a pending wrap, and in mode 20 a line feed is also a return.
    fn linefeed(&mut self) {
        if self.narrowed {
            self.index(1);
        } else {
            self.grid_mut().cursor.input_needs_wrap = false;
            self.term.linefeed();
        }
        if self.mode().contains(TermMode::LINE_FEED_NEW_LINE) {
            self.return_to_margin();
        }
    }

    fn reverse_index(&mut self) {
        if self.narrowed {
            self.index(-1);
        } else {
            self.grid_mut().cursor.input_needs_wrap = false;
            self.term.reverse_index();
        }
    }

    fn put_tab(&mut self, count: u16) {
        if self.narrowed { self.tab_between_sides(count) } else { self.term.put_tab(count) }
    }

    fn move_forward_tabs(&mut self, count: u16) {
        if self.narrowed {
            self.tab_between_sides(count);
        } else {
            self.term.move_forward_tabs(count);
        }
    }

    fn scroll_up(&mut self, lines: usize) {
        if self.narrowed {
            self.shift_rows(self.scroll_area(), signed(lines));
        } else {
            self.term.scroll_up(lines);
        }
    }

    fn scroll_down(&mut self, lines: usize) {
        if self.narrowed {
            self.shift_rows(self.scroll_area(), -signed(lines));
        } else {
            self.term.scroll_down(lines);
        }
    }

    fn insert_blank_lines(&mut self, lines: usize) {
        if self.narrowed {
            self.shift_rows_at_cursor(-signed(lines));
        } else {
            self.term.insert_blank_lines(lines);
        }
    }

    fn delete_lines(&mut self, lines: usize) {
        if self.narrowed {
            self.shift_rows_at_cursor(signed(lines));
        } else {
            self.term.delete_lines(lines);
        }
    }

    fn insert_blank(&mut self, count: usize) {
        if self.narrowed {
            return self.shift_cells_at_cursor(-signed(count));
        }
        let point = self.grid().cursor.point;
        self.cut(point.line, point.column.0);
        self.cut(point.line, self.columns().saturating_sub(count));
        self.term.insert_blank(count);
    }

    fn erase_chars(&mut self, count: usize) {
        let point = self.grid().cursor.point;
        self.cut(point.line, point.column.0);
        self.cut(point.line, point.column.0.saturating_add(count));
        self.term.erase_chars(count);
    }

    fn save_cursor_position(&mut self) {
        self.term.save_cursor_position();
        let origin = self.mode().contains(TermMode::ORIGIN);
        let at = usize::from(self.is_alternate());
        self.saved[at] = SavedState { origin, charset: self.active_charset };
    }

    // SGR does not change the protection of DECSCA.
    fn terminal_attribute(&mut self, attribute: Attr) {
        let kept = self.term.grid().cursor.template.flags.intersection(PROTECTED);
        self.term.terminal_attribute(attribute);
        if !kept.is_empty() {
            self.grid_mut().cursor.template.flags.insert(kept);
        }
    }

    // The emulator would neither reset the margins nor move the cursor.
    fn decaln(&mut self) {
        self.set_sides(0, self.columns());
        self.reset_scroll_region();
        self.term.decaln();
        let cursor = &mut self.grid_mut().cursor;
        cursor.point = Point::default();
        cursor.input_needs_wrap = false;
    }

    fn configure_charset(&mut self, index: CharsetIndex, charset: StandardCharset) {
        self.only_ascii &= matches!(charset, StandardCharset::Ascii);
        self.term.configure_charset(index, charset);
    }

    // Redraws often erase whole rows. The emulator would write every cell; `Row::reset` writes only
    // those that were used since the row was last blank.
    fn clear_line(&mut self, mode: LineClearMode) {
        self.cut_for_line_clear(&mode);
        let cursor = &self.term.grid().cursor;
        let from_left = cursor.point.column == Column(0) && !cursor.input_needs_wrap;
        match mode {
            LineClearMode::Right if !from_left => self.term.clear_line(mode),
            LineClearMode::Left => self.term.clear_line(mode),
            LineClearMode::Right | LineClearMode::All => {
                let (line, blank) = (cursor.point.line, Cell::from(cursor.template.bg));
                self.grid_mut()[line].reset(&blank);
            }
        }
    }

    // In origin mode, the emulator would add the top margin to an absolute row.
    fn goto_col(&mut self, column: usize) {
        let area = self.addressable();
        let cursor = &mut self.grid_mut().cursor;
        cursor.point.column = Column((area.left + column).min(area.right - 1));
        cursor.input_needs_wrap = false;
    }

    // Vertical moves stop at the margin if they start inside the scroll region.
    fn move_up(&mut self, lines: usize) {
        let row = row_index(self.grid().cursor.point.line);
        let limit = if row >= self.margins.0 { self.margins.0 } else { 0 };
        self.move_to_row(row.saturating_sub(lines).max(limit));
    }

    fn move_down(&mut self, lines: usize) {
        let row = row_index(self.grid().cursor.point.line);
        let limit = if row < self.margins.1 { self.margins.1 } else { self.rows() };
        self.move_to_row((row + lines).min(limit - 1));
    }

    fn move_down_and_cr(&mut self, lines: usize) {
        self.move_down(lines);
        self.carriage_return();
    }

    fn move_up_and_cr(&mut self, lines: usize) {
        self.move_up(lines);
        self.carriage_return();
    }

    // The emulator would leave a pending wrap in the middle of the row.
    fn move_backward_tabs(&mut self, count: u16) {
        self.term.move_backward_tabs(count);
        self.grid_mut().cursor.input_needs_wrap = false;
    }

    // The emulator would also clear cells before the cursor if `count` exceeds the rest of the row.
    fn delete_chars(&mut self, count: usize) {
        if self.narrowed {
            return self.shift_cells_at_cursor(signed(count));
        }
        let point = self.grid().cursor.point;
        let rest = self.columns() - point.column.0;
        self.cut(point.line, point.column.0);
        self.cut(point.line, point.column.0.saturating_add(count));
        self.term.delete_chars(count.min(rest));
    }

    fn clear_screen(&mut self, mode: ClearMode) {
        match mode {
            ClearMode::Below => self.cut_for_line_clear(&LineClearMode::Right),
            ClearMode::Above => self.cut_for_line_clear(&LineClearMode::Left),
            ClearMode::All | ClearMode::Saved => {}
        }
        // The emulator does not clear the first row if the cursor is in the second.
        if matches!(mode, ClearMode::Above) && self.grid().cursor.point.line == Line(1) {
            self.grid_mut().reset_region(..Line(1));
        }
        let forgets = matches!(mode, ClearMode::Saved);
        self.term.clear_screen(mode);
        if forgets {
            self.forget_pushed_off();
        }
    }

    fn restore_cursor_position(&mut self) {
        let saved = self.saved[usize::from(self.is_alternate())];
        let origin = PrivateMode::Named(NamedPrivateMode::Origin);
        if saved.origin {
            self.term.set_private_mode(origin);
        } else {
            self.term.unset_private_mode(origin);
        }
        self.set_active_charset(saved.charset);
        self.term.restore_cursor_position();
        self.settle_cursor();
    }

    // The emulator would generate ids for links without one, so equal output would compare unequal.
    fn set_hyperlink(&mut self, link: Option<Hyperlink>) {
        let named = |link: Hyperlink| Hyperlink { id: link.id.or(Some(String::new())), ..link };
        self.term.set_hyperlink(link.map(named));
    }

    fn set_horizontal_tabstop(&mut self) {
        let column = self.grid().cursor.point.column.0;
        self.tabs[column] = true;
        self.tabs_touched = true;
        self.term.set_horizontal_tabstop();
    }

    fn clear_tabs(&mut self, mode: TabulationClearMode) {
        self.tabs_touched = true;
        match mode {
            TabulationClearMode::Current => {
                let column = self.grid().cursor.point.column.0;
                self.tabs[column] = false;
            }
            TabulationClearMode::All => self.tabs.fill(false),
        }
        self.term.clear_tabs(mode);
    }

    fn set_tabs(&mut self, interval: u16) {
        let back = self.grid().cursor.point.column;
        self.clear_tabs(TabulationClearMode::All);
        for column in (0..self.columns()).step_by(usize::from(interval).max(1)) {
            self.grid_mut().cursor.point.column = Column(column);
            self.set_horizontal_tabstop();
        }
        self.grid_mut().cursor.point.column = back;
    }

    fn reset_state(&mut self) {
        self.term.reset_state();
        self.reset_tracked_state();
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        match mode {
            PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor) => {
                if !self.is_alternate() {
                    self.save_cursor_position();
                    self.enter_alternate();
                }
            }
            PrivateMode::Named(NamedPrivateMode::Origin) => {
                self.term.set_private_mode(mode);
                self.goto(0, 0);
            }
            PrivateMode::Named(
                NamedPrivateMode::ReportMouseClicks
                | NamedPrivateMode::ReportCellMouseMotion
                | NamedPrivateMode::ReportAllMouseMotion,
            ) => {
                self.tracked.set(X10_MOUSE, false);
                self.term.set_private_mode(mode);
            }
            PrivateMode::Named(NamedPrivateMode::SgrMouse | NamedPrivateMode::Utf8Mouse) => {
                self.tracked.reset_mouse_encodings();
                self.term.set_private_mode(mode);
            }
            PrivateMode::Unknown(number) => self.set_unknown_mode(number),
            PrivateMode::Named(NamedPrivateMode::ColumnMode) => self.column_mode(),
            PrivateMode::Named(NamedPrivateMode::SyncUpdate) => self.synchronized = true,
            PrivateMode::Named(_) => self.term.set_private_mode(mode),
        }
    }

    fn unset_private_mode(&mut self, mode: PrivateMode) {
        match mode {
            PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor) => {
                if self.is_alternate() {
                    self.leave_alternate();
                    self.restore_cursor_position();
                }
            }
            PrivateMode::Named(NamedPrivateMode::Origin) => {
                self.term.unset_private_mode(mode);
                self.goto(0, 0);
            }
            PrivateMode::Unknown(number) => self.unset_unknown_mode(number),
            PrivateMode::Named(NamedPrivateMode::ColumnMode) => self.column_mode(),
            PrivateMode::Named(NamedPrivateMode::SyncUpdate) => self.synchronized = false,
            PrivateMode::Named(_) => self.term.unset_private_mode(mode),
        }
    }

    fn report_private_mode(&mut self, mode: PrivateMode) {
        // The emulator leaves synchronized updates to its parser and always reports "reset".
        if mode == PrivateMode::Named(NamedPrivateMode::SyncUpdate) && self.synchronized {
            self.answer(b"\x1b[?2026;1$y");
            return;
        }
        match self.unknown_mode(mode.raw()) {
            Some(on) => {
                let state = if on { 1 } else { 2 };
                self.answer(format!("\x1b[?{};{state}$y", mode.raw()).as_bytes());
            }
            None => self.term.report_private_mode(mode),
        }
    }

    // The emulator would also accept a region below the screen.
    fn set_scrolling_region(&mut self, top: usize, bottom: Option<usize>) {
        let bottom = bottom.map_or(self.rows(), |bottom| bottom.min(self.rows()));
        if top < bottom {
            self.margins = (top - 1, bottom);
            self.term.set_scrolling_region(top, Some(bottom));
            self.goto(0, 0);
        }
    }

    fn set_active_charset(&mut self, index: CharsetIndex) {
        self.active_charset = index;
        self.term.set_active_charset(index);
    }

    fn set_title(&mut self, title: Option<String>) {
        self.change_title(title);
    }

    fn push_title(&mut self) {
        self.save_title();
    }

    fn pop_title(&mut self) {
        if let Some(title) = self.titles.pop() {
            self.title = title;
        }
    }

    fn identify_terminal(&mut self, intermediate: Option<char>) {
        match intermediate {
            Some('=') => self.answer(answers::TERTIARY_ATTRIBUTES),
            Some('>') | None => self.term.identify_terminal(intermediate),
            Some(_) => {}
        }
    }

    fn dynamic_color_sequence(&mut self, prefix: String, index: usize, terminator: &str) {
        let color = self.term.colors()[index].unwrap_or_else(|| answers::default_color(index));
        let answer = answers::color(&prefix, color, terminator);
        self.answer(answer.as_bytes());
    }

    fn text_area_size_pixels(&mut self) {
        let answer = answers::pixels(self.columns(), self.rows());
        self.answer(answer.as_bytes());
    }

    fn report_keyboard_mode(&mut self) {
        let answer = format!("\x1b[?{}u", self.keyboard().flags.bits());
        self.answer(answer.as_bytes());
    }

    fn push_keyboard_mode(&mut self, mode: KeyboardModes) {
        self.change_keyboard(|keyboard| keyboard.push(mode));
    }

    fn pop_keyboard_modes(&mut self, count: u16) {
        self.change_keyboard(|keyboard| keyboard.pop(count));
    }

    fn set_keyboard_mode(&mut self, mode: KeyboardModes, apply: KeyboardModesApplyBehavior) {
        self.change_keyboard(|keyboard| {
            keyboard.flags = match apply {
                KeyboardModesApplyBehavior::Replace => mode,
                KeyboardModesApplyBehavior::Union => keyboard.flags.union(mode),
                KeyboardModesApplyBehavior::Difference => keyboard.flags.difference(mode),
            };
        });
    }

    fn set_modify_other_keys(&mut self, mode: ModifyOtherKeys) {
        self.modify_other_keys = match mode {
            ModifyOtherKeys::Reset => 0,
            ModifyOtherKeys::EnableExceptWellDefined => 1,
            ModifyOtherKeys::EnableAll => 2,
        };
    }
}

impl Screen {
    pub(crate) fn move_to_row(&mut self, row: usize) {
        let cursor = &mut self.grid_mut().cursor;
        cursor.point.line = line_at(row);
        cursor.input_needs_wrap = false;
    }

    /// Returns the next default tab stop after `column`, or the last column.
    pub(crate) fn next_default_tab(columns: usize, column: usize) -> usize {
        ((column / TAB_WIDTH + 1) * TAB_WIDTH).min(columns - 1)
    }
}

fn signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}

/// A handler that ignores every action, to change only the state of the parser.
pub(crate) struct NullHandler;

impl Handler for NullHandler {}
