//! Sequences that the parser does not know: recognized in the stream, applied to the [`Screen`].
//!
//! Those that the parser knows with another meaning are hidden from it
//! ([`ExtraAction::replaces_parser`]).

use alacritty_terminal::index::Column;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{
    Attr, Handler as _, LineClearMode, Mode, NamedMode, NamedPrivateMode, PrivateMode,
};

use crate::areas::{Area, Erase, parameters};
use crate::coordinates::row_index;
use crate::csi::Csi;
use crate::extra_query::ExtraQuery;
use crate::pen::PROTECTED;
use crate::query::is_query;
use crate::scan::SequenceKind;
use crate::screen::{SavedState, Screen};
use crate::tracked::{REVERSE_WRAP, SIDE_MARGINS};

/// A sequence that the parser does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    Query(ExtraQuery),
    Action(ExtraAction),
}

/// A change of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtraAction {
    /// VPR: moves the cursor down, past the bottom margin.
    MoveDown(u16),
    /// DECSLRM if mode 69 is set; otherwise SCOSC.
    SideMargins(u16, u16),
    /// SL (positive) and SR.
    ShiftColumns(i16),
    /// DECDC (positive) and DECIC.
    ShiftColumnsAtCursor(i16),
    /// DECFI and DECBI.
    ForwardIndex,
    BackIndex,
    /// DECSED and DECSEL.
    SelectiveErase {
        part: u16,
        only_row: bool,
    },
    /// DECSCA.
    Protect(bool),
    /// DECERA and DECSERA.
    EraseArea([u16; 4], Erase),
    /// DECFRA.
    FillArea(char, [u16; 4]),
    /// DECCRA: from, to.
    CopyArea([u16; 4], [u16; 2]),
    /// DECSTR.
    SoftReset,
}

impl Extra {
    /// Parses a sequence; `None` if the parser handles it. Sets `is_question` if it asks for an
    /// answer.
    pub(crate) fn parse(bytes: &[u8], kind: SequenceKind, is_question: &mut bool) -> Option<Self> {
        if is_query(bytes, kind) {
            *is_question = true;
            return ExtraQuery::parse(bytes, kind).map(Self::Query);
        }
        ExtraAction::parse(bytes, kind).map(Self::Action)
    }
}

impl ExtraAction {
    fn parse(bytes: &[u8], kind: SequenceKind) -> Option<Self> {
        match kind {
            SequenceKind::Esc => match bytes {
                b"\x1b6" => Some(Self::BackIndex),
                b"\x1b9" => Some(Self::ForwardIndex),
                _ => None,
            },
            SequenceKind::Csi if !matches!(bytes.last(), Some(b'h' | b'l' | b'm')) => {
                Self::parse_csi(&Csi::parse(bytes)?)
            }
            SequenceKind::Csi | SequenceKind::Osc | SequenceKind::Dcs | SequenceKind::Other => None,
        }
    }

    fn parse_csi(csi: &Csi<'_>) -> Option<Self> {
        let count = csi.first().max(1);
        let columns = i16::try_from(count).unwrap_or(i16::MAX);
        Some(match (csi.marker, csi.intermediates, csi.last) {
            (None, b"", b'e') => Self::MoveDown(count),
            (None, b"", b's') => {
                let [left, right] = parameters(csi);
                Self::SideMargins(left, right)
            }
            (None, b" ", b'@') => Self::ShiftColumns(columns),
            (None, b" ", b'A') => Self::ShiftColumns(-columns),
            (None, b"'", b'~') => Self::ShiftColumnsAtCursor(columns),
            (None, b"'", b'}') => Self::ShiftColumnsAtCursor(-columns),
            (Some(b'?'), b"", b'J') => Self::SelectiveErase { part: csi.first(), only_row: false },
            (Some(b'?'), b"", b'K') => Self::SelectiveErase { part: csi.first(), only_row: true },
            (None, b"\"", b'q') => Self::Protect(csi.first() == 1),
            (None, b"$", b'z') => Self::EraseArea(parameters(csi), Erase::All),
            (None, b"$", b'{') => Self::EraseArea(parameters(csi), Erase::Unprotected),
            (None, b"$", b'x') => {
                let [c, top, left, bottom, right] = parameters(csi);
                let c = char::from(u8::try_from(c).ok()?);
                if c.is_control() {
                    return None;
                }
                Self::FillArea(c, [top, left, bottom, right])
            }
            (None, b"$", b'v') => {
                let [top, left, bottom, right, _, to_top, to_left] = parameters(csi);
                Self::CopyArea([top, left, bottom, right], [to_top, to_left])
            }
            (None, b"!", b'p') => Self::SoftReset,
            _ => return None,
        })
    }

