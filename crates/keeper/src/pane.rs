//! The pane: one event loop that owns all of its state.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use host::log::LogWriter;
use host::{clock, hooks, socket};
use model::{Size, Timestamp};
use protocol::frame::{Frame, Kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use terminal::Terminal;

use crate::client::{Client, Role};
use crate::follower_pace::FollowerPace;
use crate::input::{self, Input, Item};
use crate::limits::LimitMonitor;
use crate::process_tree::ProcessTree;
use crate::pty::{Pty, PtyRead};

mod limit_policy;
mod requests;
mod shutdown;

/// Maximum number of bytes read from the pane before other events are handled.
const BATCH: usize = 16 << 10;

/// The same shortly after a key press, so that the response is shown sooner.
const BATCH_AFTER_KEY: usize = 6 << 10;

/// Number of bytes in one read from which more output is expected to follow.
const FLOOD: usize = 2 << 10;

/// Time in which the kernel delivers the next part of a flood. Shorter than a sleep and wakeup,
/// which would also slow down the writer.
const NEXT_READ_DELAY: Duration = Duration::from_micros(12);

/// Time to poll for the echo of a key before sleeping. Most programs respond faster than a sleep and
/// wakeup.
const ECHO_TIMEOUT: Duration = Duration::from_micros(80);

/// Time for which the processor is considered contended after a late wakeup.
const CONTENDED: Duration = Duration::from_secs(10);

/// Time without output after which buffered output is applied to the screen.
const IDLE_DELAY: Duration = Duration::from_millis(10);

/// Time for the remaining processes to exit after the head process has.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Maximum number of clients.
const MAX_CLIENTS: usize = 128;

/// Pipes that become readable when a signal arrives.
#[derive(Debug)]
pub(crate) struct Signals {
    /// SIGCHLD.
    pub(crate) child: UnixStream,
    /// SIGTERM.
    pub(crate) terminate: UnixStream,
}

/// The parts of which a pane is made.
#[derive(Debug)]
pub(crate) struct PaneParts {
    pub(crate) pty: Pty,
    pub(crate) log: LogWriter,
    pub(crate) size: Size,
    pub(crate) processes: ProcessTree,
    pub(crate) listener: UnixListener,
    pub(crate) signals: Signals,
    pub(crate) limits: LimitMonitor,
}

/// A running pane.
#[derive(Debug)]
pub(crate) struct Pane {
    pty: Pty,
    terminal: Terminal,
    log: LogWriter,
    input: Input,
    processes: ProcessTree,
    listener: UnixListener,
    signals: Signals,
    clients: Vec<Client>,
    next_client: u64,
    buffer: Vec<u8>,
    /// When buffered output is applied to the screen.
    idle_at: Option<Instant>,
    pace: FollowerPace,
    contended_until: Option<Instant>,
    last_output: Option<Timestamp>,
    /// Whether the pane was asked to stop.
    stopped: bool,
    /// Whether another program terminated the keeper before the pane was asked to stop.
    terminated: bool,
    /// Why the keeper itself stopped the pane.
    stop_reason: Option<String>,
    limits: LimitMonitor,
}

/// Source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Pane,
    Listener,
    ChildExited,
    Terminate,
    Measured,
    Socket(usize),
    Tty(usize),
}

impl Pane {
    /// Creates a pane whose program was just started.
    pub(crate) fn new(parts: PaneParts) -> Self {
        let PaneParts { pty, log, size, processes, listener, signals, limits } = parts;
        Self {
            pty,
            terminal: Terminal::new(size, 0),
            log,
            input: Input::default(),
            processes,
            listener,
            signals,
            clients: Vec::new(),
            next_client: 0,
            buffer: vec![0; BATCH],
            idle_at: None,
            pace: FollowerPace::default(),
            contended_until: None,
            last_output: None,
            stopped: false,
            terminated: false,
            stop_reason: None,
            limits,
        }
    }

    /// Serves the pane until none of its processes is left, and records how it ended.
    pub(crate) fn run(mut self) {
        self.processes.reap();
        while !(self.processes.is_empty() && self.processes.head_status().is_some()) {
            self.handle_events();
        }
        self.finish();
    }

    /// Waits for events and handles them.
    fn handle_events(&mut self) {
        let ready = self.wait();
        let now = Instant::now();
        let mut has_output = false;
        let mut has_keys = false;
        for (source, flags) in &ready {
            if *flags == PollFlags::OUT {
                continue;
            }
            match *source {
                Source::Pane => has_output = true,
                Source::Listener => self.accept(),
                Source::ChildExited => self.child_exited(now),
                Source::Terminate => {
                    drain(&self.signals.terminate);
                    self.terminated |= !self.stopped;
                    self.stop(GRACE_PERIOD, now);
                }
                Source::Measured => self.handle_readings(now),
                Source::Socket(at) => self.receive_frames(at, now),
                Source::Tty(at) => {
                    self.read_keys(at, now);
                    has_keys = true;
                }
            }
        }
        self.write_input(now);
        if has_output {
            self.read_pane(now);
        } else if has_keys {
            self.poll_for_echo(now);
        }
        if self.idle_at.is_some_and(|at| now >= at) {
            self.idle_at = None;
            self.terminal.flush();
        }
        self.processes.kill_overdue(now);
        self.limits.measure_if_due(now);
        self.update_clients(now);
    }

