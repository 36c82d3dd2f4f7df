//! A fake daemon or keeper: one handler per accepted connection.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::{self, JoinHandle};

use protocol::control::{self, Reply, Response};
use protocol::greeting::{Hello, SUPPORTED, Welcome};
use protocol::{Frame, Kind, frame};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

/// The server's end of one connection.
pub(crate) struct Peer(UnixStream);

impl Peer {
    /// Accepts the client's hello.
    pub(crate) fn greeted(mut self) -> Self {
        let hello: Hello = self.receive(Kind::Hello);
        let welcome = hello.answer(7, "daemon").unwrap();
        self.send(Kind::Welcome, &welcome);
        self
    }

    /// Replies to the client's hello with this protocol version, supported or not.
    pub(crate) fn welcome(&mut self, protocol: u32) {
        let _hello: Hello = self.receive(Kind::Hello);
        self.send(Kind::Welcome, &Welcome { protocol, version: "9.0.0".to_owned(), pid: 7 });
    }

    /// Receives one frame, which must be of this kind.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self, kind: Kind) -> T {
        let frame = self.frame().expect("a frame");
        assert_eq!(frame.kind, kind);
        frame.parse().unwrap()
    }

    /// Receives one frame, or none if the client has closed the connection.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        frame::read(&mut self.0).unwrap()
    }

    /// Sends a value as JSON.
    pub(crate) fn send(&mut self, kind: Kind, value: &impl Serialize) {
        self.send_frame(&Frame::json(kind, value));
    }

    /// Sends a frame.
    pub(crate) fn send_frame(&mut self, frame: &Frame) {
        frame::write(&mut self.0, frame).unwrap();
    }

    /// Receives a request to the daemon.
    pub(crate) fn request(&mut self) -> control::Request {
        self.receive(Kind::Request)
    }

    /// Replies `Done`.
    pub(crate) fn done(&mut self) {
        self.send(Kind::Reply, &Reply::Ok(Response::Done));
    }
}

/// The handler of one connection.
pub(crate) type Handler = Box<dyn FnOnce(Peer) + Send>;

/// A server that handles one connection after the other. Its socket is removed with the last one.
pub(crate) struct Server {
    dir: TempDir,
    thread: JoinHandle<()>,
}

impl Server {
    /// Starts a server on the socket `name` in a new directory.
    pub(crate) fn start(name: &str, handlers: Vec<Handler>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        let thread = thread::spawn(move || serve(&listener, &socket, handlers));
        Self { dir, thread }
    }

    /// Returns the directory of the socket.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Waits until every handler has run.
    pub(crate) fn join(self) {
        self.thread.join().unwrap();
    }
}

fn serve(listener: &UnixListener, socket: &Path, handlers: Vec<Handler>) {
    let last = handlers.len() - 1;
    for (n, handler) in handlers.into_iter().enumerate() {
        let (stream, _) = listener.accept().unwrap();
        // Before the last handler ends, so that a client that reconnects finds no server.
        if n == last && socket.exists() {
            fs::remove_file(socket).unwrap();
        }
        handler(Peer(stream));
    }
}

/// Returns a protocol version that this release does not support.
pub(crate) fn unsupported_version() -> u32 {
    SUPPORTED.max + 1
}
