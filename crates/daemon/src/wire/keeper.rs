//! Connections from the daemon to the keeper of a pane.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use host::socket::is_same_user;
use model::Size;
use protocol::greeting::{Hello, Refusal};
use protocol::pane::{Attach, Attached, KeyOptions, Reply, Request, Response, SOCKET, View};
use protocol::{ErrorBody, Frame, Kind};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::frames::{FrameReadError, Frames};

/// Why a request to a keeper failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeeperError {
    /// The keeper does not accept connections.
    #[error("cannot connect to the keeper: {0}")]
    Unreachable(io::Error),
    /// The keeper belongs to a release with an incompatible protocol.
    #[error("the keeper refused the connection: {0}")]
    Refused(String),
    /// The connection was lost, or the reply is invalid.
    #[error("connection to the keeper lost: {0}")]
    Broken(String),
    #[error("the keeper did not reply within {0:?}")]
    TimedOut(Duration),
    /// The keeper replied with an error.
    #[error("{0}")]
    Remote(#[from] ErrorBody),
}

impl From<FrameReadError> for KeeperError {
    fn from(error: FrameReadError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<io::Error> for KeeperError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// A connection to a keeper.
#[derive(Debug)]
pub(crate) struct KeeperConnection(Frames);

/// A message from the keeper to an attached connection.
#[derive(Debug)]
pub(crate) enum KeeperMessage {
    /// Escape sequences that rebuild the screen as of an output offset.
    Snapshot(u64, Vec<u8>),
    /// Output that starts at an offset.
    Output(u64, Vec<u8>),
    /// The screen was resized.
    Resized(Size),
    /// The reply to a request that was sent on this connection.
    Reply(Reply),
    /// The pane has ended.
    Ended,
}

/// Returns the attach request of a read-only client that receives the exact output from offset
/// `from` (default: a snapshot, then the output from now on).
pub(crate) fn read_only_attach(from: Option<u64>) -> Attach {
    Attach { view: View::Follow { from }, size: None, read_only: true, keys: KeyOptions::default() }
}

/// Sends one request to the keeper in `dir` and returns its response.
///
/// # Errors
///
/// [`KeeperError`].
pub(crate) async fn ask(
    dir: &Path,
    request: &Request,
    limit: Duration,
) -> Result<Response, KeeperError> {
    let response = async { KeeperConnection::open(dir).await?.ask(request).await };
    timeout(limit, response).await.map_err(|_| KeeperError::TimedOut(limit))?
}

/// Resizes the pane in `dir` and returns its size afterwards.
///
/// # Errors
///
/// [`KeeperError`].
pub(crate) async fn resize(dir: &Path, size: Size, limit: Duration) -> Result<Size, KeeperError> {
    let view = View::Follow { from: None };
    let attach = Attach { view, size: Some(size), read_only: true, keys: KeyOptions::default() };
    let resized = async { Ok(KeeperConnection::open(dir).await?.follow(&attach).await?.size) };
    timeout(limit, resized).await.map_err(|_| KeeperError::TimedOut(limit))?
}

impl KeeperConnection {
    /// Connects to the keeper in `dir` and exchanges greetings.
    pub(crate) async fn open(dir: &Path) -> Result<Self, KeeperError> {
        // Through a descriptor of the directory: its path may exceed the length of a socket
        // address.
        let dir = File::open(dir).map_err(KeeperError::Unreachable)?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd());
        let stream = UnixStream::connect(path).await.map_err(KeeperError::Unreachable)?;
        if !is_same_user(&stream) {
            let error = io::Error::other("it runs as another user");
            return Err(KeeperError::Unreachable(error));
        }
        let mut frames = Frames::new(stream);
        frames.write(&Frame::json(Kind::Hello, &Hello::current())).await?;
        let reply = next_frame(&mut frames).await?;
        if reply.kind == Kind::Refused {
            let refusal: Refusal = parse(&reply)?;
            return Err(KeeperError::Refused(refusal.message));
        }
        expect_kind(&reply, Kind::Welcome)?;
        Ok(Self(frames))
    }

    async fn ask(&mut self, request: &Request) -> Result<Response, KeeperError> {
        self.0.write(&Frame::json(Kind::Request, request)).await?;
        let reply = next_frame(&mut self.0).await?;
        match parse(expect_kind(&reply, Kind::Reply)?)? {
            Reply::Ok(response) => Ok(response),
            Reply::Error(body) => Err(body.into()),
        }
    }

    /// Attaches: requests the exact output from an offset, or a snapshot and then the output.
    pub(crate) async fn follow(&mut self, attach: &Attach) -> Result<Attached, KeeperError> {
        self.send(&Frame::json(Kind::Attach, attach)).await?;
        let mut reply = next_frame(&mut self.0).await?;
        // If attaching changes the size, `Resized` precedes the reply.
        while reply.kind == Kind::Resized {
            reply = next_frame(&mut self.0).await?;
        }
        if reply.kind == Kind::Reply
            && let Reply::Error(body) = parse(&reply)?
        {
            return Err(body.into());
        }
        parse(expect_kind(&reply, Kind::Attached)?)
    }

    /// Sends a frame without waiting for a reply: input, a size, or a request whose reply arrives
    /// as [`KeeperMessage::Reply`].
    pub(crate) async fn send(&mut self, frame: &Frame) -> Result<(), KeeperError> {
        Ok(self.0.write(frame).await?)
    }

    /// Returns the next message, or `None` at the end of the connection. Cancel safe.
    pub(crate) async fn next_message(&mut self) -> Result<Option<KeeperMessage>, KeeperError> {
        let Some(frame) = self.0.next().await? else { return Ok(None) };
        let message = match frame.kind {
            Kind::Snapshot => {
                let (at, bytes) = split_offset(frame.body)?;
                KeeperMessage::Snapshot(at, bytes)
            }
            Kind::Output => {
                let (from, bytes) = split_offset(frame.body)?;
                KeeperMessage::Output(from, bytes)
            }
            Kind::Resized => KeeperMessage::Resized(parse(&frame)?),
            Kind::Reply => KeeperMessage::Reply(parse(&frame)?),
            Kind::Ended => KeeperMessage::Ended,
            Kind::Detached => return Ok(None),
            Kind::Hello
            | Kind::Welcome
            | Kind::Refused
            | Kind::Request
            | Kind::Event
            | Kind::Part
            | Kind::Attach
            | Kind::Input
            | Kind::Resize
            | Kind::Detach
            | Kind::Attached
            | Kind::Paint => {
                let why = format!("unexpected {:?} frame in the output", frame.kind);
                return Err(KeeperError::Broken(why));
            }
        };
        Ok(Some(message))
    }
}

/// Splits a frame body into its leading offset and the bytes after it.
fn split_offset(mut body: Vec<u8>) -> Result<(u64, Vec<u8>), KeeperError> {
    let Some(offset) = body.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
        return Err(KeeperError::Broken("output frame without an offset".to_owned()));
    };
    body.drain(..size_of::<u64>());
    Ok((offset, body))
}

