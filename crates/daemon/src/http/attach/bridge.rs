//! Between the WebSocket of a client and the keeper of a pane.
//!
//! ```text
//!  client --> reads --> bridge --> keeper        keys, sizes, questions: always taken
//!  client <-- writer <-- bridge <-- keeper       output: taken from the keeper when the client has room
//! ```
//!
//! What a client has not taken waits in the pane's log and nowhere else, so one that reads slowly
//! or not at all costs a few pieces of memory, and its pane nothing. One that was slow and is far
//! behind gets a snapshot instead of what it missed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use host::log::LogReader;
use model::Size;
use model::event::Happening;
use protocol::pane::{Attach, Reply, Request as KeeperRequest, Response as KeeperResponse, View};
use protocol::{Frame, Kind};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval_at, timeout};

use super::wire::{Goodbye, Tell, Wish, bytes_at};
use crate::keeper::{self, Link, Sent, Silent};
use crate::pane::{Pane, log_dir};
use crate::replay;
use crate::supervisor::{Supervisor, run_blocking};

/// How many messages are on their way to a client; a snapshot is two.
const AHEAD: usize = 4;

/// The most messages that one step sends.
const ROOM: usize = 2;

/// A client that makes us wait this long may be far behind afterwards.
const SLOW: Duration = Duration::from_secs(1);

/// A client that takes nothing for this long is let go.
const STALLED: Duration = Duration::from_secs(60);

/// How often a client is asked for a sign of life, and how long it may take for one.
const PING: Duration = Duration::from_secs(20);
const SILENT: Duration = Duration::from_secs(75);

/// How long a keeper may take for the greeting and for what it is told.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a keeper that broke off is tried again, and how long to wait before that.
const TRIES: usize = 20;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// How long a client may take to answer a farewell.
const FAREWELL: Duration = Duration::from_secs(2);

/// How much of the log of an ended pane goes into one message.
const PIECE: usize = 64 << 10;

/// One attached client and its pane.
pub(super) struct Bridge {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) pane: Arc<Pane>,
    /// The client may type and resize.
    pub(super) control: bool,
    /// What is put on record when it does so for the first time.
    pub(super) on_record: Option<Happening>,
    /// The offset that it has; none needs a snapshot.
    pub(super) at: Option<u64>,
    /// How far behind it may be after it was slow.
    pub(super) lag: u64,
    /// The size of its terminal, if that has a say.
    pub(super) size: Option<Size>,
}

/// Why a connection to the keeper is over.
enum Parted {
    /// The pane has ended.
    Ended,
    /// The client is far behind, and a snapshot is all it needs.
    Behind,
    /// The keeper broke off.
    Broken(Silent),
    /// The client is let go.
    Client(Goodbye),
}

impl From<Silent> for Parted {
    fn from(silent: Silent) -> Self {
        Self::Broken(silent)
    }
}

impl From<Goodbye> for Parted {
    fn from(goodbye: Goodbye) -> Self {
        Self::Client(goodbye)
    }
}

/// What happened next.
enum Step {
    /// The pane brought something, and there is room for it.
    Sent(Option<Sent>),
    Heard(Message),
    Tick,
}

impl Bridge {
    /// Serves the client until it leaves, the pane ends, or the daemon does.
    pub(super) async fn serve(mut self, socket: WebSocket) {
        let (sink, heard) = socket.split();
        let (out, outbox) = mpsc::channel(AHEAD);
        let writer = self.supervisor.tasks.spawn(write(sink, outbox));
        let mut client = Client::new(out, heard);
        let goodbye = self.follow(&mut client).await;
        let Client { out, mut heard, .. } = client;
        // A client that takes nothing gets no farewell either.
        let _unheard = timeout(FAREWELL, out.send(goodbye.message())).await;
        drop(out);
        let last_words = async { while let Some(Ok(_)) = heard.next().await {} };
        let _unanswered = timeout(FAREWELL, last_words).await;
        writer.abort();
    }

