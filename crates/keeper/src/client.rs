//! One connection to the keeper's socket.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use host::log::LogWriter;
use protocol::frame::{self, Decoder, Frame, Kind};
use protocol::greeting::{Hello, Refusal, SUPPORTED};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use terminal::Terminal;

use crate::display::Display;

/// Maximum number of unread bytes; a client that exceeds it is disconnected.
const MAX_UNREAD: usize = 16 << 20;

/// Maximum number of log bytes in one frame.
const CHUNK: usize = 64 << 10;

/// A connection to the keeper.
#[derive(Debug)]
pub(crate) struct Client {
    /// Unique for the lifetime of the keeper, unlike the index of the client.
    pub(crate) id: u64,
    stream: UnixStream,
    decoder: Decoder,
    descriptors: VecDeque<OwnedFd>,
    out: Vec<u8>,
    greeted: bool,
    /// Current use of the connection.
    pub(crate) role: Role,
    /// Close the connection once all pending output is written.
    pub(crate) closing: bool,
    /// The connection is closed and can be dropped.
    pub(crate) closed: bool,
}

/// Use of a connection.
#[derive(Debug)]
pub(crate) enum Role {
    /// Requests only; not attached.
    Detached,
    /// Attached to the painted screen.
    Viewing(Box<Display>),
    /// Attached to the raw output.
    Following {
        /// The log offset sent so far; `None` if a snapshot must be sent first.
        at: Option<u64>,
        /// The size of the client's terminal, if it has one.
        size: Option<model::Size>,
        /// Whether input from the client is ignored.
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
            role: Role::Detached,
            closing: false,
            closed: false,
        })
    }

    /// Reads from the socket. [`Client::next_frame`] returns the frames.
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
        // No message uses more than one descriptor.
        self.descriptors.truncate(1);
        match received {
            Ok(message) if message.bytes > 0 => {
                if message.flags.contains(ReturnFlags::CTRUNC) {
                    self.descriptors.clear();
                }
                self.decoder.push(&bytes[..message.bytes]);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => self.closed = true,
        }
    }

    /// Returns the next frame after the greeting. A malformed frame closes the connection with an
    /// error message.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        while !self.closing {
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
            Err("the first message must be a hello".to_owned())
        };
        match hello.map(|hello| hello.answer(std::process::id(), "keeper")) {
            Ok(Ok(welcome)) => {
                self.greeted = true;
                self.send(&Frame::json(Kind::Welcome, &welcome));
            }
            Ok(Err(refusal)) => {
                self.send(&Frame::json(Kind::Refused, &refusal));
                self.closing = true;
            }
            Err(message) => self.refuse(message),
        }
    }

    /// Closes the connection with an error message.
    pub(crate) fn refuse(&mut self, message: String) {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let refusal = Refusal { protocol: SUPPORTED, version, message };
        self.send(&Frame::json(Kind::Refused, &refusal));
        self.closing = true;
    }

    /// Takes the descriptor that was passed with the latest message.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    /// Sends a frame, or queues it until the socket is writable.
    pub(crate) fn send(&mut self, frame: &Frame) {
        frame::append(&mut self.out, frame.kind, &[&frame.body]);
        self.flush();
    }

    /// Writes pending output to the client until it would block; to a follower, at most about
    /// `share` bytes.
    ///
    /// Afterwards either all output is written, or the rest is in `out` or in the display, and
    /// [`Client::wants_write`] or [`Display::wants_write`] is true.
    pub(crate) fn pump(&mut self, terminal: &mut Terminal, log: &LogWriter, share: usize) {
        let share = if self.is_following() { share } else { usize::MAX };
        let mut sent = 0;
        self.flush();
        while self.out.is_empty() && sent < share && !self.closed && self.refill(terminal, log) {
            sent += self.out.len();
            self.flush();
        }
        self.closed |= self.closing && self.out.is_empty();
    }

    /// Puts the next chunk of output into `out`; returns false if there is none.
    fn refill(&mut self, terminal: &mut Terminal, log: &LogWriter) -> bool {
        match &mut self.role {
            Role::Detached => false,
            Role::Viewing(display) if display.tty.is_some() => {
                if !display.flush() {
                    self.closing = true;
                    self.role = Role::Detached;
                }
                false
            }
            Role::Viewing(display) => {
                let wants = display.wants_write();
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
                    at.and_then(|from| Some((from, log.read(from, CHUNK)?)))
                {
                    frame::append(&mut self.out, Kind::Output, &[&from.to_le_bytes(), &bytes]);
                    *at = Some(from + bytes.len() as u64);
                    return true;
                }
                // The client has no output yet, or its offset is no longer in the log.
                let offset = log.end() - terminal.unfinished() as u64;
                if *at == Some(offset) {
                    return false;
                }
                let snapshot = terminal.snapshot();
                let parts: [&[u8]; 2] = [&offset.to_le_bytes(), &snapshot];
                frame::append(&mut self.out, Kind::Snapshot, &parts);
                *at = Some(offset);
                true
            }
        }
    }

    fn flush(&mut self) {
        while !self.out.is_empty() && !self.closed {
            match self.stream.write(&self.out) {
                Ok(0) => self.closed = true,
                Ok(n) => {
                    self.out.drain(..n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.closed |= self.out.len() > MAX_UNREAD;
                    return;
                }
                Err(_) => self.closed = true,
            }
        }
        if self.out.capacity() > CHUNK {
            self.out = Vec::new();
        }
    }

    /// Returns whether output is waiting for the socket to become writable.
    pub(crate) fn wants_write(&self) -> bool {
        !self.out.is_empty()
    }

    /// Returns whether the client follows the raw output.
    pub(crate) fn is_following(&self) -> bool {
        matches!(self.role, Role::Following { .. })
    }

    /// Returns whether the client is a follower that is delayed only by pacing.
    pub(crate) fn is_throttled(&self, end: u64) -> bool {
        self.is_following() && !self.wants_write() && self.is_behind(end)
    }

    /// Returns whether the client has not received all output.
    pub(crate) fn is_behind(&self, end: u64) -> bool {
        self.wants_write()
            || match &self.role {
                Role::Detached => false,
                Role::Viewing(display) => display.is_behind(),
                Role::Following { at, .. } => at.is_none_or(|at| at < end),
            }
    }

    /// Returns the size of the client's terminal, if it affects the size of the pane.
    pub(crate) fn size(&self) -> Option<model::Size> {
        match &self.role {
            Role::Detached => None,
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Returns a client and the other end of its connection.
    fn connect() -> (Client, UnixStream) {
        let (local, peer) = UnixStream::pair().unwrap();
        (Client::new(1, local).unwrap(), peer)
    }

    fn send(stream: &mut UnixStream, frame: &Frame) {
        let mut bytes = Vec::new();
        frame::append(&mut bytes, frame.kind, &[&frame.body]);
        stream.write_all(&bytes).unwrap();
    }

    fn receive(stream: &mut UnixStream) -> Frame {
        let mut decoder = Decoder::default();
        loop {
            if let Some(frame) = decoder.next_frame().unwrap() {
                return frame;
            }
            let mut bytes = [0; 1024];
            let count = stream.read(&mut bytes).unwrap();
            assert_ne!(count, 0, "closed before a whole frame arrived");
            decoder.push(&bytes[..count]);
        }
    }

    #[test]
    fn connection_without_hello_is_refused_and_closed() {
        let (mut client, mut peer) = connect();
        send(&mut peer, &Frame::json(Kind::Request, &"status"));

        client.receive();

        assert!(client.next_frame().is_none());
        let refusal: Refusal = receive(&mut peer).parse().unwrap();
        assert_eq!(refusal.message, "the first message must be a hello");
        assert!(client.closing);
    }

    #[test]
    fn disconnected_client_is_closed() {
        let (mut client, peer) = connect();
        drop(peer);

        client.receive();

        assert!(client.closed);
    }
}
