//! Delivers the messages of a pane, one after the other.
//!
//! A pane has a delivery task while messages wait for it. Each step follows from the state in the
//! journal, and the journal is written before and after typing, the one step that cannot be undone.
//! A message is typed again only if the keeper or the agent's transcript proves that the program did
//! not receive it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::PaneId;
use model::agent::prompting::Readiness;
use model::message::journal::TrackedMessage;
use model::message::{Message, MessageState};
use protocol::ErrorCode;
use protocol::pane::{Request, Response};
use protocol::pane_io::Typing;
use tracing::{info, warn};

use super::Messages;
use super::recipient::{InTranscript, Recipient};
use crate::panes::Pane;
use crate::runtime::point;
use crate::wire::keeper::{self, KeeperError};

/// Timeout of a request to type.
const TYPE_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause before a failed step is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long an agent may take to accept a message, on a busy machine.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(120);

/// Time after which Enter is pressed again if the agent still shows the message in its input box.
/// An agent that is starting can miss the first one.
const ENTER_AGAIN_AFTER: Duration = Duration::from_secs(3);

/// Interval between two looks at the screen while a message is not confirmed.
const POLL_INTERVAL: Duration = Duration::from_millis(400);

/// How long an agent without hooks may take to show that its turn has started. A turn that was too
/// short to be seen counts as ended after this time.
const TURN_START_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether delivery continues at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Done,
    /// The step failed and is retried after a pause.
    Retry,
}

impl Step {
    fn done_if(done: bool) -> Self {
        if done { Self::Done } else { Self::Retry }
    }
}

