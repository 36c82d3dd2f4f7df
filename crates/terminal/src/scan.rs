//! Cuts a program's output into text, controls and escape sequences, as fast as it arrives.
//!
//! The cuts are those of the emulator's own parser (`vte`), so what is one sequence here is one
//! sequence there, whatever garbage a program sends. State is carried across chunks: where the
//! chunks were cut never changes the tokens, except that a run of text may come in several pieces.
//!
//! ```text
//!            ESC            [                 final
//!   Ground ───────► Escape ───► Csi… ─────────────────────► Ground
//!     ▲  text,        │  ] P X ^ _               ST (BEL ends an OSC)
//!     └──controls     └────────────► Osc, Dcs…, Other ────► Ground
//!
//!   anywhere: CAN and SUB abort, ESC begins again (it ends a string)
//! ```
//!
//! Tokens are in order of effect, which is not always the order of bytes: a control inside a CSI
//! sequence takes effect at once, so it comes first and is not among the bytes of the sequence.
//! What the parser ignores (garbage inside a sequence, aborted and malformed sequences) is in no
//! token at all.

pub(crate) use crate::query::{Csi, csi, query};
use crate::text::{Partial, text_length};

/// Begins every sequence.
pub(crate) const ESC: u8 = 0x1b;
/// Asks for the answerback message: a query in a single byte.
pub(crate) const ENQ: u8 = 0x05;

const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
/// Not text, although it is above the other controls.
pub(crate) const DEL: u8 = 0x7f;
/// The eight-bit string terminator, which `vte` knows only in the data of a DCS.
const ST: u8 = 0x9c;

/// How much of one sequence a token carries. Far more than any sequence with a meaning to us has
/// (a whole palette in one OSC 4 is 6 KB), and little enough that a pane which never ends its
/// sequence costs no memory.
pub(crate) const SEQUENCE_LIMIT: usize = 16 * 1024;

/// One piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// Printable bytes (including those of UTF-8, valid or not), CR, LF, TAB and BS. Never empty.
    Text(&'t [u8]),
    /// Any other C0 control, or DEL; inside a sequence every C0 control that `vte` executes there.
    Control(u8),
    /// A complete sequence.
    Sequence {
        /// From ESC to its last byte, without what the parser ignores.
        bytes: &'t [u8],
        /// Which of the five forms it has.
        kind: Kind,
        /// It was longer than [`SEQUENCE_LIMIT`]; `bytes` is its beginning.
        truncated: bool,
        /// False for a string that was ended by CAN, SUB or the ESC of another sequence and has no
        /// terminator of its own. The emulator obeys it all the same.
        terminated: bool,
    },
}

/// The forms of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `ESC` and at most a few bytes.
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

/// The lexer. One per stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanner {
    state: State,
    /// The beginning of a sequence whose end was not in the same chunk.
    buffer: Vec<u8>,
    /// More than [`SEQUENCE_LIMIT`] bytes were to be kept.
    truncated: bool,
    /// How the last sequence ended.
    terminated: bool,
    /// Bytes consumed so far.
    position: u64,
    /// Position of the ESC of the current sequence; meaningless in the ground state.
    began: u64,
    /// The last bytes of the text, if it stopped inside a UTF-8 character.
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
    StringEscape(Kind),
    /// That ESC began another sequence; the token of the string still borrows the buffer.
    Restarted,
}

/// What one byte does to the sequence it is in.
enum Move {
    /// It belongs to the sequence.
    Keep,
    /// It is ignored.
    Skip,
    /// It is a control that takes effect at once.
    Execute,
    /// It is an ESC: the sequence so far is forgotten.
    Restart,
    /// The sequence is forgotten. The byte (CAN or SUB) is a control of its own.
    Abort,
    /// It ends a sequence that means nothing.
    Drop,
    /// It is the last byte of the sequence.
    End(Kind),
    /// It is not part of the string that it ends.
    EndBefore(Kind),
    /// It is an ESC inside a string.
    Escape(Kind),
}

/// What a walk through a chunk came to.
enum Walked {
    /// The chunk is used up.
    Exhausted,
    /// Nothing to report; look at the rest of the chunk.
    Nothing,
    Control(u8),
    /// A sequence whose kept bytes are in this part of the chunk, or in the buffer.
    Borrowed(Kind, usize, usize),
    Buffered(Kind),
}

