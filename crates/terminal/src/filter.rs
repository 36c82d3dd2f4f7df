//! Filter that forwards a program's output to an attached client's terminal.
//!
//! An attached terminal receives the program's bytes without redrawing, at nearly native speed. Only
//! sequences on a list are forwarded ([`crate::allowed`]). In particular, the following are not:
//!
//! - **queries**: the pane's terminal answers them. An outer terminal would answer a second time,
//!   into the program's input;
//! - **settings of the outer window**: its size, position, title stack, encoding and printer;
//! - **sequences after which the outer screen would differ from the pane's** (screen switch, reset):
//!   the filter stops, and the caller repaints the screen.
//!
//! Emoji sequences require a repaint too, because terminals disagree about their width: a frame
//! positions what follows them.
//!
//! Bytes that the pane's terminal ignores inside sequences are removed, and strings are terminated
//! where it terminates them, so that an outer terminal cannot interpret the bytes differently. For
//! the same reason C1 control characters (U+0080 to U+009F) are removed everywhere: the pane's
//! terminal ignores them, but some terminals execute them even in UTF-8, and `U+009B c` is a query.
//!
//! A sequence is withheld until it is classified. Strings are classified by their first bytes and
//! then forwarded as they arrive, so an image or clipboard content is not buffered:
//!
//! ```text
//!               undecided at end of chunk             on the list
//!   Holding ───────────────────────────► Holding ───────────────────► Passing ── end ──► Holding
//!                                           └────────────────────────► Dropping ─ end ──► Holding
//!                                              any other, or too long
//! ```

use std::borrow::Cow;

use memchr::{memchr, memchr3, memmem};

use crate::allowed::{self, Listed};
use crate::clusters::{EMOJI_PRESENTATION, JOINER};
use crate::csi::Csi;
use crate::query::string_query;
use crate::scan::{ENQ, ESC, Scanner, SequenceKind, Token};
use crate::tracked::{REVERSE_WRAP, SIDE_MARGINS};

/// Result of [`Filter::pass`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "after `Resync` the outer screen must be repainted"]
pub enum Passed {
    /// The outer terminal is up to date with the output so far.
    All,
    /// The chunk contains a sequence that cannot be forwarded. The rest of the chunk was discarded
    /// and the filter was reset: the caller paints the screen as it is after the whole chunk.
    Resync,
}

/// Maximum length of a forwarded ESC or CSI sequence. Meaningful sequences are far shorter.
const CONTROL_LIMIT: usize = 256;

/// Maximum length of an undecided string. A whole palette in one OSC 4 is 6 KB.
const STRING_LIMIT: usize = 8 * 1024;

/// Lead byte of the C1 controls (and of the following Latin-1 characters) in UTF-8.
const C1_LEAD: u8 = 0xc2;

const ST: &[u8] = b"\x1b\\";

/// The filter of one attached client.
#[derive(Debug)]
pub struct Filter {
    scanner: Scanner,
    string: StringState,
    /// While forwarding a string: its last byte so far is an ESC that was not forwarded yet.
    withheld_escape: bool,
    out: C1Stripper,
    /// Whether the caller repaints the screen when it would differ from the pane's.
    repaints: bool,
    emoji: EmojiSearch,
    traces: Traces,
}

/// Treatment of an unfinished string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StringState {
    /// Undecided; the scanner buffers its beginning.
    #[default]
    Holding,
    Passing,
    Dropping,
}

/// Treatment of a complete sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Remove,
    Resync,
}

impl Filter {
    /// Creates a filter for a terminal that was just painted.
    #[must_use]
    pub fn new() -> Self {
        Self {
            scanner: Scanner::new(),
            string: StringState::default(),
            withheld_escape: false,
            out: C1Stripper::default(),
            repaints: true,
            emoji: EmojiSearch::default(),
            traces: Traces::default(),
        }
    }

    /// Creates a filter for output without a screen, such as a log: sequences that would require a
    /// repaint are removed, and [`Filter::pass`] returns [`Passed::All`].
    #[must_use]
    pub fn without_repaint() -> Self {
        Self { repaints: false, ..Self::new() }
    }

    /// Starts again for a terminal that was just painted.
    pub fn restart(&mut self) {
        *self = Self { traces: self.traces, repaints: self.repaints, ..Self::new() };
    }