impl Messages {
    /// Starts the delivery task of a pane. A running task checks for messages again when it is done.
    pub(crate) fn start_delivery(self: &Arc<Self>, pane: PaneId) {
        let mut is_new = false;
        self.deliveries.lock().entry(pane).and_modify(|again| *again = true).or_insert_with(|| {
            is_new = true;
            false
        });
        if !is_new {
            return;
        }
        let this = Arc::clone(self);
        self.runtime.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = this.deliver(pane) => {}
                    () = this.runtime.stopping.cancelled() => return,
                }
                let mut deliveries = this.deliveries.lock();
                if deliveries.insert(pane, false) != Some(true) {
                    deliveries.remove(&pane);
                    return;
                }
            }
        });
    }

    /// Delivers the messages of a pane until none is left or the pane has ended.
    async fn deliver(self: &Arc<Self>, id: PaneId) {
        let Some(pane) = self.panes.get(id) else { return };
        while self.has_unfinished(&pane).await {
            let Some(recipient) = self.recipient(&pane).await else { return };
            let Some(next) = self.next_message(&recipient).await else { return };
            let step = match next.state() {
                MessageState::Queued => self.type_when_ready(&recipient, &next).await,
                MessageState::Typing => self.resume_typing(&recipient, &next).await,
                MessageState::Sent => self.confirm(&recipient, &next).await,
                MessageState::Delivered => self.await_turn_end(&recipient).await,
                MessageState::Unsure | MessageState::Answered | MessageState::Failed => return,
            };
            if !recipient.is_live() {
                self.settle_messages(&pane).await;
            } else if step == Step::Retry {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    /// Returns whether a pane has messages that are neither answered nor failed.
    async fn has_unfinished(&self, pane: &Pane) -> bool {
        let (session, id) = (pane.session, pane.id);
        let found = self.apply(move |journals| {
            let is_over = |state| matches!(state, MessageState::Answered | MessageState::Failed);
            let journal = journals.of(session).ok()?;
            journal.of_pane(id, |state| !is_over(state)).next().map(drop)
        });
        found.await.is_some()
    }

    /// Returns the message to work on: one that is not confirmed, else one whose answer is detected
    /// on the screen, else the first that waits.
    async fn next_message(&self, recipient: &Recipient) -> Option<TrackedMessage> {
        let (session, pane) = (recipient.pane.session, recipient.pane.id);
        let by_screen = recipient.agent.prompting.is_some() && !recipient.reports_prompts;
        let started = recipient.keeper.record.started;
        let found = self.apply(move |journals| {
            let journal = journals.of(session).ok()?;
            let sent = journal.of_pane(pane, |state| state == MessageState::Sent).next();
            let delivered = || {
                let delivered = journal.of_pane(pane, |state| state == MessageState::Delivered);
                delivered.filter(|tracked| by_screen && tracked.since() >= started).last()
            };
            sent.or_else(delivered).or_else(|| journal.next_of(pane)).cloned()
        });
        found.await
    }

    async fn set(&self, message: &Message, state: MessageState, why: Option<&str>) -> bool {
        self.set_state(message.session, message.id, state, why).await
    }

    /// Types a queued message when the pane is ready.
    async fn type_when_ready(&self, recipient: &Recipient, next: &TrackedMessage) -> Step {
        if !self.wait_ready(recipient).await {
            return Step::Done;
        }
        let message = &next.message;
        if !self.set(message, MessageState::Typing, None).await {
            return Step::Retry;
        }
        point("message.noted").await;
        self.type_message(recipient, message).await
    }

    /// Continues with a message that an earlier daemon may have typed.
    async fn resume_typing(&self, recipient: &Recipient, next: &TrackedMessage) -> Step {
        let message = &next.message;
        if next.since() < recipient.keeper.record.started {
            self.settle_message(&recipient.pane, next).await;
            return Step::Done;
        }
        let name = message.id.to_string();
        match keeper::ask(&recipient.pane.dir, &Request::WasTyped { name }, TYPE_TIMEOUT).await {
            Ok(Response::WasTyped { typed: true }) => self.type_message(recipient, message).await,
            Ok(Response::WasTyped { typed: false }) => {
                let why = Some("the daemon ended before the message was typed");
                Step::done_if(self.set(message, MessageState::Queued, why).await)
            }
            Ok(_) | Err(KeeperError::Remote(_)) => {
                let why = Some(
                    "the daemon ended while the message was typed, and the keeper does not know \
                     whether it was",
                );
                Step::done_if(self.set(message, MessageState::Unsure, why).await)
            }
            Err(_) => Step::Retry,
        }
    }

    /// Types a message. The keeper types the message of one id only once.
    async fn type_message(&self, recipient: &Recipient, message: &Message) -> Step {
        let session = message.session;
        let Ok(row) = self.registry.read(move |change| change.session(session)).await else {
            return Step::Retry;
        };
        let text = message.typed(recipient.heading(), &row.record.name);
        let typing = Typing { text, enter: true, ..Typing::default() };
        let name = message.id.to_string();
        let request = Request::TypeOnce { name, typing: typing.clone() };
        let typed = match keeper::ask(&recipient.pane.dir, &request, TYPE_TIMEOUT).await {
            // Keepers of older releases do not know `TypeOnce`.
            Err(KeeperError::Remote(body)) if body.code == ErrorCode::Usage => {
                keeper::ask(&recipient.pane.dir, &Request::Type(typing), TYPE_TIMEOUT).await
            }
            typed => typed,
        };
        let pane = recipient.pane.id;
        match typed {
            Ok(_) => {
                point("message.typed").await;
                self.lifecycle.pane_changed(pane);
                let confirms = recipient.agent.prompting.is_some();
                let state = if confirms { MessageState::Sent } else { MessageState::Delivered };
                // Illegal if the agent has confirmed the message in the meantime.
                let _confirmed = self.set(message, state, None).await;
                Step::Done
            }
            Err(KeeperError::Remote(body)) => {
                info!(%pane, message = %message.id, why = body.message, "message not typed");
                self.set(message, MessageState::Queued, Some(&body.message)).await;
                Step::Retry
            }
            Err(error) => {
                warn!(%pane, message = %message.id, %error, "message typing unconfirmed");
                Step::Retry
            }
        }
    }

    /// Waits until the agent has accepted a typed message: reported by its hook, or, without hooks,
    /// seen from its empty input box.
    async fn confirm(&self, recipient: &Recipient, next: &TrackedMessage) -> Step {
        let message = &next.message;
        if next.since() < recipient.keeper.record.started {
            self.settle_message(&recipient.pane, next).await;
            return Step::Done;
        }
        let started = Instant::now();
        let mut changed = self.subscribe();
        // A single empty box may be a redraw.
        let (mut pressed_enter, mut seen_empty) = (false, 0);
        while self.is_sent(message).await && recipient.is_live() {
            let screen = recipient.screen().await;
            match screen.and_then(|screen| recipient.readiness(&screen)) {
                Some(Readiness::Composing(words)) => {
                    seen_empty = 0;
                    let is_late = started.elapsed() >= ENTER_AGAIN_AFTER;
                    if !pressed_enter && is_late && message.is_composed(&words) {
                        pressed_enter = true;
                        self.press_enter(recipient).await;
                    }
                }
                Some(Readiness::Ready | Readiness::Busy) => seen_empty += 1,
                Some(Readiness::Away) | None => {}
            }
            if seen_empty >= 2 {
                if !recipient.reports_prompts {
                    return Step::done_if(self.set(message, MessageState::Delivered, None).await);
                }
                self.confirm_from_transcript(recipient, message).await;
            }
            if started.elapsed() >= ACCEPT_TIMEOUT {
                let why = Some("the agent has not confirmed the message");
                return Step::done_if(self.set(message, MessageState::Unsure, why).await);
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = changed.changed() => {}
            }
        }
        Step::Done
    }

    /// Confirms a message that is in the agent's transcript. The hook may have run while no daemon
    /// did.
    async fn confirm_from_transcript(&self, recipient: &Recipient, message: &Message) {
        if self.in_transcript(&recipient.pane, message).await != InTranscript::Yes {
            return;
        }
        self.set(message, MessageState::Delivered, None).await;
        let idle = self.panes.conversations.idle_since(&recipient.pane).await;
        if idle.is_some_and(|since| since > message.at) {
            self.set(message, MessageState::Answered, None).await;
        }
    }

    async fn is_sent(&self, message: &Message) -> bool {
        let (session, id) = (message.session, message.id);
        let state = self.apply(move |journals| Some(journals.of(session).ok()?.get(id)?.state()));
        state.await == Some(MessageState::Sent)
    }

    async fn press_enter(&self, recipient: &Recipient) {
        let enter = Request::Type(Typing { enter: true, ..Typing::default() });
        if let Err(error) = keeper::ask(&recipient.pane.dir, &enter, TYPE_TIMEOUT).await {
            warn!(pane = %recipient.pane.id, %error, "enter not repeated");
        }
    }

    /// Waits for the end of the turn that the last message started, as seen on the screen.
    async fn await_turn_end(&self, recipient: &Recipient) -> Step {
        let started = Instant::now();
        while started.elapsed() < TURN_START_TIMEOUT && recipient.is_live() {
            let screen = recipient.screen().await;
            let readiness = screen.and_then(|screen| recipient.readiness(&screen));
            if readiness == Some(Readiness::Busy) {
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        if self.wait_ready(recipient).await {
            self.turn_ended(&recipient.pane).await;
        }
        Step::Done
    }

    /// Settles the messages that were being delivered when a pane ended.
    pub(super) async fn settle_messages(&self, pane: &Pane) {
        let (session, id) = (pane.session, pane.id);
        let open = self.apply(move |journals| {
            let Ok(journal) = journals.of(session) else { return Vec::new() };
            let open = journal
                .of_pane(id, |state| matches!(state, MessageState::Typing | MessageState::Sent));
            open.cloned().collect::<Vec<_>>()
        });
        for tracked in open.await {
            self.settle_message(pane, &tracked).await;
        }
    }

    /// Settles a message that was being delivered when a pane ended. A message in the agent's
    /// transcript was delivered. One that is not there is queued again, as the resumed conversation
    /// does not contain it. Without a transcript the result is unknown.
    async fn settle_message(&self, pane: &Pane, tracked: &TrackedMessage) {
        let (state, why) = match self.in_transcript(pane, &tracked.message).await {
            InTranscript::Yes => (MessageState::Delivered, None),
            InTranscript::No => {
                (MessageState::Queued, Some("the program ended before it had accepted the message"))
            }
            InTranscript::Unknown => (
                MessageState::Unsure,
                Some("the program ended when it may have received the message"),
            ),
        };
        self.set(&tracked.message, state, why).await;
    }
}
