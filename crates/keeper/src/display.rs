//! The display of one attached client.
//!
//! ```text
//!          client falls behind, size changes,
//!          or the program switches screens
//!   Raw ------------------------------------> Frames
//!    ^                                          |
//!    +------------------------------------------+
//!          a frame was painted, there was little
//!          output since the last, sizes are equal
//! ```
//!
//! Raw: the program's output, forwarded immediately, without queries that the outer terminal must
//! not answer; only while the program uses no modes that few terminals have. Frames: the current screen, at most every 12 ms, without intermediate states. Both
//! leave the outer terminal in the same state, so switching is always possible.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use host::log::LogWriter;
use model::Size;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use terminal::{Filter, Painter, Passed, Terminal, outer};

use crate::prefix::Prefix;

/// Interval between frames: slightly shorter than the refresh interval of a 60 Hz monitor.
const FRAME_INTERVAL: Duration = Duration::from_millis(12);

/// Period after a key press during which frames are not delayed.
const KEY_RESPONSE: Duration = Duration::from_millis(30);

/// Maximum delay of a frame by a synchronized update.
const MAX_UPDATE_DELAY: Duration = Duration::from_millis(100);

/// Maximum number of unwritten raw bytes; a client that exceeds it is switched to frames.
const MAX_BACKLOG: usize = 32 << 10;

/// A client is switched to raw output if there were fewer bytes than this since the last frame.
const RAW_THRESHOLD: usize = 8 << 10;

/// How long a notice stays, unless a key is pressed.
const NOTICE_DURATION: Duration = Duration::from_secs(10);

/// Aborts an unfinished sequence in the outer terminal.
const CANCEL: u8 = 0x18;

/// A client's terminal, opened by the keeper.
#[derive(Debug)]
pub(crate) struct Tty {
    fd: OwnedFd,
    saved: Termios,
}

impl Tty {
    /// Opens the passed terminal and switches it to raw mode.
    ///
    /// It is reopened because `O_NONBLOCK` belongs to the open file description, which the client
    /// shares with its shell.
    pub(crate) fn open(passed: &OwnedFd) -> Result<Self, Errno> {
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

    /// Reads keys; returns `None` if the terminal is closed.
    pub(crate) fn read(&self, into: &mut [u8]) -> Option<usize> {
        match rustix::io::read(&self.fd, into) {
            Ok(0) | Err(Errno::IO) => None,
            Ok(n) => Some(n),
            Err(_) => Some(0),
        }
    }

    /// Restores the terminal of a client that died.
    fn restore(&self) {
        // Best effort: the terminal may block or be closed.
        let _part = rustix::io::write(&self.fd, &outer::leave());
        let _gone = tcsetattr(&self.fd, OptionalActions::Now, &self.saved);
    }
}

impl AsFd for Tty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Display mode. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DisplayMode {
    Raw,
    Frames,
}

/// The display of one attached client.
#[derive(Debug)]
pub(crate) struct Display {
    /// The client's terminal; `None` if output is sent over its socket.
    pub(crate) tty: Option<Tty>,
    /// The size of the client's terminal.
    pub(crate) size: Size,
    /// Whether input from the client is ignored.
    pub(crate) read_only: bool,
    /// Parser for the prefix key.
    pub(crate) prefix: Prefix,
    /// Whether the client can show the scrollback.
    pub(crate) scrollback: bool,
    /// A line drawn over the last row of the screen, and when it disappears.
    notice: Option<(String, Instant)>,
    painter: Painter,
    filter: Filter,
    mode: DisplayMode,
    /// Bytes not yet written to the client.
    pending: Vec<u8>,
    /// Number of output bytes since the last frame.
    bytes_since_frame: usize,
    /// The screen changed since the last frame.
    stale: bool,
    last_painted: Instant,
    last_key: Option<Instant>,
    /// When a frame was first delayed by the current synchronized update.
    delayed_since: Option<Instant>,
}

impl Display {
    /// Creates a display that was not painted yet.
    pub(crate) fn new(tty: Option<Tty>, size: Size, read_only: bool, now: Instant) -> Self {
        // A client that keeps its terminal prepares it itself.
        let pending = if tty.is_some() { outer::enter() } else { Vec::new() };
        Self {
            tty,
            size,
            read_only,
            prefix: Prefix::default(),
            scrollback: false,
            notice: None,
            painter: Painter::new(),
            filter: Filter::new(),
            mode: DisplayMode::Frames,
            pending,
            bytes_since_frame: 0,
            stale: true,
            last_painted: now.checked_sub(FRAME_INTERVAL).unwrap_or(now),
            last_key: None,
            delayed_since: None,
        }
    }

