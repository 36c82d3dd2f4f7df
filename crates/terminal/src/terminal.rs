//! The terminal of one pane: bytes in, a screen and answers out.
//!
//! ```text
//!   feed ──► scanner ──► pending bytes ──(flush)──► parser ──► screen
//!               │                           ▲
//!               └── a query, 256 KiB, or a read of the screen
//! ```
//!
//! Most output of a busy program is never seen, so `feed` only buffers the bytes and looks for
//! queries. Applying them later has the same effect with less work: text that has scrolled away in
//! the meantime is not drawn at all (see [`crate::skip`]).
//!
//! # Invariant
//!
//! Between calls, the parser is never inside a sequence: the bytes of an incomplete sequence or
//! character stay in `pending`. A snapshot therefore corresponds to a definite stream position.

use std::fmt;

use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{Processor, Timeout};

use crate::actions::NullHandler;
use crate::coordinates::row_index;
use crate::extra::Extra;
use crate::extra_query;
use crate::modes::Modes;
use crate::scan::{Scanner, SequenceKind, Token};
use crate::screen::{GridSize, Screen};
use crate::{plain_text, skip, snapshot};

/// Maximum number of buffered bytes. Also the maximum length of a sequence: a longer one is
/// discarded.
const MAX_PENDING: usize = 256 * 1024;
/// Capacity of `pending` above which unused memory is released.
const SPARE_CAPACITY: usize = 16 * 1024;

/// Final byte of a CSI sequence that the parser ignores.
const UNKNOWN_FINAL: u8 = b'~';

/// Size of the screen before it is first used.
const PLACEHOLDER: GridSize = GridSize { columns: 2, rows: 1 };

/// A terminal emulator without a window.
pub struct Terminal {
    /// Valid only after [`Terminal::ensure_screen`].
    pub(crate) screen: Screen,
    /// The size of a screen that is not allocated yet. The screen is most of the memory of an idle
    /// pane, so it is allocated on first use.
    deferred_size: Option<model::Size>,
    parser: Processor<NoTimeout>,
    scanner: Scanner,
    /// Bytes fed but not yet applied.
    pending: Vec<u8>,
    /// Offset in `pending` from which there is only text and SGR.
    plain_from: usize,
    /// Offset in `pending` at which a string ends that the parser completes only at the next ESC.
    unterminated: Option<usize>,
    /// An overlong sequence is being discarded.
    discarding: bool,
    synchronized: bool,
    history: usize,
    #[cfg(test)]
    pub(crate) eager: bool,
}

/// Cursor position and visibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Row, counted from 0.
    pub row: u16,
    /// Column, counted from 0.
    pub col: u16,
    /// Whether the cursor is shown.
    pub visible: bool,
}

/// Timeout for synchronized updates that is never pending, so that the parser buffers nothing.
/// Delaying the display until the end of an update is left to the caller.
#[derive(Debug, Default)]
struct NoTimeout;

impl Timeout for NoTimeout {
    fn set_timeout(&mut self, _: std::time::Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}

impl Terminal {
    /// Creates a blank terminal with up to `history` lines of scrollback.
    #[must_use]
    pub fn new(size: model::Size, history: usize) -> Self {
        Self {
            screen: Screen::new(&PLACEHOLDER, history),
            deferred_size: Some(size),
            parser: Processor::new(),
            scanner: Scanner::new(),
            pending: Vec::new(),
            plain_from: 0,
            unterminated: None,
            discarding: false,
            synchronized: false,
            history,
            #[cfg(test)]
            eager: false,
        }
    }

