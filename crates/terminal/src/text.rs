//! Runs of text: where they end, and whether they end inside a character.
//!
//! The scanner spends most of its time here, so this code is optimized for speed.

/// DEL, the one control character outside the C0 range.
pub(crate) const DEL: u8 = 0x7f;

/// Returns the number of bytes at the front of `bytes` that are text.
pub(crate) fn text_length(bytes: &[u8]) -> usize {
    // A block is checked with a few vector instructions. The short runs between the sequences of
    // a full-screen program end before the first block.
    const SHORT: usize = 16;
    const BLOCK: usize = 32;
    let ends = |byte: &u8| !TEXT[usize::from(*byte)];
    let (short, long) = bytes.split_at(bytes.len().min(SHORT));
    if let Some(length) = short.iter().position(ends) {
        return length;
    }
    let plain = |block: &&[u8]| block.iter().fold(0, |seen, &byte| seen | special(byte)) == 0;
    let checked = long.chunks_exact(BLOCK).take_while(plain).count() * BLOCK;
    let rest = &long[checked..];
    short.len() + checked + rest.iter().position(ends).unwrap_or(rest.len())
}

/// Returns 1 for a byte that ends a run of text. Free of branches, so that a block is vectorized.
const fn special(byte: u8) -> u8 {
    let control = (byte < 0x20) as u8;
    let layout = (byte.wrapping_sub(0x08) < 3) as u8 | (byte == b'\r') as u8;
    (control & (layout ^ 1)) | (byte == DEL) as u8
}

const TEXT: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    loop {
        table[byte as usize] = special(byte) == 0;
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

/// The leading bytes of an incomplete UTF-8 character.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Partial {
    bytes: [u8; 3],
    length: usize,
}

impl Partial {
    /// Returns the number of bytes present.
    pub(crate) fn len(self) -> usize {
        self.length
    }

    /// Returns the incomplete character at the end of the stream after `text` was appended.
    pub(crate) fn after(self, text: &[u8]) -> Self {
        // Most text ends in ASCII.
        let Some(0x80..) = text.last() else { return Self::default() };
        let mut tail = [0; 6];
        let recent = &text[text.len().saturating_sub(3)..];
        let end = self.length + recent.len();
        tail[..self.length].copy_from_slice(&self.bytes[..self.length]);
        tail[self.length..end].copy_from_slice(recent);
        for length in 1..=end.min(3) {
            let candidate = &tail[end - length..end];
            let incomplete = std::str::from_utf8(candidate)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none());
            if incomplete {
                let mut bytes = [0; 3];
                bytes[..length].copy_from_slice(candidate);
                return Self { bytes, length };
            }
        }
        Self::default()
    }
}