    /// Shows a line at the bottom of the screen until the next key.
    pub(crate) fn show_notice(&mut self, text: String, now: Instant) {
        self.notice = Some((text, now + NOTICE_DURATION));
        self.begin_frames();
    }

    /// Removes the notice.
    pub(crate) fn clear_notice(&mut self) {
        if self.notice.take().is_some() {
            self.begin_frames();
        }
    }

    /// Records that the client pressed a key, so that the response is shown immediately.
    pub(crate) fn note_key(&mut self, now: Instant) {
        self.last_key = Some(now);
    }

    /// Returns whether a key was pressed recently.
    pub(crate) fn has_recent_key(&self, now: Instant) -> bool {
        self.last_key.is_some_and(|pressed| now < pressed + KEY_RESPONSE)
    }

    /// Handles output of the pane.
    pub(crate) fn output(&mut self, bytes: &[u8]) {
        self.bytes_since_frame += bytes.len();
        if self.mode == DisplayMode::Frames {
            self.stale = true;
            return;
        }
        let too_slow = !self.pending.is_empty() && self.pending.len() + bytes.len() > MAX_BACKLOG;
        if too_slow || self.filter.pass(bytes, &mut self.pending) == Passed::Resync {
            self.begin_frames();
        }
    }

    /// Handles a change of the size of the pane or of the client's terminal.
    pub(crate) fn resized(&mut self) {
        self.begin_frames();
    }

    fn begin_frames(&mut self) {
        if self.mode == DisplayMode::Raw {
            self.pending.clear();
            self.pending.push(CANCEL);
        }
        self.painter.invalidate();
        self.mode = DisplayMode::Frames;
        self.stale = true;
    }

    /// Paints a frame if one is due.
    pub(crate) fn paint(&mut self, terminal: &mut Terminal, log: &LogWriter, now: Instant) {
        if self.notice.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.clear_notice();
        }
        if !self.stale || self.pending.len() > 1 || now < self.due(terminal, now) {
            return;
        }
        let pane = terminal.size();
        let notice = self.notice.as_ref().map(|(text, _)| text.as_str());
        self.pending.extend(self.painter.frame_with_notice(terminal, self.size, notice));
        self.stale = false;
        self.delayed_since = None;
        self.last_painted = now;
        let forwards = self.size == pane && self.notice.is_none() && !terminal.needs_frames();
        if forwards && self.bytes_since_frame < RAW_THRESHOLD {
            self.mode = DisplayMode::Raw;
            self.filter.restart();
            // The frame does not include an unfinished sequence; feed it to the filter.
            let unfinished = terminal.unfinished();
            if let Some(tail) = log.read(log.end() - unfinished as u64, unfinished)
                && self.filter.pass(&tail, &mut self.pending) == Passed::Resync
            {
                self.begin_frames();
            }
        }
        self.bytes_since_frame = 0;
    }

    /// Returns the time of the next frame.
    fn due(&mut self, terminal: &Terminal, now: Instant) -> Instant {
        let due = if self.has_recent_key(now) { now } else { self.last_painted + FRAME_INTERVAL };
        if terminal.in_synchronized_update() {
            let since = *self.delayed_since.get_or_insert(now);
            return due.max(since + MAX_UPDATE_DELAY);
        }
        self.delayed_since = None;
        due
    }

    /// Returns the time at which [`Display::paint`] must be called; `None` if no frame is needed or
    /// output is waiting for the client.
    pub(crate) fn deadline(&mut self, terminal: &Terminal, now: Instant) -> Option<Instant> {
        let frame = (self.stale && self.pending.len() <= 1).then(|| self.due(terminal, now));
        frame.or(self.notice.as_ref().map(|(_, until)| *until))
    }

    /// Returns whether output is waiting for the client to become writable.
    pub(crate) fn wants_write(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether the client does not show the current screen.
    pub(crate) fn is_behind(&self) -> bool {
        self.stale || self.wants_write()
    }

    /// Removes and returns the pending output, for a client without a terminal.
    pub(crate) fn take_pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Writes pending output to the client's terminal until it would block; returns false if the
    /// terminal is closed.
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
        if self.pending.capacity() > MAX_BACKLOG {
            self.pending = Vec::new();
        }
        true
    }

    /// Undoes changes of the client's terminal that only the keeper knows. The client undoes the
    /// others.
    pub(crate) fn undo(&self, terminal: &mut Terminal) {
        if let Some(tty) = &self.tty {
            let mut bytes = vec![CANCEL];
            bytes.extend(self.filter.undo());
            bytes.extend(self.painter.undo(terminal, self.size));
            if bytes.len() > 1 {
                // Best effort: the terminal may block or be closed.
                let _part = rustix::io::write(tty, &bytes);
            }
        }
    }

