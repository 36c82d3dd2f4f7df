//! Messages between panes: kept until they can be delivered, delivered once, and confirmed.
//!
//! ```text
//!  operations --- take_on ---> books ---> sessions/<id>/messages/messages.jsonl
//!                                ^
//!  courier, one per pane --------+      looks at the screen until the receiver can take it,
//!     |                          |      writes down that it types, types, writes down that it did
//!     v                          |
//!  keeper                      hooks    an agent says which prompt it accepted, and that its turn
//!                                       is over
//! ```
//!
//! The books are behind one lock, held while a line is written and never across an await. What is
//! answered is on disk. A courier does one step at a time, each from what the book says, so that
//! the next daemon goes on where this one was killed; what was typed is asked of the keeper, which
//! types nothing twice under one name. Nothing is looked at unless a message waits for it.

mod books;
mod courier;
mod receiver;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::StateRoot;
use host::clock;
use host::file::Survive;
use model::event::Happening;
use model::message::book::Noted;
use model::message::{Message, MessageState, Receipt};
use model::{MessageId, PaneId, SessionId};
use protocol::ErrorBody;
use tokio::sync::watch;
use tracing::warn;

use crate::pane::{Life, Pane};
use crate::supervisor::{Supervisor, run_blocking};

pub(crate) use books::{Books, Taken};

/// The outside of the books, and who is on the way.
#[derive(Debug)]
pub(crate) struct Messages {
    books: Arc<Mutex<Books>>,
    /// Counts what became of messages, for those who wait for it.
    changed: watch::Sender<u64>,
    /// The panes that have a courier, and whether it was called again meanwhile.
    couriers: Mutex<HashMap<PaneId, bool>>,
}

impl Messages {
    pub(crate) fn new(root: StateRoot) -> Self {
        let books = Arc::new(Mutex::new(Books::new(root)));
        Self { books, changed: watch::channel(0).0, couriers: Mutex::default() }
    }