    /// Returns whether the parser knows the sequence with another meaning.
    pub(crate) fn replaces_parser(self) -> bool {
        matches!(self, Self::MoveDown(_) | Self::SideMargins(..))
    }
}

impl Screen {
    /// Applies a sequence that the parser does not know.
    pub(crate) fn perform(&mut self, action: ExtraAction) {
        match action {
            ExtraAction::MoveDown(count) => {
                let row = row_index(self.grid().cursor.point.line) + usize::from(count);
                self.move_to_row(row.min(self.addressable().end - 1));
            }
            ExtraAction::SideMargins(left, right) => self.set_side_margins(left, right),
            ExtraAction::ShiftColumns(by) => self.shift_columns(self.scroll_area(), by.into()),
            ExtraAction::ShiftColumnsAtCursor(by) => {
                if self.is_inside_margins() {
                    let left = self.grid().cursor.point.column.0;
                    self.shift_columns(Area { left, ..self.scroll_area() }, by.into());
                    self.grid_mut().cursor.input_needs_wrap = false;
                }
            }
            ExtraAction::ForwardIndex => self.index_columns(1),
            ExtraAction::BackIndex => self.index_columns(-1),
            ExtraAction::SelectiveErase { part, only_row } => {
                self.erase_selectively(part, only_row);
            }
            ExtraAction::Protect(on) => {
                self.grid_mut().cursor.template.flags.set(PROTECTED, on);
            }
            ExtraAction::EraseArea(rectangle, what) => {
                if let Some(area) = self.rectangle(rectangle) {
                    self.erase(area, what);
                }
            }
            ExtraAction::FillArea(c, rectangle) => {
                if let Some(area) = self.rectangle(rectangle) {
                    self.fill(area, c);
                }
            }
            ExtraAction::CopyArea(from, [top, left]) => {
                let to = self.rectangle([top, left, 0, 0]);
                if let (Some(from), Some(to)) = (self.rectangle(from), to) {
                    self.copy(from, to.top, to.left);
                }
            }
            ExtraAction::SoftReset => self.soft_reset(),
        }
    }

    /// Moves the cursor one column, or shifts the columns inside the margins at their edge.
    fn index_columns(&mut self, by: isize) {
        let area = self.scroll_area();
        let last = self.columns() - 1;
        let column = self.grid().cursor.point.column.0;
        let edge = if by > 0 { area.right - 1 } else { area.left };
        if column == edge {
            if self.is_inside_margins() {
                self.shift_columns(area, by);
            }
        } else {
            let column = column.saturating_add_signed(by).min(last);
            self.grid_mut().cursor.point.column = Column(column);
        }
        self.grid_mut().cursor.input_needs_wrap = false;
    }

    /// Resets the modes that a program may leave behind, but neither cells nor cursor position.
    fn soft_reset(&mut self) {
        let private = |mode| PrivateMode::Named(mode);
        self.unset_mode(Mode::Named(NamedMode::Insert));
        self.term.unset_private_mode(private(NamedPrivateMode::Origin));
        self.unset_private_mode(private(NamedPrivateMode::CursorKeys));
        self.set_private_mode(private(NamedPrivateMode::LineWrap));
        self.set_private_mode(private(NamedPrivateMode::ShowCursor));
        self.unset_keypad_application_mode();
        self.tracked.set(REVERSE_WRAP, false);
        self.tracked.set(SIDE_MARGINS, false);
        self.set_sides(0, self.columns());
        self.reset_scroll_region();
        self.grid_mut().cursor.template.flags.remove(PROTECTED);
        self.terminal_attribute(Attr::Reset);
        self.reset_charsets();
        self.grid_mut().saved_cursor = alacritty_terminal::grid::Cursor::default();
        let at = usize::from(self.is_alternate());
        self.saved[at] = SavedState::default();
        self.settle_cursor();
    }

    /// Returns the area that cursor addressing can reach: the margins in origin mode.
    pub(crate) fn addressable(&self) -> Area {
        if self.mode().contains(TermMode::ORIGIN) {
            self.scroll_area()
        } else {
            Area { top: 0, left: 0, end: self.rows(), right: self.columns() }
        }
    }

    /// Blanks a wide character that is half inside the part of the row to be erased.
    pub(crate) fn cut_for_line_clear(&mut self, mode: &LineClearMode) {
        let point = self.grid().cursor.point;
        match mode {
            LineClearMode::Right => self.cut(point.line, point.column.0),
            LineClearMode::Left => self.cut(point.line, point.column.0 + 1),
            LineClearMode::All => {}
        }
    }
}
