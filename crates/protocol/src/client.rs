//! The blocking end of both sockets.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::control;
use crate::error::{ErrorBody, ErrorCode};
use crate::frame::{self, Frame, Kind, MAX_ANSWER};
use crate::greeting::{Hello, Refusal, Welcome};
use crate::pane;

/// The name of the control socket in the run directory.
pub const CONTROL_SOCKET: &str = "control.sock";

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("cannot connect")]
    Unreachable(#[source] io::Error),
    /// The other end is of a release that cannot talk to this one.
    #[error("{0}")]
    Refused(String),
    /// The connection broke in the middle.
    #[error("the connection was lost")]
    Lost(#[source] io::Error),
    /// The answer is an error.
    #[error(transparent)]
    Answer(#[from] ErrorBody),
}

impl ClientError {
    /// The same, for the user.
    #[must_use]
    pub fn into_body(self) -> ErrorBody {
        match self {
            Self::Answer(body) => body,
            Self::Refused(message) => ErrorBody::new(ErrorCode::Unreachable, message).hint(
                "restart the daemon with the same release: `ccmux daemon stop`; panes run on",
            ),
            Self::Unreachable(ref source) | Self::Lost(ref source) => {
                ErrorBody::new(ErrorCode::Unreachable, format!("{self}: {source}"))
            }
        }
    }
}

/// Connects to the socket `name` in `dir`, however long the path of `dir` is.
///
/// A socket address has room for 107 bytes. The kernel resolves `/proc/self/fd/N/name` through the
/// open directory, so the address is short whatever the directory is called.
///
/// # Errors
///
/// The system's.
pub fn connect_in(dir: &Path, name: &str) -> io::Result<UnixStream> {
    let dir = File::open(dir)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}

/// A connection that has exchanged greetings.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    /// What the server said of itself.
    pub welcome: Welcome,
}

impl Connection {
    /// Connects to the socket `name` in `dir` and exchanges greetings.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn open(dir: &Path, name: &str) -> Result<Self, ClientError> {
        Self::greet(connect_in(dir, name).map_err(ClientError::Unreachable)?)
    }

    /// Exchanges greetings on a connected stream.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn greet(mut stream: UnixStream) -> Result<Self, ClientError> {
        frame::write(&mut stream, &Frame::json(Kind::Hello, &Hello::ours()))
            .map_err(ClientError::Lost)?;
        let answer = receive(&mut stream)?;
        if answer.kind == Kind::Refused {
            let refusal: Refusal = parse(&answer)?;
            return Err(ClientError::Refused(refusal.message));
        }
        let welcome = parse(expect(&answer, Kind::Welcome)?)?;
        Ok(Self { stream, welcome })
    }

    /// Sends one frame.
    ///
    /// # Errors
    ///
    /// [`ClientError::Lost`].
    pub fn send(&mut self, frame: &Frame) -> Result<(), ClientError> {
        frame::write(&mut self.stream, frame).map_err(ClientError::Lost)
    }

    /// Waits for the next frame.
    ///
    /// # Errors
    ///
    /// [`ClientError::Lost`], also at the orderly end of the stream.
    pub fn receive(&mut self) -> Result<Frame, ClientError> {
        receive(&mut self.stream)
    }

    /// Gives up waiting after this long; the error is then of kind `WouldBlock` or `TimedOut`.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(patience)
    }

    /// The stream itself, for what frames cannot do: passing descriptors, polling.
    #[must_use]
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Asks the daemon.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`ClientError::Answer`] is the daemon's own.
    pub fn ask(&mut self, request: &control::Request) -> Result<control::Response, ClientError> {
        match self.exchange(request)? {
            control::Reply::Ok(response) => Ok(response),
            control::Reply::Error(body) => Err(body.into()),
        }
    }

    /// Asks a keeper.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`ClientError::Answer`] is the keeper's own.
    pub fn ask_keeper(&mut self, request: &pane::Request) -> Result<pane::Response, ClientError> {
        match self.exchange(request)? {
            pane::Reply::Ok(response) => Ok(response),
            pane::Reply::Error(body) => Err(body.into()),
        }
    }

    fn exchange<R: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
    ) -> Result<R, ClientError> {
        self.send(&Frame::json(Kind::Request, request))?;
        let answer = self.receive()?;
        parse(expect(&answer, Kind::Reply)?)
    }
}

/// The next frame, put together if it comes in pieces.
fn receive(stream: &mut UnixStream) -> Result<Frame, ClientError> {
    let mut whole = Vec::new();
    loop {
        let Some(piece) = frame::read(stream).map_err(ClientError::Lost)? else {
            return Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into()));
        };
        if piece.kind != Kind::Part && whole.is_empty() {
            return Ok(piece);
        }
        whole.extend(piece.body);
        if whole.len() > MAX_ANSWER {
            let what = format!("an answer of more than {MAX_ANSWER} bytes");
            return Err(ClientError::Lost(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        if piece.kind != Kind::Part {
            return Ok(Frame::new(piece.kind, whole));
        }
    }
}

fn expect(frame: &Frame, kind: Kind) -> Result<&Frame, ClientError> {
    if frame.kind == kind {
        return Ok(frame);
    }
    let what = format!("a {:?} frame where {kind:?} belongs", frame.kind);
    Err(ClientError::Lost(io::Error::new(io::ErrorKind::InvalidData, what)))
}

fn parse<T: DeserializeOwned>(frame: &Frame) -> Result<T, ClientError> {
    frame.parse().map_err(|error| ClientError::Lost(frame::invalid(error)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;

    use super::*;
    use crate::frame::MAX_BODY;

    #[test]
    fn an_answer_that_is_longer_than_a_frame_comes_whole() {
        for length in [MAX_BODY - 1, MAX_BODY, MAX_BODY + 1, 2 * MAX_BODY, 2 * MAX_BODY + 7] {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            let body: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let long = Frame::new(Kind::Reply, body);
            let next = Frame::new(Kind::Event, b"{}".to_vec());
            let sent = [long.encode(), next.encode()].concat();

            let sending = thread::spawn(move || theirs.write_all(&sent));

            assert!(receive(&mut ours).unwrap() == long, "{length} bytes");
            assert_eq!(receive(&mut ours).unwrap(), next);
            sending.join().unwrap().unwrap();
        }
    }
}
