//! What one attached client sees.
//!
//! ```text
//!          does not keep up, another size,
//!          or the program switched screens
//!   Raw ------------------------------------> Frames
//!    ^                                          |
//!    +------------------------------------------+
//!          a frame was painted, little had come
//!          since the one before, sizes are equal
//! ```
//!
//! Raw: the program's bytes, as they come and at once, less the queries that the outer terminal
//! must not answer. Frames: the latest picture, at most every 12 ms, with everything between two
//! pictures left out. Both leave the outer terminal in the same state, so changing over is always
//! possible.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use host::log::LogWriter;
use model::Size;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use terminal::{Filter, Painter, Passed, Terminal, outer};

use crate::prefix::Prefix;

/// Between two frames while a client does not keep up: a little more often than a screen shows a
/// picture, so that none is missed.
const FRAME: Duration = Duration::from_millis(12);

/// For this long after a key, frames come as fast as the client takes them.
const ATTENTIVE: Duration = Duration::from_millis(30);

/// How long a frame waits for the end of a synchronised update.
const UPDATE_AT_MOST: Duration = Duration::from_millis(100);

/// How many raw bytes may wait for a client before it gets a picture instead.
const BACKLOG: usize = 32 << 10;

/// With fewer bytes than this between two frames, the raw bytes are the better way.
const QUIET: usize = 8 << 10;

/// Ends whatever sequence the outer terminal may be in the middle of.
const CANCEL: u8 = 0x18;

/// A client's terminal, passed to us.
#[derive(Debug)]
pub(crate) struct Tty {
    fd: OwnedFd,
    saved: Termios,
}

impl Tty {
    /// Takes over a terminal.
    ///
    /// It is opened anew, because the flag that makes writing to it never wait belongs to the open
    /// file, which the client's shell shares.
    pub(crate) fn take(passed: &OwnedFd) -> Result<Self, Errno> {
        use std::os::fd::AsRawFd as _;
        let saved = tcgetattr(passed)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let path = format!("/proc/self/fd/{}", passed.as_raw_fd());
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(&fd, OptionalActions::Now, &raw)?;
        Ok(Self { fd, saved })
    }

    /// Keys, or none at the end of the terminal.
    pub(crate) fn read(&self, into: &mut [u8]) -> Option<usize> {
        match rustix::io::read(&self.fd, into) {
            Ok(0) | Err(Errno::IO) => None,
            Ok(n) => Some(n),
            Err(_) => Some(0),
        }
    }

    /// Puts everything back, for a client that died and cannot.
    fn restore(&self) {
        // As much as the terminal takes; there is nobody left to wait for.
        let _part = rustix::io::write(&self.fd, &outer::leave());
        let _gone = tcsetattr(&self.fd, OptionalActions::Now, &self.saved);
    }
}

impl AsFd for Tty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Showing {
    Raw,
    Frames,
}

/// One client's view of the pane.
#[derive(Debug)]
pub(crate) struct Display {
    /// The client's terminal; none if its bytes go through its socket.
    pub(crate) tty: Option<Tty>,
    /// The size of the client's terminal.
    pub(crate) size: Size,
    /// Keys are not passed on.
    pub(crate) read_only: bool,
    /// Reads its keys.
    pub(crate) prefix: Prefix,
    painter: Painter,
    filter: Filter,
    showing: Showing,
    /// Bytes that the client has not taken yet.
    pending: Vec<u8>,
    /// Bytes of output since the last frame.
    unseen: usize,
    /// Something is to be painted.
    stale: bool,
    painted: Instant,
    typed: Option<Instant>,
    held: Option<Instant>,
}

impl Display {
    /// A display that has not been painted yet.
    pub(crate) fn new(tty: Option<Tty>, size: Size, read_only: bool, now: Instant) -> Self {
        // A client that keeps its terminal has prepared it.
        let pending = if tty.is_some() { outer::enter() } else { Vec::new() };
        Self {
            tty,
            size,
            read_only,
            prefix: Prefix::default(),
            painter: Painter::new(),
            filter: Filter::new(),
            showing: Showing::Frames,
            pending,
            unseen: 0,
            stale: true,
            painted: now.checked_sub(FRAME).unwrap_or(now),
            typed: None,
            held: None,
        }
    }

    /// The client pressed a key: it wants to see what comes of it at once.
    pub(crate) fn note_key(&mut self, now: Instant) {
        self.typed = Some(now);
    }

    /// Whether a key was pressed a moment ago.
    pub(crate) fn is_attentive(&self, now: Instant) -> bool {
        self.typed.is_some_and(|typed| now < typed + ATTENTIVE)
    }

    /// The pane wrote something.
    pub(crate) fn output(&mut self, bytes: &[u8]) {
        self.unseen += bytes.len();
        if self.showing == Showing::Frames {
            self.stale = true;
            return;
        }
        let too_slow = !self.pending.is_empty() && self.pending.len() + bytes.len() > BACKLOG;
        if too_slow || self.filter.pass(bytes, &mut self.pending) == Passed::Resync {
            self.begin_frames();
        }
    }

    /// The pane or the client's terminal has another size.
    pub(crate) fn resized(&mut self) {
        self.begin_frames();
    }

    fn begin_frames(&mut self) {
        if self.showing == Showing::Raw {
            self.pending.clear();
            self.pending.push(CANCEL);
        }
        self.painter.forget();
        self.showing = Showing::Frames;
        self.stale = true;
    }