    /// Feeds output of the program.
    ///
    /// The bytes are applied to the screen later, unless they contain a query: then the answer is
    /// ready when this returns ([`Terminal::take_answers`]).
    pub fn feed(&mut self, bytes: &[u8]) {
        self.ensure_screen();
        let mut rest = bytes;
        let mut urgent = false;
        while let Some(extra) = self.scan(&mut rest, &mut urgent) {
            self.apply(false);
            match extra {
                Extra::Query(query) => {
                    let answer = extra_query::answer(&query, &self.screen);
                    self.screen.answer(answer.as_bytes());
                }
                Extra::Action(action) => self.screen.perform(action),
            }
        }
        if self.scanner.unfinished() > MAX_PENDING {
            self.apply(false);
            self.discarding = true;
            self.pending.clear();
            self.plain_from = 0;
        }
        #[cfg(test)]
        {
            urgent |= self.eager;
        }
        if urgent || self.pending.len() > MAX_PENDING {
            self.apply(urgent);
        }
    }

    /// Applies all buffered output to the screen.
    pub fn flush(&mut self) {
        self.ensure_screen();
        self.apply(true);
    }

    /// Allocates the screen if it does not exist yet.
    fn ensure_screen(&mut self) {
        if let Some(size) = self.deferred_size.take() {
            self.screen = Screen::new(&grid_size(size), self.history);
        }
    }

    /// Returns the length of the incomplete sequence or character at the end of the output.
    ///
    /// These bytes have not taken effect, and a snapshot does not contain them.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.scanner.unfinished()
    }

    /// Returns whether the program is inside a synchronized update (mode 2026).
    #[must_use]
    pub fn in_synchronized_update(&self) -> bool {
        self.synchronized
    }

    /// Removes and returns the answers to be written to the program.
    #[must_use]
    pub fn take_answers(&mut self) -> Vec<u8> {
        self.screen.take_answers()
    }

    /// Changes the size. The main screen reflows; the alternate screen is cropped or padded. Rows that
    /// are pushed off the top return when there is room again.
    pub fn resize(&mut self, size: model::Size) {
        if let Some(asleep) = &mut self.deferred_size {
            *asleep = size;
            return;
        }
        self.flush();
        self.screen.resize(&grid_size(size));
    }

    /// Returns the size.
    #[must_use]
    pub fn size(&self) -> model::Size {
        if let Some(size) = self.deferred_size {
            return size;
        }
        model::Size::clamped(to_u16(self.screen.columns()), to_u16(self.screen.rows()))
    }

    /// Returns the title, without control characters; empty if the program set none.
    #[must_use]
    pub fn title(&mut self) -> String {
        self.flush();
        self.screen.title.clone().unwrap_or_default()
    }

    /// Returns the modes that the program has set.
    #[must_use]
    pub fn modes(&mut self) -> Modes {
        self.flush();
        let mode = self.screen.mode();
        Modes {
            alternate_screen: mode.contains(TermMode::ALT_SCREEN),
            bracketed_paste: mode.contains(TermMode::BRACKETED_PASTE),
            application_cursor: mode.contains(TermMode::APP_CURSOR),
            application_keypad: mode.contains(TermMode::APP_KEYPAD),
            focus_events: mode.contains(TermMode::FOCUS_IN_OUT),
            mouse_click: mode.contains(TermMode::MOUSE_REPORT_CLICK),
            mouse_drag: mode.contains(TermMode::MOUSE_DRAG),
            mouse_motion: mode.contains(TermMode::MOUSE_MOTION),
            mouse_sgr: mode.contains(TermMode::SGR_MOUSE),
            mouse_utf8: mode.contains(TermMode::UTF8_MOUSE),
            alternate_scroll: mode.contains(TermMode::ALTERNATE_SCROLL),
            cursor_visible: mode.contains(TermMode::SHOW_CURSOR),
            autowrap: mode.contains(TermMode::LINE_WRAP),
            origin: mode.contains(TermMode::ORIGIN),
            insert: mode.contains(TermMode::INSERT),
            linefeed_newline: mode.contains(TermMode::LINE_FEED_NEW_LINE),
            kitty_flags: self.screen.keyboard().flags.bits(),
        }
    }