    /// Returns the bytes that undo what forwarded sequences left in the outer terminal and
    /// [`crate::outer::leave`] does not undo, because not every terminal understands it: the shape of
    /// the pointer, and the progress.
    #[must_use]
    pub fn undo(&self) -> Vec<u8> {
        let pointer: &[u8] = if self.traces.pointer { b"\x1b]22;default\x1b\\" } else { b"" };
        let progress: &[u8] = if self.traces.progress { b"\x1b]9;4;0;0\x1b\\" } else { b"" };
        [pointer, progress].concat()
    }

    /// Filters the next `bytes` of output and appends the result to `out`.
    pub fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Passed {
        let idle = self.scanner.unfinished() == 0 && !self.out.withheld_lead;
        if idle && memchr3(ESC, ENQ, C1_LEAD, bytes).is_none() {
            if self.repaints && self.emoji.is_in(bytes) {
                self.restart();
                return Passed::Resync;
            }
            self.out.put(bytes, out);
            return Passed::All;
        }
        // In pieces, so that an undecided string never exceeds the scanner's buffer.
        for piece in bytes.chunks(STRING_LIMIT) {
            if self.pass_piece(piece, out) == Passed::Resync {
                self.restart();
                return Passed::Resync;
            }
        }
        Passed::All
    }