impl Scanner {
    /// A lexer at the beginning of a stream.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes the next token off the front of `input`; `None` once the chunk is used up.
    ///
    /// `input` then holds what is left of the chunk. What `None` left unfinished is continued by
    /// the next chunk.
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
                    let (bytes, kind) = (self.take(input, length), Kind::Csi);
                    return Some(Token::Sequence {
                        bytes,
                        kind,
                        truncated: false,
                        terminated: true,
                    });
                }
            }
            let (used, walked) = self.walk(bytes);
            self.take(input, used);
            let terminated = self.terminated;
            match walked {
                Walked::Exhausted => return None,
                Walked::Nothing => {}
                Walked::Control(byte) => return Some(Token::Control(byte)),
                Walked::Borrowed(kind, from, to) => {
                    let truncated = to - from > SEQUENCE_LIMIT;
                    let to = to.min(from + SEQUENCE_LIMIT);
                    let bytes = &bytes[from..to];
                    return Some(Token::Sequence { bytes, kind, truncated, terminated });
                }
                Walked::Buffered(kind) => {
                    let (bytes, truncated) = (&self.buffer[..], self.truncated);
                    return Some(Token::Sequence { bytes, kind, truncated, terminated });
                }
            }
        }
    }

    /// How many of the last bytes belong to a sequence or a UTF-8 character that is not complete.
    ///
    /// 0 means that everything so far has had its effect and that the next byte begins afresh.
    pub(crate) fn unfinished(&self) -> usize {
        if self.state == State::Ground {
            return self.partial.len();
        }
        usize::try_from(self.position - self.began).unwrap_or(usize::MAX)
    }

    /// The kept bytes of the sequence that the last chunk left unfinished, and its form so far.
    ///
    /// At most [`SEQUENCE_LIMIT`] bytes, and without the ESC of a terminator that is still in
    /// doubt ([`Scanner::in_terminator`]). `None` in the ground state.
    pub(crate) fn pending(&self) -> Option<(&[u8], Kind)> {
        let kind = match self.state {
            State::Ground => return None,
            State::Restarted => return Some((&[ESC], Kind::Esc)),
            State::Escape | State::EscapeIntermediate => Kind::Esc,
            State::CsiEntry | State::CsiParam | State::CsiIntermediate | State::CsiIgnore => {
                Kind::Csi
            }
            State::Osc => Kind::Osc,
            State::DcsEntry
            | State::DcsParam
            | State::DcsIntermediate
            | State::DcsIgnore
            | State::DcsData => Kind::Dcs,
            State::Other => Kind::Other,
            State::StringEscape(kind) => kind,
        };
        Some((&self.buffer, kind))
    }

    /// Whether the last byte was an ESC inside a string, so that the next one decides whether it
    /// was a terminator or the beginning of another sequence.
    pub(crate) fn in_terminator(&self) -> bool {
        matches!(self.state, State::StringEscape(_))
    }

    fn take<'a>(&mut self, input: &mut &'a [u8], length: usize) -> &'a [u8] {
        let (taken, rest) = input.split_at(length);
        *input = rest;
        self.position += length as u64;
        taken
    }

    /// Follows a sequence through the chunk; returns how much of the chunk that used.
    fn walk(&mut self, bytes: &[u8]) -> (usize, Walked) {
        let mut at = 0;
        if self.state == State::Ground {
            self.begin(0);
            at = 1;
        } else if self.state == State::Restarted {
            self.begin(0);
            self.began = self.position - 1;
            self.buffer.push(ESC);
        } else if let (State::StringEscape(kind), Some(&next)) = (self.state, bytes.first()) {
            return self.after_string_escape(kind, next);
        }
        let mut from = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.advance(byte) {
                Move::Keep => at += 1 + self.string_length(&bytes[at + 1..]),
                Move::Skip => {
                    self.keep(&bytes[from..at]);
                    at += 1;
                    from = at;
                }
                Move::Execute => {
                    self.keep(&bytes[from..at]);
                    return (at + 1, Walked::Control(byte));
                }
                Move::Restart => {
                    self.begin(at);
                    from = at;
                    at += 1;
                }
                Move::Abort => {
                    self.state = State::Ground;
                    return (at, Walked::Nothing);
                }
                Move::Drop => {
                    self.state = State::Ground;
                    return (at + 1, Walked::Nothing);
                }
                Move::End(kind) => return (at + 1, self.end(kind, &bytes[..=at], from, true)),
                Move::EndBefore(kind) => return (at, self.end(kind, &bytes[..at], from, false)),
                Move::Escape(kind) => match bytes.get(at + 1) {
                    Some(b'\\') => return (at + 2, self.end(kind, &bytes[..at + 2], from, true)),
                    Some(_) => return (at, self.end(kind, &bytes[..at], from, false)),
                    None => {
                        self.keep(&bytes[from..at]);
                        self.state = State::StringEscape(kind);
                        return (at + 1, Walked::Exhausted);
                    }
                },
            }
        }
        self.keep(&bytes[from..]);
        (bytes.len(), Walked::Exhausted)
    }

    /// Decides what the ESC was that a string ended with in an earlier chunk.
    fn after_string_escape(&mut self, kind: Kind, next: u8) -> (usize, Walked) {
        self.terminated = next == b'\\';
        if self.terminated {
            self.keep(b"\x1b\\");
            self.state = State::Ground;
        } else {
            self.began = self.position - 1;
            self.state = State::Restarted;
        }
        (usize::from(self.terminated), Walked::Buffered(kind))
    }

    /// A sequence begins with the ESC at `at` of the current chunk.
    fn begin(&mut self, at: usize) {
        self.state = State::Escape;
        self.buffer.clear();
        self.truncated = false;
        self.began = self.position + at as u64;
    }

    /// The sequence is complete with `bytes[from..]`.
    fn end(&mut self, kind: Kind, bytes: &[u8], from: usize, terminated: bool) -> Walked {
        self.state = State::Ground;
        self.terminated = terminated;
        if self.buffer.is_empty() {
            return Walked::Borrowed(kind, from, bytes.len());
        }
        self.keep(&bytes[from..]);
        Walked::Buffered(kind)
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = SEQUENCE_LIMIT - self.buffer.len();
        self.truncated |= bytes.len() > room;
        self.buffer.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// How many bytes of `rest` are certainly data of the string we are in.
    fn string_length(&self, rest: &[u8]) -> usize {
        if !matches!(self.state, State::Osc | State::DcsData | State::Other) {
            return 0;
        }
        rest.iter().position(|&byte| byte < 0x20 || byte == ST).unwrap_or(rest.len())
    }

    /// The transition table, one function per group of states.
    fn advance(&mut self, byte: u8) -> Move {
        match self.state {
            State::Escape | State::EscapeIntermediate => self.advance_escape(byte),
            State::CsiEntry | State::CsiParam | State::CsiIntermediate | State::CsiIgnore => {
                self.advance_csi(byte)
            }
            State::DcsEntry | State::DcsParam | State::DcsIntermediate => {
                self.advance_dcs_head(byte)
            }
            State::Osc => match byte {
                BEL => Move::End(Kind::Osc),
                CAN | SUB => Move::EndBefore(Kind::Osc),
                ESC => Move::Escape(Kind::Osc),
                0x00..=0x1f => Move::Skip,
                _ => Move::Keep,
            },
            State::DcsData if byte == ST => Move::End(Kind::Dcs),
            State::DcsData | State::DcsIgnore => string(byte, Kind::Dcs),
            State::Other => string(byte, Kind::Other),
            State::Ground | State::StringEscape(_) | State::Restarted => {
                unreachable!("the walk has left these states before it advances")
            }
        }
    }

    fn advance_escape(&mut self, byte: u8) -> Move {
        let plain = self.state == State::Escape;
        match byte {
            CAN | SUB => Move::Abort,
            ESC => Move::Restart,
            0x00..=0x1f => Move::Execute,
            0x20..=0x2f => self.enter(State::EscapeIntermediate),
            b'[' if plain => self.enter(State::CsiEntry),
            b']' if plain => self.enter(State::Osc),
            b'P' if plain => self.enter(State::DcsEntry),
            b'X' | b'^' | b'_' if plain => self.enter(State::Other),
            0x30..=0x7e => Move::End(Kind::Esc),
            DEL.. => Move::Skip,
        }
    }

    fn advance_csi(&mut self, byte: u8) -> Move {
        match (byte, self.state) {
            (CAN | SUB, _) => Move::Abort,
            (ESC, _) => Move::Restart,
            (0x00..=0x1f, _) => Move::Execute,
            (0x40..=0x7e, State::CsiIgnore) => Move::Drop,
            (0x40..=0x7e, _) => Move::End(Kind::Csi),
            (DEL.., _) => Move::Skip,
            (0x20..=0x3f, State::CsiIgnore) => Move::Keep,
            (0x20..=0x2f, _) => self.enter(State::CsiIntermediate),
            (0x30..=0x3f, State::CsiIntermediate) => self.enter(State::CsiIgnore),
            (0x3c..=0x3f, State::CsiParam) => self.enter(State::CsiIgnore),
            (0x30..=0x3f, _) => self.enter(State::CsiParam),
        }
    }

    fn advance_dcs_head(&mut self, byte: u8) -> Move {
        match (byte, self.state) {
            (CAN | SUB | ESC, _) => string(byte, Kind::Dcs),
            (0x00..=0x1f | DEL.., _) => Move::Skip,
            (0x40..=0x7e, _) => self.enter(State::DcsData),
            (0x20..=0x2f, _) => self.enter(State::DcsIntermediate),
            (0x30..=0x3f, State::DcsIntermediate) => self.enter(State::DcsIgnore),
            (0x3c..=0x3f, State::DcsParam) => self.enter(State::DcsIgnore),
            (0x30..=0x3f, _) => self.enter(State::DcsParam),
        }
    }

    fn enter(&mut self, state: State) -> Move {
        self.state = state;
        Move::Keep
    }
}

