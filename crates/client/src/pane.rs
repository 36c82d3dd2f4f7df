//! The stream of one pane, from its keeper.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::{Ending, Size};
use protocol::Decoder;
use protocol::frame::{Frame, Kind};
use protocol::pane::{Attach, Attached, DetachReason, Detached, KeyOptions, Reply, SOCKET, View};

use crate::connection::{Connection, ConnectionError};
use crate::socket::send_with_descriptor;

/// How long the handshake with a keeper may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a follower reconnects without receiving anything before it gives up.
const MAX_EMPTY_RECONNECTS: u32 = 5;

/// An event on the stream of a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaneEvent {
    /// The keeper has accepted the attachment.
    Attached(Attached),
    /// The screen as of `offset`: feeding `bytes` to an empty terminal reproduces it.
    Snapshot {
        /// The number of output bytes the screen reflects.
        offset: u64,
        /// Escape sequences.
        bytes: Vec<u8>,
    },
    /// Output of the pane.
    Output {
        /// The offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes to write unchanged to the terminal ([`View::Relay`] only).
    Paint(Vec<u8>),
    /// The pane was resized.
    Resized(Size),
    /// The pane's process ended.
    Ended(Ending),
    /// The keeper has detached the client.
    Detached(DetachReason),
    /// The keeper has detached the client, because the user wants to see the scrollback.
    Scrollback,
}

/// An attachment to a pane.
#[derive(Debug)]
pub struct PaneStream {
    stream: UnixStream,
    decoder: Decoder,
    control: PaneControl,
}

/// The sending half of an attachment. Clones share it and may be used from any thread.
#[derive(Clone, Debug)]
pub struct PaneControl(Arc<Mutex<UnixStream>>);

