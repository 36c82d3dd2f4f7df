//! The life of an attachment, seen from the client.
//!
//! ```text
//!              key, frame            terminal restored, line printed
//!  Attaching ------------> Detached -----------------------+
//!      |                                                   |
//!      |  process ended        Ended ----------------------+--> the command ends
//!      |  socket closed        KeeperGone -----------------+
//!      |  signal               Leaving --(Detached, closed or timeout)--> Signal
//! ```

use std::time::{Duration, Instant};

use client::{Connection, ConnectionError, PaneControl, PaneEvent, PaneStream};
use model::Ending;
use protocol::ErrorBody;
use protocol::pane::{Attach, KeyOptions, View};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::signals::Signals;
use super::terminal::Terminal;

/// How long to wait for the keeper to confirm a detachment after a signal.
const DETACH_TIMEOUT: Duration = Duration::from_millis(500);

/// How an attachment ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The client was detached; the pane keeps running.
    Detached,
    /// The client was detached to show the scrollback.
    Scrollback,
    /// The pane's process ended.
    Ended(Ending),
    /// The connection to the keeper was lost.
    KeeperGone,
    /// A signal ended the client.
    Signal(i32),
}

/// One attachment.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    pane: PaneStream,
    control: PaneControl,
    terminal: &'a Terminal,
    signals: &'a Signals,
    view: View,
    /// The signal that ends the client, and the deadline for the keeper to confirm.
    leaving: Option<(i32, Instant)>,
    /// Whether the terminal has reached the end of input.
    input_ended: bool,
}

impl<'a> Watch<'a> {
    /// Attaches. With [`View::Terminal`] the keeper takes over the terminal.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`].
    pub(super) fn attach(
        keeper: Connection,
        terminal: &'a Terminal,
        signals: &'a Signals,
        view: View,
        read_only: bool,
        keys: KeyOptions,
    ) -> Result<Self, ConnectionError> {
        let attach = Attach { view, size: terminal.size(), read_only, keys };
        let passed = terminal.to_pass().filter(|_| view == View::Terminal);
        let pane = PaneStream::attach(keeper, &attach, passed)?;
        let control = pane.control();
        Ok(Self { pane, control, terminal, signals, view, leaving: None, input_ended: false })
    }

    /// Waits for the end of the attachment.
    ///
    /// # Errors
    ///
    /// The keeper's error if it rejects the attachment.
    pub(super) fn run(mut self) -> Result<Outcome, ErrorBody> {
        loop {
            let ready = self.wait();
            if ready.timed_out {
                return Ok(self.finish(Outcome::KeeperGone));
            }
            if ready.signals {
                self.on_signals();
            }
            if ready.keeper
                && let Some(outcome) = self.on_keeper()?
            {
                return Ok(self.finish(outcome));
            }
            if ready.input {
                self.on_input();
            }
        }
    }

    /// A signal takes precedence over later events.
    fn finish(&self, outcome: Outcome) -> Outcome {
        self.leaving.map_or(outcome, |(signal, _)| Outcome::Signal(signal))
    }

    fn wait(&self) -> Ready {
        let timeout = self.leaving.and_then(|(_, until)| {
            Timespec::try_from(until.saturating_duration_since(Instant::now())).ok()
        });
        let input = self.terminal.input();
        let mut sources =
            vec![PollFd::new(&self.pane, PollFlags::IN), PollFd::new(self.signals, PollFlags::IN)];
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
            // Interrupted by a signal, whose flag is set by now.
            Err(_) => Ready { signals: true, ..Ready::default() },
        }
    }

    fn on_signals(&mut self) {
        self.signals.drain();
        if self.signals.take_resized()
            && let Some(size) = self.terminal.size()
        {
            ignore_lost(self.control.resize(size));
        }
        if let Some(signal) = self.signals.take_ending() {
            ignore_lost(self.control.detach());
            self.leaving.get_or_insert((signal, Instant::now() + DETACH_TIMEOUT));
        }
    }

    fn on_keeper(&mut self) -> Result<Option<Outcome>, ErrorBody> {
        if self.pane.read_available().is_err() {
            return Ok(Some(Outcome::KeeperGone));
        }
        loop {
            match self.pane.buffered_event() {
                Ok(None) => return Ok(None),
                Ok(Some(event)) => {
                    if let Some(outcome) = self.on_event(event) {
                        return Ok(Some(outcome));
                    }
                }
                Err(ConnectionError::Remote(body)) => return Err(body),
                Err(_) => return Ok(Some(Outcome::KeeperGone)),
            }
        }
    }

    fn on_event(&self, event: PaneEvent) -> Option<Outcome> {
        match event {
            PaneEvent::Ended(ending) => Some(Outcome::Ended(ending)),
            PaneEvent::Detached(_) => Some(Outcome::Detached),
            PaneEvent::Scrollback => Some(Outcome::Scrollback),
            PaneEvent::Paint(bytes) => {
                // A closed terminal also sends a signal or ends the input.
                let _closed = self.terminal.paint(&bytes);
                None
            }
            PaneEvent::Attached(_)
            | PaneEvent::Snapshot { .. }
            | PaneEvent::Output { .. }
            | PaneEvent::Resized(_) => None,
        }
    }

    fn on_input(&mut self) {
        let mut keys = [0; 4096];
        match rustix::io::read(self.terminal.input(), &mut keys) {
            Ok(0) => self.end_input(),
            Ok(read) => ignore_lost(self.control.input(&keys[..read])),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.end_input(),
        }
    }

    fn end_input(&mut self) {
        self.input_ended = true;
        ignore_lost(self.control.detach());
    }
}

/// Ignores a failure to send: the next read reports the lost connection.
fn ignore_lost(sent: Result<(), ConnectionError>) {
    drop(sent);
}

/// The sources that are ready.
#[derive(Debug, Default)]
struct Ready {
    timed_out: bool,
    keeper: bool,
    signals: bool,
    input: bool,
}