    /// Restores the terminal of a client that died.
    pub(crate) fn restore(&self, terminal: &mut Terminal) {
        self.undo(terminal);
        if let Some(tty) = &self.tty {
            tty.restore();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pane without a process, and a client that reads on demand.
    struct Fixture {
        terminal: Terminal,
        log: LogWriter,
        display: Display,
        now: Instant,
        _dir: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let now = Instant::now();
            let mut fixture = Self {
                terminal: Terminal::new(Size::DEFAULT, 0),
                log: LogWriter::open(dir.path()).unwrap(),
                display: Display::new(None, Size::DEFAULT, false, now),
                now,
                _dir: dir,
            };
            fixture.paint();
            fixture
        }

        fn output(&mut self, bytes: &[u8]) {
            self.log.append(bytes);
            self.terminal.feed(bytes);
            self.display.output(bytes);
        }

        fn paint(&mut self) {
            self.display.paint(&mut self.terminal, &self.log, self.now);
        }

        fn take_output(&mut self) -> String {
            String::from_utf8_lossy(&self.display.take_pending()).into_owned()
        }
    }

    #[test]
    fn fast_client_gets_raw_output_without_queries() {
        let mut fixture = Fixture::new();
        fixture.take_output();

        fixture.output(b"one \x1b[c\x1b[31mtwo");

        assert_eq!(fixture.display.mode, DisplayMode::Raw);
        assert_eq!(fixture.take_output(), "one \x1b[31mtwo");
    }

    #[test]
    fn slow_client_gets_one_frame_and_then_raw_output_again() {
        let mut fixture = Fixture::new();
        let flood = b"some line of text\r\n".repeat(3000);

        fixture.output(&flood);
        fixture.output(&flood);
        assert_eq!(fixture.display.mode, DisplayMode::Frames);
        assert!(fixture.display.pending.len() <= 1, "the backlog was discarded");
        fixture.output(b"the last line");
        fixture.paint();
        assert!(
            !fixture.display.wants_write() || fixture.display.pending == [CANCEL],
            "not due yet"
        );
        fixture.now += FRAME_INTERVAL;
        fixture.paint();
        let frame = fixture.take_output();
        assert!(frame.starts_with('\u{18}') && frame.contains("the last line"), "{frame:?}");
        assert!(frame.len() < 4000, "{} bytes for a small screen", frame.len());

        fixture.output(b".");
        fixture.now += FRAME_INTERVAL;
        fixture.paint();
        fixture.take_output();
        fixture.output(b"raw again");
        assert_eq!(fixture.take_output(), "raw again");
    }

    #[test]
    fn screen_switch_is_painted_and_not_forwarded() {
        let mut fixture = Fixture::new();
        fixture.take_output();
        fixture.now += FRAME_INTERVAL;

        fixture.output(b"\x1b[?1049h\x1b[Hon the other screen");
        fixture.paint();

        let seen = fixture.take_output();
        assert!(seen.contains("on the other screen") && !seen.contains("1049"), "{seen:?}");
        assert_eq!(fixture.display.mode, DisplayMode::Raw);
    }

    #[test]
    fn synchronized_update_delays_a_frame_up_to_the_limit() {
        let mut fixture = Fixture::new();
        fixture.take_output();
        fixture.display.resized();
        fixture.now += FRAME_INTERVAL;

        fixture.output(b"\x1b[?2026hhalf of it");
        fixture.paint();
        assert!(!fixture.take_output().contains("half of it"));
        fixture.now += MAX_UPDATE_DELAY;
        fixture.paint();

        assert!(fixture.take_output().contains("half of it"));
    }

    #[test]
    fn notice_covers_the_last_row_until_it_expires() {
        let mut fixture = Fixture::new();
        fixture.take_output();
        fixture.display.show_notice("no such key".to_owned(), fixture.now);

        fixture.now += FRAME_INTERVAL;
        fixture.paint();
        let shown = fixture.take_output();
        assert!(shown.contains("\x1b[24;1H") && shown.contains("no such key"), "{shown:?}");
        fixture.output(b"more");
        fixture.now += FRAME_INTERVAL;
        fixture.paint();
        assert!(fixture.take_output().contains("no such key"), "output removed it");

        fixture.now += NOTICE_DURATION;
        let expires = fixture.display.deadline(&fixture.terminal, fixture.now);
        assert!(expires.is_some_and(|at| at <= fixture.now));
        fixture.paint();
        assert!(!fixture.take_output().contains("no such key"));
        assert_eq!(fixture.display.mode, DisplayMode::Raw);
    }
}