    /// Follows the pane with as many connections to its keeper as it takes.
    async fn follow(&mut self, client: &mut Client) -> Goodbye {
        let mut broken = 0;
        while self.pane.look().state.is_live() {
            let before = self.at;
            let stopping = self.supervisor.stopping.clone();
            let parted = tokio::select! {
                parted = self.converse(client) => parted,
                () = stopping.cancelled() => Goodbye::stopping().into(),
            };
            match parted {
                Parted::Ended => break,
                Parted::Behind => self.at = None,
                Parted::Client(goodbye) => return goodbye,
                // It may have ended since it was looked at; then that is what is seen next.
                Parted::Broken(silent) => {
                    broken = if self.at == before { broken + 1 } else { 0 };
                    if broken > TRIES {
                        return Goodbye::failed(&silent.to_string());
                    }
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
        match self.finish(client).await {
            Ok(()) => Goodbye::ended(),
            Err(goodbye) => goodbye,
        }
    }

    /// One connection to the keeper, for as long as it holds.
    async fn converse(&mut self, client: &mut Client) -> Parted {
        match self.try_converse(client).await {
            Ok(never) => match never {},
            Err(parted) => parted,
        }
    }

    async fn try_converse(&mut self, client: &mut Client) -> Result<Infallible, Parted> {
        let resumes = self.is_kept().await;
        let (mut link, mut shown) = self.open().await?;
        if let Some(offset) = self.at.filter(|_| resumes) {
            client.tell(&Tell::Resumed { offset, size: shown }).await?;
        }
        loop {
            match client.step(&mut link).await? {
                Step::Sent(sent) => {
                    if client.take_slow() && self.is_far_behind().await {
                        return Err(Parted::Behind);
                    }
                    match sent {
                        Some(Sent::Resized(size)) => {
                            shown = size;
                            client.tell(&Tell::Resized { size }).await?;
                        }
                        Some(sent) => self.pass_on(sent, shown, client).await?,
                        None => return Err(Silent::Broken("its keeper let go".to_owned()).into()),
                    }
                }
                Step::Heard(message) => self.obey(message, &mut link).await?,
                Step::Tick => client.ping()?,
            }
        }
    }

    /// Whether what follows the client's offset is kept.
    async fn is_kept(&self) -> bool {
        let Some(at) = self.at else { return false };
        let log = log_dir(&self.pane.dir);
        let reader = run_blocking(move || LogReader::open(&log)).await;
        reader.is_ok_and(|reader| (reader.start()..=reader.end()).contains(&at))
    }

    async fn open(&self) -> Result<(Link, Size), Silent> {
        let attach = Attach {
            view: View::Follow { from: self.at },
            size: self.size,
            read_only: !self.control,
        };
        let opened = async {
            let mut link = Link::open(&self.pane.dir).await?;
            let size = link.follow(&attach).await?.size;
            Ok((link, size))
        };
        timeout(PATIENCE, opened).await.map_err(|_| Silent::TimedOut(PATIENCE))?
    }

    /// Whether there is so much that the client has not got that it had better see the screen.
    async fn is_far_behind(&self) -> bool {
        let asked = keeper::ask(&self.pane.dir, &KeeperRequest::Status, PATIENCE).await;
        match (asked, self.at) {
            (Ok(KeeperResponse::Status(live)), Some(at)) => {
                live.log_end.saturating_sub(at) > self.lag
            }
            _ => false,
        }
    }

    /// Passes on what the pane brought. There is room for it.
    async fn pass_on(&mut self, sent: Sent, shown: Size, client: &Client) -> Result<(), Parted> {
        match sent {
            Sent::Snapshot(offset, bytes) => {
                client.tell(&Tell::Snapshot { offset, size: shown }).await?;
                client.send(bytes_at(offset, &bytes)).await?;
                self.at = Some(offset);
            }
            Sent::Output(from, bytes) => {
                client.send(bytes_at(from, &bytes)).await?;
                self.at = Some(from + bytes.len() as u64);
            }
            Sent::Answer(Reply::Error(body)) => client.tell(&Tell::Error(&body)).await?,
            Sent::Answer(Reply::Ok(_)) | Sent::Resized(_) => {}
            Sent::Ended => return Err(Parted::Ended),
        }
        Ok(())
    }

    /// Does what a client wants.
    async fn obey(&mut self, message: Message, link: &mut Link) -> Result<(), Parted> {
        let wish = Wish::read(message)?;
        if wish.needs_control() && !self.control {
            return Err(Goodbye::not_allowed().into());
        }
        if wish.needs_control()
            && let Some(called) = self.on_record.take()
        {
            self.supervisor.tell(called).await;
        }
        let frame = match wish {
            Wish::Keys(keys) => Frame::new(Kind::Input, keys.to_vec()),
            Wish::Typing(typing) => Frame::json(Kind::Request, &KeeperRequest::Type(typing)),
            Wish::Resize(size) => {
                self.size = Some(size);
                Frame::json(Kind::Resize, &size)
            }
            Wish::Leave => return Err(Goodbye::asked().into()),
            Wish::Nothing => return Ok(()),
        };
        self.supervisor.note_change(self.pane.id);
        let told = timeout(PATIENCE, link.tell(&frame)).await;
        Ok(told.map_err(|_| Silent::TimedOut(PATIENCE))??)
    }

    /// Sends what the client has not got of a pane that has ended, and how it ended.
    async fn finish(&mut self, client: &Client) -> Result<(), Goodbye> {
        let kept = self.is_kept().await;
        let mut at = match self.at.filter(|_| kept) {
            Some(at) => at,
            None => self.last_screen(client).await?,
        };
        loop {
            let log = log_dir(&self.pane.dir);
            let piece = run_blocking(move || LogReader::open(&log)?.read(at, PIECE)).await;
            let piece = piece.map_err(|error| Goodbye::failed(&error.to_string()))?;
            if piece.bytes.is_empty() {
                break;
            }
            client.send(bytes_at(piece.from, &piece.bytes)).await?;
            at = piece.from + piece.bytes.len() as u64;
        }
        let ending = timeout(PATIENCE, self.pane.ended()).await.ok().flatten();
        client.tell(&Tell::Ended { offset: at, ending: ending.as_ref() }).await
    }

    /// Shows the last screen; returns the offset that it stands for.
    async fn last_screen(&self, client: &Client) -> Result<u64, Goodbye> {
        let log = log_dir(&self.pane.dir);
        let last = run_blocking(move || replay::snapshot(&log)).await;
        let (bytes, offset, size) = last.map_err(|error| Goodbye::failed(&error.to_string()))?;
        client.tell(&Tell::Snapshot { offset, size }).await?;
        client.send(bytes_at(offset, &bytes)).await?;
        Ok(offset)
    }
}

/// Both directions of a client, and how it keeps up.
struct Client {
    out: mpsc::Sender<Message>,
    heard: SplitStream<WebSocket>,
    ping: Interval,
    last_heard: Instant,
    /// Since when there is no room for what the pane brings.
    blocked: Option<Instant>,
    was_slow: bool,
}

impl Client {
    fn new(out: mpsc::Sender<Message>, heard: SplitStream<WebSocket>) -> Self {
        let mut ping = interval_at(tokio::time::Instant::now() + PING, PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (last_heard, blocked, was_slow) = (Instant::now(), None, false);
        Self { out, heard, ping, last_heard, blocked, was_slow }
    }

    /// Waits for whatever comes first. Nothing is lost of what comes second.
    async fn step(&mut self, link: &mut Link) -> Result<Step, Parted> {
        let Self { out, heard, ping, last_heard, blocked, was_slow } = self;
        let brought = async {
            if out.capacity() < ROOM {
                let since = *blocked.get_or_insert_with(Instant::now);
                // Given back at once: nobody else sends on this channel.
                drop(out.reserve_many(ROOM).await.map_err(|_| Goodbye::asked())?);
                *was_slow |= since.elapsed() > SLOW;
            }
            *blocked = None;
            Ok::<_, Parted>(link.sent().await?)
        };
        tokio::select! {
            sent = brought => Ok(Step::Sent(sent?)),
            message = heard.next() => match message {
                Some(Ok(message)) => {
                    *last_heard = Instant::now();
                    Ok(Step::Heard(message))
                }
                // It is gone, or does not speak the protocol; its library has said so.
                Some(Err(_)) | None => Err(Goodbye::asked().into()),
            },
            _ = ping.tick() => Ok(Step::Tick),
        }
    }

    fn take_slow(&mut self) -> bool {
        std::mem::take(&mut self.was_slow)
    }

    /// Asks for a sign of life, and ends with a client that gives none.
    fn ping(&self) -> Result<(), Goodbye> {
        if self.last_heard.elapsed() > SILENT {
            return Err(Goodbye::idle(SILENT.as_secs()));
        }
        // Without room there is output that the client does not take: it has something to read.
        let _unasked = self.out.try_send(Message::Ping(Bytes::new()));
        Ok(())
    }

    async fn tell(&self, tell: &Tell<'_>) -> Result<(), Goodbye> {
        self.send(tell.message()).await
    }

    async fn send(&self, message: Message) -> Result<(), Goodbye> {
        self.out.send(message).await.map_err(|_| Goodbye::asked())
    }
}

/// Writes what waits for a client, and gives up on one that takes nothing.
async fn write(mut sink: SplitSink<WebSocket, Message>, mut outbox: mpsc::Receiver<Message>) {
    while let Some(message) = outbox.recv().await {
        match timeout(STALLED, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
