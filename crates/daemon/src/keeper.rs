//! What the daemon says to the keeper of a pane.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use model::Size;
use protocol::greeting::{Hello, Refusal};
use protocol::pane::{Attach, Attached, Reply, Request, Response, SOCKET, View};
use protocol::{ErrorBody, Frame, Kind};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::frames::{Frames, NoFrame};

/// Why a keeper gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Silent {
    /// It does not listen.
    #[error("its keeper cannot be reached: {0}")]
    Unreachable(io::Error),
    /// It is of a release that cannot talk to this one.
    #[error("its keeper refused: {0}")]
    Refused(String),
    /// The connection broke, or what came is not an answer.
    #[error("the connection to its keeper broke: {0}")]
    Broken(String),
    /// It took too long.
    #[error("its keeper did not answer within {0:?}")]
    TimedOut(Duration),
    /// It answered, with an error.
    #[error("{0}")]
    Answer(#[from] ErrorBody),
}

impl From<NoFrame> for Silent {
    fn from(error: NoFrame) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<io::Error> for Silent {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// A connection to a keeper.
#[derive(Debug)]
pub(crate) struct Link(Frames);

/// What an attached link brings.
#[derive(Debug)]
pub(crate) enum Sent {
    /// Escape sequences that rebuild the screen as of an offset.
    Snapshot(u64, Vec<u8>),
    /// Output from an offset on.
    Output(u64, Vec<u8>),
    /// The screen has another size.
    Resized(Size),
    /// The word on a question that was asked in between.
    Answer(Reply),
    /// The pane has ended.
    Ended,
}

/// To look on without a say: the exact output after what the looker has.
pub(crate) fn looking_on(from: Option<u64>) -> Attach {
    Attach { view: View::Follow { from }, size: None, read_only: true }
}

/// Asks one question of the keeper in `dir`.
///
/// # Errors
///
/// [`Silent`].
pub(crate) async fn ask(
    dir: &Path,
    request: &Request,
    patience: Duration,
) -> Result<Response, Silent> {
    let asked = async { Link::open(dir).await?.ask(request).await };
    timeout(patience, asked).await.map_err(|_| Silent::TimedOut(patience))?
}

/// Gives the pane in `dir` another size, and returns the one that it has then.
///
/// # Errors
///
/// [`Silent`].
pub(crate) async fn resize(dir: &Path, size: Size, patience: Duration) -> Result<Size, Silent> {
    let view = View::Follow { from: None };
    let attach = Attach { view, size: Some(size), read_only: true };
    let asked = async { Ok(Link::open(dir).await?.follow(&attach).await?.size) };
    timeout(patience, asked).await.map_err(|_| Silent::TimedOut(patience))?
}

impl Link {
    /// Connects to the keeper in `dir` and exchanges greetings.
    pub(crate) async fn open(dir: &Path) -> Result<Self, Silent> {
        // Through the open directory, because its path may be longer than an address.
        let dir = File::open(dir).map_err(Silent::Unreachable)?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd());
        let stream = UnixStream::connect(path).await.map_err(Silent::Unreachable)?;
        let mut frames = Frames::new(stream);
        frames.write(&Frame::json(Kind::Hello, &Hello::ours())).await?;
        let answer = next(&mut frames).await?;
        if answer.kind == Kind::Refused {
            let refusal: Refusal = parse(&answer)?;
            return Err(Silent::Refused(refusal.message));
        }
        expect(&answer, Kind::Welcome)?;
        Ok(Self(frames))
    }

    async fn ask(&mut self, request: &Request) -> Result<Response, Silent> {
        self.0.write(&Frame::json(Kind::Request, request)).await?;
        let answer = next(&mut self.0).await?;
        match parse(expect(&answer, Kind::Reply)?)? {
            Reply::Ok(response) => Ok(response),
            Reply::Error(body) => Err(body.into()),
        }
    }

    /// Asks for the exact output from an offset on, or from now on after a snapshot.
    pub(crate) async fn follow(&mut self, attach: &Attach) -> Result<Attached, Silent> {
        self.tell(&Frame::json(Kind::Attach, attach)).await?;
        let mut answer = next(&mut self.0).await?;
        // A size that changes by it is told first.
        while answer.kind == Kind::Resized {
            answer = next(&mut self.0).await?;
        }
        if answer.kind == Kind::Reply
            && let Reply::Error(body) = parse(&answer)?
        {
            return Err(body.into());
        }
        parse(expect(&answer, Kind::Attached)?)
    }

    /// Says something for which nobody waits here: keys, a size, a question.
    pub(crate) async fn tell(&mut self, frame: &Frame) -> Result<(), Silent> {
        Ok(self.0.write(frame).await?)
    }

    /// What the pane brings next; none at the end of the connection.
    pub(crate) async fn sent(&mut self) -> Result<Option<Sent>, Silent> {
        let Some(frame) = self.0.next().await? else { return Ok(None) };
        let sent = match frame.kind {
            Kind::Snapshot => {
                let (at, bytes) = after_offset(frame.body)?;
                Sent::Snapshot(at, bytes)
            }
            Kind::Output => {
                let (from, bytes) = after_offset(frame.body)?;
                Sent::Output(from, bytes)
            }
            Kind::Resized => Sent::Resized(parse(&frame)?),
            Kind::Reply => Sent::Answer(parse(&frame)?),
            Kind::Ended => Sent::Ended,
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
                let what = format!("a {:?} frame among the output", frame.kind);
                return Err(Silent::Broken(what));
            }
        };
        Ok(Some(sent))
    }
}

/// The offset that a body begins with, and what follows it.
fn after_offset(mut body: Vec<u8>) -> Result<(u64, Vec<u8>), Silent> {
    let Some(offset) = body.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
        return Err(Silent::Broken("output without an offset".to_owned()));
    };
    body.drain(..size_of::<u64>());
    Ok((offset, body))
}

async fn next(frames: &mut Frames) -> Result<Frame, Silent> {
    let gone = || Silent::Broken("it ended in the middle of an answer".to_owned());
    frames.next().await?.ok_or_else(gone)
}

fn expect(frame: &Frame, kind: Kind) -> Result<&Frame, Silent> {
    if frame.kind == kind {
        return Ok(frame);
    }
    Err(Silent::Broken(format!("a {:?} frame where {kind:?} belongs", frame.kind)))
}

fn parse<T: serde::de::DeserializeOwned>(frame: &Frame) -> Result<T, Silent> {
    frame.parse().map_err(|error| Silent::Broken(error.to_string()))
}