impl PaneStream {
    /// Connects to the keeper in the pane's directory and attaches.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub fn open(dir: &Path, attach: &Attach) -> Result<Self, ConnectionError> {
        let connection = Connection::open_timeout(dir, SOCKET, HANDSHAKE_TIMEOUT)?;
        connection.set_timeout(None).map_err(ConnectionError::Disconnected)?;
        Self::attach(connection, attach, None)
    }

    /// Attaches over an open connection to a keeper. For [`View::Terminal`] the keeper takes over
    /// `terminal`.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`]. A keeper that rejects the attachment says so in its first event.
    pub fn attach(
        connection: Connection,
        attach: &Attach,
        terminal: Option<BorrowedFd<'_>>,
    ) -> Result<Self, ConnectionError> {
        let stream = connection.into_stream();
        let frame = Frame::json(Kind::Attach, attach);
        match terminal {
            Some(terminal) => send_with_descriptor(&stream, &frame, terminal),
            None => (&stream).write_all(&frame.encode()),
        }
        .map_err(ConnectionError::stream)?;
        let writer = stream.try_clone().map_err(ConnectionError::Disconnected)?;
        let control = PaneControl(Arc::new(Mutex::new(writer)));
        Ok(Self { stream, decoder: Decoder::default(), control })
    }

    /// Returns the sending half.
    #[must_use]
    pub fn control(&self) -> PaneControl {
        self.control.clone()
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`]; [`ConnectionError::Remote`] if the keeper rejects the attachment.
    pub fn next_event(&mut self) -> Result<PaneEvent, ConnectionError> {
        loop {
            if let Some(event) = self.buffered_event()? {
                return Ok(event);
            }
            self.read_available()?;
        }
    }

    /// Reads the bytes that are available, or waits for some. Callers that poll call this when the
    /// stream is readable and then [`PaneStream::buffered_event`] until it returns none.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub fn read_available(&mut self) -> Result<(), ConnectionError> {
        let mut piece = [0; 64 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(ConnectionError::Disconnected(io::ErrorKind::UnexpectedEof.into())),
            Ok(read) => {
                self.decoder.push(&piece[..read]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(ConnectionError::stream(error)),
        }
    }

    /// Returns the next event that has been read completely.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub fn buffered_event(&mut self) -> Result<Option<PaneEvent>, ConnectionError> {
        while let Some(frame) = self.decoder.next_frame()? {
            if let Some(event) = event(frame)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}

impl AsFd for PaneStream {
    /// Readable when there are bytes to read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl PaneControl {
    /// Sends input as read from a terminal.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub fn input(&self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.send(&Frame::new(Kind::Input, bytes.to_vec()))
    }

    /// Reports the new size of the client's terminal.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub fn resize(&self, size: Size) -> Result<(), ConnectionError> {
        self.send(&Frame::json(Kind::Resize, &size))
    }

    /// Requests a detachment. The keeper confirms it with [`PaneEvent::Detached`].
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub fn detach(&self) -> Result<(), ConnectionError> {
        self.send(&Frame::new(Kind::Detach, Vec::new()))
    }

    fn send(&self, frame: &Frame) -> Result<(), ConnectionError> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(&frame.encode()).map_err(ConnectionError::stream)
    }
}

/// Follows the exact output of a pane and reconnects when the connection to its keeper is lost.
///
/// The follower never returns a byte twice. If the keeper no longer has the next byte, the next event
/// is a [`PaneEvent::Snapshot`] or [`PaneEvent::Output`] with a greater offset than expected.
#[derive(Debug)]
pub struct PaneFollower {
    dir: PathBuf,
    position: Option<u64>,
    stream: Option<PaneStream>,
    /// Reconnects since the last event with output.
    empty_reconnects: u32,
}

impl PaneFollower {
    /// Creates a follower of the pane in `dir`. `from` is the offset of the first byte wanted
    /// (none: start with a snapshot).
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, from: Option<u64>) -> Self {
        Self { dir: dir.into(), position: from, stream: None, empty_reconnects: 0 }
    }

    /// Returns the offset that follows the output returned so far.
    #[must_use]
    pub fn position(&self) -> Option<u64> {
        self.position
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`]. [`ConnectionError::Connect`] means that the keeper has exited: the rest
    /// of the output is in the log, which the daemon serves.
    pub fn next_event(&mut self) -> Result<PaneEvent, ConnectionError> {
        loop {
            match self.try_next() {
                Ok(event) => {
                    if let Some(event) = self.advance(event) {
                        return Ok(event);
                    }
                }
                Err(ConnectionError::Disconnected(error)) => {
                    self.stream = None;
                    self.empty_reconnects += 1;
                    if self.empty_reconnects > MAX_EMPTY_RECONNECTS {
                        return Err(ConnectionError::Disconnected(error));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn try_next(&mut self) -> Result<PaneEvent, ConnectionError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let view = View::Follow { from: self.position };
                let attach =
                    Attach { view, size: None, read_only: true, keys: KeyOptions::default() };
                none.insert(PaneStream::open(&self.dir, &attach)?)
            }
        };
        stream.next_event()
    }

    /// Updates the position, and removes bytes that were already returned.
    fn advance(&mut self, event: PaneEvent) -> Option<PaneEvent> {
        match event {
            PaneEvent::Snapshot { offset, .. } => {
                self.position = Some(offset);
                self.empty_reconnects = 0;
                Some(event)
            }
            PaneEvent::Output { offset, mut bytes } => {
                let position = self.position.unwrap_or(offset).max(offset);
                let known = usize::try_from(position - offset).unwrap_or(usize::MAX);
                bytes.drain(..known.min(bytes.len()));
                if bytes.is_empty() {
                    return None;
                }
                self.position = Some(position + u64::try_from(bytes.len()).unwrap_or(0));
                self.empty_reconnects = 0;
                Some(PaneEvent::Output { offset: position, bytes })
            }
            PaneEvent::Attached(_)
            | PaneEvent::Paint(_)
            | PaneEvent::Resized(_)
            | PaneEvent::Ended(_)
            | PaneEvent::Detached(_)
            | PaneEvent::Scrollback => Some(event),
        }
    }
}

/// Converts a frame. Returns none for frames that carry no event, also from newer keepers.
fn event(frame: Frame) -> Result<Option<PaneEvent>, ConnectionError> {
    Ok(Some(match frame.kind {
        Kind::Attached => PaneEvent::Attached(frame.parse()?),
        Kind::Snapshot => {
            let (offset, bytes) = with_offset(frame)?;
            PaneEvent::Snapshot { offset, bytes }
        }
        Kind::Output => {
            let (offset, bytes) = with_offset(frame)?;
            PaneEvent::Output { offset, bytes }
        }
        Kind::Paint => PaneEvent::Paint(frame.body),
        Kind::Resized => PaneEvent::Resized(frame.parse()?),
        Kind::Ended => PaneEvent::Ended(frame.parse()?),
        // A newer keeper may give a reason that this release does not know.
        Kind::Detached => match frame.parse() {
            Ok(Detached { scrollback: true, .. }) => PaneEvent::Scrollback,
            detached => PaneEvent::Detached(
                detached.map_or(DetachReason::Asked, |Detached { why, .. }| why),
            ),
        },
        Kind::Reply => match frame.parse()? {
            Reply::Error(body) => return Err(body.into()),
            Reply::Ok(_) => return Ok(None),
        },
        Kind::Refused => {
            return Err(ConnectionError::Refused(frame.parse()?));
        }
        Kind::Hello
        | Kind::Welcome
        | Kind::Request
        | Kind::Event
        | Kind::Part
        | Kind::Attach
        | Kind::Input
        | Kind::Resize
        | Kind::Detach => return Ok(None),
    }))
}

fn with_offset(mut frame: Frame) -> Result<(u64, Vec<u8>), ConnectionError> {
    let Some(offset) = frame.body.first_chunk().copied() else {
        return Err(ConnectionError::Protocol(format!("{:?} frame without an offset", frame.kind)));
    };
    frame.body.drain(..offset.len());
    Ok((u64::from_le_bytes(offset), frame.body))
}
