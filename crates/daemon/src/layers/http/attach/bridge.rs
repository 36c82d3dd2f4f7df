//! The connection between the WebSocket of a client and the keeper of a pane.
//!
//! ```text
//!  client --> bridge --> keeper              input and sizes: always read
//!  client <-- writer <-- bridge <-- keeper   output: read only if the send queue has room
//! ```
//!
//! Unread output stays in the log of the pane, so a slow client costs a bounded amount of memory and
//! does not slow the pane down. A slow client that lags too far behind receives a snapshot instead
//! of the output it missed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use host::log::LogReader;
use model::Size;
use model::event::EventBody;
use protocol::pane::{
    Attach, KeyOptions, Reply, Request as KeeperRequest, Response as KeeperResponse, View,
};
use protocol::{Frame, Kind};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

use super::wire::{ClientMessage, CloseReason, ServerMessage, binary_message};
use crate::operations::Services;
use crate::panes::{Pane, log_dir, replay};
use crate::runtime::run_blocking;
use crate::wire::keeper::{self, KeeperConnection, KeeperError, KeeperMessage};

/// The capacity of the send queue in messages.
const QUEUE: usize = 4;

/// The maximum number of messages sent per step (a snapshot is two).
const MAX_PER_STEP: usize = 2;

/// The time with a full send queue after which a client counts as slow.
const SLOW: Duration = Duration::from_secs(1);

/// The timeout for writing one message to the client.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// The interval between pings.
const PING: Duration = Duration::from_secs(20);

/// The time without any message after which the client is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// The timeout for a request to the keeper.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of reconnection attempts without progress.
const MAX_RETRIES: usize = 20;

/// The delay before a reconnection attempt.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The timeout for the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum size of a message with output of an ended pane.
const CHUNK: usize = 64 << 10;

/// An attached client and its pane.
pub(super) struct Bridge {
    pub(super) services: Arc<Services>,
    pub(super) pane: Arc<Pane>,
    /// The client may type and resize.
    pub(super) control: bool,
    /// The event to record at the first input or resize.
    pub(super) audit_event: Option<EventBody>,
    /// The offset after the output sent so far; `None` requests a snapshot.
    pub(super) offset: Option<u64>,
    /// The number of bytes that a slow client may lag behind.
    pub(super) lag: u64,
    /// The size of the client's terminal, if it takes part in the size of the pane.
    pub(super) size: Option<Size>,
    /// Cancelled when the token of the client becomes invalid.
    pub(super) revoked: CancellationToken,
}

/// The reason for the end of a keeper connection.
enum Disconnect {
    /// The pane ended.
    Ended,
    /// The client lags too far behind and needs a snapshot.
    Lagging,
    /// The keeper connection failed.
    Failed(KeeperError),
    /// The client connection is to be closed.
    Close(CloseReason),
}

impl From<KeeperError> for Disconnect {
    fn from(error: KeeperError) -> Self {
        Self::Failed(error)
    }
}

impl From<CloseReason> for Disconnect {
    fn from(reason: CloseReason) -> Self {
        Self::Close(reason)
    }
}

/// An event of the bridge.
enum Step {
    /// A message from the keeper; the send queue has room for it.
    Keeper(Option<KeeperMessage>),
    Client(Message),
    Tick,
}

impl Bridge {
    /// Serves the client until it disconnects, its token becomes invalid, the pane ends, or the
    /// daemon stops.
    pub(super) async fn serve(mut self, socket: WebSocket) {
        let (sink, incoming) = socket.split();
        let (out, outbox) = mpsc::channel(QUEUE);
        let writer = self.services.runtime.tasks.spawn(write(sink, outbox));
        let mut client = Client::new(out, incoming);
        let revoked = self.revoked.clone();
        let reason = tokio::select! {
            reason = self.follow(&mut client) => reason,
            () = revoked.cancelled() => CloseReason::revoked(),
        };
        let Client { out, mut incoming, .. } = client;
        // Best effort: the client may not be reading.
        let _ignored = timeout(CLOSE_TIMEOUT, out.send(reason.message())).await;
        drop(out);
        let closed = async { while let Some(Ok(_)) = incoming.next().await {} };
        let _ignored = timeout(CLOSE_TIMEOUT, closed).await;
        writer.abort();
    }

