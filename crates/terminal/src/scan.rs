//! Lexer that splits a program's output into text, control characters and escape sequences.
//!
//! Token boundaries are those of the emulator's parser (`vte`), even for malformed input. State is
//! carried across chunks: chunk boundaries never change the tokens, except that a run of text may
//! be split.
//!
//! ```text
//!            ESC            [                 final
//!   Ground ───────► Escape ───► Csi… ─────────────────────► Ground
//!     ▲  text,        │  ] P X ^ _               ST (BEL ends an OSC)
//!     └──controls     └────────────► Osc, Dcs…, Other ────► Ground
//!
//!   anywhere: CAN and SUB abort, ESC starts a new sequence (and ends a string)
//! ```
//!
//! Tokens are in order of effect, not of bytes: a control character inside a CSI sequence takes
//! effect immediately, so its token comes first and the sequence does not contain it. Bytes that
//! the parser ignores (garbage inside a sequence, aborted and malformed sequences) are in no token.

use crate::text::{DEL, Partial, text_length};

/// Starts every sequence.
pub(crate) const ESC: u8 = 0x1b;
/// Requests the answerback message: the only single-byte query.
pub(crate) const ENQ: u8 = 0x05;

const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
/// The eight-bit string terminator, which `vte` recognizes only in the data of a DCS.
const ST: u8 = 0x9c;

/// Maximum length of a sequence in a token. Larger than any sequence interpreted here (a whole
/// palette in one OSC 4 is 6 KB), and small enough to bound the memory of an unterminated sequence.
pub(crate) const SEQUENCE_LIMIT: usize = 16 * 1024;

/// A token of program output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// Printable bytes (including UTF-8, valid or not), CR, LF, TAB and BS. Never empty.
    Text(&'t [u8]),
    /// Any other C0 control, or DEL. Inside a sequence: every C0 control that `vte` executes there.
    Control(u8),
    /// A complete sequence.
    Sequence {
        /// From ESC to the last byte, without the bytes that the parser ignores.
        bytes: &'t [u8],
        /// Form of the sequence.
        kind: SequenceKind,
        /// Whether it exceeded [`SEQUENCE_LIMIT`]; `bytes` is then its beginning.
        truncated: bool,
        /// False for a string ended by CAN, SUB or the ESC of another sequence instead of a
        /// terminator. The emulator executes it nevertheless.
        terminated: bool,
    },
}

/// Form of an escape sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceKind {
    /// `ESC`, intermediates, final byte.
    Esc,
    /// `ESC [`, parameters, final byte.
    Csi,
    /// `ESC ]`, text, BEL or ST.
    Osc,
    /// `ESC P`, parameters, final byte, data, ST.
    Dcs,
    /// APC, PM and SOS: `ESC _`, `ESC ^`, `ESC X`, data, ST.
    Other,
}

/// The lexer of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanner {
    state: State,
    /// The beginning of a sequence that spans chunks.
    buffer: Vec<u8>,
    /// Whether the sequence exceeded [`SEQUENCE_LIMIT`].
    truncated: bool,
    /// Whether the last sequence had a terminator.
    terminated: bool,
    /// Number of bytes consumed so far.
    position: u64,
    /// Position of the ESC of the current sequence; meaningless in the ground state.
    sequence_start: u64,
    /// The incomplete UTF-8 character at the end of the text.
    partial: Partial,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    EscapeIntermediate,
    CsiEntry,
    CsiParam,
    CsiIntermediate,
    CsiIgnore,
    Osc,
    DcsEntry,
    DcsParam,
    DcsIntermediate,
    DcsIgnore,
    DcsData,
    Other,
    /// The last byte was an ESC inside a string: `\` makes it the terminator.
    StringEscape(SequenceKind),
    /// That ESC started another sequence, while the token of the string still borrows the buffer.
    Restarted,
}

/// Effect of one byte on the current sequence.
enum Transition {
    /// The byte belongs to the sequence.
    Keep,
    /// The byte is ignored.
    Skip,
    /// The byte is a control that takes effect immediately.
    Execute,
    /// The byte is an ESC: the sequence so far is discarded.
    Restart,
    /// The sequence is discarded; the byte (CAN or SUB) is a separate control.
    Abort,
    /// The byte ends a malformed sequence.
    Drop,
    /// The byte is the last of the sequence.
    End(SequenceKind),
    /// The byte ends the string without being part of it.
    EndBefore(SequenceKind),
    /// The byte is an ESC inside a string.
    Escape(SequenceKind),
}

