//! The life of an attachment, seen from the client.
//!
//! ```text
//!              key, frame            restored, line printed
//!  Attaching ------------> Detached -----------------------+
//!      |                                                   |
//!      |  the process ended    Ended ----------------------+--> the verb ends
//!      |  socket closed        KeeperGone -----------------+
//!      |  signal               Leaving --(Detached, closed, or patience)--> Signal
//! ```

use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use model::Ending;
use protocol::pane::{Attach, Reply, View};
use protocol::{Decoder, ErrorBody, Frame, Kind, frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::signals::Signals;
use super::terminal::Terminal;

/// How long a keeper may take to let go of a client that was told to end.
const PATIENCE: Duration = Duration::from_millis(500);

/// How an attachment ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The client was let go; the pane runs on.
    Detached,
    /// The pane's process ended.
    Ended(Ending),
    /// The keeper went away without a word.
    KeeperGone,
    /// We were told to end.
    Signal(i32),
}

/// One attachment.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    keeper: &'a UnixStream,
    terminal: &'a Terminal,
    signals: &'a Signals,
    view: View,
    decoder: Decoder,
    /// The signal that wants us to end, and how long the keeper may take to let go.
    leaving: Option<(i32, Instant)>,
    /// The terminal has no more keys for us.
    input_ended: bool,
}

impl<'a> Watch<'a> {
    /// Attaches. The keeper has the terminal from now on, if the view says so.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(super) fn attach(
        keeper: &'a UnixStream,
        terminal: &'a Terminal,
        signals: &'a Signals,
        view: View,
        read_only: bool,
    ) -> io::Result<Self> {
        let attach = Attach { view, size: terminal.size(), read_only };
        let frame = Frame::json(Kind::Attach, &attach);
        match terminal.to_pass().filter(|_| view == View::Terminal) {
            Some(descriptor) => send_with(keeper, &frame, descriptor)?,
            None => frame::write(&mut &*keeper, &frame)?,
        }
        let decoder = Decoder::default();
        Ok(Self { keeper, terminal, signals, view, decoder, leaving: None, input_ended: false })
    }

    /// Watches until it is over.
    ///
    /// # Errors
    ///
    /// What the keeper has against the attachment.
    pub(super) fn run(mut self) -> Result<Outcome, ErrorBody> {
        loop {
            let ready = self.wait();
            if ready.timed_out {
                return Ok(self.over(Outcome::KeeperGone));
            }
            if ready.signals {
                self.on_signals();
            }
            if ready.keeper
                && let Some(outcome) = self.on_keeper()?
            {
                return Ok(self.over(outcome));
            }
            if ready.input {
                self.on_input();
            }
        }
    }

    /// A signal outweighs whatever happened after it.
    fn over(&self, outcome: Outcome) -> Outcome {
        self.leaving.map_or(outcome, |(signal, _)| Outcome::Signal(signal))
    }

    fn wait(&self) -> Ready {
        let timeout = self.leaving.and_then(|(_, until)| {
            Timespec::try_from(until.saturating_duration_since(Instant::now())).ok()
        });
        let input = self.terminal.input();
        let mut sources =
            vec![PollFd::new(self.keeper, PollFlags::IN), PollFd::new(self.signals, PollFlags::IN)];
        if self.view == View::Relay && !self.input_ended {
            sources.push(PollFd::new(&input, PollFlags::IN));
        }
        match poll(&mut sources, timeout.as_ref()) {
            Ok(0) => Ready { timed_out: true, ..Ready::default() },
            Ok(_) => {
                let is_ready = |n: usize| sources.get(n).is_some_and(|s| !s.revents().is_empty());
                Ready {
                    timed_out: false,
                    keeper: is_ready(0),
                    signals: is_ready(1),
                    input: is_ready(2),
                }
            }
            // Interrupted by a signal, which has left its note by now.
            Err(_) => Ready { signals: true, ..Ready::default() },
        }
    }

    fn on_signals(&mut self) {
        self.signals.calm();
        if self.signals.take_resized()
            && let Some(size) = self.terminal.size()
        {
            self.tell(&Frame::json(Kind::Resize, &size));
        }
        if let Some(signal) = self.signals.take_ended() {
            self.tell(&Frame::new(Kind::Detach, Vec::new()));
            self.leaving.get_or_insert((signal, Instant::now() + PATIENCE));
        }
    }

    fn on_keeper(&mut self) -> Result<Option<Outcome>, ErrorBody> {
        let mut piece = [0; 64 << 10];
        match (&mut &*self.keeper).read(&mut piece) {
            Ok(0) => return Ok(Some(Outcome::KeeperGone)),
            Ok(read) => self.decoder.push(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(_) => return Ok(Some(Outcome::KeeperGone)),
        }
        loop {
            // What is not a frame is not a keeper.
            let Ok(frame) = self.decoder.next_frame() else { return Ok(Some(Outcome::KeeperGone)) };
            let Some(frame) = frame else { return Ok(None) };
            if let Some(outcome) = self.on_frame(&frame)? {
                return Ok(Some(outcome));
            }
        }
    }

    fn on_frame(&self, frame: &Frame) -> Result<Option<Outcome>, ErrorBody> {
        match frame.kind {
            Kind::Ended => Ok(Some(frame.parse().map_or(Outcome::KeeperGone, Outcome::Ended))),
            Kind::Detached => Ok(Some(Outcome::Detached)),
            Kind::Reply => match frame.parse() {
                Ok(Reply::Error(body)) => Err(body),
                Ok(Reply::Ok(_)) | Err(_) => Ok(None),
            },
            Kind::Paint => {
                // A terminal that is gone also sends a signal, or ends the input.
                let _gone = self.terminal.paint(&frame.body);
                Ok(None)
            }
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
            | Kind::Snapshot
            | Kind::Output
            | Kind::Resized => Ok(None),
        }
    }

    fn on_input(&mut self) {
        let mut keys = [0; 4096];
        match rustix::io::read(self.terminal.input(), &mut keys) {
            Ok(0) => self.end_input(),
            Ok(read) => self.tell(&Frame::new(Kind::Input, keys[..read].to_vec())),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.end_input(),
        }
    }

    fn end_input(&mut self) {
        self.input_ended = true;
        self.tell(&Frame::new(Kind::Detach, Vec::new()));
    }

    /// Tells the keeper. If it does not listen any more, the end of the stream says so next.
    fn tell(&self, frame: &Frame) {
        let _gone = frame::write(&mut &*self.keeper, frame);
    }
}

/// What is worth a look.
#[derive(Debug, Default)]
struct Ready {
    timed_out: bool,
    keeper: bool,
    signals: bool,
    input: bool,
}

/// Sends a frame together with a descriptor, which the keeper gets with its first byte.
fn send_with(to: &UnixStream, frame: &Frame, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let bytes = frame.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    assert!(
        control.push(SendAncillaryMessage::ScmRights(&descriptors)),
        "the space is for one descriptor"
    );
    let sent = loop {
        let parts = [IoSlice::new(&bytes)];
        match sendmsg(to.as_fd(), &parts, &mut control, SendFlags::NOSIGNAL) {
            Ok(sent) => break sent,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    (&mut &*to).write_all(&bytes[sent..])
}