    /// Returns the cursor position and visibility.
    #[must_use]
    pub fn cursor(&mut self) -> Cursor {
        self.flush();
        let point = self.screen.grid().cursor.point;
        Cursor {
            row: to_u16(row_index(point.line)),
            col: to_u16(point.column.0),
            visible: self.screen.mode().contains(TermMode::SHOW_CURSOR),
        }
    }

    /// Returns the visible screen, one line per row, without trailing blanks and trailing empty
    /// rows. Wrapped rows are separate lines.
    #[must_use]
    pub fn screen_text(&mut self) -> String {
        self.text(usize::from(self.size().rows()))
    }

    /// Returns the last `lines` rows of scrollback and screen, formatted as by
    /// [`Terminal::screen_text`].
    #[must_use]
    pub fn text(&mut self, lines: usize) -> String {
        self.flush();
        // Rows that were pushed off the screen are not scrollback.
        let available = self.screen.rows() + self.history;
        plain_text::last_rows(self.screen.grid(), lines.min(available))
    }

    /// Returns the number of lines of scrollback.
    #[must_use]
    pub fn history_len(&mut self) -> usize {
        self.flush();
        plain_text::history_len(self.screen.grid()).min(self.history)
    }

    /// Returns sequences that rebuild this terminal in a new one of the same size, without the
    /// scrollback.
    ///
    /// They represent all bytes fed except the last [`Terminal::unfinished`].
    #[must_use]
    pub fn snapshot(&mut self) -> Vec<u8> {
        self.flush();
        let (mut bytes, last) = snapshot::snapshot(&mut self.screen);
        if let Some(last) = last.filter(|_| last != self.screen.last_printed) {
            // REP would repeat a different character in the copy; make both repeat that one.
            self.screen.last_printed = Some(last);
            self.parser.advance(&mut NullHandler, last.encode_utf8(&mut [0; 4]).as_bytes());
        }
        if self.synchronized {
            bytes.extend_from_slice(b"\x1b[?2026h");
        }
        bytes
    }

    /// Returns whether the terminal of a client must be painted instead of receiving the program's
    /// output: the program uses modes that few terminals have, or is inside an emoji sequence.
    #[must_use]
    pub fn needs_frames(&mut self) -> bool {
        self.flush();
        self.screen.needs_frames()
    }

    /// Moves bytes to `pending` up to the end of an [`Extra`], which is returned, or to the end of
    /// `rest`. Sets `urgent` if a query was seen: the bytes must then be applied.
    fn scan(&mut self, rest: &mut &[u8], urgent: &mut bool) -> Option<Extra> {
        let chunk = *rest;
        let base = self.pending.len();
        let mut plain_from = None;
        let mut after_open = self.unterminated.is_some();
        let mut extra = None;
        while let Some(token) = self.scanner.next(rest) {
            let used = chunk.len() - rest.len();
            let mut open = false;
            match token {
                // The parser recognizes the end of an open string only by the next token.
                Token::Text(_) if !after_open => {}
                Token::Text(_) | Token::Control(_) => plain_from = Some(used),
                Token::Sequence { bytes, kind, truncated, terminated } => {
                    open = !terminated;
                    if !after_open && is_drawing(bytes, kind) {
                        plain_from = Some(used);
                    } else if after_open || !skip::is_sgr(bytes) {
                        plain_from = Some(used);
                        extra_query::track_synchronized(bytes, kind, &mut self.synchronized);
                        if !truncated {
                            extra = Extra::parse(bytes, kind, urgent);
                        }
                    }
                }
            }
            if self.discarding {
                return self.stop_discarding(rest);
            }
            after_open = open;
            if open {
                self.unterminated = Some(base + used - self.scanner.unfinished());
            }
            if extra.is_some() {
                break;
            }
        }
        let used = chunk.len() - rest.len();
        if !self.discarding {
            self.pending.extend_from_slice(&chunk[..used]);
            if let Some(at) = plain_from {
                self.plain_from = base + at;
            }
        }
        if let Some(Extra::Action(action)) = &extra
            && action.replaces_parser()
            && let Some(last) = self.pending.last_mut()
        {
            *last = UNKNOWN_FINAL;
        }
        extra
    }

