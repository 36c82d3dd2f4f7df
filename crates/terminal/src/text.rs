//! Runs of text: where they end, and whether they end inside a character.
//!
//! This is what the scanner does most of the time, and it is written for speed.

use crate::scan::DEL;

/// How many bytes at the front of `bytes` are text.
pub(crate) fn text_length(bytes: &[u8]) -> usize {
    // A block is wide enough that the compiler checks it in a few vector instructions. The short
    // runs between the sequences of a full-screen program do not get that far.
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

/// 1 for a byte that ends a run of text; without branches, so that a block of it is vectorised.
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

/// The beginning of a UTF-8 character.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Partial {
    bytes: [u8; 3],
    length: usize,
}

impl Partial {
    /// How many bytes of it are there.
    pub(crate) fn len(self) -> usize {
        self.length
    }

    /// What is partial after `text` was added.
    pub(crate) fn after(self, text: &[u8]) -> Self {
        // The last byte of a complete or absent character is by far the commonest end.
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