    /// Waits for the next event or deadline. An idle pane has neither.
    fn wait(&mut self) -> Vec<(Source, PollFlags)> {
        let now = Instant::now();
        let timeout = self.deadline(now).map(|at| {
            let left = at.saturating_duration_since(now);
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        let mut sources = vec![
            Source::Pane,
            Source::Listener,
            Source::ChildExited,
            Source::Terminate,
            Source::Measured,
        ];
        let write = if self.input.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds = vec![
            PollFd::new(&self.pty, PollFlags::IN | write),
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&self.signals.child, PollFlags::IN),
            PollFd::new(&self.signals.terminate, PollFlags::IN),
            PollFd::new(self.limits.wakeup(), PollFlags::IN),
        ];
        // Clients are not read while the input queue is half full: they type faster than the
        // program reads.
        let full = self.input.queued_bytes() >= input::MAX_QUEUED / 2;
        let read = if full { PollFlags::empty() } else { PollFlags::IN };
        for (at, client) in self.clients.iter().enumerate() {
            let write = if client.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
            sources.push(Source::Socket(at));
            fds.push(PollFd::new(client, read | write));
            if let Role::Viewing(display) = &client.role
                && let Some(tty) = &display.tty
            {
                let write = if display.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
                sources.push(Source::Tty(at));
                fds.push(PollFd::from_borrowed_fd(tty.as_fd(), read | write));
            }
        }
        if poll(&mut fds, timeout.as_ref()).is_err() {
            // Interrupted by a signal, whose pipe is readable in the next call.
            return Vec::new();
        }
        let flags = fds.iter().map(PollFd::revents);
        sources.into_iter().zip(flags).filter(|(_, flags)| !flags.is_empty()).collect()
    }

    /// Returns the time at which the next action is due without an event.
    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        let end = self.log.end();
        let throttled = |client: &Client| client.is_throttled(end);
        let followers = self.pace.deadline().filter(|_| self.clients.iter().any(throttled));
        let terminal = &self.terminal;
        let frames = self.clients.iter_mut().filter_map(|client| match &mut client.role {
            Role::Viewing(display) => display.deadline(terminal, now),
            Role::Detached | Role::Following { .. } => None,
        });
        let own = [self.processes.deadline(), self.limits.deadline(), self.idle_at, followers];
        frames.chain(self.input.deadline()).chain(own.into_iter().flatten()).min()
    }

    /// Polls for the echo of a key, unless the processor is contended: yielding to another process
    /// would then cost a whole time slice.
    fn poll_for_echo(&mut self, now: Instant) {
        if self.contended_until.is_some_and(|until| now < until) {
            return;
        }
        while self.read_pane(now) == PtyRead::Empty && now.elapsed() < ECHO_TIMEOUT {
            std::thread::yield_now();
        }
        if now.elapsed() > ECHO_TIMEOUT * 4 {
            self.contended_until = Some(now + CONTENDED);
        }
    }

    /// Returns the number of bytes to read before other events are handled.
    fn batch(&self, now: Instant) -> usize {
        let has_recent_key = |client: &Client| match &client.role {
            Role::Viewing(display) => display.has_recent_key(now),
            Role::Detached | Role::Following { .. } => false,
        };
        if self.clients.iter().any(has_recent_key) { BATCH_AFTER_KEY } else { BATCH }
    }

    /// Reads up to one batch of output into the buffer.
    fn fill_buffer(&mut self, batch: usize) -> (usize, PtyRead) {
        let mut filled = 0;
        let mut may_spin = true;
        while filled < batch {
            match self.pty.read(&mut self.buffer[filled..batch]) {
                PtyRead::Bytes(n) => {
                    filled += n;
                    may_spin = true;
                }
                PtyRead::Empty if filled >= FLOOD && may_spin => {
                    may_spin = false;
                    let since = Instant::now();
                    while since.elapsed() < NEXT_READ_DELAY {
                        std::hint::spin_loop();
                    }
                }
                last @ (PtyRead::Empty | PtyRead::End) => return (filled, last),
            }
            if filled < FLOOD {
                // A short read usually returns everything; otherwise the next poll reports more.
                break;
            }
        }
        (filled, PtyRead::Empty)
    }