    /// Continues after a token that may have ended the discarded sequence.
    fn stop_discarding(&mut self, rest: &mut &[u8]) -> Option<Extra> {
        let unfinished = self.scanner.unfinished();
        self.discarding = unfinished > 1;
        if unfinished == 1 {
            // The ESC of the next sequence ended this one.
            self.pending.push(0x1b);
        }
        self.plain_from = self.pending.len();
        self.scan(rest, &mut true)
    }

    /// Applies the pending bytes up to the last complete token.
    fn apply(&mut self, shrink: bool) {
        let kept = self.scanner.unfinished().min(self.pending.len());
        let ready = self.pending.len() - kept;
        if ready > 0 {
            let open = self.unterminated.take_if(|end| *end <= ready) == Some(ready);
            let broken =
                if kept > 0 && !open { incomplete_suffix(&self.pending[..ready]) } else { 0 };
            let whole = ready - broken;
            let (before, plain) = self.pending[..whole].split_at(self.plain_from.min(whole));
            self.parser.advance(&mut self.screen, before);
            #[cfg(test)]
            let plain = if self.eager { (&[][..], plain) } else { self.split_skippable(plain) };
            #[cfg(not(test))]
            let plain = self.split_skippable(plain);
            let (skipped, tail) = plain;
            if !skipped.is_empty() {
                skip::skip_text(skipped, &mut self.screen, &mut self.parser);
            }
            self.parser.advance(&mut self.screen, tail);
            // Make the parser act now as it will when it sees the bytes that were kept back.
            if open {
                self.parser.advance(&mut self.screen, b"\x1b\\");
            } else if broken > 0 {
                self.parser.advance(&mut self.screen, "\u{fffd}".as_bytes());
            }
            self.pending.drain(..ready);
            self.plain_from = self.plain_from.saturating_sub(ready);
        }
        if shrink && self.pending.capacity() > SPARE_CAPACITY && self.pending.len() < SPARE_CAPACITY
        {
            self.pending.shrink_to(self.pending.len());
        }
    }

    fn split_skippable<'a>(&self, plain: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let rows = self.screen.rows();
        let scrollback = if self.screen.is_alternate() { 0 } else { self.history };
        let history = scrollback.max(plain_text::history_len(self.screen.grid()));
        if !self.screen.scrolls_whole_screen() {
            return (&[], plain);
        }
        plain.split_at(skip::skippable_len(plain, rows, history))
    }
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal")
            .field("screen", &self.screen)
            .field("pending", &self.pending.len())
            .field("unfinished", &self.unfinished())
            .finish_non_exhaustive()
    }
}

/// Returns the length of the incomplete character at the end of `text`.
fn incomplete_suffix(text: &[u8]) -> usize {
    let incomplete = |count: &usize| {
        std::str::from_utf8(&text[text.len() - count..])
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=text.len().min(3)).rev().find(incomplete).unwrap_or(0)
}

fn grid_size(size: model::Size) -> GridSize {
    GridSize { columns: usize::from(size.cols()), rows: usize::from(size.rows()) }
}

