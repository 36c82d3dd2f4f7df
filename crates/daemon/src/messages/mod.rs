//! Messages between panes: stored until they can be delivered, delivered once, and confirmed.
//!
//! ```text
//!  operations --- queue ---> journals ---> sessions/<id>/messages/messages.jsonl
//!                               ^
//!  delivery, one task per pane -+       waits until the recipient's screen is ready, records
//!     |                         |       `typing`, types the message, records the result
//!     v                         |
//!  keeper                     hooks     the agent reports an accepted prompt and the end of a turn
//! ```
//!
//! The journals are behind one lock, which is held while a line is written and never across an
//! await. A reply is sent after the write. Delivery takes one step at a time, each from the state in
//! the journal, so the next daemon continues where this one was killed. The keeper remembers the
//! messages that it has typed and types none twice. Panes without messages cost nothing.

mod delivery;
mod journals;
mod recipient;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use host::clock;
use host::file::Durability;
use model::event::EventBody;
use model::message::journal::TrackedMessage;
use model::message::{Message, MessageState, Receipt};
use model::{MessageId, PaneId, SessionId};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use crate::lifecycle::{Lifecycle, Observer};
use crate::panes::{Life, Pane, Panes};
use crate::registry::{Registry, TargetError};
use crate::runtime::{Runtime, run_blocking};

pub(crate) use journals::{Journals, QueueError, Queued};

/// The message service: the journals, and the delivery tasks.
pub(crate) struct Messages {
    this: Weak<Self>,
    runtime: Arc<Runtime>,
    registry: Registry,
    lifecycle: Lifecycle,
    panes: Arc<Panes>,
    journals: Arc<Mutex<Journals>>,
    /// Grows with each change of a message, to wake subscribers.
    changed: watch::Sender<u64>,
    /// The panes with a delivery task, and whether delivery was requested again since it started.
    deliveries: Mutex<HashMap<PaneId, bool>>,
}

impl Messages {
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        registry: Registry,
        lifecycle: Lifecycle,
        panes: Arc<Panes>,
    ) -> Arc<Self> {
        let journals = Arc::new(Mutex::new(Journals::new(runtime.root.clone())));
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            runtime,
            registry,
            lifecycle,
            panes,
            journals,
            changed: watch::channel(0).0,
            deliveries: Mutex::default(),
        })
    }

    /// Returns the handle that tasks hold.
    fn handle(&self) -> Arc<Self> {
        self.this.upgrade().expect("a method of this value is running")
    }

    /// Runs `work` on the journals.
    pub(crate) async fn apply<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Journals) -> T + Send + 'static,
    ) -> T {
        let journals = Arc::clone(&self.journals);
        run_blocking(move || work(&mut journals.lock())).await
    }

    /// Returns a receiver that is woken by each change of a message.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn notify_subscribers(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

impl Observer for Messages {
    fn pane_live(&self, pane: PaneId) {
        self.handle().start_delivery(pane);
    }

    fn pane_removed(&self, session: SessionId, pane: PaneId) -> BoxFuture<'_, ()> {
        Box::pin(self.fail_waiting(session, pane))
    }

    fn session_removed(&self, session: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(self.apply(move |journals| journals.forget(session)))
    }
}

