//! What of a program's output an attached client's terminal may see.
//!
//! An attached terminal gets the program's own bytes and no redrawing of ours, so it is as fast as
//! without us. Three kinds of things must not get there:
//!
//! - **questions**: the pane's terminal answers them. An outer terminal would answer as well, into
//!   the program's input;
//! - **what is ours**: the size, place and title stack of the window, its encoding, its printer;
//! - **what would leave the outer screen unlike the pane's** (another screen, a reset): there the
//!   filter stops, and the caller paints the pane's screen afresh.
//!
//! What the pane's terminal ignores inside sequences is left out and strings are closed where it
//! closes them, so an outer terminal cannot be made to read the bytes differently. For the same
//! reason C1 control characters (U+0080 to U+009F) are left out of everything: the pane's terminal
//! ignores them, but some obey them even in UTF-8, and `U+009B c` would be a question.
//!
//! A sequence is held back until it is judged. Strings are judged by their first bytes and then
//! pass as they come, so an image or a clipboard takes no memory here:
//!
//! ```text
//!               undecided at end of chunk           not a question
//!   Holding ───────────────────────────► Holding ───────────────────► Passing ── end ──► Holding
//!                                           └────────────────────────► Dropping ─ end ──► Holding
//!                                            a question, or too long
//! ```

use std::borrow::Cow;

use memchr::{memchr, memchr3};

use crate::query::string_query;
use crate::scan::{Csi, ENQ, ESC, Kind, Scanner, Token, csi, query};

/// Whether everything was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "after `Resync` the outer screen has to be painted afresh"]
pub enum Passed {
    /// The outer terminal is up to date with the output so far.
    All,
    /// The program did something that the outer terminal cannot be shown by passing it on. The rest
    /// of the chunk was not looked at and the filter is as new: the caller paints the screen as it
    /// is after the whole chunk.
    Resync,
}

/// The longest ESC or CSI sequence that is passed. No sequence with a meaning comes near it.
const CONTROL_LIMIT: usize = 256;

/// How much of a string may stay undecided. A whole palette in one OSC 4 is 6 KB.
const STRING_LIMIT: usize = 8 * 1024;

/// The first byte of the C1 controls in UTF-8 (and of the Latin-1 characters after them).
const C1_LEAD: u8 = 0xc2;

const ST: &[u8] = b"\x1b\\";

/// The filter of one attached client.
#[derive(Debug)]
pub struct Filter {
    scanner: Scanner,
    string: Passage,
    /// While passing a string: its last byte so far was an ESC, which was not passed yet.
    owes_escape: bool,
    out: Outlet,
}

/// What happens to a string whose end has not come yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Passage {
    /// Not decided; the scanner keeps its beginning.
    #[default]
    Holding,
    Passing,
    Dropping,
}

/// What happens to a complete sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Remove,
    Resync,
}

impl Filter {
    /// A filter for a terminal that was just painted.
    #[must_use]
    pub fn new() -> Self {
        Self {
            scanner: Scanner::new(),
            string: Passage::default(),
            owes_escape: false,
            out: Outlet::default(),
        }
    }

    /// Appends to `out` what of the next `bytes` of output the outer terminal may see.
    pub fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Passed {
        let idle = self.scanner.unfinished() == 0 && !self.out.owes_lead;
        if idle && memchr3(ESC, ENQ, C1_LEAD, bytes).is_none() {
            self.out.put(bytes, out);
            return Passed::All;
        }
        // In pieces, so that what is held when a string is decided is never longer than what the
        // scanner keeps.
        for piece in bytes.chunks(STRING_LIMIT) {
            if self.pass_piece(piece, out) == Passed::Resync {
                *self = Self::new();
                return Passed::Resync;
            }
        }
        Passed::All
    }