/// Result of [`Scanner::walk`].
enum WalkResult {
    /// The chunk is consumed.
    Exhausted,
    /// No token; continue with the rest of the chunk.
    Nothing,
    Control(u8),
    /// A sequence whose bytes are in this range of the chunk.
    Borrowed(SequenceKind, usize, usize),
    /// A sequence whose bytes are in the buffer.
    Buffered(SequenceKind),
}

impl Scanner {
    /// Creates a lexer at the start of a stream.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Removes the next token from the front of `input`; `None` once the chunk is consumed.
    ///
    /// A sequence that is unfinished at that point continues in the next chunk.
    pub(crate) fn next<'t, 'a: 't>(&'t mut self, input: &mut &'a [u8]) -> Option<Token<'t>> {
        loop {
            let bytes: &'a [u8] = input;
            if self.state == State::Ground {
                let first = *bytes.first()?;
                let length = text_length(bytes);
                if length > 0 {
                    let text = self.take(input, length);
                    self.partial = self.partial.after(text);
                    return Some(Token::Text(text));
                }
                self.partial = Partial::default();
                if first != ESC {
                    self.take(input, 1);
                    return Some(Token::Control(first));
                }
                if let Some(length) = csi_length(bytes) {
                    let (bytes, kind) = (self.take(input, length), SequenceKind::Csi);
                    return Some(Token::Sequence {
                        bytes,
                        kind,
                        truncated: false,
                        terminated: true,
                    });
                }
            }
            let (used, result) = self.walk(bytes);
            self.take(input, used);
            let terminated = self.terminated;
            match result {
                WalkResult::Exhausted => return None,
                WalkResult::Nothing => {}
                WalkResult::Control(byte) => return Some(Token::Control(byte)),
                WalkResult::Borrowed(kind, from, to) => {
                    let truncated = to - from > SEQUENCE_LIMIT;
                    let to = to.min(from + SEQUENCE_LIMIT);
                    let bytes = &bytes[from..to];
                    return Some(Token::Sequence { bytes, kind, truncated, terminated });
                }
                WalkResult::Buffered(kind) => {
                    let (bytes, truncated) = (&self.buffer[..], self.truncated);
                    return Some(Token::Sequence { bytes, kind, truncated, terminated });
                }
            }
        }
    }

    /// Returns the length of the incomplete sequence or UTF-8 character at the end of the stream.
    ///
    /// 0 means that everything so far has taken effect.
    pub(crate) fn unfinished(&self) -> usize {
        if self.state == State::Ground {
            return self.partial.len();
        }
        usize::try_from(self.position - self.sequence_start).unwrap_or(usize::MAX)
    }

    /// Returns the unfinished sequence at the end of the last chunk, and its form so far.
    ///
    /// At most [`SEQUENCE_LIMIT`] bytes, without an ESC that may start a terminator
    /// ([`Scanner::in_terminator`]). `None` in the ground state.
    pub(crate) fn pending(&self) -> Option<(&[u8], SequenceKind)> {
        let kind = match self.state {
            State::Ground => return None,
            State::Restarted => return Some((&[ESC], SequenceKind::Esc)),
            State::Escape | State::EscapeIntermediate => SequenceKind::Esc,
            State::CsiEntry | State::CsiParam | State::CsiIntermediate | State::CsiIgnore => {
                SequenceKind::Csi
            }
            State::Osc => SequenceKind::Osc,
            State::DcsEntry
            | State::DcsParam
            | State::DcsIntermediate
            | State::DcsIgnore
            | State::DcsData => SequenceKind::Dcs,
            State::Other => SequenceKind::Other,
            State::StringEscape(kind) => kind,
        };
        Some((&self.buffer, kind))
    }

    /// Returns whether the last byte was an ESC inside a string: the next byte decides whether it
    /// starts the terminator or another sequence.
    pub(crate) fn in_terminator(&self) -> bool {
        matches!(self.state, State::StringEscape(_))
    }