    fn pass_piece(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Passed {
        let mut rest = piece;
        // Starts at the first byte that was neither written nor removed, so that consecutive
        // unchanged tokens are written at once.
        let mut kept = piece;
        loop {
            let before = rest;
            let Some(token) = self.scanner.next(&mut rest) else {
                self.out.write(&kept[..kept.len() - before.len()], out);
                self.end_piece(before, out);
                return Passed::All;
            };
            let used = &before[..before.len() - rest.len()];
            match token {
                Token::Text(text) if self.repaints && self.emoji.is_in(text) => {
                    return Passed::Resync;
                }
                Token::Text(_) => {}
                Token::Control(_) | Token::Sequence { .. } => self.emoji = EmojiSearch::default(),
            }
            if self.string == StringState::Holding
                && let Token::Sequence { bytes, kind: SequenceKind::Osc, .. } = token
            {
                self.traces.note(bytes);
            }
            if self.string == StringState::Holding && passes_unchanged(used, token) {
                continue;
            }
            self.out.write(&kept[..kept.len() - before.len()], out);
            kept = rest;
            match token {
                Token::Text(text) => self.out.write(text, out),
                Token::Control(ENQ) => self.out.cut(out),
                Token::Control(byte) => self.out.write(&[byte], out),
                Token::Sequence { bytes, kind, terminated, .. } => {
                    let withheld_escape = std::mem::take(&mut self.withheld_escape);
                    match std::mem::take(&mut self.string) {
                        StringState::Dropping => self.out.cut(out),
                        StringState::Passing => {
                            let end = StringEnd { terminated, withheld_escape };
                            self.out.write_string_end(used, kind, end, out);
                        }
                        StringState::Holding => match classify(bytes, kind) {
                            Verdict::Resync if self.repaints => return Passed::Resync,
                            Verdict::Remove | Verdict::Resync => self.out.cut(out),
                            Verdict::Pass
                                if matches!(kind, SequenceKind::Esc | SequenceKind::Csi) =>
                            {
                                self.out.write(bytes, out);
                            }
                            Verdict::Pass => {
                                let end = StringEnd { terminated, withheld_escape: false };
                                self.out.write_string_end(bytes, kind, end, out);
                            }
                        },
                    }
                }
            }
        }
    }

    /// Forwards the permitted part of the sequence that is unfinished at the end of the piece.
    /// `unread` is the part of the piece after the last token.
    fn end_piece(&mut self, unread: &[u8], out: &mut Vec<u8>) {
        let Some((held, kind)) = self.scanner.pending() else { return };
        self.withheld_escape = self.scanner.in_terminator();
        match (self.string, kind) {
            (StringState::Dropping, _) | (_, SequenceKind::Esc | SequenceKind::Csi) => {}
            (StringState::Passing, _) => {
                let data =
                    if self.withheld_escape { unread.split_last().map(|(_, d)| d) } else { None };
                self.out.write_string(data.unwrap_or(unread), kind, out);
            }
            (StringState::Holding, _) => match early_verdict(held, kind) {
                Some(Verdict::Pass) => {
                    self.string = StringState::Passing;
                    self.traces.note(held);
                    self.out.write(held, out);
                }
                Some(_) => self.string = StringState::Dropping,
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

/// Sequences that were forwarded and whose effect outlives the program.
#[derive(Clone, Copy, Debug, Default)]
struct Traces {
    pointer: bool,
    progress: bool,
}

impl Traces {
    /// Records the beginning of an OSC.
    fn note(&mut self, bytes: &[u8]) {
        self.pointer |= bytes.starts_with(b"\x1b]22;");
        self.progress |= bytes.starts_with(b"\x1b]9;4;");
    }
}

/// Search for characters of which the width depends on the character before them, in text that
/// arrives in parts.
#[derive(Debug, Default)]
struct EmojiSearch {
    /// The last bytes of the text so far.
    tail: [u8; 3],
}

impl EmojiSearch {
    /// Returns whether `text` contains or completes such a character.
    fn is_in(&mut self, text: &[u8]) -> bool {
        let mut edge = [0; 6];
        let begin = text.len().min(3);
        edge[..3].copy_from_slice(&self.tail);
        edge[3..3 + begin].copy_from_slice(&text[..begin]);
        self.tail.copy_from_slice(&edge[begin..begin + 3]);
        if let Some(last) = text.last_chunk::<3>() {
            self.tail = *last;
        }
        contains_emoji_sequence(&edge[..3 + begin]) || contains_emoji_sequence(text)
    }
}

/// Returns whether `bytes` contains a joiner, an emoji presentation selector or a skin tone.
fn contains_emoji_sequence(bytes: &[u8]) -> bool {
    const SKIN_TONES: &[u8] = b"\xf0\x9f\x8f";
    if bytes.is_ascii() {
        return false;
    }
    let has = |mark: char| memmem::find(bytes, mark.encode_utf8(&mut [0; 4]).as_bytes()).is_some();
    let is_tone = |at: usize| matches!(bytes.get(at + 3), Some(0xbb..=0xbf));
    has(JOINER) || has(EMOJI_PRESENTATION) || memmem::find_iter(bytes, SKIN_TONES).any(is_tone)
}

/// Returns what to do with an unfinished string; `None` withholds it.
fn early_verdict(held: &[u8], kind: SequenceKind) -> Option<Verdict> {
    let held = &without_c1(held, false)[..];
    if held.len() <= STRING_LIMIT {
        return classify_string(held, kind, false);
    }
    Some(classify_string(&held[..STRING_LIMIT], kind, false).unwrap_or(Verdict::Remove))
}

/// Returns whether a string is forwarded: it is on the list and not a query. `None` means undecided,
/// which a complete string never is.
fn classify_string(bytes: &[u8], kind: SequenceKind, complete: bool) -> Option<Verdict> {
    let verdict = |passes: bool| if passes { Verdict::Pass } else { Verdict::Remove };
    if !allowed::string(bytes, kind, complete)? {
        return Some(Verdict::Remove);
    }
    let query = string_query(bytes, kind, complete).or(complete.then_some(false))?;
    Some(verdict(!query))
}

/// Removes C1 controls from a sequence, so that the classified bytes are the forwarded ones. At the end
/// of an incomplete one, the first byte of such a control is withheld.
fn without_c1(bytes: &[u8], complete: bool) -> Cow<'_, [u8]> {
    if memchr(C1_LEAD, bytes).is_none() {
        return Cow::Borrowed(bytes);
    }
    let mut left = Vec::with_capacity(bytes.len());
    let mut stripper = C1Stripper::default();
    stripper.write(bytes, &mut left);
    if complete && stripper.withheld_lead {
        left.push(C1_LEAD);
    }
    Cow::Owned(left)
}

/// Returns whether a token is forwarded and equals the consumed input bytes.
fn passes_unchanged(used: &[u8], token: Token<'_>) -> bool {
    match token {
        Token::Text(text) => std::ptr::eq(used, text),
        Token::Control(byte) => used.len() == 1 && byte != ENQ,
        Token::Sequence { bytes, kind, terminated, .. } => {
            // Equal addresses: the whole sequence is in this chunk, and no byte was removed.
            let whole = terminated && std::ptr::eq(used, bytes);
            let eight_bit_end = kind == SequenceKind::Dcs && bytes.ends_with(&[0x9c]);
            whole && !eight_bit_end && classify(bytes, kind) == Verdict::Pass
        }
    }
}

fn classify(bytes: &[u8], kind: SequenceKind) -> Verdict {
    match kind {
        // Colors and cursor movement: the vast majority of sequences.
        SequenceKind::Csi if bytes.len() < CONTROL_LIMIT && allowed::draws(bytes) => Verdict::Pass,
        SequenceKind::Esc | SequenceKind::Csi if bytes.len() > CONTROL_LIMIT => Verdict::Remove,
        SequenceKind::Osc | SequenceKind::Dcs | SequenceKind::Other
            if bytes.len() > STRING_LIMIT =>
        {
            early_verdict(bytes, kind).unwrap_or(Verdict::Remove)
        }
        // RIS.
        SequenceKind::Esc if bytes == b"\x1bc" => Verdict::Resync,
        // Terminals differ: alignment test, back and forward index.
        SequenceKind::Esc if matches!(bytes, b"\x1b#8" | b"\x1b6" | b"\x1b9") => Verdict::Resync,
        SequenceKind::Esc if allowed::esc(bytes) => Verdict::Pass,
        SequenceKind::Esc => Verdict::Remove,
        SequenceKind::Csi => Csi::parse(bytes).map_or(Verdict::Remove, |csi| classify_csi(&csi)),
        SequenceKind::Osc | SequenceKind::Dcs | SequenceKind::Other => {
            classify_string(&without_c1(bytes, true), kind, true).unwrap_or(Verdict::Remove)
        }
    }
}

fn classify_csi(csi: &Csi<'_>) -> Verdict {
    // Screen switches; DECCOLM, which clears the screen; and alternate scroll, which the painter sets
    // according to the screen.
    let redraws = || csi.params().any(|mode| [3, 47, 1007, 1047, 1049].contains(&mode));
    // While these are set, the caller paints ([`crate::Terminal::needs_frames`]).
    let differs = || csi.params().any(|mode| [REVERSE_WRAP, SIDE_MARGINS].contains(&mode));
    match (csi.marker, csi.intermediates, csi.last) {
        (Some(b'?'), b"", b'h' | b'l') if redraws() => Verdict::Resync,
        (Some(b'?'), b"", b'h') if differs() => Verdict::Resync,
        // Not every terminal has these: selective erase, operations on columns and rectangles. VPR
        // and soft reset differ between terminals.
        (Some(b'?'), b"", b'J' | b'K')
        | (None, b" ", b'@' | b'A')
        | (None, b"'", b'}' | b'~')
        | (None, b"$", b'v' | b'x' | b'z' | b'{')
        | (None, b"!", b'p')
        | (None, b"", b'e') => Verdict::Resync,
        _ => match allowed::csi(csi) {
            Listed::All => Verdict::Pass,
            // The painter sets the modes that the pane's terminal has.
            Listed::Some => Verdict::Resync,
            Listed::None => Verdict::Remove,
        },
    }
}

/// End of a string.
#[derive(Clone, Copy)]
struct StringEnd {
    /// Whether the string has a terminator.
    terminated: bool,
    /// Whether the terminator's ESC was in an earlier chunk.
    withheld_escape: bool,
}

/// Writer that removes C1 control characters.
#[derive(Debug, Default)]
struct C1Stripper {
    /// The last byte is a [`C1_LEAD`] that was not written yet.
    withheld_lead: bool,
    /// The last byte written.
    last: u8,
}

impl C1Stripper {
    fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        if self.withheld_lead {
            let Some(&next) = rest.first() else { return };
            self.withheld_lead = false;
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
                    self.withheld_lead = true;
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

    /// Records that bytes were removed here. If an incomplete character precedes them, the
    /// following bytes must not complete it: a NUL, which has no effect, separates them.
    fn cut(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.withheld_lead) {
            self.put(&[C1_LEAD], out);
        }
        if self.last >= 0x80 {
            self.put(b"\0", out);
        }
    }

    /// Writes a part of a string without the bytes that the scanner ignores.
    fn write_string(&mut self, data: &[u8], kind: SequenceKind, out: &mut Vec<u8>) {
        if kind != SequenceKind::Osc {
            return self.write(data, out);
        }
        // Only the introducer of the string contains an ESC.
        let (begin, data) = data.split_at(usize::from(data.first() == Some(&ESC)));
        self.write(begin, out);
        for part in data.split(|&byte| byte < 0x20) {
            self.write(part, out);
        }
    }

    /// Writes the last part of a string, and a terminator even if it had none.
    fn write_string_end(
        &mut self,
        bytes: &[u8],
        kind: SequenceKind,
        end: StringEnd,
        out: &mut Vec<u8>,
    ) {
        let (data, terminator): (&[u8], &[u8]) = match bytes {
            _ if !end.terminated => (bytes, ST),
            _ if end.withheld_escape => (b"", ST),
            [data @ .., 0x07] if kind == SequenceKind::Osc => (data, b"\x07"),
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

    /// Filters the chunks until one of them requires a repaint.
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
    fn removed_bytes_inside_a_character_leave_it_incomplete() {
        let parts: [&[u8]; 4] = [b"\x1bP$qm\x1b\\", b"\x1b[c", b"\x05", b"\xc2\x80"];
        for part in parts {
            let (out, _) = pass_both_ways(&[b"\xe2\x82", part, b"\xac"].concat());
            assert_eq!(out, b"\xe2\x82\0\xac", "{}", part.escape_ascii());
        }
    }

    #[test]
    fn query_containing_c1_control_is_removed() {
        assert_eq!(pass_both_ways(b"\x1b_Gi=1,a=q\xc2\x9b\x1b\\").0, b"");
    }

    /// Filters in one chunk and byte by byte, and compares the results.
    fn pass_both_ways(bytes: &[u8]) -> (Vec<u8>, Passed) {
        let whole = pass([bytes]);
        assert_eq!(pass(bytes.chunks(1)), whole, "{}", bytes.escape_ascii());
        whole
    }

    const PASSED: [&[u8]; 42] = [
        b"plain text\r\n\tand a bell\x07",
        "Grüße, 10 °C, 日本語 🦀".as_bytes(),
        b"\x80\xff\xc3",
        b"\x0e\x0f\x0b\x0c\x00\x7f",
        b"\x1b7",
        b"\x1b8",
        b"\x1bM",
        b"\x1b(0",
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
        b"\x1b[2 q",
        b"\x1b[1\"q",
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
        b"\x1b]0;title?\x07",
        b"\x1b]8;id=1;http://x/?a;?\x1b\\",
        b"\x1b]4;1;#ffffff\x07",
        b"\x1b]10;#ffffff\x1b\\",
        b"\x1b]52;c;Pw==\x07",
        b"\x1b]133;A\x07",
        b"\x1b]104\x07",
        b"\x1b]9;4;1;50\x07",
        b"\x1b]777;notify;a;b\x07",
        b"\x1b]1337;File=inline=1:AAAA\x07",
        b"\x1bPq#0;2;0;0;0~\x1b\\",
        b"\x1b_Ga=T,f=100;AAAA\x1b\\",
    ];

    const REMOVED: [&[u8]; 52] = [
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
        // Not on the list.
        b"\x1bn",
        b"\x1b[?30h",
        b"\x1b[3h",
        b"\x1b[47l",
        b"\x1b[?9001h",
        b"\x1b]052;c;?\x07",
        b"\x1b]052;c;Pw==\x07",
        b"\x1b]50;#1\x07",
        b"\x1b]9;7;cmd\x07",
        b"\x1b]1337;CopyToClipboard=\x07",
        b"\x1bP1;1|17/78\x1b\\",
        b"\x1b_other\x1b\\",
        b"\x1b^private\x1b\\",
        // A C1 control in UTF-8; an aborted and a malformed sequence.
        b"\xc2\x9b",
        b"\x1b[1\x1b[c",
        b"\x1b[1<m",
    ];

    const RESYNC: [&[u8]; 22] = [
        b"\x1b[?25;9001h",
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
        b"\x1b[?69h",
        b"\x1b[?45h",
        b"\x1b#8",
        b"\x1b6",
        b"\x1b[!p",
        b"\x1b[?J",
        b"\x1b[?1K",
        b"\x1b[2 @",
        b"\x1b['}",
        b"\x1b[65;1;1;2;2$x",
        b"\x1b[3e",
    ];

    #[test]
    fn drawing_sequences_pass_unchanged() {
        for bytes in PASSED {
            let (out, passed) = pass_both_ways(bytes);
            let shown = bytes.escape_ascii();
            assert_eq!(out.escape_ascii().to_string(), shown.to_string());
            assert_eq!(passed, Passed::All, "{shown}");
        }
    }

    #[test]
    fn queries_and_window_settings_are_removed() {
        for bytes in REMOVED {
            let (out, passed) = pass_both_ways(&[b"a", bytes, b"b"].concat());
            assert_eq!(out.escape_ascii().to_string(), "ab", "{}", bytes.escape_ascii());
            assert_eq!(passed, Passed::All);
        }
    }

    #[test]
    fn screen_switch_requires_repaint_and_discards_the_rest() {
        for bytes in RESYNC {
            let (out, passed) = pass_both_ways(&[b"a", bytes, b"b"].concat());
            assert_eq!((&out[..], passed), (&b"a"[..], Passed::Resync), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn pointer_and_progress_are_undone_if_they_were_forwarded() {
        let mut filter = Filter::new();
        let mut out = Vec::new();
        assert_eq!(filter.undo(), b"");

        for part in [&b"\x1b]22;te"[..], b"xt\x07\x1b]9;4;1;5", b"0\x07"] {
            assert_eq!(filter.pass(part, &mut out), Passed::All);
        }
        filter.restart();

        assert_eq!(filter.undo(), b"\x1b]22;default\x1b\\\x1b]9;4;0;0\x1b\\");
    }

    #[test]
    fn filter_is_reset_after_resync() {
        let mut filter = Filter::new();
        let mut out = Vec::new();

        assert_eq!(filter.pass(b"\xc2\x1bc\x1b[31", &mut out), Passed::Resync);
        out.clear();
        assert_eq!(filter.pass(b"m", &mut out), Passed::All);

        assert_eq!(out, b"m");
    }

    #[test]
    fn strings_end_where_the_panes_terminal_ends_them() {
        let cases: [(&[u8], &[u8]); 7] = [
            (b"\x1b]0\xc2\x1b[mb", b"\x1b[mb"),
            (b"\x1b]0;a\x1b[mb", b"\x1b]0;a\x1b\\\x1b[mb"),
            (b"\x1b]0;a\x1b[cb", b"\x1b]0;a\x1b\\b"),
            (b"\x1b]0;a\x18b", b"\x1b]0;a\x1b\\\x18b"),
            (b"\x1bPqa\x9cb", b"\x1bPqa\x1b\\b"),
            (b"\x1b]0;a\x01\nb\x07c", b"\x1b]0;ab\x07c"),
            // For a terminal that executes C1 controls: a terminator and a query.
            (b"\x1b]0;a\xc2\x9c\xc2\x9bc\x07", b"\x1b]0;ac\x07"),
        ];
        for (bytes, expected) in cases {
            let (out, _) = pass_both_ways(bytes);
            let (out, expected) = (out.escape_ascii(), expected.escape_ascii());
            assert_eq!(out.to_string(), expected.to_string(), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn long_strings_pass_without_buffering() {
        let mut filter = Filter::new();
        for begin in [&b"\x1bPq"[..], b"\x1b]52;c;A", b"\x1b_Gf=100;", b"\x1b]1337;File=inline=1:"]
        {
            let mut out = Vec::new();
            let mut expected = begin.to_vec();
            assert_eq!(filter.pass(begin, &mut out), Passed::All);
            assert_eq!(out, expected, "decided by the first bytes");

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
    fn overlong_undecided_sequence_is_removed_for_any_chunk_size() {
        let palette = [&b"\x1b]4"[..], &b";1;#ffffff".repeat(2000), b"\x07"].concat();
        let csi = [&b"\x1b["[..], &b"1;".repeat(200), b"m"].concat();
        let query = [&b"\x1bP+q"[..], &b"544e;".repeat(4000), b"\x1b\\"].concat();
        for long in [palette, csi, query] {
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

    /// Entries of all three tables in any order, some of them truncated.
    fn fragments() -> impl Strategy<Value = Vec<u8>> {
        let all: Vec<&[u8]> = PASSED.into_iter().chain(REMOVED).chain(RESYNC).collect();
        let fragment = (prop::sample::select(all), 1usize..40);
        let cut = |(bytes, length): (&[u8], usize)| bytes[..length.min(bytes.len())].to_vec();
        prop::collection::vec(fragment.prop_map(cut), 0..12).prop_map(|parts| parts.concat())
    }

    /// Returns the first sequence that does not begin like one of a short list. Independent of the
    /// scanner: every ESC is examined, wherever it is.
    fn unlisted(out: &[u8]) -> Option<String> {
        const NUMBERS: [&str; 14] =
            ["0", "1", "2", "4", "5", "7", "8", "9", "50", "52", "99", "133", "777", "1337"];
        let escapes = out.iter().enumerate().filter(|(_, byte)| **byte == ESC).map(|(at, _)| at);
        let is_listed = |rest: &[u8]| match rest {
            [] | [b'7' | b'8' | b'D' | b'E' | b'H' | b'M' | b'=' | b'>' | b'\\', ..] => true,
            [b'(' | b')' | b'*' | b'+', b'0' | b'A' | b'B', ..] => true,
            [b'[', rest @ ..] => {
                let end = rest.iter().position(|byte| !(0x20..0x40).contains(byte));
                let text = String::from_utf8_lossy(&rest[..=end.unwrap_or(0)]).into_owned();
                let last = text.chars().last().unwrap_or_default();
                match last {
                    'n' => text.starts_with('>'),
                    'q' => text.ends_with(" q") || text.ends_with("\"q"),
                    last if text.starts_with('?') => "hlW".contains(last),
                    last => "@ABCDEFGHIJKLMPSTXZ`abdfghlmrsu".contains(last),
                }
            }
            [b']', rest @ ..] => {
                let end = rest.iter().position(|byte| !byte.is_ascii_digit());
                let number = String::from_utf8_lossy(&rest[..end.unwrap_or(rest.len())]);
                let is_color = number.parse().is_ok_and(
                    |number: u32| matches!(number, 10..=19 | 21 | 22 | 104 | 105 | 110..=119),
                );
                (NUMBERS.contains(&&*number) || is_color) && !number.starts_with("00")
            }
            [b'P', rest @ ..] => {
                rest.iter().find(|byte| !(b'0'..=b';').contains(byte)) == Some(&b'q')
            }
            [b'_', b'G', ..] => true,
            _ => false,
        };
        let mut rests = escapes.map(|at| &out[at + 1..]);
        rests.find(|rest| !is_listed(rest)).map(|rest| rest.escape_ascii().to_string())
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_output(
            bytes in prop_oneof![terminal_bytes(), fragments()],
            cuts in prop::collection::vec(any::<usize>(), 0..8),
        ) {
            prop_assert_eq!(pass(pieces(&bytes, &cuts)), pass([&bytes[..]]));
        }

        #[test]
        fn output_without_removable_sequences_passes_byte_for_byte(
            parts in prop::collection::vec(prop::sample::select(&PASSED[3..]), 0..12),
            text in "[a-zß-ÿ ]{0,40}",
            cuts in prop::collection::vec(any::<usize>(), 0..8),
        ) {
            let bytes = [&parts.concat()[..], text.as_bytes(), &parts.concat()].concat();

            prop_assert_eq!(pass(pieces(&bytes, &cuts)), (bytes, Passed::All));
        }

        #[test]
        fn output_contains_only_listed_sequences(bytes in prop_oneof![terminal_bytes(), fragments()]) {
            let (out, _) = pass([&bytes[..]]);

            let mut scanner = Scanner::new();
            let mut rest = &out[..];
            while let Some(token) = scanner.next(&mut rest) {
                match token {
                    Token::Control(byte) => prop_assert_ne!(byte, ENQ),
                    Token::Sequence { bytes, kind, .. } => {
                        prop_assert_eq!(classify(bytes, kind), Verdict::Pass);
                    }
                    Token::Text(_) => {}
                }
            }
            prop_assert_eq!(unlisted(&out), None, "{}", out.escape_ascii());
            let c1 = |pair: &[u8]| pair[0] == C1_LEAD && (0x80..0xa0).contains(&pair[1]);
            prop_assert!(!out.windows(2).any(c1));
        }
    }
}
