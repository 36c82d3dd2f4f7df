//! One connection to a daemon or keeper.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use protocol::frame::{self, Frame, Kind, MAX_ANSWER};
use protocol::greeting::{Hello, Refusal, SUPPORTED, Welcome};
use protocol::{ErrorBody, ErrorCode, FrameError, control, pane};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::socket::{connect_in, send_with_descriptor};

/// Why an operation on a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The socket does not exist, or no process accepts connections on it.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The server refused the connection, usually because no common protocol version exists.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The server did not reply within the timeout.
    #[error("no reply within the timeout")]
    TimedOut,
    /// The connection was closed or failed.
    #[error("connection lost: {0}")]
    Disconnected(io::Error),
    /// The server sent something that violates the protocol.
    #[error("invalid reply: {0}")]
    Protocol(String),
    /// The server replied with an error.
    #[error(transparent)]
    Remote(#[from] ErrorBody),
}

impl ConnectionError {
    /// Converts the error to its wire form. Every local failure has the code `unreachable`.
    #[must_use]
    pub fn into_body(self) -> ErrorBody {
        match self {
            Self::Remote(body) => body,
            Self::Connect(_)
            | Self::Refused(_)
            | Self::TimedOut
            | Self::Disconnected(_)
            | Self::Protocol(_) => ErrorBody::new(ErrorCode::Unreachable, self.to_string()),
        }
    }

    /// Classifies an error of the established stream.
    pub(crate) fn stream(error: io::Error) -> Self {
        let kind = error.kind();
        if matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            Self::TimedOut
        } else if kind == io::ErrorKind::InvalidData {
            Self::Protocol(error.to_string())
        } else {
            Self::Disconnected(error)
        }
    }
}

impl From<FrameError> for ConnectionError {
    fn from(error: FrameError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// A connection after the handshake.
///
/// After any error other than [`ConnectionError::Remote`] the connection is unusable.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    /// The server's reply to the handshake.
    pub welcome: Welcome,
}

impl Connection {
    /// Connects to the socket `name` in `dir` and performs the handshake, without a timeout.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub fn open(dir: &Path, name: &str) -> Result<Self, ConnectionError> {
        Self::handshake(connect_in(dir, name).map_err(ConnectionError::Connect)?)
    }

    /// Like [`Connection::open`], with a timeout for each step of the handshake. The timeout
    /// remains set; [`Connection::set_timeout`] changes it.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub fn open_timeout(
        dir: &Path,
        name: &str,
        timeout: Duration,
    ) -> Result<Self, ConnectionError> {
        let stream = connect_in(dir, name).map_err(ConnectionError::Connect)?;
        set_timeout(&stream, Some(timeout)).map_err(ConnectionError::Disconnected)?;
        Self::handshake(stream)
    }

    /// Performs the handshake on a connected stream.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub fn handshake(mut stream: UnixStream) -> Result<Self, ConnectionError> {
        let hello = Frame::json(Kind::Hello, &Hello::current());
        // A server that refuses early may have closed its end; its refusal can still be read.
        let sent = frame::write(&mut stream, &hello);
        let reply = match (receive(&mut stream), sent) {
            (Ok(reply), _) => reply,
            (Err(ConnectionError::Disconnected(_)), Err(error)) => {
                return Err(ConnectionError::stream(error));
            }
            (Err(error), _) => return Err(error),
        };
        let welcome: Welcome = parse(&reply, Kind::Welcome)?;
        if !SUPPORTED.contains(welcome.protocol) {
            return Err(ConnectionError::Protocol(format!(
                "the server selected protocol {}, this client supports {SUPPORTED}",
                welcome.protocol
            )));
        }
        Ok(Self { stream, welcome })
    }

    /// Sets the timeout of every following read and write (none: wait indefinitely).
    ///
    /// # Errors
    ///
    /// The system's error, for example for a timeout of zero.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set_timeout(&self.stream, timeout)
    }

    /// Sends one frame.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub fn send(&mut self, frame: &Frame) -> Result<(), ConnectionError> {
        frame::write(&mut self.stream, frame).map_err(ConnectionError::stream)
    }

    /// Waits for the next frame and reassembles it if it is split into parts.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`]; [`ConnectionError::Disconnected`] also when the server closes the
    /// connection.
    pub fn receive(&mut self) -> Result<Frame, ConnectionError> {
        receive(&mut self.stream)
    }

    /// Sends a request to a daemon and waits for the reply.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`]; [`ConnectionError::Remote`] is the daemon's error.
    pub fn ask(
        &mut self,
        request: &control::Request,
    ) -> Result<control::Response, ConnectionError> {
        match self.exchange(request)? {
            control::Reply::Ok(response) => Ok(response),
            control::Reply::Error(body) => Err(body.into()),
        }
    }

    /// Sends a request to a keeper and waits for the reply.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`]; [`ConnectionError::Remote`] is the keeper's error.
    pub fn ask_keeper(
        &mut self,
        request: &pane::Request,
    ) -> Result<pane::Response, ConnectionError> {
        match self.exchange(request)? {
            pane::Reply::Ok(response) => Ok(response),
            pane::Reply::Error(body) => Err(body.into()),
        }
    }

    /// Sends a request with a descriptor to a keeper and waits for the reply.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`]; [`ConnectionError::Remote`] is the keeper's error.
    pub fn ask_keeper_with(
        &mut self,
        request: &pane::Request,
        descriptor: BorrowedFd<'_>,
    ) -> Result<pane::Response, ConnectionError> {
        let frame = Frame::json(Kind::Request, request);
        send_with_descriptor(&self.stream, &frame, descriptor).map_err(ConnectionError::stream)?;
        match parse(&self.receive()?, Kind::Reply)? {
            pane::Reply::Ok(response) => Ok(response),
            pane::Reply::Error(body) => Err(body.into()),
        }
    }

    /// Returns the underlying stream and gives up the connection. No bytes are buffered.
    #[must_use]
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }

    fn exchange<R: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
    ) -> Result<R, ConnectionError> {
        self.send(&Frame::json(Kind::Request, request))?;
        parse(&self.receive()?, Kind::Reply)
    }
}

