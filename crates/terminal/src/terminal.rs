//! The terminal of one pane: bytes in, a screen and answers out.
//!
//! ```text
//!   feed ──► scanner ──► pending bytes ──(settle)──► parser ──► screen
//!               │                           ▲
//!               └── a query, 256 KiB, or a reader that needs the grid
//! ```
//!
//! Most output of a busy program is never seen, so feeding only looks for what cannot wait and
//! keeps the bytes. What is applied later has the same effect, with less work: text that has
//! scrolled away by then is not drawn at all (see [`crate::skip`]).
//!
//! # Invariant
//!
//! The parser is between sequences whenever it rests: bytes of a sequence or character that is not
//! complete stay in `pending`. So a snapshot is one of a definite position in the stream.

use std::fmt;
use std::mem;

use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{Processor, Timeout};

use crate::actions::Nobody;
use crate::modes::Modes;
use crate::request::{self, Request};
use crate::scan::{Kind, Scanner, Token, query};
use crate::screen::{Extent, Screen, row_index};
use crate::{readout, skip, snapshot};

/// How many bytes wait before they are applied without anybody asking. Also the longest sequence
/// that has an effect: one that is not complete by then is passed over.
const PENDING: usize = 256 * 1024;
/// An empty buffer larger than this is given back when the terminal comes to rest.
const SPARE: usize = 16 * 1024;

/// What a terminal has for a screen until somebody needs one.
const NO_SCREEN: Extent = Extent { columns: 2, rows: 1 };

/// A terminal emulator without a window.
pub struct Terminal {
    /// Right only after [`Terminal::wake`].
    pub(crate) screen: Screen,
    /// The size that the screen will have. It is most of what a pane takes that has not written
    /// anything, so it is made when something was.
    asleep: Option<model::Size>,
    parser: Processor<Never>,
    scanner: Scanner,
    /// Fed and not yet applied.
    pending: Vec<u8>,
    /// Where in `pending` only text and colours follow.
    plain_from: usize,
    /// Where in `pending` a string ends that only the next ESC shows the parser to be complete.
    unterminated: Option<usize>,
    /// A sequence grew too long and is being passed over.
    passing_over: bool,
    synchronized: bool,
    history: usize,
    #[cfg(test)]
    pub(crate) eager: bool,
}

/// Where the cursor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Rows above it.
    pub row: u16,
    /// Columns left of it.
    pub col: u16,
    /// Whether the program wants it shown.
    pub visible: bool,
}

/// A time limit for synchronized updates that is never running, so that nothing is held back:
/// whoever shows the screen waits for the end of the update, the screen itself does not.
#[derive(Debug, Default)]
struct Never;

impl Timeout for Never {
    fn set_timeout(&mut self, _: std::time::Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}

impl Terminal {
    /// A blank terminal that keeps `history` lines beyond the screen.
    #[must_use]
    pub fn new(size: model::Size, history: usize) -> Self {
        Self {
            screen: Screen::new(&NO_SCREEN, history),
            asleep: Some(size),
            parser: Processor::new(),
            scanner: Scanner::new(),
            pending: Vec::new(),
            plain_from: 0,
            unterminated: None,
            passing_over: false,
            synchronized: false,
            history,
            #[cfg(test)]
            eager: false,
        }
    }

    /// Takes in what the program wrote.
    ///
    /// The bytes have their effect on the screen later, unless they contain a query: then the
    /// answer is ready when this returns ([`Terminal::take_answers`]).
    pub fn feed(&mut self, bytes: &[u8]) {
        self.wake();
        let mut rest = bytes;
        let mut urgent = false;
        loop {
            let request = self.scan(&mut rest, &mut urgent);
            let Some(request) = request else { break };
            self.apply(false);
            let answer = request::answer(&request, &self.screen);
            self.screen.answer(answer.as_bytes());
        }
        if self.scanner.unfinished() > PENDING {
            self.apply(false);
            self.passing_over = true;
            self.pending.clear();
            self.plain_from = 0;
        }
        #[cfg(test)]
        {
            urgent |= self.eager;
        }
        if urgent || self.pending.len() > PENDING {
            self.apply(urgent);
        }
    }

