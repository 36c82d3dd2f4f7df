//! Frames: messages on a byte stream.
//!
//! ```text
//! +----------------+--------+------------------+
//! | length, u32 LE | kind   | length bytes     |
//! +----------------+--------+------------------+
//! ```
//!
//! The length is checked before the body is allocated, so invalid input costs the reader five bytes
//! and an error.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Length of the header in bytes.
pub const HEADER: usize = 5;

/// The longest body of one frame. A longer message is split into [`Kind::Part`] frames.
pub const MAX_BODY: usize = 8 << 20;

/// The longest message a client reassembles from parts. A listing of 100,000 panes fits.
pub const MAX_ANSWER: usize = 256 << 20;

/// The type of a frame.
///
/// The numbers are part of the protocol: new ones may be added, existing ones never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The first frame of a client: [`crate::greeting::Hello`].
    Hello = 1,
    /// The server accepts: [`crate::greeting::Welcome`].
    Welcome = 2,
    /// The server refuses: [`crate::greeting::Refusal`]. It then closes the connection.
    Refused = 3,
    /// A request as JSON.
    Request = 4,
    /// The reply to a request as JSON.
    Reply = 5,
    /// One event of a requested stream as JSON.
    Event = 6,
    /// A leading part of a body longer than [`MAX_BODY`]; the next frame continues it.
    Part = 7,
    /// Attach to a pane: [`crate::pane::Attach`].
    Attach = 16,
    /// Input from an attached client, as read from its terminal.
    Input = 17,
    /// The client's terminal was resized: [`model::Size`] as JSON.
    Resize = 18,
    /// The client detaches.
    Detach = 19,
    /// The client is attached: [`crate::pane::Attached`].
    Attached = 32,
    /// A u64 LE offset, then escape sequences that reproduce the screen at that offset.
    Snapshot = 33,
    /// A u64 LE offset, then the pane's output starting at that offset.
    Output = 34,
    /// Bytes to write unchanged to the client's terminal.
    Paint = 35,
    /// The pane was resized: [`model::Size`] as JSON.
    Resized = 36,
    /// The pane's process ended: [`model::Ending`].
    Ended = 37,
    /// The keeper detached the client: [`crate::pane::Detached`].
    Detached = 38,
}

impl Kind {
    const ALL: [Self; 18] = [
        Self::Hello,
        Self::Welcome,
        Self::Refused,
        Self::Request,
        Self::Reply,
        Self::Event,
        Self::Part,
        Self::Attach,
        Self::Input,
        Self::Resize,
        Self::Detach,
        Self::Attached,
        Self::Snapshot,
        Self::Output,
        Self::Paint,
        Self::Resized,
        Self::Ended,
        Self::Detached,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: Kind,
    /// Its contents.
    pub body: Vec<u8>,
}

/// A byte stream that is not a sequence of frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header announces a body longer than [`MAX_BODY`].
    #[error("frame of {0} bytes exceeds the maximum of {MAX_BODY}")]
    TooLong(u32),
    /// This release does not know the frame's kind.
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    /// The body does not match the frame's kind.
    #[error("invalid {kind:?} frame: {why}")]
    Body {
        /// The frame's kind.
        kind: Kind,
        /// The parser's message.
        why: String,
    },
}

impl Frame {
    /// Creates a frame with this body.
    #[must_use]
    pub fn new(kind: Kind, body: Vec<u8>) -> Self {
        Self { kind, body }
    }

    /// Creates a frame with `value` as JSON.
    ///
    /// # Panics
    ///
    /// If `value` has map keys that are not strings.
    #[must_use]
    pub fn json(kind: Kind, value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).expect("our messages have string keys only");
        Self { kind, body }
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    ///
    /// [`FrameError::Body`].
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| FrameError::Body { kind: self.kind, why: error.to_string() })
    }

    /// Returns the encoded frame, split into parts if the body exceeds [`MAX_BODY`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let frames = 1 + self.body.len() / MAX_BODY;
        let mut bytes = Vec::with_capacity(frames * HEADER + self.body.len());
        let mut rest = &self.body[..];
        while rest.len() > MAX_BODY {
            let (piece, after) = rest.split_at(MAX_BODY);
            append(&mut bytes, Kind::Part, &[piece]);
            rest = after;
        }
        append(&mut bytes, self.kind, &[rest]);
        bytes
    }
}

