//! The pane itself: one loop that owns everything and waits for whatever comes next.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use host::log::LogWriter;
use host::{clock, hooks, socket};
use model::limits::Policy;
use model::{Size, Timestamp};
use protocol::frame::{Frame, Kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use terminal::Terminal;

use crate::client::{Client, Role};
use crate::input::{self, Input, Item};
use crate::limits::Warden;
use crate::pace::Pace;
use crate::pty::{Got, Pty};
use crate::tree::Tree;

mod farewell;
mod limits;
mod requests;

/// How much is read from the pane before anything else gets a turn, while nobody looks.
const BATCH: usize = 16 << 10;

/// The same with a client attached: its keys wait for at most this much.
const BATCH_WATCHED: usize = 16 << 10;

/// The same right after a key: what comes of it is to be seen at once.
const BATCH_ATTENTIVE: usize = 6 << 10;

/// A pane that wrote this much at once has more to come.
const FLOOD: usize = 2 << 10;

/// How long the kernel takes to move the next piece of a flood over. Less than it takes to go to
/// sleep and be woken up again, which would also slow the writer down.
const NEXT_PIECE: Duration = Duration::from_micros(12);

/// How long to look out for the echo of a key before going to sleep. Most programs answer faster
/// than a processor falls asleep and is woken up again.
const ECHO: Duration = Duration::from_micros(80);

/// For how long a processor counts as wanted by others after it came back late.
const CROWDED: Duration = Duration::from_secs(10);

/// The pane was quiet for this long: time to bring the screen up to date.
const QUIET: Duration = Duration::from_millis(10);

/// How long what is left of a pane may take to leave after its head has.
const GRACE: Duration = Duration::from_secs(5);

/// How many clients one pane serves.
const CLIENTS_AT_MOST: usize = 128;

/// Where the keeper is told of signals.
#[derive(Debug)]
pub(crate) struct Signals {
    /// A child has ended.
    pub(crate) child: UnixStream,
    /// The system asks us to leave.
    pub(crate) terminate: UnixStream,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Pane {
    pty: Pty,
    terminal: Terminal,
    log: LogWriter,
    input: Input,
    tree: Tree,
    listener: UnixListener,
    signals: Signals,
    clients: Vec<Client>,
    next_client: u64,
    buffer: Vec<u8>,
    quiet_at: Option<Instant>,
    pace: Pace,
    crowded_until: Option<Instant>,
    last_output: Option<Timestamp>,
    /// Somebody asked for the end.
    stopped: bool,
    /// We ourselves did, and this is why.
    why: Option<String>,
    warden: Warden,
    policy: Policy,
}

/// What a wait ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Pane,
    Listener,
    ChildEnded,
    Terminate,
    Looked,
    Socket(usize),
    Tty(usize),
}

impl Pane {
    pub(crate) fn new(
        pty: Pty,
        log: LogWriter,
        size: Size,
        tree: Tree,
        listener: UnixListener,
        signals: Signals,
        (warden, policy): (Warden, Policy),
    ) -> Self {
        Self {
            pty,
            terminal: Terminal::new(size, 0),
            log,
            input: Input::default(),
            tree,
            listener,
            signals,
            clients: Vec::new(),
            next_client: 0,
            buffer: vec![0; BATCH],
            quiet_at: None,
            pace: Pace::default(),
            crowded_until: None,
            last_output: None,
            stopped: false,
            why: None,
            warden,
            policy,
        }
    }

    /// Serves the pane until no process of it is left, and records how it ended.
    pub(crate) fn run(mut self) {
        self.tree.reap();
        while !(self.tree.is_empty() && self.tree.head_ended().is_some()) {
            self.turn();
        }
        self.finish();
    }

    fn turn(&mut self) {
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
                Source::ChildEnded => self.child_ended(now),
                Source::Terminate => {
                    drain(&self.signals.terminate);
                    self.stop(GRACE, now);
                }
                Source::Looked => self.heed(now),
                Source::Socket(at) => self.hear(at, now),
                Source::Tty(at) => {
                    self.keys(at, now);
                    has_keys = true;
                }
            }
        }
        self.type_on(now);
        if has_output {
            self.read_pane(now);
        } else if has_keys {
            self.catch_echo(now);
        }
        if self.quiet_at.is_some_and(|at| now >= at) {
            self.quiet_at = None;
            self.terminal.settle();
        }
        self.tree.insist(now);
        self.warden.look(now);
        self.show(now);
    }

    /// Waits for the next thing to do; nothing wakes an idle pane.
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
            Source::ChildEnded,
            Source::Terminate,
            Source::Looked,
        ];
        let typing = if self.input.wants_pane() { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds = vec![
            PollFd::new(&self.pty, PollFlags::IN | typing),
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&self.signals.child, PollFlags::IN),
            PollFd::new(&self.signals.terminate, PollFlags::IN),
            PollFd::new(self.warden.bell(), PollFlags::IN),
        ];
        // Whoever types faster than the pane reads has to wait, and nobody else.
        let full = self.input.waiting() >= input::AT_MOST / 2;
        for (at, client) in self.clients.iter().enumerate() {
            let out = if client.wants_socket() { PollFlags::OUT } else { PollFlags::empty() };
            let heard = if full { PollFlags::empty() } else { PollFlags::IN };
            sources.push(Source::Socket(at));
            fds.push(PollFd::new(client, heard | out));
            if let Role::Viewing(display) = &client.role
                && let Some(tty) = &display.tty
            {
                let out = if display.wants_client() { PollFlags::OUT } else { PollFlags::empty() };
                sources.push(Source::Tty(at));
                fds.push(PollFd::from_borrowed_fd(tty.as_fd(), heard | out));
            }
        }
        if poll(&mut fds, timeout.as_ref()).is_err() {
            // Interrupted; the signal's pipe says the rest.
            return Vec::new();
        }
        let flags = fds.iter().map(PollFd::revents);
        sources.into_iter().zip(flags).filter(|(_, flags)| !flags.is_empty()).collect()
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        let end = self.log.end();
        let held_up = |client: &Client| client.is_held_up(end);
        let followers = self.pace.deadline().filter(|_| self.clients.iter().any(held_up));
        let terminal = &self.terminal;
        let frames = self.clients.iter_mut().filter_map(|client| match &mut client.role {
            Role::Viewing(display) => display.deadline(terminal, now),
            Role::Asking | Role::Following { .. } => None,
        });
        let own = [self.tree.deadline(), self.warden.deadline(), self.quiet_at, followers];
        frames.chain(self.input.deadline()).chain(own.into_iter().flatten()).min()
    }

    /// Looks out for what comes of a key, where nobody else wants the processor: whoever yields to
    /// somebody who does gets it back a whole turn later.
    fn catch_echo(&mut self, now: Instant) {
        if self.crowded_until.is_some_and(|until| now < until) {
            return;
        }
        while self.read_pane(now) == Got::Nothing && now.elapsed() < ECHO {
            std::thread::yield_now();
        }
        if now.elapsed() > ECHO * 4 {
            self.crowded_until = Some(now + CROWDED);
        }
    }

    /// How much to read before anything else gets a turn.
    fn batch(&self, now: Instant) -> usize {
        let wish = |client: &Client| match &client.role {
            Role::Viewing(display) if display.is_attentive(now) => BATCH_ATTENTIVE,
            Role::Viewing(_) => BATCH_WATCHED,
            Role::Asking | Role::Following { .. } => BATCH,
        };
        self.clients.iter().map(wish).min().unwrap_or(BATCH)
    }

    /// Reads what the pane wrote, up to one batch.
    fn fill(&mut self, batch: usize) -> (usize, Got) {
        let mut filled = 0;
        let mut is_fresh = true;
        while filled < batch {
            match self.pty.read(&mut self.buffer[filled..batch]) {
                Got::Bytes(n) => {
                    filled += n;
                    is_fresh = true;
                }
                Got::Nothing if filled >= FLOOD && is_fresh => {
                    is_fresh = false;
                    let since = Instant::now();
                    while since.elapsed() < NEXT_PIECE {
                        std::hint::spin_loop();
                    }
                }
                last @ (Got::Nothing | Got::End) => return (filled, last),
            }
            if filled < FLOOD {
                // A short piece is all there is; the next wait tells whether that is so.
                break;
            }
        }
        (filled, Got::Nothing)
    }

    /// Takes what the pane wrote, up to one batch, into log, screen and the clients' hands.
    fn read_pane(&mut self, now: Instant) -> Got {
        let (filled, last) = self.fill(self.batch(now));
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
        self.quiet_at = Some(now + QUIET);
        if filled >= FLOOD {
            self.pace.flooded(now);
        }
        self.warden.stir(now);
        if !answers.is_empty() {
            self.input.answer(&answers);
            self.type_on(now);
        }
        Got::Bytes(filled)
    }

    /// Types what waits to be typed.
    fn type_on(&mut self, now: Instant) {
        for id in self.input.pump(&self.pty, now) {
            if let Some(client) = self.clients.iter_mut().find(|client| client.id == id) {
                client.send(&requests::done());
            }
        }
    }

    /// Shows every client what it has not seen, as far as it takes it.
    fn show(&mut self, now: Instant) {
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
            // A client that left by itself has already been detached; this one died.
            if let (true, Role::Viewing(display)) = (client.gone, &client.role) {
                display.restore();
            }
            !client.gone
        });
        if self.clients.len() < before {
            self.fit();
        }
    }

    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        if !socket::is_ours(&stream) {
            return;
        }
        self.next_client += 1;
        if let Ok(mut client) = Client::new(self.next_client, stream) {
            if self.clients.len() >= CLIENTS_AT_MOST {
                client.refuse(format!("this pane already has {CLIENTS_AT_MOST} clients"));
            }
            self.clients.push(client);
        }
    }

    /// Keys from a client's terminal.
    fn keys(&mut self, at: usize, now: Instant) {
        let mut keys = [0; 4096];
        let Role::Viewing(display) = &mut self.clients[at].role else { return };
        let Some(tty) = &display.tty else { return };
        match tty.read(&mut keys) {
            Some(0) => {}
            Some(n) => self.pressed(at, &keys[..n], now),
            None => self.let_go(at, protocol::pane::DetachReason::TerminalGone),
        }
    }

    /// The smallest terminal decides how large the pane is. With none, it stays as it is.
    fn fit(&mut self) {
        let Some(size) = self.clients.iter().filter_map(Client::size).reduce(Size::smallest) else {
            return;
        };
        if size == self.terminal.size() {
            return;
        }
        // The programs are told first: what they write from now on is for the new size.
        if self.pty.resize(size).is_err() {
            return;
        }
        self.terminal.resize(size);
        self.log.note_size(size);
        for client in &mut self.clients {
            match &mut client.role {
                Role::Asking => {}
                Role::Viewing(display) => display.resized(),
                Role::Following { .. } => client.send(&Frame::json(Kind::Resized, &size)),
            }
        }
    }

    fn child_ended(&mut self, now: Instant) {
        drain(&self.signals.child);
        self.warden.ask_groups();
        let before = self.tree.head_ended();
        self.tree.reap();
        if before.is_none() && self.tree.head_ended().is_some() && !self.tree.is_empty() {
            // The pane goes with its head; whatever was started in it goes too.
            self.warden.rest();
            self.tree.hang_up(GRACE, now);
        }
        self.tree.recount();
    }

    /// Begins the end.
    fn stop(&mut self, grace: Duration, now: Instant) {
        hooks::point("keeper.stop");
        self.stopped = true;
        self.warden.rest();
        self.tree.hang_up(grace, now);
    }

    fn queue(&mut self, item: Item) {
        self.input.push(item);
    }
}

/// Empties a signal's pipe: how often it came does not matter.
fn drain(mut pipe: &UnixStream) {
    let mut bytes = [0; 64];
    while matches!(io::Read::read(&mut pipe, &mut bytes), Ok(n) if n > 0) {}
}

/// A line in `keeper.err`, for what nobody is there to be told.
pub(crate) fn complain(what: &str) {
    use std::io::Write as _;
    // If even that cannot be written, nothing is left to try.
    let _unheard = writeln!(io::stderr(), "{} {what}", clock::now());
}
