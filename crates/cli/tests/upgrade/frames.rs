//! Frames as every release has sent them, and conversations that were recorded.
//!
//! This is written out here and not taken from the protocol crate: a change of the format there must
//! fail against what is recorded.
//!
//! ```text
//! # show web --json             the command that led to the conversation
//! > 4 {"do":"list"}             a frame of the client: its kind and its body
//! < 5 {"ok":{"answer":"done"}}  a frame of the server
//! < 33 hex:0000                 a body that is not one line of text
//! ```

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

pub(crate) const HELLO: u8 = 1;
pub(crate) const WELCOME: u8 = 2;
pub(crate) const REFUSED: u8 = 3;
pub(crate) const REQUEST: u8 = 4;
pub(crate) const REPLY: u8 = 5;
pub(crate) const EVENT: u8 = 6;
pub(crate) const ATTACH: u8 = 16;
pub(crate) const INPUT: u8 = 17;
pub(crate) const DETACH: u8 = 19;
pub(crate) const ATTACHED: u8 = 32;
pub(crate) const PAINT: u8 = 35;
pub(crate) const ENDED: u8 = 37;
pub(crate) const DETACHED: u8 = 38;

/// Introduces a body in hexadecimal digits.
const HEX: &str = "hex:";

/// One frame: its kind and its body.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) body: Vec<u8>,
}

/// One frame of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) from_client: bool,
    pub(crate) frame: Frame,
}

/// The frames of one connection, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    /// The command that led to it.
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
}

impl Frame {
    pub(crate) fn json(kind: u8, value: &Value) -> Self {
        Self { kind, body: value.to_string().into_bytes() }
    }

    #[track_caller]
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Length of the body (32 bits, little-endian), kind (8 bits), body.
    pub(crate) fn write(&self, to: &mut UnixStream) -> io::Result<()> {
        let length = u32::try_from(self.body.len()).unwrap().to_le_bytes();
        to.write_all(&[&length[..], &[self.kind], &self.body].concat())
    }

    /// The next frame; none at the end of the stream.
    pub(crate) fn read(from: &mut UnixStream) -> io::Result<Option<Self>> {
        let mut header = [0; 5];
        match from.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let [a, b, c, d, kind] = header;
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap();
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        Ok(Some(Self { kind, body }))
    }

    fn parse(text: &str) -> Self {
        let (kind, body) = text.split_once(' ').unwrap();
        let body = match body.strip_prefix(HEX) {
            Some(digits) => from_hex(digits),
            None => body.as_bytes().to_vec(),
        };
        Self { kind: kind.parse().unwrap(), body }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.body) {
            Ok(text) if !text.contains(char::is_control) && !text.starts_with(HEX) => {
                write!(f, "{} {text}", self.kind)
            }
            _ => write!(f, "{} {HEX}{}", self.kind, to_hex(&self.body)),
        }
    }
}

/// Conversations as text, in the form of the module documentation.
pub(crate) fn print(conversations: &[Conversation]) -> String {
    let line = |line: &Line| {
        let sign = if line.from_client { '>' } else { '<' };
        format!("{sign} {:?}\n", line.frame)
    };
    let one = |conversation: &Conversation| {
        let lines: String = conversation.lines.iter().map(line).collect();
        format!("# {}\n{lines}", conversation.title)
    };
    conversations.iter().map(one).collect()
}

