//! Frames: how a stream of bytes becomes messages.
//!
//! ```text
//! +----------------+--------+------------------+
//! | length, u32 LE | kind   | length bytes     |
//! +----------------+--------+------------------+
//! ```
//!
//! The length is checked before anything is allocated, so garbage on a socket costs its reader
//! five bytes and an error.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes before the body.
pub const HEADER: usize = 5;

/// The longest body. What is longer is sent in pieces.
pub const MAX_BODY: usize = 8 << 20;

/// The longest answer that a client takes in pieces: listings of a hundred thousand panes fit.
pub const MAX_ANSWER: usize = 256 << 20;

/// What a frame is.
///
/// Numbers are part of the protocol: they are added to and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// First frame of a client: [`crate::greeting::Hello`].
    Hello = 1,
    /// The server's consent: [`crate::greeting::Welcome`].
    Welcome = 2,
    /// The server's refusal: [`crate::greeting::Refusal`]. The connection ends after it.
    Refused = 3,
    /// A question, as JSON.
    Request = 4,
    /// Its answer, as JSON.
    Reply = 5,
    /// One event of a stream that was asked for, as JSON.
    Event = 6,
    /// The beginning of a body that is longer than one may be; the next frame goes on with it.
    Part = 7,
    /// Attach to a pane: [`crate::pane::Attach`].
    Attach = 16,
    /// Keys from an attached client, as they came from its terminal.
    Input = 17,
    /// The client's terminal has another size: [`model::Size`] as JSON.
    Resize = 18,
    /// The client wants to leave.
    Detach = 19,
    /// The attachment holds: [`crate::pane::Attached`].
    Attached = 32,
    /// u64 LE offset, then escape sequences that rebuild the screen as of that offset.
    Snapshot = 33,
    /// u64 LE offset, then the pane's output from that offset on.
    Output = 34,
    /// Bytes to write to the client's terminal as they are.
    Paint = 35,
    /// The pane has another size: [`model::Size`] as JSON.
    Resized = 36,
    /// The pane has ended: [`model::Ending`].
    Ended = 37,
    /// The keeper let go of the client: [`crate::pane::Detached`].
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
    /// What it is.
    pub kind: Kind,
    /// What it says.
    pub body: Vec<u8>,
}

/// The bytes are not frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Nobody sends a body this long.
    #[error("a frame of {0} bytes, more than the {MAX_BODY} allowed")]
    TooLong(u32),
    /// Not a kind that this release knows.
    #[error("a frame of unknown kind {0}")]
    UnknownKind(u8),
    /// The body does not say what its kind promises.
    #[error("a {kind:?} frame that cannot be read: {why}")]
    Body {
        /// The kind.
        kind: Kind,
        /// What the reader said.
        why: String,
    },
}

impl Frame {
    /// A frame with these bytes.
    #[must_use]
    pub fn new(kind: Kind, body: Vec<u8>) -> Self {
        Self { kind, body }
    }

    /// A frame with this value as JSON.
    #[must_use]
    pub fn json(kind: Kind, value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).expect("our messages have string keys only");
        Self { kind, body }
    }

    /// The value in the body.
    ///
    /// # Errors
    ///
    /// [`FrameError::Body`].
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| FrameError::Body { kind: self.kind, why: error.to_string() })
    }

    /// The frame as bytes on the wire; as several frames, if its body is longer than one may be.
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

/// Appends one frame whose body is `parts`, one after the other, without building it first.
///
/// # Panics
///
/// If the body is longer than [`MAX_BODY`]; senders cut what can be long.
pub fn append(bytes: &mut Vec<u8>, kind: Kind, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    assert!(length <= MAX_BODY, "a {kind:?} frame of {length} bytes");
    let length = u32::try_from(length).expect("MAX_BODY fits");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.push(kind as u8);
    for part in parts {
        bytes.extend_from_slice(part);
    }
}

/// Splits a stream into frames, however its bytes arrive.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// How much of `bytes` was already given out as frames.
    taken: usize,
}

impl Decoder {
    /// Takes what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, or none until more was read.
    ///
    /// # Errors
    ///
    /// [`FrameError`]; the stream is of no use from then on.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let rest = &self.bytes[self.taken..];
        let Some((header, rest)) = rest.split_at_checked(HEADER) else { return Ok(None) };
        let (kind, length) = parse_header(header)?;
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let frame = Frame { kind, body: body.to_vec() };
        self.taken += HEADER + length;
        if self.taken == self.bytes.len() {
            // Give a large buffer back: an idle connection should cost nothing.
            self.bytes = Vec::new();
            self.taken = 0;
        }
        Ok(Some(frame))
    }
}

/// The kind, and the length of the body that follows.
///
/// # Errors
///
/// [`FrameError`] if these five bytes are not the head of a frame.
pub fn parse_header(header: &[u8]) -> Result<(Kind, usize), FrameError> {
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let size = usize::try_from(length).unwrap_or(usize::MAX);
    if size > MAX_BODY {
        return Err(FrameError::TooLong(length));
    }
    let kind = Kind::from_byte(header[4]).ok_or(FrameError::UnknownKind(header[4]))?;
    Ok((kind, size))
}

/// Reads one frame; none at the orderly end of the stream.
///
/// # Errors
///
/// The system's, or `InvalidData` for what is not a frame.
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
    let (kind, length) = parse_header(&header).map_err(invalid)?;
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(Some(Frame { kind, body }))
}

/// Writes one frame.
///
/// # Errors
///
/// The system's.
pub fn write(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    to.write_all(&frame.encode())
}

pub(crate) fn invalid(error: FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
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
        fn frames_survive_any_split_of_the_stream(sent in frames(), step in 1_usize..64) {
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
        fn garbage_is_an_error_or_waits_but_never_panics(
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
    fn a_length_that_nobody_sends_is_refused_before_anything_is_allocated() {
        let mut decoder = Decoder::default();

        decoder.push(&[0xff, 0xff, 0xff, 0xff, Kind::Hello as u8]);

        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong(u32::MAX)));
    }
}