    fn take<'a>(&mut self, input: &mut &'a [u8], length: usize) -> &'a [u8] {
        let (taken, rest) = input.split_at(length);
        *input = rest;
        self.position += length as u64;
        taken
    }

    /// Follows a sequence through the chunk; also returns the number of bytes consumed.
    fn walk(&mut self, bytes: &[u8]) -> (usize, WalkResult) {
        let mut at = 0;
        if self.state == State::Ground {
            self.begin(0);
            at = 1;
        } else if self.state == State::Restarted {
            self.begin(0);
            self.sequence_start = self.position - 1;
            self.buffer.push(ESC);
        } else if let (State::StringEscape(kind), Some(&next)) = (self.state, bytes.first()) {
            return self.after_string_escape(kind, next);
        }
        let mut from = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.advance(byte) {
                Transition::Keep => at += 1 + self.string_length(&bytes[at + 1..]),
                Transition::Skip => {
                    self.keep(&bytes[from..at]);
                    at += 1;
                    from = at;
                }
                Transition::Execute => {
                    self.keep(&bytes[from..at]);
                    return (at + 1, WalkResult::Control(byte));
                }
                Transition::Restart => {
                    self.begin(at);
                    from = at;
                    at += 1;
                }
                Transition::Abort => {
                    self.state = State::Ground;
                    return (at, WalkResult::Nothing);
                }
                Transition::Drop => {
                    self.state = State::Ground;
                    return (at + 1, WalkResult::Nothing);
                }
                Transition::End(kind) => {
                    return (at + 1, self.end(kind, &bytes[..=at], from, true));
                }
                Transition::EndBefore(kind) => {
                    return (at, self.end(kind, &bytes[..at], from, false));
                }
                Transition::Escape(kind) => match bytes.get(at + 1) {
                    Some(b'\\') => return (at + 2, self.end(kind, &bytes[..at + 2], from, true)),
                    Some(_) => return (at, self.end(kind, &bytes[..at], from, false)),
                    None => {
                        self.keep(&bytes[from..at]);
                        self.state = State::StringEscape(kind);
                        return (at + 1, WalkResult::Exhausted);
                    }
                },
            }
        }
        self.keep(&bytes[from..]);
        (bytes.len(), WalkResult::Exhausted)
    }

    /// Resolves an ESC that ended an earlier chunk inside a string.
    fn after_string_escape(&mut self, kind: SequenceKind, next: u8) -> (usize, WalkResult) {
        self.terminated = next == b'\\';
        if self.terminated {
            self.keep(b"\x1b\\");
            self.state = State::Ground;
        } else {
            self.sequence_start = self.position - 1;
            self.state = State::Restarted;
        }
        (usize::from(self.terminated), WalkResult::Buffered(kind))
    }

    /// Starts a sequence with the ESC at offset `at` of the current chunk.
    fn begin(&mut self, at: usize) {
        self.state = State::Escape;
        self.buffer.clear();
        self.truncated = false;
        self.sequence_start = self.position + at as u64;
    }

    /// Completes the sequence with `bytes[from..]`.
    fn end(
        &mut self,
        kind: SequenceKind,
        bytes: &[u8],
        from: usize,
        terminated: bool,
    ) -> WalkResult {
        self.state = State::Ground;
        self.terminated = terminated;
        if self.buffer.is_empty() {
            return WalkResult::Borrowed(kind, from, bytes.len());
        }
        self.keep(&bytes[from..]);
        WalkResult::Buffered(kind)
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = SEQUENCE_LIMIT - self.buffer.len();
        self.truncated |= bytes.len() > room;
        self.buffer.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns the number of bytes of `rest` that are certainly data of the current string.
    fn string_length(&self, rest: &[u8]) -> usize {
        if !matches!(self.state, State::Osc | State::DcsData | State::Other) {
            return 0;
        }
        rest.iter().position(|&byte| byte < 0x20 || byte == ST).unwrap_or(rest.len())
    }

    /// Applies the transition table, with one function per group of states.
    fn advance(&mut self, byte: u8) -> Transition {
        match self.state {
            State::Escape | State::EscapeIntermediate => self.advance_escape(byte),
            State::CsiEntry | State::CsiParam | State::CsiIntermediate | State::CsiIgnore => {
                self.advance_csi(byte)
            }
            State::DcsEntry | State::DcsParam | State::DcsIntermediate => {
                self.advance_dcs_head(byte)
            }
            State::Osc => match byte {
                BEL => Transition::End(SequenceKind::Osc),
                CAN | SUB => Transition::EndBefore(SequenceKind::Osc),
                ESC => Transition::Escape(SequenceKind::Osc),
                0x00..=0x1f => Transition::Skip,
                _ => Transition::Keep,
            },
            State::DcsData if byte == ST => Transition::End(SequenceKind::Dcs),
            State::DcsData | State::DcsIgnore => string(byte, SequenceKind::Dcs),
            State::Other => string(byte, SequenceKind::Other),
            State::Ground | State::StringEscape(_) | State::Restarted => {
                unreachable!("`walk` leaves these states before it calls `advance`")
            }
        }
    }

    fn advance_escape(&mut self, byte: u8) -> Transition {
        let plain = self.state == State::Escape;
        match byte {
            CAN | SUB => Transition::Abort,
            ESC => Transition::Restart,
            0x00..=0x1f => Transition::Execute,
            0x20..=0x2f => self.enter(State::EscapeIntermediate),
            b'[' if plain => self.enter(State::CsiEntry),
            b']' if plain => self.enter(State::Osc),
            b'P' if plain => self.enter(State::DcsEntry),
            b'X' | b'^' | b'_' if plain => self.enter(State::Other),
            0x30..=0x7e => Transition::End(SequenceKind::Esc),
            DEL.. => Transition::Skip,
        }
    }

    fn advance_csi(&mut self, byte: u8) -> Transition {
        match (byte, self.state) {
            (CAN | SUB, _) => Transition::Abort,
            (ESC, _) => Transition::Restart,
            (0x00..=0x1f, _) => Transition::Execute,
            (0x40..=0x7e, State::CsiIgnore) => Transition::Drop,
            (0x40..=0x7e, _) => Transition::End(SequenceKind::Csi),
            (DEL.., _) => Transition::Skip,
            (0x20..=0x3f, State::CsiIgnore) => Transition::Keep,
            (0x20..=0x2f, _) => self.enter(State::CsiIntermediate),
            (0x30..=0x3f, State::CsiIntermediate) => self.enter(State::CsiIgnore),
            (0x3c..=0x3f, State::CsiParam) => self.enter(State::CsiIgnore),
            (0x30..=0x3f, _) => self.enter(State::CsiParam),
        }
    }

    fn advance_dcs_head(&mut self, byte: u8) -> Transition {
        match (byte, self.state) {
            (CAN | SUB | ESC, _) => string(byte, SequenceKind::Dcs),
            (0x00..=0x1f | DEL.., _) => Transition::Skip,
            (0x40..=0x7e, _) => self.enter(State::DcsData),
            (0x20..=0x2f, _) => self.enter(State::DcsIntermediate),
            (0x30..=0x3f, State::DcsIntermediate) => self.enter(State::DcsIgnore),
            (0x3c..=0x3f, State::DcsParam) => self.enter(State::DcsIgnore),
            (0x30..=0x3f, _) => self.enter(State::DcsParam),
        }
    }

    fn enter(&mut self, state: State) -> Transition {
        self.state = state;
        Transition::Keep
    }
}