    /// Applies everything that was fed to the screen now.
    pub fn settle(&mut self) {
        self.wake();
        self.apply(true);
    }

    /// Makes the screen, if there is none yet.
    fn wake(&mut self) {
        if let Some(size) = self.asleep.take() {
            self.screen = Screen::new(&extent(size), self.history);
        }
    }

    /// How many bytes were fed and are not yet applied.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// How many of the last bytes belong to a sequence or character that is not complete.
    ///
    /// They have had no effect yet, and a snapshot does not contain them.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.scanner.unfinished()
    }

    /// Whether the program has begun a synchronized update (mode 2026) and not yet ended it.
    #[must_use]
    pub fn in_synchronized_update(&self) -> bool {
        self.synchronized
    }

    /// Takes what has to be written to the program; empty if nothing has.
    #[must_use]
    pub fn take_answers(&mut self) -> Vec<u8> {
        self.screen.take_answers()
    }

    /// Whether the bell was rung since this was last asked.
    #[must_use]
    pub fn take_bell(&mut self) -> bool {
        self.settle();
        mem::take(&mut self.screen.bell)
    }

    /// Changes the size. The main screen reflows, the alternate one is cut or padded.
    pub fn resize(&mut self, size: model::Size) {
        if let Some(asleep) = &mut self.asleep {
            *asleep = size;
            return;
        }
        self.settle();
        self.screen.resize(&extent(size));
    }

    /// The size.
    #[must_use]
    pub fn size(&self) -> model::Size {
        if let Some(size) = self.asleep {
            return size;
        }
        model::Size::clamped(small(self.screen.columns()), small(self.screen.rows()))
    }

    /// The title, without control characters; empty if the program set none.
    #[must_use]
    pub fn title(&mut self) -> String {
        self.settle();
        self.screen.title.clone().unwrap_or_default()
    }

