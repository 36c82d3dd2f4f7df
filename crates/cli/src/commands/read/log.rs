//! The output log of a pane, piece by piece.

use protocol::ErrorBody;
use protocol::look::{Text, View};

use super::ask;
use crate::connect::Link;

/// Where we are in a pane's log.
#[derive(Debug)]
pub(super) struct Log<'a> {
    id: &'a str,
    /// The next byte wanted; none is the oldest that is kept.
    position: Option<u64>,
    /// What there was when we last asked has all been given.
    is_through: bool,
}

impl<'a> Log<'a> {
    /// A log from this byte on, or from the oldest that is kept.
    pub(super) fn new(id: &'a str, from: Option<u64>) -> Self {
        Self { id, position: from, is_through: false }
    }

    /// The next piece; none when everything that was there is through.
    ///
    /// # Errors
    ///
    /// The daemon's.
    pub(super) fn next(&mut self, link: &mut Link<'_>) -> Result<Option<Vec<u8>>, ErrorBody> {
        if self.is_through {
            return Ok(None);
        }
        let piece = ask(link, self.id, &View::Log { from: self.position })?;
        self.position = Some(piece.next);
        self.is_through = !piece.more;
        Ok(Some(piece.bytes.unwrap_or_else(|| piece.text.into_bytes())))
    }

    /// The offset that follows what was given so far; none if nothing was asked for.
    pub(super) fn position(&self) -> Option<u64> {
        self.position
    }
}

/// A log as one value, or the last lines of one.
#[derive(Debug)]
pub(super) struct Collected {
    /// What is kept of it.
    pub(super) bytes: Vec<u8>,
    lines: Option<usize>,
}

impl Collected {
    /// Everything, or only the last `lines`.
    pub(super) fn new(lines: Option<usize>) -> Self {
        Self { bytes: Vec::new(), lines }
    }

    /// Adds a piece, and forgets what is too far from the end.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        let Some(lines) = self.lines else { return };
        if lines == 0 {
            self.bytes.clear();
            return;
        }
        // A line feed at the very end belongs to the last line.
        let body = self.bytes.len() - usize::from(self.bytes.ends_with(b"\n"));
        let mut feeds = self.bytes[..body].iter().enumerate().rev().filter(|(_, b)| **b == b'\n');
        if let Some((at, _)) = feeds.nth(lines - 1) {
            self.bytes.drain(..=at);
        }
    }

    /// The same as the protocol says it; `end` is the offset that follows it.
    pub(super) fn into_text(self, end: u64) -> Text {
        let from = end.saturating_sub(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX));
        let (text, bytes) = match String::from_utf8(self.bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                (text, Some(error.into_bytes()))
            }
        };
        Text { text, bytes, from, next: end, more: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept_however_the_pieces_fall() {
        for size in 1..8 {
            let mut collected = Collected::new(Some(2));
            for piece in b"one\ntwo\nthree\nfour\n".chunks(size) {
                collected.push(piece);
            }
            assert_eq!(collected.bytes, b"three\nfour\n", "pieces of {size}");
        }
    }

    #[test]
    fn a_character_cut_by_a_piece_is_whole_in_the_end() {
        let mut collected = Collected::new(None);
        for byte in "né".bytes() {
            collected.push(&[byte]);
        }

        let text = collected.into_text(103);

        assert_eq!((text.text.as_str(), text.bytes, text.from), ("né", None, 100));
    }

    #[test]
    fn bytes_that_are_no_text_are_given_as_they_are() {
        let mut collected = Collected::new(None);
        collected.push(b"a\xffb");

        let text = collected.into_text(3);

        assert_eq!(text.text, "a\u{fffd}b");
        assert_eq!(text.bytes.as_deref(), Some(&b"a\xffb"[..]));
    }
}