/// Transition inside a string that only ST ends.
fn string(byte: u8, kind: SequenceKind) -> Transition {
    match byte {
        CAN | SUB => Transition::EndBefore(kind),
        ESC => Transition::Escape(kind),
        _ => Transition::Keep,
    }
}

/// Returns the length of a CSI sequence at the front of `bytes` that is complete and well-formed.
///
/// A fast path around the transition table: full-screen programs write mostly such sequences.
fn csi_length(bytes: &[u8]) -> Option<usize> {
    let params = bytes.strip_prefix(b"\x1b[")?;
    let marker = usize::from(matches!(params.first(), Some(0x3c..=0x3f)));
    let length = params[marker..].iter().position(|byte| !(0x30..=0x3b).contains(byte))?;
    let last = marker + length;
    let length = last + 3;
    (matches!(params[last], 0x40..=0x7e) && length <= SEQUENCE_LIMIT).then_some(length)
}

#[cfg(test)]
mod tests {
    use alacritty_terminal::vte;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Owned {
        Text(Vec<u8>),
        Control(u8),
        Sequence(Vec<u8>, SequenceKind, bool, bool),
    }

    fn scan(scanner: &mut Scanner, chunk: &[u8], tokens: &mut Vec<Owned>) {
        let mut rest = chunk;
        while let Some(token) = scanner.next(&mut rest) {
            match (token, tokens.last_mut()) {
                (Token::Text(more), Some(Owned::Text(text))) => text.extend_from_slice(more),
                (Token::Text(text), _) => tokens.push(Owned::Text(text.to_owned())),
                (Token::Control(byte), _) => tokens.push(Owned::Control(byte)),
                (Token::Sequence { bytes, kind, truncated, terminated }, _) => {
                    tokens.push(Owned::Sequence(bytes.to_owned(), kind, truncated, terminated));
                }
            }
        }
        assert!(rest.is_empty(), "the whole chunk is consumed");
    }