/// Appends one frame to `bytes`; its body is the concatenation of `parts`.
///
/// # Panics
///
/// If the body is longer than [`MAX_BODY`].
pub fn append(bytes: &mut Vec<u8>, kind: Kind, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    assert!(length <= MAX_BODY, "a {kind:?} frame of {length} bytes exceeds MAX_BODY");
    let length = u32::try_from(length).expect("MAX_BODY fits");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.push(kind as u8);
    for part in parts {
        bytes.extend_from_slice(part);
    }
}

/// An incremental parser for frames.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// The number of leading bytes already returned as frames.
    taken: usize,
}

impl Decoder {
    /// Appends bytes read from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete frame, or none if more bytes are needed.
    ///
    /// # Errors
    ///
    /// [`FrameError`]; the stream cannot be resynchronised.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let rest = &self.bytes[self.taken..];
        let Some((header, rest)) = rest.split_at_checked(HEADER) else { return Ok(None) };
        let (kind, length) = parse_header(header)?;
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let frame = Frame { kind, body: body.to_vec() };
        self.taken += HEADER + length;
        if self.taken == self.bytes.len() {
            // Release a large buffer: an idle connection should cost nothing.
            self.bytes = Vec::new();
            self.taken = 0;
        }
        Ok(Some(frame))
    }
}

/// Parses a header into the frame's kind and the length of its body.
///
/// # Errors
///
/// [`FrameError`] if the bytes are not the header of a frame.
///
/// # Panics
///
/// If `header` is shorter than [`HEADER`].
pub fn parse_header(header: &[u8]) -> Result<(Kind, usize), FrameError> {
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let size = usize::try_from(length).unwrap_or(usize::MAX);
    if size > MAX_BODY {
        return Err(FrameError::TooLong(length));
    }
    let kind = Kind::from_byte(header[4]).ok_or(FrameError::UnknownKind(header[4]))?;
    Ok((kind, size))
}

/// Reads one frame. Returns none if the stream ends between frames.
///
/// # Errors
///
/// The error of the stream, or `InvalidData` if the bytes are not a frame.
pub fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut header = [0; HEADER];
    let mut filled = 0;
    while filled < HEADER {
        match from.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (kind, length) = parse_header(&header)?;
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(Some(Frame { kind, body }))
}

/// Writes one frame.
///
/// # Errors
///
/// The error of the stream.
pub fn write(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    to.write_all(&frame.encode())
}

impl From<FrameError> for io::Error {
    fn from(error: FrameError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let kind = proptest::sample::select(Kind::ALL.to_vec());
        let body = proptest::collection::vec(any::<u8>(), 0..300);
        let frame = (kind, body).prop_map(|(kind, body)| Frame { kind, body });
        proptest::collection::vec(frame, 0..8)
    }

    proptest! {
        #[test]
        fn decoder_reassembles_frames_from_any_chunking(sent in frames(), step in 1_usize..64) {
            let wire: Vec<u8> = sent.iter().flat_map(Frame::encode).collect();
            let mut decoder = Decoder::default();
            let mut received = Vec::new();

            for piece in wire.chunks(step) {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    received.push(frame);
                }
            }

            prop_assert_eq!(received, sent);
        }

        #[test]
        fn decoder_never_panics_on_garbage(
            garbage in proptest::collection::vec(any::<u8>(), 0..400),
            step in 1_usize..64,
        ) {
            let mut decoder = Decoder::default();
            'stream: for piece in garbage.chunks(step) {
                decoder.push(piece);
                loop {
                    match decoder.next_frame() {
                        Ok(Some(frame)) => prop_assert!(frame.body.len() <= garbage.len()),
                        Ok(None) => break,
                        Err(_) => break 'stream,
                    }
                }
            }
        }
    }

    #[test]
    fn decoder_rejects_excessive_length_from_header_alone() {
        let mut decoder = Decoder::default();

        decoder.push(&[0xff, 0xff, 0xff, 0xff, Kind::Hello as u8]);

        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong(u32::MAX)));
    }
}