    /// Does something with the books.
    pub(crate) async fn apply<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Books) -> T + Send + 'static,
    ) -> T {
        let books = Arc::clone(&self.books);
        run_blocking(move || work(&mut books.lock().unwrap_or_else(PoisonError::into_inner))).await
    }

    /// Learns of whatever becomes of messages from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Something became of a message, or may become of one.
    fn touch(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn couriers(&self) -> MutexGuard<'_, HashMap<PaneId, bool>> {
        self.couriers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Supervisor {
    /// Takes messages on and sees to their delivery; those that the same request led to before, if
    /// it is one that was made already.
    pub(crate) async fn take_messages(
        self: &Arc<Self>,
        session: SessionId,
        messages: Vec<Message>,
    ) -> Result<Vec<Noted>, ErrorBody> {
        let taken = self.messages.apply(move |books| books.take_on(session, messages)).await?;
        let Taken { noted, fresh } = taken;
        if fresh {
            let told = noted.iter().map(|Noted { message, .. }| Happening::MessageQueued {
                message: message.id,
                session,
                pane: message.to,
                from: message.from.as_ref().map(|from| from.pane),
            });
            self.tell_messages(told.collect()).await;
            self.messages.touch();
        }
        for Noted { message, .. } in &noted {
            self.deliver_soon(message.to);
        }
        Ok(noted)
    }

    /// Has a prompt said to a pane, by nobody in particular, as soon as it can take it.
    pub(crate) async fn queue_prompt(
        self: &Arc<Self>,
        pane: PaneId,
        text: &str,
    ) -> Result<(), ErrorBody> {
        let gone = || crate::command::resolution::no_pane(pane);
        let session = self.pane(pane).ok_or_else(gone)?.session;
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
        self.take_messages(session, vec![message]).await.map(drop)
    }

    /// Puts on record what became of a message; whether that is so now.
    async fn note_message(
        &self,
        session: SessionId,
        id: MessageId,
        state: MessageState,
        why: Option<&str>,
    ) -> bool {
        let why = why.map(str::to_owned);
        let receipt = Receipt { id, state, at: clock::now(), why: why.clone() };
        let pane = match self.messages.apply(move |books| books.note(session, receipt)).await {
            Ok(Some(pane)) => pane,
            Ok(None) => return false,
            Err(error) => {
                warn!(message = %id, %error, "what became of it is not on record");
                return false;
            }
        };
        let told = match state {
            MessageState::Delivered => Some(Happening::MessageDelivered { message: id, pane }),
            MessageState::Answered => Some(Happening::MessageAnswered { message: id, pane }),
            MessageState::Failed | MessageState::Unsure => {
                let why = why.unwrap_or_default();
                Some(Happening::MessageFailed { message: id, pane, why })
            }
            MessageState::Queued | MessageState::Typing | MessageState::Sent => None,
        };
        if let Some(told) = told {
            self.tell_messages(vec![told]).await;
        }
        self.messages.touch();
        true
    }

    async fn tell_messages(&self, told: Vec<Happening>) {
        let emitted = self.registry.apply(Survive::Kill, move |change| {
            told.into_iter().try_for_each(|what| change.emit(what))
        });
        if let Err(error) = emitted.await {
            warn!(%error, "events of messages are not recorded");
        }
    }

    /// The agent of a pane has accepted a prompt.
    pub(crate) async fn prompt_accepted(&self, pane: &Pane, prompt: String) {
        let (session, id) = (pane.session, pane.id);
        let found = self.messages.apply(move |books| {
            let open = books.of(session).ok()?.of_pane(id, |state| {
                matches!(state, MessageState::Typing | MessageState::Sent | MessageState::Unsure)
            });
            let mut open = open.map(|noted| &noted.message);
            open.find(|message| message.is_prompt(&prompt)).map(|message| message.id)
        });
        if let Some(message) = found.await {
            self.note_message(session, message, MessageState::Delivered, None).await;
        }
    }

    /// The turn of a pane's agent is over.
    pub(crate) async fn turn_is_over(&self, pane: &Pane) {
        let Life::Live(keeper) = pane.life() else { return };
        let since = keeper.record.started;
        for id in self.delivered(pane, since).await {
            self.note_message(pane.session, id, MessageState::Answered, None).await;
        }
        // Whoever waits for the agent to be free should look now.
        self.messages.touch();
    }

    /// What a pane has got since then, and has not answered.
    async fn delivered(&self, pane: &Pane, since: model::Timestamp) -> Vec<MessageId> {
        let (session, id) = (pane.session, pane.id);
        let found = self.messages.apply(move |books| {
            let Ok(book) = books.of(session) else { return Vec::new() };
            let open = book.of_pane(id, |state| state == MessageState::Delivered);
            open.filter(|noted| noted.since() >= since).map(|noted| noted.message.id).collect()
        });
        found.await
    }

    /// A pane is gone for good: what waited for it fails.
    pub(crate) async fn fail_messages(&self, session: SessionId, pane: PaneId) {
        let waiting = self.messages.apply(move |books| {
            let Ok(book) = books.of(session) else { return Vec::new() };
            let waiting = book.of_pane(pane, MessageState::is_waiting);
            waiting.map(|noted| noted.message.id).collect::<Vec<_>>()
        });
        for id in waiting.await {
            let why = Some("the pane was closed");
            self.note_message(session, id, MessageState::Failed, why).await;
        }
    }

    /// Whether the program of a pane tells in any way when it has answered.
    pub(crate) async fn tells_answers(&self, pane: PaneId) -> bool {
        let Some(pane) = self.pane(pane) else { return false };
        self.agent_of(&pane).await.is_some_and(|(agent, _)| agent.prompting.is_some())
    }

    /// Reads the books of the last daemon. What it left half done in panes that have ended since is
    /// decided before any of them can be started again.
    pub(crate) async fn open_messages(self: &Arc<Self>) {
        let sessions = self.registry.read(|change| change.sessions()).await;
        for row in sessions.unwrap_or_default() {
            let (id, name) = (row.record.id, row.record.name);
            match self.messages.apply(move |books| books.open(id)).await {
                Ok(None) => {}
                Ok(Some(damage)) => self.add_problem(format!(
                    "{} lines of the messages of session {name} make no sense; the file is kept \
                     as {}",
                    damage.lines,
                    damage.kept_as.display()
                )),
                Err(error) => {
                    self.add_problem(format!(
                        "the messages of session {name} cannot be read: {error}"
                    ));
                }
            }
        }
        for pane in self.every_pane() {
            if pane.look().state.is_live() {
                self.deliver_soon(pane.id);
            } else {
                self.settle_messages(&pane).await;
            }
        }
    }
}