    /// Reads up to one batch of output and passes it to the log, the terminal and the clients.
    fn read_pane(&mut self, now: Instant) -> PtyRead {
        let (filled, last) = self.fill_buffer(self.batch(now));
        if filled == 0 {
            return last;
        }
        if self.log.wants_roll(self.terminal.unfinished() == 0) {
            let snapshot = (self.terminal.unfinished() == 0).then(|| self.terminal.snapshot());
            self.log.roll(snapshot.as_deref());
        }
        let bytes = &self.buffer[..filled];
        self.log.append(bytes);
        self.terminal.feed(bytes);
        let answers = self.terminal.take_answers();
        for client in &mut self.clients {
            if let Role::Viewing(display) = &mut client.role {
                display.output(bytes);
            }
        }
        self.last_output = Some(clock::now());
        self.idle_at = Some(now + IDLE_DELAY);
        if filled >= FLOOD {
            self.pace.note_flood(now);
        }
        self.limits.note_activity(now);
        if !answers.is_empty() {
            self.input.answer(&answers);
            self.write_input(now);
        }
        PtyRead::Bytes(filled)
    }

    /// Writes queued input to the pane and confirms it to the clients.
    fn write_input(&mut self, now: Instant) {
        for id in self.input.pump(&self.pty, now) {
            if let Some(client) = self.clients.iter_mut().find(|client| client.id == id) {
                client.send(&requests::done());
            }
        }
    }

    /// Sends pending output to every client and removes those that are closed.
    fn update_clients(&mut self, now: Instant) {
        let followers = self.clients.iter().filter(|client| client.is_following()).count();
        let share = self.pace.share(followers, now);
        for client in &mut self.clients {
            client.pump(&mut self.terminal, &self.log, share);
            if let Role::Viewing(display) = &mut client.role {
                display.paint(&mut self.terminal, &self.log, now);
                client.pump(&mut self.terminal, &self.log, share);
            }
        }
        let before = self.clients.len();
        self.clients.retain(|client| {
            // A client that is still attached at this point died without detaching.
            if let (true, Role::Viewing(display)) = (client.closed, &client.role) {
                display.restore(&mut self.terminal);
            }
            !client.closed
        });
        if self.clients.len() < before {
            self.fit_size();
        }
    }

    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        if !socket::is_same_user(&stream) {
            return;
        }
        self.next_client += 1;
        if let Ok(mut client) = Client::new(self.next_client, stream) {
            if self.clients.len() >= MAX_CLIENTS {
                client.refuse(format!("the pane has reached its limit of {MAX_CLIENTS} clients"));
            }
            self.clients.push(client);
        }
    }

    /// Reads keys from a client's terminal.
    fn read_keys(&mut self, at: usize, now: Instant) {
        let mut keys = [0; 4096];
        let Role::Viewing(display) = &mut self.clients[at].role else { return };
        let Some(tty) = &display.tty else { return };
        match tty.read(&mut keys) {
            Some(0) => {}
            Some(n) => self.handle_keys(at, &keys[..n], now),
            None => self.detach(at, protocol::pane::DetachReason::TerminalGone),
        }
    }

    /// Resizes the pane to the smallest attached terminal. Without one, the size is kept.
    fn fit_size(&mut self) {
        let Some(size) = self.clients.iter().filter_map(Client::size).reduce(Size::smallest) else {
            return;
        };
        if size == self.terminal.size() {
            return;
        }
        // The programs are notified first, so that their next output is for the new size.
        if self.pty.resize(size).is_err() {
            return;
        }
        self.terminal.resize(size);
        self.log.note_size(size);
        for client in &mut self.clients {
            match &mut client.role {
                Role::Detached => {}
                Role::Viewing(display) => display.resized(),
                Role::Following { .. } => client.send(&Frame::json(Kind::Resized, &size)),
            }
        }
    }

    fn child_exited(&mut self, now: Instant) {
        drain(&self.signals.child);
        self.limits.check_group_events();
        let before = self.processes.head_status();
        self.processes.reap();
        let head_exited = before.is_none() && self.processes.head_status().is_some();
        if head_exited && !self.processes.is_empty() {
            // The exit of the head process ends the pane and all its other processes.
            self.limits.deactivate();
            self.processes.hang_up(GRACE_PERIOD, now);
        }
        self.processes.recount();
    }

    /// Starts the termination of the pane.
    fn stop(&mut self, grace: Duration, now: Instant) {
        hooks::point("keeper.stop");
        self.stopped = true;
        self.limits.deactivate();
        self.processes.hang_up(grace, now);
    }

    fn queue(&mut self, item: Item) {
        self.input.push(item);
    }
}

/// Empties a wakeup pipe. Returns whether there was a wakeup; their number does not matter.
fn drain(mut pipe: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    let mut woken = false;
    while matches!(io::Read::read(&mut pipe, &mut bytes), Ok(n) if n > 0) {
        woken = true;
    }
    woken
}