/// The reverse of [`print`].
pub(crate) fn parse(text: &str) -> Vec<Conversation> {
    let mut conversations: Vec<Conversation> = Vec::new();
    for line in text.lines() {
        let (sign, rest) = line.split_once(' ').unwrap();
        if sign == "#" {
            let title = rest.to_owned();
            conversations.push(Conversation { title, lines: Vec::new() });
        } else {
            let line = Line { from_client: sign == ">", frame: Frame::parse(rest) };
            conversations.last_mut().unwrap().lines.push(line);
        }
    }
    conversations
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex(digits: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// Opens a directory and names an entry in it by a path that is short enough for a socket.
fn short(dir: &Path, name: &str) -> (File, PathBuf) {
    let dir = File::open(dir).unwrap();
    let path = format!("/proc/self/fd/{}/{name}", dir.as_raw_fd());
    (dir, path.into())
}

pub(crate) fn connect(dir: &Path, name: &str) -> io::Result<UnixStream> {
    let (_dir, path) = short(dir, name);
    UnixStream::connect(path)
}

/// Listens at `name` in `dir`, in the place of any socket that is there.
#[track_caller]
pub(crate) fn bind(dir: &Path, name: &str) -> UnixListener {
    let (_dir, path) = short(dir, name);
    // There may be none.
    let _removed = fs::remove_file(&path);
    UnixListener::bind(path).unwrap()
}

/// Records what clients and the server of a Unix socket say to each other.
///
/// It takes the place of the socket and passes every frame on.
pub(crate) struct Tap {
    shared: Arc<Shared>,
}

struct Shared {
    dir: PathBuf,
    /// The name that the socket of the server has now.
    server: String,
    title: Mutex<String>,
    recorded: Mutex<Vec<Conversation>>,
}

impl Tap {
    pub(crate) fn on(dir: &Path, name: &str) -> Self {
        let server = format!("{name}.tapped");
        fs::rename(dir.join(name), dir.join(&server)).unwrap();
        let listener = bind(dir, name);
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            server,
            title: Mutex::default(),
            recorded: Mutex::default(),
        });
        let tap = Arc::clone(&shared);
        // It ends with the process of the test.
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                tap.pass_on(client);
            }
        });
        Self { shared }
    }

    /// The title of the conversations that begin from now on.
    pub(crate) fn set_title(&self, title: &str) {
        title.clone_into(&mut self.shared.title.lock().unwrap());
    }

    pub(crate) fn recorded(&self) -> Vec<Conversation> {
        self.shared.recorded.lock().unwrap().clone()
    }
}

impl Shared {
    fn pass_on(self: &Arc<Self>, client: UnixStream) {
        let Ok(server) = connect(&self.dir, &self.server) else { return };
        let number = {
            let mut recorded = self.recorded.lock().unwrap();
            let title = self.title.lock().unwrap().clone();
            recorded.push(Conversation { title, lines: Vec::new() });
            recorded.len() - 1
        };
        let back = (false, server.try_clone().unwrap(), client.try_clone().unwrap());
        for (from_client, mut from, mut to) in [(true, client, server), back] {
            let shared = Arc::clone(self);
            thread::spawn(move || {
                while let Ok(Some(frame)) = Frame::read(&mut from) {
                    let line = Line { from_client, frame: frame.clone() };
                    shared.recorded.lock().unwrap()[number].lines.push(line);
                    if frame.write(&mut to).is_err() {
                        break;
                    }
                }
                // The other side may have hung up first.
                let _closed = to.shutdown(std::net::Shutdown::Write);
            });
        }
    }
}

#[test]
fn printed_conversations_are_parsed_back() {
    let frames = [
        Frame { kind: REQUEST, body: br#"{"do":"list"}"#.to_vec() },
        Frame { kind: 33, body: vec![0, 1, 0xff] },
        Frame { kind: 34, body: b"two\nlines".to_vec() },
        Frame { kind: 19, body: Vec::new() },
    ];
    let line = |frame: &Frame| Line { from_client: frame.kind < 32, frame: frame.clone() };
    let lines = frames.iter().map(line).collect();
    let text = print(&[Conversation { title: "ls --json".to_owned(), lines }]);

    let parsed = parse(&text);

    assert_eq!(parsed[0].title, "ls --json");
    assert_eq!(parsed[0].lines.iter().map(|line| line.frame.clone()).collect::<Vec<_>>(), frames);
    assert_eq!(print(&parsed), text);
}