/// Inside a string that only ST ends.
fn string(byte: u8, kind: Kind) -> Move {
    match byte {
        CAN | SUB => Move::EndBefore(kind),
        ESC => Move::Escape(kind),
        _ => Move::Keep,
    }
}

/// The length of an ordinary CSI sequence at the front of `bytes`: complete, and without anything
/// that the transition table would have to look at. It is most of what full-screen programs write.
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
        Sequence(Vec<u8>, Kind, bool, bool),
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
        assert!(rest.is_empty(), "a chunk is always used up");
    }

    fn tokens(bytes: &[u8]) -> Vec<Owned> {
        let mut tokens = Vec::new();
        scan(&mut Scanner::new(), bytes, &mut tokens);
        tokens
    }

    fn text(bytes: &[u8]) -> Owned {
        Owned::Text(bytes.to_owned())
    }

    fn sequence(bytes: &[u8], kind: Kind) -> Owned {
        Owned::Sequence(bytes.to_owned(), kind, false, true)
    }

    #[test]
    fn output_is_cut_where_the_emulator_cuts_it() {
        let cases: [(&[u8], Vec<Owned>); 12] = [
            (b"a\r\n\tb\x08", vec![text(b"a\r\n\tb\x08")]),
            (b"a\x07\x7fb", vec![text(b"a"), Owned::Control(7), Owned::Control(0x7f), text(b"b")]),
            (b"\x1b[1mx", vec![sequence(b"\x1b[1m", Kind::Csi), text(b"x")]),
            (b"\x1b(Bx", vec![sequence(b"\x1b(B", Kind::Esc), text(b"x")]),
            (b"\x1b]0;a\x07x", vec![sequence(b"\x1b]0;a\x07", Kind::Osc), text(b"x")]),
            (b"\x1bPq\x07#\x1b\\x", vec![sequence(b"\x1bPq\x07#\x1b\\", Kind::Dcs), text(b"x")]),
            (b"\x1b_G\x1b\\x", vec![sequence(b"\x1b_G\x1b\\", Kind::Other), text(b"x")]),
            // A control takes effect before the sequence that surrounds it.
            (b"\x1b[1\n2m", vec![Owned::Control(b'\n'), sequence(b"\x1b[12m", Kind::Csi)]),
            (b"\x1b[1\x182m", vec![Owned::Control(0x18), text(b"2m")]),
            (b"\x1b[1\x1b[2m", vec![sequence(b"\x1b[2m", Kind::Csi)]),
            (
                b"\x1b]0;a\x1b[2m",
                vec![
                    Owned::Sequence(b"\x1b]0;a".to_vec(), Kind::Osc, false, false),
                    sequence(b"\x1b[2m", Kind::Csi),
                ],
            ),
            (b"\x1b[1<mx", vec![text(b"x")]),
        ];
        for (bytes, expected) in cases {
            assert_eq!(tokens(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn what_is_not_complete_is_counted() {
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
    fn a_sequence_without_an_end_takes_bounded_memory() {
        let mut scanner = Scanner::new();
        scan(&mut scanner, b"\x1b]52;c;", &mut Vec::new());
        for _ in 0..100 {
            scan(&mut scanner, &[b'A'; 1000], &mut Vec::new());
        }
        assert_eq!(scanner.unfinished(), 100_007);
        assert!(scanner.buffer.capacity() <= 2 * SEQUENCE_LIMIT);

        let mut tokens = Vec::new();
        scan(&mut scanner, b"\x07", &mut tokens);

        let [Owned::Sequence(bytes, Kind::Osc, true, true)] = &tokens[..] else {
            panic!("{tokens:?}")
        };
        assert_eq!(bytes.len(), SEQUENCE_LIMIT);
    }

    /// What the emulator's parser makes of the bytes.
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
            // The terminator of a string, which does nothing by itself.
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

    /// Bytes that a parser cares about, and few others. No beginning of a UTF-8 character, because
    /// a forgotten sequence inside one would join what it separated.
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
        fn where_the_chunks_are_cut_does_not_change_the_tokens(
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
        fn the_tokens_mean_to_the_emulator_what_the_bytes_meant(bytes in terminal_bytes()) {
            // The end closes whatever is open, so that nothing is missing from the tokens.
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
        fn nothing_is_unfinished_exactly_when_the_emulator_is_in_the_ground_state(
            bytes in terminal_bytes()
        ) {
            let mut scanner = Scanner::new();
            scan(&mut scanner, &bytes, &mut Vec::new());
            let before = events(&bytes).len();
            let after = events(&[&bytes[..], b"x"].concat());

            // In every other state an `x` is not printed.
            let printed = after.len() == before + 1 && after.last().unwrap() == "print 'x'";
            prop_assert_eq!(scanner.unfinished() == 0, printed);
        }
    }
}