async fn next_frame(frames: &mut Frames) -> Result<Frame, KeeperError> {
    let closed = || KeeperError::Broken("closed before the reply".to_owned());
    frames.next().await?.ok_or_else(closed)
}

fn expect_kind(frame: &Frame, kind: Kind) -> Result<&Frame, KeeperError> {
    if frame.kind == kind {
        return Ok(frame);
    }
    Err(KeeperError::Broken(format!("received a {:?} frame, expected {kind:?}", frame.kind)))
}

fn parse<T: serde::de::DeserializeOwned>(frame: &Frame) -> Result<T, KeeperError> {
    frame.parse().map_err(|error| KeeperError::Broken(error.to_string()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests have no task tracker")]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    /// Accepts one connection on the socket in `dir`, reads the greeting and replies with these
    /// frames.
    fn fake_keeper(dir: &Path, replies: Vec<Frame>) -> tokio::task::JoinHandle<()> {
        let listener = UnixListener::bind(dir.join(SOCKET)).unwrap();
        tokio::spawn(async move {
            let mut frames = Frames::new(listener.accept().await.unwrap().0);
            for reply in replies {
                frames.next().await.unwrap().unwrap();
                frames.write(&reply).await.unwrap();
            }
        })
    }

    fn welcome() -> Frame {
        Frame::new(Kind::Welcome, b"{}".to_vec())
    }

    async fn ask_status(dir: &Path) -> KeeperError {
        ask(dir, &Request::Status, Duration::from_secs(10)).await.unwrap_err()
    }

    #[tokio::test]
    async fn ask_without_a_socket_is_unreachable() {
        let dir = tempfile::tempdir().unwrap();

        let error = ask_status(dir.path()).await;

        assert!(matches!(error, KeeperError::Unreachable(_)), "{error}");
    }

    #[tokio::test]
    async fn ask_returns_the_error_of_the_keeper_as_remote() {
        let dir = tempfile::tempdir().unwrap();
        let body = ErrorBody::new(protocol::ErrorCode::Conflict, "busy");
        let reply = Frame::json(Kind::Reply, &Reply::Error(body));
        let keeper = fake_keeper(dir.path(), vec![welcome(), reply]);

        let error = ask_status(dir.path()).await;

        keeper.await.unwrap();
        assert!(matches!(&error, KeeperError::Remote(body) if body.message == "busy"), "{error}");
    }

    #[tokio::test]
    async fn ask_reports_a_reply_of_the_wrong_kind_as_broken() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = fake_keeper(dir.path(), vec![welcome(), Frame::new(Kind::Ended, Vec::new())]);

        let error = ask_status(dir.path()).await;

        keeper.await.unwrap();
        assert!(matches!(error, KeeperError::Broken(_)), "{error}");
    }

    #[test]
    fn split_offset_requires_eight_bytes() {
        let body = [&7_u64.to_le_bytes()[..], b"text"].concat();

        assert_eq!(split_offset(body).unwrap(), (7, b"text".to_vec()));
        assert!(split_offset(vec![0; 7]).is_err());
    }
}