impl Messages {
    /// Queues messages and starts their delivery. A repeated request returns the messages that were
    /// queued before.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    pub(crate) async fn queue_messages(
        self: &Arc<Self>,
        session: SessionId,
        messages: Vec<Message>,
    ) -> Result<Vec<TrackedMessage>, QueueError> {
        let queued = self.apply(move |journals| journals.queue(session, messages)).await?;
        let Queued { messages, is_new } = queued;
        if is_new {
            let event =
                |TrackedMessage { message, .. }: &TrackedMessage| EventBody::MessageQueued {
                    message: message.id,
                    session,
                    pane: message.to,
                    from: message.from.as_ref().map(|from| from.pane),
                };
            self.emit(messages.iter().map(event).collect()).await;
            self.notify_subscribers();
        }
        for TrackedMessage { message, .. } in &messages {
            self.start_delivery(message.to);
        }
        Ok(messages)
    }

    /// Queues a prompt for a pane, without a sender.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    pub(crate) async fn queue_prompt(
        self: &Arc<Self>,
        pane: PaneId,
        text: &str,
    ) -> Result<(), QueueError> {
        let not_found = || TargetError::NoPane(pane);
        let session = self.panes.get(pane).ok_or_else(not_found)?.session;
        let message = Message {
            id: MessageId::from_random(clock::random_id()),
            session,
            from: None,
            to: pane,
            asked: pane.to_string(),
            text: text.to_owned(),
            raw: true,
            key: None,
            at: clock::now(),
        };
        self.queue_messages(session, vec![message]).await.map(drop)
    }

    /// Records a new state of a message. Returns false if it cannot be stored or is not a legal
    /// change.
    async fn set_state(
        &self,
        session: SessionId,
        id: MessageId,
        state: MessageState,
        why: Option<&str>,
    ) -> bool {
        let why = why.map(str::to_owned);
        let receipt = Receipt { id, state, at: clock::now(), why: why.clone() };
        let pane = match self.apply(move |journals| journals.record(session, receipt)).await {
            Ok(Some(pane)) => pane,
            Ok(None) => return false,
            Err(error) => {
                warn!(message = %id, %session, %state, %error, "message state not recorded");
                return false;
            }
        };
        let event = match state {
            MessageState::Delivered => Some(EventBody::MessageDelivered { message: id, pane }),
            MessageState::Answered => Some(EventBody::MessageAnswered { message: id, pane }),
            MessageState::Failed | MessageState::Unsure => {
                let why = why.unwrap_or_default();
                Some(EventBody::MessageFailed { message: id, pane, why })
            }
            MessageState::Queued | MessageState::Typing | MessageState::Sent => None,
        };
        if let Some(event) = event {
            self.emit(vec![event]).await;
        }
        self.notify_subscribers();
        true
    }

    async fn emit(&self, events: Vec<EventBody>) {
        let emitted = self.registry.apply(Durability::ProcessCrash, move |change| {
            events.into_iter().try_for_each(|event| change.emit(event))
        });
        if let Err(error) = emitted.await {
            warn!(%error, "message events not recorded");
        }
    }

    /// Marks the message that the agent of a pane has accepted as delivered.
    pub(crate) async fn prompt_accepted(&self, pane: &Pane, prompt: String) {
        let (session, id) = (pane.session, pane.id);
        let found = self.apply(move |journals| {
            let open = journals.of(session).ok()?.of_pane(id, |state| {
                matches!(state, MessageState::Typing | MessageState::Sent | MessageState::Unsure)
            });
            let mut open = open.map(|tracked| &tracked.message);
            open.find(|message| message.is_prompt(&prompt)).map(|message| message.id)
        });
        if let Some(message) = found.await {
            self.set_state(session, message, MessageState::Delivered, None).await;
        }
    }

    /// Marks the messages of a pane as answered, because the turn of its agent has ended.
    pub(crate) async fn turn_ended(&self, pane: &Pane) {
        let Life::Live(keeper) = pane.life() else { return };
        let since = keeper.record.started;
        for id in self.delivered_since(pane, since).await {
            self.set_state(pane.session, id, MessageState::Answered, None).await;
        }
        // Delivery tasks that wait for the agent look at it now.
        self.notify_subscribers();
    }

    /// Returns the messages of a pane that were delivered since then and are not answered.
    async fn delivered_since(&self, pane: &Pane, since: model::Timestamp) -> Vec<MessageId> {
        let (session, id) = (pane.session, pane.id);
        let found = self.apply(move |journals| {
            let Ok(journal) = journals.of(session) else { return Vec::new() };
            let delivered = journal.of_pane(id, |state| state == MessageState::Delivered);
            let delivered = delivered.filter(|tracked| tracked.since() >= since);
            delivered.map(|tracked| tracked.message.id).collect()
        });
        found.await
    }

    /// Fails the messages that wait for a removed pane.
    async fn fail_waiting(&self, session: SessionId, pane: PaneId) {
        let waiting = self.apply(move |journals| {
            let Ok(journal) = journals.of(session) else { return Vec::new() };
            let waiting = journal.of_pane(pane, MessageState::is_waiting);
            waiting.map(|tracked| tracked.message.id).collect::<Vec<_>>()
        });
        for id in waiting.await {
            let why = Some("the pane was closed");
            self.set_state(session, id, MessageState::Failed, why).await;
        }
    }

    /// Returns whether the end of a turn in this pane can be detected.
    pub(crate) async fn detects_answers(&self, pane: PaneId) -> bool {
        let Some(pane) = self.panes.get(pane) else { return false };
        self.panes
            .conversations
            .agent_of(&pane)
            .await
            .is_some_and(|(agent, _)| agent.prompting.is_some())
    }

    /// Opens the journals that the last daemon wrote. Settles messages that it was delivering to
    /// panes that have ended since, before any of these panes can be started again.
    pub(crate) async fn open_journals(self: &Arc<Self>) {
        let sessions = self.registry.read(|change| change.sessions()).await;
        for row in sessions.unwrap_or_default() {
            let (id, name) = (row.record.id, row.record.name);
            match self.apply(move |journals| journals.open(id)).await {
                Ok(None) => {}
                Ok(Some(damage)) => self.runtime.add_problem(format!(
                    "{} lines of the message journal of session {name} are invalid; the damaged \
                     file is kept as {}",
                    damage.lines,
                    damage.kept_as.display()
                )),
                Err(error) => self.runtime.add_problem(format!(
                    "cannot read the message journal of session {name}: {error}"
                )),
            }
        }
        for pane in self.panes.all() {
            if pane.status().state.is_live() {
                self.start_delivery(pane.id);
            } else {
                self.settle_messages(&pane).await;
            }
        }
    }
}