    fn tokens(bytes: &[u8]) -> Vec<Owned> {
        let mut tokens = Vec::new();
        scan(&mut Scanner::new(), bytes, &mut tokens);
        tokens
    }

    fn text(bytes: &[u8]) -> Owned {
        Owned::Text(bytes.to_owned())
    }

    fn sequence(bytes: &[u8], kind: SequenceKind) -> Owned {
        Owned::Sequence(bytes.to_owned(), kind, false, true)
    }

    #[test]
    fn tokens_match_the_emulators_boundaries() {
        let cases: [(&[u8], Vec<Owned>); 12] = [
            (b"a\r\n\tb\x08", vec![text(b"a\r\n\tb\x08")]),
            (b"a\x07\x7fb", vec![text(b"a"), Owned::Control(7), Owned::Control(0x7f), text(b"b")]),
            (b"\x1b[1mx", vec![sequence(b"\x1b[1m", SequenceKind::Csi), text(b"x")]),
            (b"\x1b(Bx", vec![sequence(b"\x1b(B", SequenceKind::Esc), text(b"x")]),
            (b"\x1b]0;a\x07x", vec![sequence(b"\x1b]0;a\x07", SequenceKind::Osc), text(b"x")]),
            (
                b"\x1bPq\x07#\x1b\\x",
                vec![sequence(b"\x1bPq\x07#\x1b\\", SequenceKind::Dcs), text(b"x")],
            ),
            (b"\x1b_G\x1b\\x", vec![sequence(b"\x1b_G\x1b\\", SequenceKind::Other), text(b"x")]),
            // A control takes effect before the sequence around it.
            (b"\x1b[1\n2m", vec![Owned::Control(b'\n'), sequence(b"\x1b[12m", SequenceKind::Csi)]),
            (b"\x1b[1\x182m", vec![Owned::Control(0x18), text(b"2m")]),
            (b"\x1b[1\x1b[2m", vec![sequence(b"\x1b[2m", SequenceKind::Csi)]),
            (
                b"\x1b]0;a\x1b[2m",
                vec![
                    Owned::Sequence(b"\x1b]0;a".to_vec(), SequenceKind::Osc, false, false),
                    sequence(b"\x1b[2m", SequenceKind::Csi),
                ],
            ),
            (b"\x1b[1<mx", vec![text(b"x")]),
        ];
        for (bytes, expected) in cases {
            assert_eq!(tokens(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn unfinished_counts_bytes_of_incomplete_sequences_and_characters() {
        let cases: [(&[u8], usize); 14] = [
            (b"", 0),
            (b"abc", 0),
            (b"abc\x1b", 1),
            (b"abc\x1b[", 2),
            (b"abc\x1b[38;5", 6),
            (b"abc\x1b[38;5m", 0),
            (b"\x1b[1\x1b[", 2),
            (b"\x1b]0;title", 9),
            (b"\x1b]0;title\x1b", 10),
            ("aé".as_bytes(), 0),
            (b"a\xe2", 1),
            (b"a\xe2\x82", 2),
            (b"a\xf0\x9f\x98", 3),
            (b"a\x80\xff", 0),
        ];
        for (bytes, unfinished) in cases {
            for split in 0..=bytes.len() {
                let mut scanner = Scanner::new();
                scan(&mut scanner, &bytes[..split], &mut Vec::new());
                scan(&mut scanner, &bytes[split..], &mut Vec::new());
                assert_eq!(scanner.unfinished(), unfinished, "{} {split}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn unterminated_sequence_uses_bounded_memory() {
        let mut scanner = Scanner::new();
        scan(&mut scanner, b"\x1b]52;c;", &mut Vec::new());
        for _ in 0..100 {
            scan(&mut scanner, &[b'A'; 1000], &mut Vec::new());
        }
        assert_eq!(scanner.unfinished(), 100_007);
        assert!(scanner.buffer.capacity() <= 2 * SEQUENCE_LIMIT);

        let mut tokens = Vec::new();
        scan(&mut scanner, b"\x07", &mut tokens);

        let [Owned::Sequence(bytes, SequenceKind::Osc, true, true)] = &tokens[..] else {
            panic!("{tokens:?}")
        };
        assert_eq!(bytes.len(), SEQUENCE_LIMIT);
    }

    /// Events reported by the emulator's parser.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Events(Vec<String>);

    impl vte::Perform for Events {
        fn print(&mut self, c: char) {
            self.0.push(format!("print {c:?}"));
        }
        fn execute(&mut self, byte: u8) {
            self.0.push(format!("execute {byte:02x}"));
        }
        fn hook(&mut self, params: &vte::Params, intermediates: &[u8], _: bool, action: char) {
            self.0.push(format!("hook {params:?} {intermediates:?} {action}"));
        }
        fn put(&mut self, byte: u8) {
            self.0.push(format!("put {byte:02x}"));
        }
        fn unhook(&mut self) {
            self.0.push("unhook".to_owned());
        }
        fn osc_dispatch(&mut self, params: &[&[u8]], bell: bool) {
            self.0.push(format!("osc {params:?} {bell}"));
        }
        fn csi_dispatch(&mut self, params: &vte::Params, i: &[u8], ignore: bool, action: char) {
            self.0.push(format!("csi {params:?} {i:?} {ignore} {action}"));
        }
        fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, byte: u8) {
            // A string terminator has no effect of its own.
            if byte != b'\\' {
                self.0.push(format!("esc {intermediates:?} {ignore} {byte:02x}"));
            }
        }
    }

    fn events(bytes: &[u8]) -> Vec<String> {
        let mut events = Events::default();
        vte::Parser::new().advance(&mut events, bytes);
        events.0
    }

    /// Mostly bytes that are significant to a parser. No UTF-8 lead bytes, because a discarded
    /// sequence inside a character would join its parts.
    fn terminal_bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => Just(ESC),
            8 => prop::sample::select(&b"[]PX^_\\?>$ +;:0129mchGqA"[..]),
            3 => prop::sample::select(&b"\x07\x08\n\r\x18\x1a\x05\x00\x7f\x9c\x80"[..]),
            1 => 0x20u8..0x7f,
        ];
        prop::collection::vec(byte, 0..80)
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_tokens(
            bytes in prop_oneof![terminal_bytes(), prop::collection::vec(any::<u8>(), 0..80)],
            cuts in prop::collection::vec(0usize..80, 0..6),
        ) {
            let mut scanner = Scanner::new();
            let mut pieces = Vec::new();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut from = 0;
            for to in cuts.into_iter().chain([bytes.len()]) {
                scan(&mut scanner, &bytes[from..to], &mut pieces);
                from = to;
            }
            let mut whole = Scanner::new();
            let mut expected = Vec::new();
            scan(&mut whole, &bytes, &mut expected);

            prop_assert_eq!(pieces, expected);
            prop_assert_eq!(scanner.unfinished(), whole.unfinished());
        }

        #[test]
        fn rewritten_tokens_produce_the_same_parser_events(bytes in terminal_bytes()) {
            // CAN completes an open sequence, so that every byte is in a token.
            let bytes = [&bytes[..], b"\x18"].concat();

            let written: Vec<u8> = tokens(&bytes)
                .into_iter()
                .flat_map(|token| match token {
                    Owned::Sequence(bytes, _, _, false) => [&bytes[..], b"\x1b\\"].concat(),
                    Owned::Text(bytes) | Owned::Sequence(bytes, ..) => bytes,
                    Owned::Control(byte) => vec![byte],
                })
                .collect();

            prop_assert_eq!(events(&written), events(&bytes));
        }

        #[test]
        fn unfinished_is_zero_exactly_in_the_parsers_ground_state(
            bytes in terminal_bytes()
        ) {
            let mut scanner = Scanner::new();
            scan(&mut scanner, &bytes, &mut Vec::new());
            let before = events(&bytes).len();
            let after = events(&[&bytes[..], b"x"].concat());

            // Only the ground state prints an `x`.
            let printed = after.len() == before + 1 && after.last().unwrap() == "print 'x'";
            prop_assert_eq!(scanner.unfinished() == 0, printed);
        }
    }
}