    fn pass_piece(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Passed {
        let mut rest = piece;
        // From the first byte that was neither written nor left out: what passes unchanged is
        // written together.
        let mut kept = piece;
        loop {
            let before = rest;
            let Some(token) = self.scanner.next(&mut rest) else {
                self.out.write(&kept[..kept.len() - before.len()], out);
                self.end_piece(before, out);
                return Passed::All;
            };
            let used = &before[..before.len() - rest.len()];
            if self.string == Passage::Holding && passes_unchanged(used, token) {
                continue;
            }
            self.out.write(&kept[..kept.len() - before.len()], out);
            kept = rest;
            match token {
                Token::Text(text) => self.out.write(text, out),
                Token::Control(ENQ) => self.out.cut(out),
                Token::Control(byte) => self.out.write(&[byte], out),
                Token::Sequence { bytes, kind, terminated, .. } => {
                    let owes_escape = std::mem::take(&mut self.owes_escape);
                    match std::mem::take(&mut self.string) {
                        Passage::Dropping => self.out.cut(out),
                        Passage::Passing => {
                            let end = End { terminated, owes_escape };
                            self.out.write_string_end(used, kind, end, out);
                        }
                        Passage::Holding => match judge(bytes, kind) {
                            Verdict::Remove => self.out.cut(out),
                            Verdict::Resync => return Passed::Resync,
                            Verdict::Pass if matches!(kind, Kind::Esc | Kind::Csi) => {
                                self.out.write(bytes, out);
                            }
                            Verdict::Pass => {
                                let end = End { terminated, owes_escape: false };
                                self.out.write_string_end(bytes, kind, end, out);
                            }
                        },
                    }
                }
            }
        }
    }

    /// Passes on what may be passed of the sequence that the piece left unfinished; `unread` is
    /// what of the piece followed the last token.
    fn end_piece(&mut self, unread: &[u8], out: &mut Vec<u8>) {
        let Some((held, kind)) = self.scanner.pending() else { return };
        self.owes_escape = self.scanner.in_terminator();
        match (self.string, kind) {
            (Passage::Dropping, _) | (_, Kind::Esc | Kind::Csi) => {}
            (Passage::Passing, _) => {
                let data =
                    if self.owes_escape { unread.split_last().map(|(_, d)| d) } else { None };
                self.out.write_string(data.unwrap_or(unread), kind, out);
            }
            (Passage::Holding, _) => match early_query(held, kind) {
                Some(true) => self.string = Passage::Dropping,
                Some(false) => {
                    self.string = Passage::Passing;
                    self.out.write(held, out);
                }
                None => {}
            },
        }
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether an unfinished string is to be dropped (true), passed, or held on to.
fn early_query(held: &[u8], kind: Kind) -> Option<bool> {
    let held = &without_c1(held)[..];
    if held.len() <= STRING_LIMIT {
        return string_query(held, kind, false);
    }
    Some(string_query(&held[..STRING_LIMIT], kind, false).unwrap_or(true))
}

/// What the outer terminal would get of a sequence: that is what is judged.
fn without_c1(bytes: &[u8]) -> Cow<'_, [u8]> {
    if memchr(C1_LEAD, bytes).is_none() {
        return Cow::Borrowed(bytes);
    }
    let mut left = Vec::with_capacity(bytes.len());
    Outlet::default().write(bytes, &mut left);
    Cow::Owned(left)
}

/// Whether a token is passed and is exactly the bytes that it was made of.
fn passes_unchanged(used: &[u8], token: Token<'_>) -> bool {
    match token {
        Token::Text(text) => std::ptr::eq(used, text),
        Token::Control(byte) => used.len() == 1 && byte != ENQ,
        Token::Sequence { bytes, kind, terminated, .. } => {
            // Equal addresses: the whole sequence is in this chunk, and nothing was left out.
            let whole = terminated && std::ptr::eq(used, bytes);
            let eight_bit_end = kind == Kind::Dcs && bytes.ends_with(&[0x9c]);
            whole && !eight_bit_end && judge(bytes, kind) == Verdict::Pass
        }
    }
}

fn judge(bytes: &[u8], kind: Kind) -> Verdict {
    match kind {
        // Colours and the cursor: nearly everything there is.
        Kind::Csi if bytes.len() < CONTROL_LIMIT && only_draws(bytes) => Verdict::Pass,
        Kind::Esc | Kind::Csi if bytes.len() > CONTROL_LIMIT => Verdict::Remove,
        Kind::Osc | Kind::Dcs | Kind::Other if bytes.len() > STRING_LIMIT => {
            if early_query(bytes, kind) == Some(false) { Verdict::Pass } else { Verdict::Remove }
        }
        _ if query(&without_c1(bytes), kind) => Verdict::Remove,
        Kind::Esc => judge_esc(bytes),
        Kind::Csi => csi(bytes).map_or(Verdict::Remove, |csi| judge_csi(&csi)),
        Kind::Osc | Kind::Dcs | Kind::Other => Verdict::Pass,
    }
}

/// Whether the last byte of a CSI sequence alone says that it passes.
fn only_draws(csi: &[u8]) -> bool {
    match csi {
        [.., b'@'..=b'Q' | b'X' | b'd' | b'e' | b'f'] => true,
        [_, _, first, .., b'm'] => *first != b'?',
        [_, _, b'm'] => true,
        _ => false,
    }
}

fn judge_esc(bytes: &[u8]) -> Verdict {
    match bytes {
        // RIS.
        b"\x1bc" => Verdict::Resync,
        // The terminal's own encoding: of characters, and of what it sends.
        [ESC, b'%', ..] | [ESC, b' ', b'F' | b'G'] => Verdict::Remove,
        _ => Verdict::Pass,
    }
}

fn judge_csi(csi: &Csi<'_>) -> Verdict {
    let any = |modes: &[u16]| csi.params().any(|param| modes.contains(&param));
    // Both screens, and DECCOLM, which clears the screen.
    let redraws = || any(&[3, 47, 1047, 1049]);
    match (csi.marker, csi.intermediates, csi.last) {
        (Some(b'?'), b"", b'h' | b'l') if redraws() => Verdict::Resync,
        // XTRESTORE of these: the pane's terminal does not know it.
        (Some(b'?'), b"", b'r') if redraws() => Verdict::Remove,
        // VT52 mode, in which nothing else would be understood.
        (Some(b'?'), b"", b'l') if any(&[2]) => Verdict::Remove,
        // Reports of the window's size, which is not the pane's.
        (Some(b'?'), b"", b'h' | b'l') if csi.params().all(|param| param == 2048) => {
            Verdict::Remove
        }
        // Window manipulation, title stack and title encoding.
        (None | Some(b'>'), b"", b't') => Verdict::Remove,
        // The printer; DECSCL, DECSCPP, DECSNLS: conformance level and page size.
        (None | Some(b'?'), b"", b'i') | (None, b"\"", b'p') | (None, b"$" | b"*", b'|') => {
            Verdict::Remove
        }
        _ => Verdict::Pass,
    }
}

/// How a string ended.
#[derive(Clone, Copy)]
struct End {
    /// It has a terminator of its own.
    terminated: bool,
    /// The terminator's ESC was in an earlier chunk.
    owes_escape: bool,
}

/// Writes bytes without C1 control characters.
#[derive(Debug, Default)]
struct Outlet {
    /// The last byte may be the beginning of one and was not written yet.
    owes_lead: bool,
    /// The last byte that was written.
    last: u8,
}

impl Outlet {
    fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        if self.owes_lead {
            let Some(&next) = rest.first() else { return };
            self.owes_lead = false;
            match next {
                0x80..=0x9f => {
                    rest = &rest[1..];
                    self.cut(out);
                }
                _ => self.put(&[C1_LEAD], out),
            }
        }
        while let Some(at) = memchr(C1_LEAD, rest) {
            self.put(&rest[..at], out);
            match rest.get(at + 1) {
                None => {
                    self.owes_lead = true;
                    return;
                }
                Some(0x80..=0x9f) => {
                    rest = &rest[at + 2..];
                    self.cut(out);
                }
                Some(_) => {
                    self.put(&[C1_LEAD], out);
                    rest = &rest[at + 1..];
                }
            }
        }
        self.put(rest, out);
    }

    fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.last = bytes.last().copied().unwrap_or(self.last);
        out.extend_from_slice(bytes);
    }