    /// Follows the pane until it ends, reconnecting to its keeper if necessary.
    async fn follow(&mut self, client: &mut Client) -> CloseReason {
        let mut retries = 0;
        while self.pane.status().state.is_live() {
            let before = self.offset;
            let stopping = self.services.runtime.stopping.clone();
            let disconnect = tokio::select! {
                disconnect = self.run_connection(client) => disconnect,
                () = stopping.cancelled() => CloseReason::stopping().into(),
            };
            match disconnect {
                Disconnect::Ended => break,
                Disconnect::Lagging => self.offset = None,
                Disconnect::Close(reason) => return reason,
                // If the pane ended in the meantime, the loop condition detects it.
                Disconnect::Failed(error) => {
                    retries = if self.offset == before { retries + 1 } else { 0 };
                    if retries > MAX_RETRIES {
                        return CloseReason::failed(&error.to_string());
                    }
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
        match self.finish(client).await {
            Ok(()) => CloseReason::ended(),
            Err(reason) => reason,
        }
    }

    /// Runs one connection to the keeper until it ends.
    async fn run_connection(&mut self, client: &mut Client) -> Disconnect {
        match self.try_run_connection(client).await {
            Ok(never) => match never {},
            Err(disconnect) => disconnect,
        }
    }

    async fn try_run_connection(&mut self, client: &mut Client) -> Result<Infallible, Disconnect> {
        let resumes = self.is_stored().await;
        let (mut link, mut screen_size) = self.open().await?;
        if let Some(offset) = self.offset.filter(|_| resumes) {
            client.send_message(&ServerMessage::Resumed { offset, size: screen_size }).await?;
        }
        loop {
            match client.step(&mut link).await? {
                Step::Keeper(message) => {
                    if client.take_slow() && self.is_lagging().await {
                        return Err(Disconnect::Lagging);
                    }
                    match message {
                        Some(KeeperMessage::Resized(size)) => {
                            screen_size = size;
                            client.send_message(&ServerMessage::Resized { size }).await?;
                        }
                        Some(message) => self.forward(message, screen_size, client).await?,
                        None => {
                            return Err(KeeperError::Broken(
                                "the keeper closed the connection".to_owned(),
                            )
                            .into());
                        }
                    }
                }
                Step::Client(message) => self.handle(message, &mut link).await?,
                Step::Tick => client.ping()?,
            }
        }
    }

    /// Returns whether the output after the client's offset is still stored.
    async fn is_stored(&self) -> bool {
        let Some(offset) = self.offset else { return false };
        let log = log_dir(&self.pane.dir);
        let reader = run_blocking(move || LogReader::open(&log)).await;
        reader.is_ok_and(|reader| (reader.start()..=reader.end()).contains(&offset))
    }

    async fn open(&self) -> Result<(KeeperConnection, Size), KeeperError> {
        let attach = Attach {
            view: View::Follow { from: self.offset },
            size: self.size,
            read_only: !self.control,
            keys: KeyOptions::default(),
        };
        let opened = async {
            let mut link = KeeperConnection::open(&self.pane.dir).await?;
            let size = link.follow(&attach).await?.size;
            Ok((link, size))
        };
        timeout(KEEPER_TIMEOUT, opened).await.map_err(|_| KeeperError::TimedOut(KEEPER_TIMEOUT))?
    }

    /// Returns whether the unread output exceeds the allowed lag.
    async fn is_lagging(&self) -> bool {
        let status = keeper::ask(&self.pane.dir, &KeeperRequest::Status, KEEPER_TIMEOUT).await;
        match (status, self.offset) {
            (Ok(KeeperResponse::Status(live)), Some(offset)) => {
                live.log_end.saturating_sub(offset) > self.lag
            }
            _ => false,
        }
    }

    /// Forwards a message of the keeper. The send queue has room for it.
    async fn forward(
        &mut self,
        message: KeeperMessage,
        screen_size: Size,
        client: &Client,
    ) -> Result<(), Disconnect> {
        match message {
            KeeperMessage::Snapshot(offset, bytes) => {
                client.send_message(&ServerMessage::Snapshot { offset, size: screen_size }).await?;
                client.send(binary_message(offset, &bytes)).await?;
                self.offset = Some(offset);
            }
            KeeperMessage::Output(from, bytes) => {
                client.send(binary_message(from, &bytes)).await?;
                self.offset = Some(from + bytes.len() as u64);
            }
            KeeperMessage::Reply(Reply::Error(body)) => {
                client.send_message(&ServerMessage::Error(&body)).await?;
            }
            KeeperMessage::Reply(Reply::Ok(_)) | KeeperMessage::Resized(_) => {}
            KeeperMessage::Ended => return Err(Disconnect::Ended),
        }
        Ok(())
    }

    /// Handles a message of the client.
    async fn handle(
        &mut self,
        message: Message,
        link: &mut KeeperConnection,
    ) -> Result<(), Disconnect> {
        let message = ClientMessage::parse(message)?;
        if message.needs_control() && !self.control {
            return Err(CloseReason::not_allowed().into());
        }
        if message.needs_control()
            && let Some(event) = self.audit_event.take()
        {
            self.services.registry.record(event).await;
        }
        let frame = match message {
            ClientMessage::Input(bytes) => Frame::new(Kind::Input, bytes.to_vec()),
            ClientMessage::Typing(typing) => {
                Frame::json(Kind::Request, &KeeperRequest::Type(typing))
            }
            ClientMessage::Resize(size) => {
                self.size = Some(size);
                Frame::json(Kind::Resize, &size)
            }
            ClientMessage::Close => return Err(CloseReason::normal().into()),
            ClientMessage::KeepAlive => return Ok(()),
        };
        self.services.lifecycle.pane_changed(self.pane.id);
        let sent = timeout(KEEPER_TIMEOUT, link.send(&frame)).await;
        Ok(sent.map_err(|_| KeeperError::TimedOut(KEEPER_TIMEOUT))??)
    }

    /// Sends the remaining output of an ended pane, and its ending.
    async fn finish(&mut self, client: &Client) -> Result<(), CloseReason> {
        let stored = self.is_stored().await;
        let mut at = match self.offset.filter(|_| stored) {
            Some(at) => at,
            None => self.last_screen(client).await?,
        };
        loop {
            let log = log_dir(&self.pane.dir);
            let chunk = run_blocking(move || LogReader::open(&log)?.read(at, CHUNK)).await;
            let chunk = chunk.map_err(|error| CloseReason::failed(&error.to_string()))?;
            if chunk.bytes.is_empty() {
                break;
            }
            client.send(binary_message(chunk.from, &chunk.bytes)).await?;
            at = chunk.from + chunk.bytes.len() as u64;
        }
        let ending = timeout(KEEPER_TIMEOUT, self.pane.ended()).await.ok().flatten();
        client.send_message(&ServerMessage::Ended { offset: at, ending: ending.as_ref() }).await
    }

    /// Sends the last screen and returns its offset.
    async fn last_screen(&self, client: &Client) -> Result<u64, CloseReason> {
        let log = log_dir(&self.pane.dir);
        let last = run_blocking(move || replay::snapshot(&log)).await;
        let (bytes, offset, size) =
            last.map_err(|error| CloseReason::failed(&error.to_string()))?;
        client.send_message(&ServerMessage::Snapshot { offset, size }).await?;
        client.send(binary_message(offset, &bytes)).await?;
        Ok(offset)
    }
}

/// Both directions of a client connection.
struct Client {
    out: mpsc::Sender<Message>,
    incoming: SplitStream<WebSocket>,
    ping: Interval,
    last_received: Instant,
    /// The time since which the send queue has been full.
    blocked: Option<Instant>,
    was_slow: bool,
}

impl Client {
    fn new(out: mpsc::Sender<Message>, incoming: SplitStream<WebSocket>) -> Self {
        let mut ping = interval_at(tokio::time::Instant::now() + PING, PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (last_received, blocked, was_slow) = (Instant::now(), None, false);
        Self { out, incoming, ping, last_received, blocked, was_slow }
    }

    /// Waits for the next event. Cancel-safe: no message is lost.
    async fn step(&mut self, link: &mut KeeperConnection) -> Result<Step, Disconnect> {
        let Self { out, incoming, ping, last_received, blocked, was_slow } = self;
        let from_keeper = async {
            if out.capacity() < MAX_PER_STEP {
                let since = *blocked.get_or_insert_with(Instant::now);
                // Released at once, because this is the only sender.
                drop(out.reserve_many(MAX_PER_STEP).await.map_err(|_| CloseReason::normal())?);
                *was_slow |= since.elapsed() > SLOW;
            }
            *blocked = None;
            Ok::<_, Disconnect>(link.next_message().await?)
        };
        tokio::select! {
            message = from_keeper => Ok(Step::Keeper(message?)),
            message = incoming.next() => match message {
                Some(Ok(message)) => {
                    *last_received = Instant::now();
                    Ok(Step::Client(message))
                }
                // Disconnected, or a protocol error that the library has reported to the client.
                Some(Err(_)) | None => Err(CloseReason::normal().into()),
            },
            _ = ping.tick() => Ok(Step::Tick),
        }
    }

    fn take_slow(&mut self) -> bool {
        std::mem::take(&mut self.was_slow)
    }

    /// Sends a ping, or fails if the client has been idle for too long.
    fn ping(&self) -> Result<(), CloseReason> {
        if self.last_received.elapsed() > IDLE_TIMEOUT {
            return Err(CloseReason::idle(IDLE_TIMEOUT.as_secs()));
        }
        // If the queue is full, the write timeout applies instead.
        let _ignored = self.out.try_send(Message::Ping(Bytes::new()));
        Ok(())
    }

    async fn send_message(&self, message: &ServerMessage<'_>) -> Result<(), CloseReason> {
        self.send(message.message()).await
    }

    async fn send(&self, message: Message) -> Result<(), CloseReason> {
        self.out.send(message).await.map_err(|_| CloseReason::normal())
    }
}

/// Writes queued messages until the client disconnects or a write times out.
async fn write(mut sink: SplitSink<WebSocket, Message>, mut outbox: mpsc::Receiver<Message>) {
    while let Some(message) = outbox.recv().await {
        match timeout(WRITE_TIMEOUT, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
