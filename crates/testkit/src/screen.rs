//! A terminal window with a program in it.
//!
//! A shell leads the session and waits for the program, as in normal use, so that the test can
//! check how the program leaves the terminal; the kernel resets the terminal of a session leader. A
//! thread reads the terminal's output, feeds the emulator, and writes its answers back.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::{ProcessIdentity, Size};
use regex::Regex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::Signal;
use rustix::termios::Termios;

use crate::invocation::Invocation;
use crate::process;
use crate::pty::Pty;
use crate::screen_emulator::Emulator;
use crate::wait::{DEADLINE, wait_for};

/// Runs its arguments, reports their exit code in band, and then stops itself, so that the terminal
/// stays as it was left. The shell survives ctrl-c and prints nothing about dead children. The
/// report is an application program command, which terminals do not show.
const SHELL: &str = r#"trap : INT QUIT; exec 3>&2 2>/dev/null
"$@" 2>&3 3>&-
printf '\033_ccmux-screen ended %d\033\\' $?; kill -STOP $$"#;

const ENDED: &[u8] = b"\x1b_ccmux-screen ended ";

/// A running terminal window.
pub struct Screen {
    shared: Arc<Shared>,
    pty: Option<Arc<Pty>>,
    shell: Child,
    /// Closing it ends the reader.
    stop: Option<OwnedFd>,
    reader: Option<JoinHandle<()>>,
    timeout: Duration,
}

/// The state of the screen at one moment.
pub struct View<'a>(&'a Seen);

struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

struct Seen {
    emulator: Emulator,
    raw: Vec<u8>,
    exit: Option<i32>,
    closed: bool,
}

impl Invocation {
    /// Runs it in a terminal window of this size.
    #[must_use]
    pub fn screen(&self, size: Size) -> Screen {
        Screen::start(self, size)
    }
}

impl Screen {
    /// Opens a window of `size` and runs the program in it.
    ///
    /// # Panics
    ///
    /// When no terminal is available or the shell cannot be started.
    #[must_use]
    pub fn start(program: &Invocation, size: Size) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SHELL, "sh"]).args(program.argv());
        program.apply_environment(&mut command);
        let (pty, shell) = Pty::spawn(command, size).expect("a shell starts in a terminal");
        let (stopped, stop) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
        let seen =
            Seen { emulator: Emulator::new(size), raw: Vec::new(), exit: None, closed: false };
        let shared = Arc::new(Shared { seen: Mutex::new(seen), changed: Condvar::new() });
        let pty = Arc::new(pty);
        let reader = {
            let (shared, pty) = (Arc::clone(&shared), Arc::clone(&pty));
            thread::spawn(move || read(&shared, &pty, &stopped))
        };
        let (pty, stop, reader) = (Some(pty), Some(stop), Some(reader));
        Self { shared, pty, shell, stop, reader, timeout: DEADLINE }
    }

    /// Sets the timeout of every wait (default: [`DEADLINE`]).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Types `bytes`.
    ///
    /// # Panics
    ///
    /// When the program does not read before the timeout, or the window was closed.
    #[track_caller]
    pub fn send(&self, bytes: impl AsRef<[u8]>) {
        if let Err(error) = self.pty().write_all(bytes.as_ref(), self.timeout) {
            panic!("cannot type into the terminal: {error}\n{self:?}");
        }
    }

    /// Resizes the window.
    ///
    /// # Panics
    ///
    /// When the window was closed.
    pub fn resize(&self, size: Size) {
        // The emulator first: output for the new size must not reach an emulator with the old one.
        self.shared.lock().emulator.resize(size);
        self.pty().resize(size).expect("an open terminal can be resized");
    }

    /// Waits until `text` is on the screen.
    ///
    /// # Panics
    ///
    /// When the timeout expires; the message shows the screen.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_until(&format!("{text:?} is on the screen"), |view| view.text().contains(text));
    }

    /// Waits until the screen's text matches the regular expression.
    ///
    /// # Panics
    ///
    /// When the timeout expires, or the expression is invalid.
    #[track_caller]
    pub fn wait_for_match(&self, expression: &str) {
        let wanted = Regex::new(expression).expect("a regular expression");
        self.wait_until(&format!("the screen matches {expression:?}"), |view| {
            wanted.is_match(&view.text())
        });
    }

    /// Waits until the screen satisfies `condition`.
    ///
    /// # Panics
    ///
    /// When the timeout expires; the message shows the screen.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut condition: impl FnMut(&View<'_>) -> bool) {
        let until = Instant::now() + self.timeout;
        let mut seen = self.shared.lock();
        while !condition(&View(&seen)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || seen.closed {
                let why = if seen.closed { "the terminal was closed" } else { "timeout" };
                drop(seen);
                panic!("timed out waiting until {what}: {why}\n{self:?}");
            }
            seen = self
                .shared
                .changed
                .wait_timeout(seen, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Waits until the program has exited and its output was read, and returns its exit code: 128
    /// plus the signal number if a signal killed it.
    ///
    /// # Panics
    ///
    /// When the timeout expires; the message shows the screen.
    #[track_caller]
    pub fn wait_exit(&self) -> i32 {
        let mut exit = None;
        self.wait_until("the program has ended", |view| {
            exit = view.0.exit;
            exit.is_some()
        });
        exit.expect("the wait ended with an exit code")
    }

    /// Returns whether the last sequence about a DEC mode, such as 1007, has turned it on.
    #[must_use]
    pub fn raw_mode(&self, mode: u16) -> bool {
        View(&self.shared.lock()).raw_mode(mode)
    }

    /// Returns the exit code if the program has exited.
    #[must_use]
    pub fn exit(&self) -> Option<i32> {
        self.shared.lock().exit
    }

    /// Returns the visible rows, each followed by a newline.
    #[must_use]
    pub fn text(&self) -> String {
        View(&self.shared.lock()).text()
    }

    /// Returns the cursor's column and row, starting at 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        View(&self.shared.lock()).cursor()
    }

    /// Returns the window title.
    #[must_use]
    pub fn title(&self) -> String {
        View(&self.shared.lock()).title()
    }

    /// Returns all output so far.
    #[must_use]
    pub fn raw(&self) -> Vec<u8> {
        self.shared.lock().raw.clone()
    }

    /// Returns the terminal settings, also after the program has exited.
    ///
    /// # Panics
    ///
    /// When the window was closed.
    #[must_use]
    pub fn termios(&self) -> Termios {
        self.pty().termios().expect("an open terminal has settings")
    }

    /// Returns the program in the window (not the shell around it).
    ///
    /// # Panics
    ///
    /// When it does not start, or has exited already.
    #[must_use]
    #[track_caller]
    pub fn program(&self) -> ProcessIdentity {
        let shell = self.shell.id();
        wait_for("the program in the terminal runs", self.timeout, || {
            let child = process::all().into_iter().find(|process| process.parent == shell)?;
            process::identity(child.pid)
        })
    }

    /// Closes the window, as a lost connection does.
    pub fn hang_up(&mut self) {
        drop(self.stop.take());
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader of a screen does not panic");
        }
        self.pty = None;
    }

    fn pty(&self) -> &Pty {
        self.pty.as_ref().expect("the window was not closed")
    }
}