    /// The modes that the program has set.
    #[must_use]
    pub fn modes(&mut self) -> Modes {
        self.settle();
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

    /// Where the cursor is, and whether it is shown.
    #[must_use]
    pub fn cursor(&mut self) -> Cursor {
        self.settle();
        let point = self.screen.grid().cursor.point;
        Cursor {
            row: small(row_index(point.line)),
            col: small(point.column.0),
            visible: self.screen.mode().contains(TermMode::SHOW_CURSOR),
        }
    }

    /// The visible screen, one line per row, without trailing blanks and trailing empty rows.
    ///
    /// A row that was wrapped is a line of its own.
    #[must_use]
    pub fn screen_text(&mut self) -> String {
        self.text(usize::from(self.size().rows()))
    }

    /// The last `lines` rows of history and screen, as [`Terminal::screen_text`] writes them.
    #[must_use]
    pub fn text(&mut self, lines: usize) -> String {
        self.settle();
        readout::last_rows(self.screen.grid(), lines)
    }

    /// How many lines of history there are.
    #[must_use]
    pub fn history_len(&mut self) -> usize {
        self.settle();
        readout::history_len(self.screen.grid())
    }

    /// Sequences that rebuild this terminal in a fresh one of the same size without history.
    ///
    /// They stand for all bytes fed but the last [`Terminal::unfinished`].
    #[must_use]
    pub fn snapshot(&mut self) -> Vec<u8> {
        self.settle();
        let (mut bytes, last) = snapshot::snapshot(&mut self.screen);
        if let Some(last) = last.filter(|_| last != self.screen.last_printed) {
            // The copy will repeat another character than this terminal would: now both do.
            self.screen.last_printed = Some(last);
            self.parser.advance(&mut Nobody, last.encode_utf8(&mut [0; 4]).as_bytes());
        }
        if self.synchronized {
            bytes.extend_from_slice(b"\x1b[?2026h");
        }
        bytes
    }

    /// Moves bytes to `pending` until one of them completes a request, which is returned, or until
    /// there are no more. Queries that the emulator answers make it `urgent` to apply them.
    fn scan(&mut self, rest: &mut &[u8], urgent: &mut bool) -> Option<Request> {
        let chunk = *rest;
        let base = self.pending.len();
        // Keeping where the last piece that is not plain ended is enough to know what is.
        let mut plain_from = None;
        let mut after_open = self.unterminated.is_some();
        let mut request = None;
        while let Some(token) = self.scanner.next(rest) {
            let used = chunk.len() - rest.len();
            let mut open = false;
            match token {
                // The parser has to see more than a string to know that the string has ended.
                Token::Text(_) if !after_open => {}
                Token::Text(_) | Token::Control(_) => plain_from = Some(used),
                Token::Sequence { bytes, kind, truncated, terminated } => {
                    open = !terminated;
                    if !after_open && is_drawing(bytes, kind) {
                        plain_from = Some(used);
                    } else if after_open || !skip::is_plain(bytes) {
                        plain_from = Some(used);
                        request::observe(bytes, kind, &mut self.synchronized);
                        if !truncated && query(bytes, kind) {
                            request = Request::of(bytes, kind);
                            *urgent = true;
                        }
                    }
                }
            }
            if self.passing_over {
                return self.stop_passing_over(rest);
            }
            after_open = open;
            if open {
                self.unterminated = Some(base + used - self.scanner.unfinished());
            }
            if request.is_some() {
                break;
            }
        }
        let used = chunk.len() - rest.len();
        if !self.passing_over {
            self.pending.extend_from_slice(&chunk[..used]);
            if let Some(at) = plain_from {
                self.plain_from = base + at;
            }
        }
        request
    }

    /// Continues after a token that may have ended the sequence which is passed over.
    fn stop_passing_over(&mut self, rest: &mut &[u8]) -> Option<Request> {
        let unfinished = self.scanner.unfinished();
        self.passing_over = unfinished > 1;
        if unfinished == 1 {
            // What ended the sequence was the ESC of the next.
            self.pending.push(0x1b);
        }
        self.plain_from = self.pending.len();
        self.scan(rest, &mut true)
    }

    /// Applies what is pending, up to the last complete piece.
    fn apply(&mut self, resting: bool) {
        let kept = self.scanner.unfinished().min(self.pending.len());
        let ready = self.pending.len() - kept;
        if ready > 0 {
            let open = self.unterminated.take_if(|end| *end <= ready) == Some(ready);
            let broken =
                if kept > 0 && !open { broken_character(&self.pending[..ready]) } else { 0 };
            let whole = ready - broken;
            let (before, plain) = self.pending[..whole].split_at(self.plain_from.min(whole));
            self.parser.advance(&mut self.screen, before);
            #[cfg(test)]
            let plain = if self.eager { (&[][..], plain) } else { self.cut(plain) };
            #[cfg(not(test))]
            let plain = self.cut(plain);
            let (skipped, tail) = plain;
            if !skipped.is_empty() {
                skip::pass_over(skipped, &mut self.screen, &mut self.parser);
            }
            self.parser.advance(&mut self.screen, tail);
            // Have the parser do now what it would do at the sight of the bytes kept back.
            if open {
                self.parser.advance(&mut self.screen, b"\x1b\\");
            } else if broken > 0 {
                self.parser.advance(&mut self.screen, "\u{fffd}".as_bytes());
            }
            self.pending.drain(..ready);
            self.plain_from = self.plain_from.saturating_sub(ready);
        }
        if resting && self.pending.capacity() > SPARE && self.pending.len() < SPARE {
            self.pending.shrink_to(self.pending.len());
        }
    }

    fn cut<'a>(&self, plain: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let rows = self.screen.rows();
        let history = if self.screen.is_alternate() { 0 } else { self.history };
        if !self.screen.scrolls_plainly() {
            return (&[], plain);
        }
        plain.split_at(skip::cut(plain, rows, history))
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

/// How many bytes at the end of `text` begin a character that they do not complete.
fn broken_character(text: &[u8]) -> usize {
    let incomplete = |count: &usize| {
        std::str::from_utf8(&text[text.len() - count..])
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=text.len().min(3)).rev().find(incomplete).unwrap_or(0)
}

fn extent(size: model::Size) -> Extent {
    Extent { columns: usize::from(size.cols()), rows: usize::from(size.rows()) }
}

/// A column or row as the outside knows it; screens are never larger.
fn small(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// Whether a sequence only moves the cursor or erases: it asks for nothing and sets no mode. Nearly
/// all that a program sends while it redraws is of this kind, so it is told first and cheaply.
fn is_drawing(bytes: &[u8], kind: Kind) -> bool {
    kind == Kind::Csi
        && matches!(bytes, [_, _, b'0'..=b'9' | b';', .., last] | [_, _, last]
            if matches!(last, b'A'..=b'M' | b'P' | b'X' | b'd' | b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::size;

    #[test]
    fn a_terminal_that_was_not_written_to_is_blank_and_has_its_size() {
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
    fn every_query_is_answered_exactly_once() {
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
            (b"\x1bP+q544e;636f\x1b\\", "\x1bP0+r544e;636f\x1b\\"),
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
    fn text_waits_until_somebody_looks() {
        let mut terminal = Terminal::new(size(80, 24), 0);

        terminal.feed(b"hello");

        assert_eq!(terminal.pending(), 5);
        assert_eq!(terminal.screen_text(), "hello");
        assert_eq!(terminal.pending(), 0);
    }

    #[test]
    fn an_unfinished_sequence_or_character_stays_outside() {
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
            assert_eq!(terminal.pending(), unfinished);
            assert_eq!(terminal.title(), "");
        }
    }

    #[test]
    fn a_sequence_without_end_costs_no_memory_and_ends_like_any_other() {
        let mut terminal = Terminal::new(size(80, 24), 0);
        terminal.feed(b"a\x1b]2;");
        for _ in 0..100 {
            terminal.feed(&[b'x'; 64 * 1024]);
            assert!(terminal.pending() <= PENDING + 64 * 1024);
        }

        terminal.feed(b"\x07b");

        assert_eq!(terminal.unfinished(), 0);
        assert_eq!(terminal.screen_text(), "ab");
        assert_eq!(terminal.title(), "");
    }

    #[test]
    fn a_synchronized_update_is_seen_and_holds_nothing_back() {
        let mut terminal = Terminal::new(size(80, 24), 0);
        terminal.feed(b"\x1b[?2026hinside");
        assert!(terminal.in_synchronized_update());
        assert_eq!(terminal.screen_text(), "inside");

        terminal.feed(b"\x1b[?2026l");

        assert!(!terminal.in_synchronized_update());
    }

    #[test]
    fn the_title_has_no_control_characters() {
        let mut terminal = Terminal::new(size(80, 24), 0);

        terminal.feed("\x1b]2; a\u{9b}b;c\u{7f} \x07".as_bytes());

        assert_eq!(terminal.title(), "ab;c");
    }

    #[test]
    fn the_bell_is_reported_once() {
        let mut terminal = Terminal::new(size(80, 24), 0);
        terminal.feed(b"\x07\x07");

        assert!(terminal.take_bell());
        assert!(!terminal.take_bell());
    }

    #[test]
    fn lines_beyond_the_screen_are_kept_when_asked_for() {
        let mut terminal = Terminal::new(size(10, 2), 3);

        terminal.feed(b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n\r\n");

        assert_eq!(terminal.history_len(), 3);
        assert_eq!(terminal.text(100), "4\n5\n6");
        assert_eq!(terminal.text(3), "6");
        assert_eq!(terminal.screen_text(), "");
    }

    #[test]
    fn a_typical_screen_has_a_small_snapshot() {
        let mut terminal = Terminal::new(size(80, 24), 0);
        for line in 0..40 {
            terminal.feed(format!("\x1b[32mfile{line}\x1b[m\tsome words about it\r\n").as_bytes());
        }

        let length = terminal.snapshot().len();

        assert!(length < 1500, "{length} bytes");
    }
}