/// Converts a column or row; screens are never larger than `u16::MAX`.
fn to_u16(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// Returns whether a sequence only moves the cursor or erases, so that it neither is a query nor
/// sets a mode. A fast path: most sequences of a redraw are of this kind.
fn is_drawing(bytes: &[u8], kind: SequenceKind) -> bool {
    kind == SequenceKind::Csi
        && matches!(bytes, [_, _, b'0'..=b'9' | b';', .., last] | [_, _, last]
            if matches!(last, b'A'..=b'M' | b'P' | b'X' | b'd' | b'f'))
        // SR.
        && !bytes.ends_with(b" A")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::size;

    #[test]
    fn unused_terminal_is_blank_and_reports_its_size() {
        let mut terminal = Terminal::new(size(80, 24), 0);
        terminal.resize(size(100, 30));

        assert_eq!((terminal.size(), terminal.screen.rows()), (size(100, 30), 1));
        assert_eq!(terminal.screen_text(), "");
        assert_eq!((terminal.size(), terminal.screen.rows()), (size(100, 30), 30));
        assert_eq!(terminal.cursor(), Cursor { row: 0, col: 0, visible: true });
    }

    fn answers(output: &[u8]) -> String {
        let mut terminal = Terminal::new(size(80, 24), 0);
        terminal.feed(output);
        String::from_utf8(terminal.take_answers()).unwrap()
    }

    #[test]
    fn queries_are_answered_exactly_once() {
        let version = format!("\x1bP>|ccmux({})\x1b\\", env!("CARGO_PKG_VERSION"));
        let cases: [(&[u8], &str); 34] = [
            (b"\x1b[c", "\x1b[?6c"),
            (b"\x1b[0c", "\x1b[?6c"),
            (b"\x1bZ", "\x1b[?6c"),
            (b"\x1b[>c", "\x1b[>0;2600;1c"),
            (b"\x1b[=c", "\x1bP!|00000000\x1b\\"),
            (b"\x1b[5n", "\x1b[0n"),
            (b"ab\r\ncde\x1b[6n", "\x1b[2;4R"),
            (b"ab\r\ncde\x1b[?6n", "\x1b[?2;4;1R"),
            (b"\x1b[>q", &version),
            (b"\x1b[>0q", &version),
            (b"\x1b[?u", "\x1b[?0u"),
            (b"\x1b[=5u\x1b[>1u\x1b[<u\x1b[?u", "\x1b[?5u"),
            (b"\x1b[?2004$p", "\x1b[?2004;2$y"),
            (b"\x1b[?2004h\x1b[?2004$p", "\x1b[?2004;1$y"),
            (b"\x1b[?2026$p", "\x1b[?2026;2$y"),
            (b"\x1b[?2026h\x1b[?2026$p", "\x1b[?2026;1$y"),
            (b"\x1b[?9999$p", "\x1b[?9999;0$y"),
            (b"\x1b[4$p", "\x1b[4;2$y"),
            (b"\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07"),
            (b"\x1b]10;?\x1b\\", "\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\"),
            (b"\x1b]12;?\x07", "\x1b]12;rgb:e5e5/e5e5/e5e5\x07"),
            (b"\x1b]4;1;?\x07", "\x1b]4;1;rgb:cdcd/3131/3131\x07"),
            (b"\x1b]4;1;#010203\x07\x1b]4;1;?\x07", "\x1b]4;1;rgb:0101/0202/0303\x07"),
            (
                b"\x1b]4;16;?;231;?\x07",
                concat!("\x1b]4;16;rgb:0000/0000/0000\x07", "\x1b]4;231;rgb:ffff/ffff/ffff\x07",),
            ),
            (b"\x1b[14t", "\x1b[4;480;800t"),
            (b"\x1b[18t", "\x1b[8;24;80t"),
            (b"\x1b[1;31m\x1bP$qm\x1b\\", "\x1bP1$r0;1;31m\x1b\\"),
            (b"\x1bP$qm\x1b\\", "\x1bP1$r0m\x1b\\"),
            (b"\x1b[3;9r\x1bP$qr\x1b\\", "\x1bP1$r3;9r\x1b\\"),
            (b"\x1b[5 q\x1bP$q q\x1b\\", "\x1bP1$r5 q\x1b\\"),
            (b"\x1bP$qx\x1b\\", "\x1bP0$r\x1b\\"),
            (b"\x1bP+q5445;636f\x1b\\", "\x1bP0+r5445\x1b\\\x1bP0+r636f\x1b\\"),
            (b"\x1b]52;c;?\x07", ""),
            (b"\x1b]52;c;YQ==\x07", ""),
        ];
        for (output, answer) in cases {
            assert_eq!(answers(output), answer, "{}", output.escape_ascii());
            let mut terminal = Terminal::new(size(80, 24), 0);
            for byte in output {
                terminal.feed(&[*byte]);
            }
            assert_eq!(terminal.take_answers(), answer.as_bytes(), "byte by byte");
            assert!(terminal.take_answers().is_empty());
        }
    }

    #[test]
    fn text_is_applied_when_the_screen_is_read() {
        let mut terminal = Terminal::new(size(80, 24), 0);

        terminal.feed(b"hello");

        assert_eq!(terminal.pending.len(), 5);
        assert_eq!(terminal.screen_text(), "hello");
        assert_eq!(terminal.pending.len(), 0);
    }

    #[test]
    fn unfinished_sequence_or_character_is_not_applied() {
        let cases: [(&[u8], usize); 6] = [
            (b"a\x1b[3", 3),
            (b"a\x1b]2;title", 9),
            (b"a\xe6\x97", 2),
            (b"a\x1b]2;t\x1b", 6),
            (b"a\x1b[1\n", 4),
            (b"a", 0),
        ];
        for (output, unfinished) in cases {
            let mut terminal = Terminal::new(size(80, 24), 0);
            terminal.feed(output);
            assert_eq!(terminal.unfinished(), unfinished, "{}", output.escape_ascii());
            assert_eq!(terminal.screen_text(), "a");
            assert_eq!(terminal.pending.len(), unfinished);
            assert_eq!(terminal.title(), "");
        }
    }

    #[test]
    fn overlong_sequence_is_discarded_in_bounded_memory() {
        let mut terminal = Terminal::new(size(80, 24), 0);
        terminal.feed(b"a\x1b]2;");
        for _ in 0..100 {
            terminal.feed(&[b'x'; 64 * 1024]);
            assert!(terminal.pending.len() <= MAX_PENDING + 64 * 1024);
        }

        terminal.feed(b"\x07b");

        assert_eq!(terminal.unfinished(), 0);
        assert_eq!(terminal.screen_text(), "ab");
        assert_eq!(terminal.title(), "");
    }

    #[test]
    fn synchronized_update_is_reported_and_does_not_delay_output() {
        let mut terminal = Terminal::new(size(80, 24), 0);
        terminal.feed(b"\x1b[?2026hinside");
        assert!(terminal.in_synchronized_update());
        assert_eq!(terminal.screen_text(), "inside");

        terminal.feed(b"\x1b[?2026l");

        assert!(!terminal.in_synchronized_update());
    }

    #[test]
    fn title_contains_no_control_characters() {
        let mut terminal = Terminal::new(size(80, 24), 0);

        terminal.feed("\x1b]2; a\u{9b}b;c\u{7f} \x07".as_bytes());

        assert_eq!(terminal.title(), "ab;c");
    }

    #[test]
    fn scrollback_keeps_the_configured_number_of_lines() {
        let mut terminal = Terminal::new(size(10, 2), 3);

        terminal.feed(b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n\r\n");

        assert_eq!(terminal.history_len(), 3);
        assert_eq!(terminal.text(100), "4\n5\n6");
        assert_eq!(terminal.text(3), "6");
        assert_eq!(terminal.screen_text(), "");
    }

    #[test]
    fn snapshot_of_a_typical_screen_is_small() {
        let mut terminal = Terminal::new(size(80, 24), 0);
        for line in 0..40 {
            terminal.feed(format!("\x1b[32mfile{line}\x1b[m\tsome words about it\r\n").as_bytes());
        }

        let length = terminal.snapshot().len();

        assert!(length < 1500, "{length} bytes");
    }
}