    /// Paints if it is time to.
    pub(crate) fn paint(&mut self, terminal: &mut Terminal, log: &LogWriter, now: Instant) {
        if !self.stale || self.pending.len() > 1 || now < self.due(terminal, now) {
            return;
        }
        let pane = terminal.size();
        self.pending.extend(self.painter.frame(terminal, self.size));
        self.stale = false;
        self.held = None;
        self.painted = now;
        if self.size == pane && self.unseen < QUIET {
            self.showing = Showing::Raw;
            self.filter = Filter::new();
            // The picture ends before a sequence that has only begun; the filter waits for its end.
            let unfinished = terminal.unfinished();
            if let Some(tail) = log.read(log.end() - unfinished as u64, unfinished)
                && self.filter.pass(&tail, &mut self.pending) == Passed::Resync
            {
                self.begin_frames();
            }
        }
        self.unseen = 0;
    }

    /// When the next frame may be painted.
    fn due(&mut self, terminal: &Terminal, now: Instant) -> Instant {
        let due = if self.is_attentive(now) { now } else { self.painted + FRAME };
        if terminal.in_synchronized_update() {
            let held = *self.held.get_or_insert(now);
            return due.max(held + UPDATE_AT_MOST);
        }
        self.held = None;
        due
    }

    /// When [`Display::paint`] has something to do, unless the client has to take bytes first.
    pub(crate) fn deadline(&mut self, terminal: &Terminal, now: Instant) -> Option<Instant> {
        (self.stale && self.pending.len() <= 1).then(|| self.due(terminal, now))
    }

    /// Whether the client has to take bytes before anything else can be shown.
    pub(crate) fn wants_client(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether there is something the client has not seen.
    pub(crate) fn is_behind(&self) -> bool {
        self.stale || self.wants_client()
    }

    /// Everything that is to go to the client, for one without a terminal of its own.
    pub(crate) fn take_pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Writes to the client's terminal what it takes now. False if the terminal is gone.
    pub(crate) fn flush(&mut self) -> bool {
        let Some(tty) = &self.tty else { return true };
        while !self.pending.is_empty() {
            match rustix::io::write(tty, &self.pending) {
                Ok(0) | Err(Errno::AGAIN) => return true,
                Ok(n) => {
                    self.pending.drain(..n);
                }
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        if self.pending.capacity() > BACKLOG {
            self.pending = Vec::new();
        }
        true
    }

    /// Puts the client's terminal back, for a client that died and cannot.
    pub(crate) fn restore(&self) {
        if let Some(tty) = &self.tty {
            tty.restore();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pane without a process, and one client that takes what it is given when it likes.
    struct Scene {
        terminal: Terminal,
        log: LogWriter,
        display: Display,
        now: Instant,
        _dir: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let now = Instant::now();
            let mut scene = Self {
                terminal: Terminal::new(Size::DEFAULT, 0),
                log: LogWriter::open(dir.path()).unwrap(),
                display: Display::new(None, Size::DEFAULT, false, now),
                now,
                _dir: dir,
            };
            scene.paint();
            scene
        }

        fn output(&mut self, bytes: &[u8]) {
            self.log.append(bytes);
            self.terminal.feed(bytes);
            self.display.output(bytes);
        }

        fn paint(&mut self) {
            self.display.paint(&mut self.terminal, &self.log, self.now);
        }

        fn taken(&mut self) -> String {
            String::from_utf8_lossy(&self.display.take_pending()).into_owned()
        }
    }

    #[test]
    fn a_client_that_keeps_up_gets_the_bytes_themselves_without_the_queries() {
        let mut scene = Scene::new();
        scene.taken();

        scene.output(b"one \x1b[c\x1b[31mtwo");

        assert_eq!(scene.display.showing, Showing::Raw);
        assert_eq!(scene.taken(), "one \x1b[31mtwo");
    }

    #[test]
    fn a_client_that_does_not_keep_up_gets_the_latest_picture_and_then_the_bytes_again() {
        let mut scene = Scene::new();
        let flood = b"some line of text\r\n".repeat(3000);

        scene.output(&flood);
        scene.output(&flood);
        assert_eq!(scene.display.showing, Showing::Frames);
        assert!(scene.display.pending.len() <= 1, "what waited was thrown away");
        scene.output(b"the last line");
        scene.paint();
        assert!(!scene.display.wants_client() || scene.display.pending == [CANCEL], "not yet due");
        scene.now += FRAME;
        scene.paint();
        let picture = scene.taken();
        assert!(picture.starts_with('\u{18}') && picture.contains("the last line"), "{picture:?}");
        assert!(picture.len() < 4000, "{} bytes for a small screen", picture.len());

        scene.output(b".");
        scene.now += FRAME;
        scene.paint();
        scene.taken();
        scene.output(b"raw again");
        assert_eq!(scene.taken(), "raw again");
    }

    #[test]
    fn a_switch_of_screens_is_painted_and_never_passed_on() {
        let mut scene = Scene::new();
        scene.taken();
        scene.now += FRAME;

        scene.output(b"\x1b[?1049h\x1b[Hon the other screen");
        scene.paint();

        let seen = scene.taken();
        assert!(seen.contains("on the other screen") && !seen.contains("1049"), "{seen:?}");
        assert_eq!(scene.display.showing, Showing::Raw);
    }

    #[test]
    fn a_picture_waits_for_the_end_of_a_synchronised_update_but_not_for_ever() {
        let mut scene = Scene::new();
        scene.taken();
        scene.display.resized();
        scene.now += FRAME;

        scene.output(b"\x1b[?2026hhalf of it");
        scene.paint();
        assert!(!scene.taken().contains("half of it"));
        scene.now += UPDATE_AT_MOST;
        scene.paint();

        assert!(scene.taken().contains("half of it"));
    }
}