impl View<'_> {
    /// Returns the visible rows, each followed by a newline.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.emulator.screen_text()
    }

    /// Returns the cursor's column and row, starting at 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        self.0.emulator.cursor()
    }

    /// Returns the window title.
    #[must_use]
    pub fn title(&self) -> String {
        self.0.emulator.title()
    }

    /// Returns all output so far.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.0.raw
    }

    /// Returns whether the last sequence about a DEC mode, such as 1007, has turned it on.
    ///
    /// # Panics
    ///
    /// Never: the expression is fixed.
    #[must_use]
    pub fn raw_mode(&self, mode: u16) -> bool {
        let sequence = Regex::new(r"\x1b\[\?([0-9;]+)([hl])").expect("a regular expression");
        let raw = String::from_utf8_lossy(&self.0.raw);
        let mode = mode.to_string();
        let about = sequence.captures_iter(&raw).filter(|one| one[1].split(';').any(|n| n == mode));
        about.last().is_some_and(|one| &one[2] == "h")
    }
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.shared.lock();
        let (col, row) = seen.emulator.cursor();
        writeln!(
            f,
            "screen (cursor at column {col}, row {row}; {} bytes; exit {:?}):",
            seen.raw.len(),
            seen.exit
        )?;
        seen.emulator.screen_text().trim_end().lines().try_for_each(|line| writeln!(f, "| {line}"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let shell = self.shell.id();
        for child in process::all().into_iter().filter(|process| process.parent == shell) {
            if let Some(child) = process::identity(child.pid) {
                process::signal(&child, Signal::KILL);
            }
        }
        // It may have been killed by closing the window; it is reaped either way.
        let _dead = self.shell.kill();
        let _reaped = self.shell.wait();
        self.hang_up();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Poisoned by a panicking condition: the screen is consistent and about to be printed.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn take_in(&mut self, bytes: &[u8]) {
        let searched = self.raw.len().saturating_sub(ENDED.len() + 8);
        let before = self.raw.len();
        self.raw.extend_from_slice(bytes);
        let tail = self.raw.get(searched..).unwrap_or_default();
        let Some((at, code)) = find_end(tail) else {
            self.emulator.feed(bytes);
            return;
        };
        self.raw.truncate(searched + at);
        self.emulator.feed(self.raw.get(before..).unwrap_or_default());
        self.exit = Some(code);
    }
}

/// Finds the shell's report and its exit code.
fn find_end(bytes: &[u8]) -> Option<(usize, i32)> {
    let at = memchr::memmem::find(bytes, ENDED)?;
    let code = bytes.get(at + ENDED.len()..)?;
    let code = code.get(..memchr::memmem::find(code, b"\x1b\\")?)?;
    Some((at, std::str::from_utf8(code).ok()?.parse().ok()?))
}

fn read(shared: &Shared, pty: &Pty, stopped: &OwnedFd) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let mut fds = [PollFd::new(pty, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        let polled = retry_on_intr(|| poll(&mut fds, None));
        let [_, stop] = &fds;
        if polled.is_err() || !stop.revents().is_empty() {
            return;
        }
        let answers = match pty.read(&mut buffer) {
            Ok(Some(count)) => {
                let mut seen = shared.lock();
                seen.take_in(buffer.get(..count).unwrap_or_default());
                seen.emulator.take_answers()
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Ok(None) | Err(_) => {
                shared.lock().closed = true;
                shared.changed.notify_all();
                return;
            }
        };
        shared.changed.notify_all();
        // A program need not read the answer to its query.
        let _unread = pty.write_all(&answers, Duration::from_secs(1));
    }
}
