//! One connection to the keeper's socket.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use host::log::LogWriter;
use protocol::frame::{self, Decoder, Frame, Kind};
use protocol::greeting::{Hello, Refusal, SPOKEN};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use terminal::Terminal;

use crate::display::Display;

/// A client that lets this much wait is not reading and is let go.
const UNREAD_AT_MOST: usize = 16 << 20;

/// How much of the log goes into one frame.
const PIECE: usize = 64 << 10;

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    /// Tells it apart from others that had its place.
    pub(crate) id: u64,
    stream: UnixStream,
    decoder: Decoder,
    descriptors: VecDeque<OwnedFd>,
    out: Vec<u8>,
    greeted: bool,
    /// What it is here for.
    pub(crate) role: Role,
    /// Let go of it as soon as it has taken what waits for it.
    pub(crate) leaving: bool,
    /// The connection is of no more use.
    pub(crate) gone: bool,
}

/// What a client is here for.
#[derive(Debug)]
pub(crate) enum Role {
    /// Asks questions.
    Asking,
    /// Looks at the pane.
    Viewing(Box<Display>),
    /// Gets the exact bytes.
    Following {
        /// The offset it has; none needs a snapshot first.
        at: Option<u64>,
        /// The size of its terminal, if it has one.
        size: Option<model::Size>,
        /// Keys are not passed on.
        read_only: bool,
    },
}

impl Client {
    pub(crate) fn new(id: u64, stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            id,
            stream,
            decoder: Decoder::default(),
            descriptors: VecDeque::new(),
            out: Vec::new(),
            greeted: false,
            role: Role::Asking,
            leaving: false,
            gone: false,
        })
    }

    /// Reads what the client sent. Frames come out of [`Client::next_frame`].
    pub(crate) fn receive(&mut self) {
        let mut bytes = [0; 16 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.stream,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        );
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                self.descriptors.extend(passed);
            }
        }
        // One descriptor is all that any message has use for.
        self.descriptors.truncate(1);
        match received {
            Ok(message) if message.bytes > 0 => {
                if message.flags.contains(ReturnFlags::CTRUNC) {
                    self.descriptors.clear();
                }
                self.decoder.push(&bytes[..message.bytes]);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => self.gone = true,
        }
    }

    /// The next message after the greeting. What is not a message ends the connection with a word
    /// about why.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        while !self.leaving {
            match self.decoder.next_frame() {
                Ok(Some(frame)) if self.greeted => return Some(frame),
                Ok(Some(frame)) => self.greet(&frame),
                Ok(None) => return None,
                Err(error) => self.refuse(error.to_string()),
            }
        }
        None
    }

    fn greet(&mut self, frame: &Frame) {
        let hello = if frame.kind == Kind::Hello {
            frame.parse::<Hello>().map_err(|error| error.to_string())
        } else {
            Err("the first message must be a greeting".to_owned())
        };
        match hello.map(|hello| hello.answer(std::process::id(), "keeper")) {
            Ok(Ok(welcome)) => {
                self.greeted = true;
                self.send(&Frame::json(Kind::Welcome, &welcome));
            }
            Ok(Err(refusal)) => {
                self.send(&Frame::json(Kind::Refused, &refusal));
                self.leaving = true;
            }
            Err(message) => self.refuse(message),
        }
    }

    /// Ends the connection with a word about why.
    pub(crate) fn refuse(&mut self, message: String) {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let refusal = Refusal { protocol: SPOKEN, version, message };
        self.send(&Frame::json(Kind::Refused, &refusal));
        self.leaving = true;
    }

    /// The descriptor that came with the latest message.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    /// Sends a message, now or when the client takes it.
    pub(crate) fn send(&mut self, frame: &Frame) {
        frame::append(&mut self.out, frame.kind, &[&frame.body]);
        self.flush();
    }

    /// Moves on everything that waits for this client, as far as it takes it; to one who follows the
    /// output, about `share` bytes of it.
    ///
    /// Afterwards either there is nothing left for it, or something waits in `out` or in its
    /// display, for which [`Client::wants_socket`] or the display asks the next wait.
    pub(crate) fn pump(&mut self, terminal: &mut Terminal, log: &LogWriter, share: usize) {
        let share = if self.is_following() { share } else { usize::MAX };
        let mut given = 0;
        self.flush();
        while self.out.is_empty() && given < share && !self.gone && self.refill(terminal, log) {
            given += self.out.len();
            self.flush();
        }
        self.gone |= self.leaving && self.out.is_empty();
    }

    /// Puts the next piece of what the client has not got into `out`; false if there is none.
    fn refill(&mut self, terminal: &mut Terminal, log: &LogWriter) -> bool {
        match &mut self.role {
            Role::Asking => false,
            Role::Viewing(display) if display.tty.is_some() => {
                if !display.flush() {
                    self.leaving = true;
                    self.role = Role::Asking;
                }
                false
            }
            Role::Viewing(display) => {
                let wants = display.wants_client();
                if wants {
                    frame::append(&mut self.out, Kind::Paint, &[&display.take_pending()]);
                }
                wants
            }
            Role::Following { at, .. } => {
                if *at == Some(log.end()) {
                    return false;
                }
                if let Some((from, bytes)) =
                    at.and_then(|from| Some((from, log.read(from, PIECE)?)))
                {
                    frame::append(&mut self.out, Kind::Output, &[&from.to_le_bytes(), &bytes]);
                    *at = Some(from + bytes.len() as u64);
                    return true;
                }
                // It has nothing yet, or what it wants is not kept.
                let stands_for = log.end() - terminal.unfinished() as u64;
                if *at == Some(stands_for) {
                    return false;
                }
                let snapshot = terminal.snapshot();
                let parts: [&[u8]; 2] = [&stands_for.to_le_bytes(), &snapshot];
                frame::append(&mut self.out, Kind::Snapshot, &parts);
                *at = Some(stands_for);
                true
            }
        }
    }

    fn flush(&mut self) {
        while !self.out.is_empty() && !self.gone {
            match self.stream.write(&self.out) {
                Ok(0) => self.gone = true,
                Ok(n) => {
                    self.out.drain(..n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.gone |= self.out.len() > UNREAD_AT_MOST;
                    return;
                }
                Err(_) => self.gone = true,
            }
        }
        if self.out.capacity() > PIECE {
            self.out = Vec::new();
        }
    }

    /// Whether the client has to take bytes before anything else can be sent.
    pub(crate) fn wants_socket(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether it gets the output as it is.
    pub(crate) fn is_following(&self) -> bool {
        matches!(self.role, Role::Following { .. })
    }

    /// Whether it follows the output, could take more of it, and has to wait for its share.
    pub(crate) fn is_held_up(&self, end: u64) -> bool {
        self.is_following() && !self.wants_socket() && self.is_behind(end)
    }

    /// Whether there is something it has not got yet.
    pub(crate) fn is_behind(&self, end: u64) -> bool {
        self.wants_socket()
            || match &self.role {
                Role::Asking => false,
                Role::Viewing(display) => display.is_behind(),
                Role::Following { at, .. } => at.is_none_or(|at| at < end),
            }
    }

    /// The size of its terminal, if it has a say in the pane's.
    pub(crate) fn size(&self) -> Option<model::Size> {
        match &self.role {
            Role::Asking => None,
            Role::Viewing(display) => Some(display.size),
            Role::Following { size, .. } => *size,
        }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