fn set_timeout(stream: &UnixStream, timeout: Option<Duration>) -> io::Result<()> {
    stream.set_read_timeout(timeout)?;
    stream.set_write_timeout(timeout)
}

/// Waits for the next frame. A refusal at any time is an error.
fn receive(stream: &mut UnixStream) -> Result<Frame, ConnectionError> {
    let mut body = Vec::new();
    loop {
        let Some(piece) = frame::read(stream).map_err(ConnectionError::stream)? else {
            return Err(ConnectionError::Disconnected(io::ErrorKind::UnexpectedEof.into()));
        };
        let frame = if body.is_empty() && piece.kind != Kind::Part {
            piece
        } else {
            body.extend(piece.body);
            if body.len() > MAX_ANSWER {
                let message = format!("message exceeds the maximum of {MAX_ANSWER} bytes");
                return Err(ConnectionError::Protocol(message));
            }
            if piece.kind == Kind::Part {
                continue;
            }
            Frame::new(piece.kind, body)
        };
        if frame.kind == Kind::Refused {
            return Err(ConnectionError::Refused(parse(&frame, Kind::Refused)?));
        }
        return Ok(frame);
    }
}

fn parse<T: DeserializeOwned>(frame: &Frame, kind: Kind) -> Result<T, ConnectionError> {
    if frame.kind != kind {
        let message = format!("expected a {kind:?} frame, received {:?}", frame.kind);
        return Err(ConnectionError::Protocol(message));
    }
    Ok(frame.parse()?)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;

    use protocol::frame::MAX_BODY;

    use super::*;

    #[test]
    fn receive_reassembles_messages_longer_than_one_frame() {
        for length in [MAX_BODY - 1, MAX_BODY, MAX_BODY + 1, 2 * MAX_BODY, 2 * MAX_BODY + 7] {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            let body: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let long = Frame::new(Kind::Reply, body);
            let next = Frame::new(Kind::Event, b"{}".to_vec());
            let sent = [long.encode(), next.encode()].concat();

            let sender = thread::spawn(move || theirs.write_all(&sent));

            assert!(receive(&mut ours).unwrap() == long, "{length} bytes");
            assert_eq!(receive(&mut ours).unwrap(), next);
            sender.join().unwrap().unwrap();
        }
    }
}