    /// Something was left out here. If a character was begun before it, what follows must not
    /// complete it: a NUL keeps them apart, and does nothing else, in a string neither.
    fn cut(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.owes_lead) {
            self.put(&[C1_LEAD], out);
        }
        if self.last >= 0x80 {
            self.put(b"\0", out);
        }
    }

    /// Writes a part of a string without what the scanner would have left out of it.
    fn write_string(&mut self, data: &[u8], kind: Kind, out: &mut Vec<u8>) {
        if kind != Kind::Osc {
            return self.write(data, out);
        }
        // The ESC that begins the string is followed by `]`; no other is among its bytes.
        let (begin, data) = data.split_at(usize::from(data.first() == Some(&ESC)));
        self.write(begin, out);
        for part in data.split(|&byte| byte < 0x20) {
            self.write(part, out);
        }
    }

    /// Writes the last part of a string and a terminator, whether it had one or not.
    fn write_string_end(&mut self, bytes: &[u8], kind: Kind, end: End, out: &mut Vec<u8>) {
        let (data, terminator): (&[u8], &[u8]) = match bytes {
            _ if !end.terminated => (bytes, ST),
            _ if end.owes_escape => (b"", ST),
            [data @ .., 0x07] if kind == Kind::Osc => (data, b"\x07"),
            [data @ .., ESC, b'\\'] => (data, ST),
            // The eight-bit terminator of a DCS.
            [data @ .., _] => (data, ST),
            [] => (b"", ST),
        };
        self.write_string(data, kind, out);
        self.write(terminator, out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Passes the chunks until one of them asks for a repaint.
    fn pass<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Passed) {
        let mut filter = Filter::new();
        let mut out = Vec::new();
        for chunk in chunks {
            if filter.pass(chunk, &mut out) == Passed::Resync {
                return (out, Passed::Resync);
            }
        }
        (out, Passed::All)
    }

    fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let mut from = 0;
        let piece = |to| &bytes[std::mem::replace(&mut from, to)..to];
        cuts.into_iter().map(piece).collect()
    }

    #[test]
    fn what_is_left_out_of_a_character_does_not_complete_it() {
        let parts: [&[u8]; 4] = [b"\x1bP$qm\x1b\\", b"\x1b[c", b"\x05", b"\xc2\x80"];
        for part in parts {
            let (out, _) = pass_both_ways(&[b"\xe2\x82", part, b"\xac"].concat());
            assert_eq!(out, b"\xe2\x82\0\xac", "{}", part.escape_ascii());
        }
    }

    #[test]
    fn a_question_with_a_control_character_in_it_is_a_question() {
        assert_eq!(pass_both_ways(b"\x1b_Gi=1,a=q\xc2\x9b\x1b\\").0, b"");
    }

    /// In one chunk, and byte by byte.
    fn pass_both_ways(bytes: &[u8]) -> (Vec<u8>, Passed) {
        let whole = pass([bytes]);
        assert_eq!(pass(bytes.chunks(1)), whole, "{}", bytes.escape_ascii());
        whole
    }

    const PASSED: [&[u8]; 44] = [
        b"plain text\r\n\tand a bell\x07",
        "Grüße, 10 °C, 日本語 🦀".as_bytes(),
        b"\x80\xff\xc3",
        b"\x0e\x0f\x0b\x0c\x00\x7f",
        b"\x1b7",
        b"\x1b8",
        b"\x1bM",
        b"\x1b(0",
        b"\x1b#8",
        b"\x1b=",
        b"\x1b>",
        b"\x1b[m",
        b"\x1b[1;38;2;1;2;3m",
        b"\x1b[38:2::1:2:3m",
        b"\x1b[>4;2m",
        b"\x1b[2J",
        b"\x1b[3;4H",
        b"\x1b[2;5r",
        b"\x1b[3S",
        b"\x1b[!p",
        b"\x1b[2 q",
        b"\x1b[s",
        b"\x1b[u",
        b"\x1b[>1u",
        b"\x1b[<u",
        b"\x1b[=1;1u",
        b"\x1b[?25l",
        b"\x1b[?1;7;2004h",
        b"\x1b[?2026h",
        b"\x1b[?1000;1006h",
        b"\x1b[?1048h",
        b"\x1b[?30h",
        b"\x1b[3h",
        b"\x1b[47l",
        b"\x1b]0;title?\x07",
        b"\x1b]8;id=1;http://x/?a;?\x1b\\",
        b"\x1b]4;1;#ffffff\x07",
        b"\x1b]10;#ffffff\x1b\\",
        b"\x1b]52;c;Pw==\x07",
        b"\x1b]133;A\x07",
        b"\x1b]104\x07",
        b"\x1bPq#0;2;0;0;0~\x1b\\",
        b"\x1b_Ga=T,f=100;AAAA\x1b\\",
        b"\x1b^private\x1b\\",
    ];

    const REMOVED: [&[u8]; 39] = [
        b"\x05",
        b"\x1bZ",
        b"\x1b[c",
        b"\x1b[0c",
        b"\x1b[>c",
        b"\x1b[=c",
        b"\x1b[5n",
        b"\x1b[6n",
        b"\x1b[?6n",
        b"\x1b[?996n",
        b"\x1b[>q",
        b"\x1b[>0q",
        b"\x1b[?u",
        b"\x1b[?2026$p",
        b"\x1b[4$p",
        b"\x1b[14t",
        b"\x1b[18t",
        b"\x1b[22;0t",
        b"\x1b[23;0t",
        b"\x1b[8;24;80t",
        b"\x1b[>2t",
        b"\x1b[1;1;1;1;24;80*y",
        b"\x1b[x",
        b"\x1b[5i",
        b"\x1b[?2l",
        b"\x1b[?1049r",
        b"\x1b[?2048h",
        b"\x1b[62;1\"p",
        b"\x1b%@",
        b"\x1b G",
        b"\x1bP$qm\x1b\\",
        b"\x1bP+q544e\x1b\\",
        b"\x1b]4;1;?\x07",
        b"\x1b]11;?\x1b\\",
        b"\x1b]52;c;?\x07",
        b"\x1b_Gi=1,a=q;AAAA\x1b\\",
        // A C1 control in UTF-8; an aborted and a malformed sequence.
        b"\xc2\x9b",
        b"\x1b[1\x1b[c",
        b"\x1b[1<m",
    ];

    const RESYNC: [&[u8]; 10] = [
        b"\x1bc",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b[?47h",
        b"\x1b[?1047l",
        b"\x1b[?1;1049;25h",
        b"\x1b[?25;47l",
        b"\x1b[?3h",
        b"\x1b[?3l",
        b"\x1b[?01049h",
    ];

    #[test]
    fn what_draws_is_passed_unchanged() {
        for bytes in PASSED {
            let (out, passed) = pass_both_ways(bytes);
            let shown = bytes.escape_ascii();
            assert_eq!(out.escape_ascii().to_string(), shown.to_string());
            assert_eq!(passed, Passed::All, "{shown}");
        }
    }

    #[test]
    fn questions_and_what_is_ours_are_removed() {
        for bytes in REMOVED {
            let (out, passed) = pass_both_ways(&[b"a", bytes, b"b"].concat());
            assert_eq!(out.escape_ascii().to_string(), "ab", "{}", bytes.escape_ascii());
            assert_eq!(passed, Passed::All);
        }
    }

    #[test]
    fn another_screen_asks_for_a_repaint_and_the_rest_is_left() {
        for bytes in RESYNC {
            let (out, passed) = pass_both_ways(&[b"a", bytes, b"b"].concat());
            assert_eq!((&out[..], passed), (&b"a"[..], Passed::Resync), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn after_a_repaint_the_filter_is_as_new() {
        let mut filter = Filter::new();
        let mut out = Vec::new();

        assert_eq!(filter.pass(b"\xc2\x1bc\x1b[31", &mut out), Passed::Resync);
        out.clear();
        assert_eq!(filter.pass(b"m", &mut out), Passed::All);

        assert_eq!(out, b"m");
    }

    #[test]
    fn strings_end_where_the_panes_terminal_ends_them() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"\x1b]0;a\x1b[mb", b"\x1b]0;a\x1b\\\x1b[mb"),
            (b"\x1b]0;a\x1b[cb", b"\x1b]0;a\x1b\\b"),
            (b"\x1b]0;a\x18b", b"\x1b]0;a\x1b\\\x18b"),
            (b"\x1bPqa\x9cb", b"\x1bPqa\x1b\\b"),
            (b"\x1b]0;a\x01\nb\x07c", b"\x1b]0;ab\x07c"),
            // To a terminal that obeys C1 controls this would be an end and a question.
            (b"\x1b]0;a\xc2\x9c\xc2\x9bc\x07", b"\x1b]0;ac\x07"),
        ];
        for (bytes, expected) in cases {
            let (out, _) = pass_both_ways(bytes);
            let (out, expected) = (out.escape_ascii(), expected.escape_ascii());
            assert_eq!(out.to_string(), expected.to_string(), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn long_strings_pass_as_they_come() {
        let mut filter = Filter::new();
        for begin in [&b"\x1bPq"[..], b"\x1b]52;c;A", b"\x1b_Gf=100;", b"\x1b]1337;File=:"] {
            let mut out = Vec::new();
            let mut expected = begin.to_vec();
            assert_eq!(filter.pass(begin, &mut out), Passed::All);
            assert_eq!(out, expected, "the beginning has decided it");

            for _ in 0..20 {
                assert_eq!(filter.pass(&[b'A'; 5000], &mut out), Passed::All);
                expected.extend_from_slice(&[b'A'; 5000]);
                assert_eq!(out.len(), expected.len());
            }
            assert_eq!(filter.pass(b"\x1b", &mut out), Passed::All);
            assert_eq!(filter.pass(b"\\", &mut out), Passed::All);
            expected.extend_from_slice(b"\x1b\\");

            assert!(out == expected);
        }
    }

    #[test]
    fn what_stays_undecided_too_long_is_removed_however_it_is_cut() {
        let colours = [&b"\x1b]4"[..], &b";1;#ffffff".repeat(2000), b"\x07"].concat();
        let csi = [&b"\x1b["[..], &b"1;".repeat(200), b"m"].concat();
        let question = [&b"\x1bP+q"[..], &b"544e;".repeat(4000), b"\x1b\\"].concat();
        for long in [colours, csi, question] {
            let bytes = [b"a", &long[..], b"b"].concat();
            for size in [1, 7, 4096, 9000, bytes.len()] {
                assert_eq!(pass(bytes.chunks(size)), (b"ab".to_vec(), Passed::All), "{size}");
            }
        }
    }

    fn terminal_bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => Just(ESC),
            8 => prop::sample::select(&b"[]PX^_\\?>$ +;:0123459mchGqantul=,"[..]),
            3 => prop::sample::select(&b"\x07\x08\n\x18\x1a\x05\x00\x7f\x9c\x9b\xc2\xe2"[..]),
            1 => any::<u8>(),
        ];
        prop::collection::vec(byte, 0..80)
    }

    /// Fragments of all three tables in any order, some of them cut off.
    fn fragments() -> impl Strategy<Value = Vec<u8>> {
        let all: Vec<&[u8]> = PASSED.into_iter().chain(REMOVED).chain(RESYNC).collect();
        let fragment = (prop::sample::select(all), 1usize..40);
        let cut = |(bytes, length): (&[u8], usize)| bytes[..length.min(bytes.len())].to_vec();
        prop::collection::vec(fragment.prop_map(cut), 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn where_the_chunks_are_cut_does_not_change_what_is_passed(
            bytes in prop_oneof![terminal_bytes(), fragments()],
            cuts in prop::collection::vec(any::<usize>(), 0..8),
        ) {
            prop_assert_eq!(pass(pieces(&bytes, &cuts)), pass([&bytes[..]]));
        }

        #[test]
        fn what_holds_nothing_to_remove_is_passed_byte_for_byte(
            parts in prop::collection::vec(prop::sample::select(&PASSED[3..]), 0..12),
            text in "[a-zß-ÿ ]{0,40}",
            cuts in prop::collection::vec(any::<usize>(), 0..8),
        ) {
            let bytes = [&parts.concat()[..], text.as_bytes(), &parts.concat()].concat();

            prop_assert_eq!(pass(pieces(&bytes, &cuts)), (bytes, Passed::All));
        }

        #[test]
        fn no_question_is_ever_passed(bytes in prop_oneof![terminal_bytes(), fragments()]) {
            let (out, _) = pass([&bytes[..]]);

            let mut scanner = Scanner::new();
            let mut rest = &out[..];
            while let Some(token) = scanner.next(&mut rest) {
                match token {
                    Token::Control(byte) => prop_assert_ne!(byte, ENQ),
                    Token::Sequence { bytes, kind, .. } => {
                        prop_assert_eq!(judge(bytes, kind), Verdict::Pass);
                    }
                    Token::Text(_) => {}
                }
            }
            let c1 = |pair: &[u8]| pair[0] == C1_LEAD && (0x80..0xa0).contains(&pair[1]);
            prop_assert!(!out.windows(2).any(c1));
        }
    }
}
