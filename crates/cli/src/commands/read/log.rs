//! The output log of a pane, read in chunks.

use protocol::ErrorBody;
use protocol::pane_io::{ReadView, Text};

use super::ask;
use crate::connect::Link;

/// A read position in the log of a pane.
#[derive(Debug)]
pub(super) struct Log<'a> {
    id: &'a str,
    /// Offset of the next byte, or `None` for the oldest byte kept.
    position: Option<u64>,
    /// The end of the log has been reached.
    is_at_end: bool,
}

impl<'a> Log<'a> {
    /// Starts at offset `from`, or at the oldest byte kept.
    pub(super) fn new(id: &'a str, from: Option<u64>) -> Self {
        Self { id, position: from, is_at_end: false }
    }

    /// Returns the next chunk, or `None` at the end of the log.
    ///
    /// # Errors
    ///
    /// The error of the daemon.
    pub(super) fn next(&mut self, link: &mut Link<'_>) -> Result<Option<Vec<u8>>, ErrorBody> {
        if self.is_at_end {
            return Ok(None);
        }
        let chunk = ask(link, self.id, &ReadView::Log { from: self.position })?;
        self.position = Some(chunk.next);
        self.is_at_end = !chunk.more;
        Ok(Some(chunk.bytes.unwrap_or_else(|| chunk.text.into_bytes())))
    }

    /// Returns the offset after the last chunk, or the start offset, if known.
    pub(super) fn position(&self) -> Option<u64> {
        self.position
    }
}

/// A whole log, or its last lines, in memory.
#[derive(Debug)]
pub(super) struct Collected {
    /// Contents.
    pub(super) bytes: Vec<u8>,
    lines: Option<usize>,
}

impl Collected {
    /// Collects everything, or only the last `lines` lines.
    pub(super) fn new(lines: Option<usize>) -> Self {
        Self { bytes: Vec::new(), lines }
    }

    /// Appends a chunk, and drops lines that are no longer among the last.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
        let Some(lines) = self.lines else { return };
        if lines == 0 {
            self.bytes.clear();
            return;
        }
        // A line feed at the end belongs to the last line.
        let body = self.bytes.len() - usize::from(self.bytes.ends_with(b"\n"));
        let mut feeds = self.bytes[..body].iter().enumerate().rev().filter(|(_, b)| **b == b'\n');
        if let Some((at, _)) = feeds.nth(lines - 1) {
            self.bytes.drain(..=at);
        }
    }

    /// Converts the contents to the type used in the protocol; `end` is the offset of their end.
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
    fn push_keeps_the_last_lines_for_any_chunk_size() {
        for size in 1..8 {
            let mut collected = Collected::new(Some(2));
            for chunk in b"one\ntwo\nthree\nfour\n".chunks(size) {
                collected.push(chunk);
            }
            assert_eq!(collected.bytes, b"three\nfour\n", "chunks of {size}");
        }
    }

    #[test]
    fn into_text_joins_characters_split_across_chunks() {
        let mut collected = Collected::new(None);
        for byte in "né".bytes() {
            collected.push(&[byte]);
        }

        let text = collected.into_text(103);

        assert_eq!((text.text.as_str(), text.bytes, text.from), ("né", None, 100));
    }

    #[test]
    fn into_text_keeps_the_bytes_of_invalid_utf8() {
        let mut collected = Collected::new(None);
        collected.push(b"a\xffb");

        let text = collected.into_text(3);

        assert_eq!(text.text, "a\u{fffd}b");
        assert_eq!(text.bytes.as_deref(), Some(&b"a\xffb"[..]));
    }
}
