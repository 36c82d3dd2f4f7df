//! The courier of a pane: brings it its messages, one after the other.
//!
//! One task per pane that something waits for, and none otherwise. It takes each step from what the
//! book says, and the book is written before and after the one step that cannot be taken back. A
//! message whose typing was begun is never begun again, unless its keeper or the agent's own record
//! proves that nothing came of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::PaneId;
use model::agent::prompting::Readiness;
use model::message::book::Noted;
use model::message::{Message, MessageState};
use protocol::ErrorCode;
use protocol::look::Typing;
use protocol::pane::{Request, Response};
use tracing::{info, warn};

use super::receiver::{Receiver, Written};
use crate::keeper::{self, Silent};
use crate::pane::Pane;
use crate::supervisor::{Supervisor, point};

/// How long a terminal may take to take a message before it is asked again.
const TYPED_WITHIN: Duration = Duration::from_secs(30);

/// How long to wait before what failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long an agent may take to accept what was typed, on a machine that is busy with others.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(120);

/// An agent that still shows the words in its box after this has not taken the Enter: it was busy
/// with its start.
const ENTER_AGAIN: Duration = Duration::from_secs(3);

/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(400);

/// How long an agent that tells nothing may take to show that its turn has begun. A turn that is
/// over before anybody looked is taken for one after this.
const BEGINS: Duration = Duration::from_secs(10);

impl Supervisor {
    /// Sees to it that somebody brings a pane its messages.
    pub(crate) fn deliver_soon(self: &Arc<Self>, pane: PaneId) {
        let mut called = false;
        self.messages.couriers().entry(pane).and_modify(|again| *again = true).or_insert_with(
            || {
                called = true;
                false
            },
        );
        if !called {
            return;
        }
        let this = Arc::clone(self);
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = this.deliver(pane) => {}
                    () = this.stopping.cancelled() => return,
                }
                let mut couriers = this.messages.couriers();
                if couriers.insert(pane, false) != Some(true) {
                    couriers.remove(&pane);
                    return;
                }
            }
        });
    }

    /// Brings a pane what waits for it, until nothing does or it has ended.
    async fn deliver(self: &Arc<Self>, id: PaneId) {
        let Some(pane) = self.pane(id) else { return };
        while self.is_expected(&pane).await {
            let Some(receiver) = self.receiver(&pane).await else { return };
            let Some(next) = self.next_step(&receiver).await else { return };
            let went_on = match next.state() {
                MessageState::Queued => self.bring_message(&receiver, &next).await,
                MessageState::Typing => self.resume(&receiver, &next).await,
                MessageState::Sent => self.confirm(&receiver, &next).await,
                MessageState::Delivered => self.hear_out(&receiver).await,
                MessageState::Unsure | MessageState::Answered | MessageState::Failed => return,
            };
            if !receiver.lives() {
                self.settle_messages(&pane).await;
            } else if !went_on {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Whether anything is to be done for a pane at all, which is no for most of them.
    async fn is_expected(&self, pane: &Pane) -> bool {
        let (session, id) = (pane.session, pane.id);
        let expected = self.messages.apply(move |books| {
            let is_over = |state| matches!(state, MessageState::Answered | MessageState::Failed);
            let book = books.of(session).ok()?;
            book.of_pane(id, |state| !is_over(state)).next().map(drop)
        });
        expected.await.is_some()
    }

    /// The message that something is to be done about: one that is not confirmed, then one whose
    /// answer only the screen will tell, then the first that waits.
    async fn next_step(&self, receiver: &Receiver) -> Option<Noted> {
        let (session, pane) = (receiver.pane.session, receiver.pane.id);
        let by_screen = receiver.agent.prompting.is_some() && !receiver.tells;
        let since = receiver.keeper.record.started;
        let found = self.messages.apply(move |books| {
            let book = books.of(session).ok()?;
            let sent = book.of_pane(pane, |state| state == MessageState::Sent).next();
            let open = || {
                let open = book.of_pane(pane, |state| state == MessageState::Delivered);
                open.filter(|noted| by_screen && noted.since() >= since).last()
            };
            sent.or_else(open).or_else(|| book.next_of(pane)).cloned()
        });
        found.await
    }

    /// Puts on record what became of a message.
    async fn became(&self, message: &Message, state: MessageState, why: Option<&str>) -> bool {
        self.note_message(message.session, message.id, state, why).await
    }

    /// Types a message that waits, when the pane can take it.
    async fn bring_message(&self, receiver: &Receiver, next: &Noted) -> bool {
        if !self.wait_ready(receiver).await {
            return true;
        }
        let message = &next.message;
        if !self.became(message, MessageState::Typing, None).await {
            return false;
        }
        point("message.noted").await;
        self.type_in(receiver, message).await
    }

    /// Goes on with a message that somebody was about to type.
    async fn resume(&self, receiver: &Receiver, next: &Noted) -> bool {
        let message = &next.message;
        if next.since() < receiver.keeper.record.started {
            self.settle_message(&receiver.pane, next).await;
            return true;
        }
        let name = message.id.to_string();
        match keeper::ask(&receiver.pane.dir, &Request::WasTyped { name }, TYPED_WITHIN).await {
            Ok(Response::WasTyped { typed: true }) => self.type_in(receiver, message).await,
            Ok(Response::WasTyped { typed: false }) => {
                let why = Some("the daemon ended before it was typed");
                self.became(message, MessageState::Queued, why).await
            }
            Ok(_) | Err(Silent::Answer(_)) => {
                let why = Some("the daemon ended while it was typed, and its keeper cannot tell");
                self.became(message, MessageState::Unsure, why).await
            }
            Err(_) => false,
        }
    }

    /// Types a message; under one name it is typed once, however often this is asked.
    async fn type_in(&self, receiver: &Receiver, message: &Message) -> bool {
        let session = message.session;
        let Ok(row) = self.registry.read(move |change| change.session(session)).await else {
            return false;
        };
        let text = message.typed(receiver.heading(), &row.record.name);
        let typing = Typing { text, enter: true, ..Typing::default() };
        let name = message.id.to_string();
        let asked = Request::TypeOnce { name, typing: typing.clone() };
        let typed = match keeper::ask(&receiver.pane.dir, &asked, TYPED_WITHIN).await {
            // A keeper of an older release knows no names.
            Err(Silent::Answer(body)) if body.code == ErrorCode::Usage => {
                keeper::ask(&receiver.pane.dir, &Request::Type(typing), TYPED_WITHIN).await
            }
            typed => typed,
        };
        match typed {
            Ok(_) => {
                point("message.typed").await;
                self.note_change(receiver.pane.id);
                let confirms = receiver.agent.prompting.is_some();
                let state = if confirms { MessageState::Sent } else { MessageState::Delivered };
                // An agent may have confirmed it meanwhile.
                let _confirmed = self.became(message, state, None).await;
                true
            }
            Err(Silent::Answer(body)) => {
                info!(message = %message.id, why = body.message, "not typed");
                self.became(message, MessageState::Queued, Some(&body.message)).await;
                false
            }
            Err(silent) => {
                warn!(message = %message.id, %silent, "it may be typed");
                false
            }
        }
    }

    /// Waits until an agent has accepted what was typed. It is believed if it tells; otherwise its
    /// box is empty again.
    async fn confirm(&self, receiver: &Receiver, next: &Noted) -> bool {
        let message = &next.message;
        if next.since() < receiver.keeper.record.started {
            self.settle_message(&receiver.pane, next).await;
            return true;
        }
        let begun = Instant::now();
        let mut changed = self.messages.subscribe();
        let (mut entered, mut empty) = (false, 0);
        while self.is_sent(message).await && receiver.lives() {
            let looked = receiver.look().await;
            match looked.and_then(|looked| receiver.readiness(&looked)) {
                Some(Readiness::Composing(words)) => {
                    empty = 0;
                    if !entered && begun.elapsed() >= ENTER_AGAIN && message.is_composed(&words) {
                        entered = true;
                        self.press_enter(receiver).await;
                    }
                }
                Some(Readiness::Ready | Readiness::Busy) => empty += 1,
                Some(Readiness::Away) | None => {}
            }
            if !receiver.tells && empty >= 2 {
                return self.became(message, MessageState::Delivered, None).await;
            }
            if receiver.tells && empty >= 2 {
                self.look_it_up(receiver, message).await;
            }
            if begun.elapsed() >= ACCEPTED_WITHIN {
                let why = Some("the agent has not confirmed it");
                return self.became(message, MessageState::Unsure, why).await;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = changed.changed() => {}
            }
        }
        true
    }

    /// Looks for a message in what its agent has written down: nobody may have listened when the
    /// agent told.
    async fn look_it_up(&self, receiver: &Receiver, message: &Message) {
        if self.written(&receiver.pane, message).await != Written::Yes {
            return;
        }
        self.became(message, MessageState::Delivered, None).await;
        let idle = self.idle_since(receiver.pane.id).await;
        if idle.is_some_and(|since| since > message.at) {
            self.became(message, MessageState::Answered, None).await;
        }
    }

    async fn is_sent(&self, message: &Message) -> bool {
        let (session, id) = (message.session, message.id);
        let state =
            self.messages.apply(move |books| Some(books.of(session).ok()?.get(id)?.state()));
        state.await == Some(MessageState::Sent)
    }

    async fn press_enter(&self, receiver: &Receiver) {
        let enter = Request::Type(Typing { enter: true, ..Typing::default() });
        if let Err(silent) = keeper::ask(&receiver.pane.dir, &enter, TYPED_WITHIN).await {
            warn!(pane = %receiver.pane.id, %silent, "Enter was not pressed again");
        }
    }

    /// Waits for the end of the turn that the last message led to, where only the screen tells.
    async fn hear_out(&self, receiver: &Receiver) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < BEGINS && receiver.lives() {
            let looked = receiver.look().await;
            let readiness = looked.and_then(|looked| receiver.readiness(&looked));
            if readiness == Some(Readiness::Busy) {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        if self.wait_ready(receiver).await {
            self.turn_is_over(&receiver.pane).await;
        }
        true
    }

    /// Decides what became of messages that were under way when a pane ended.
    pub(crate) async fn settle_messages(&self, pane: &Pane) {
        let (session, id) = (pane.session, pane.id);
        let open = self.messages.apply(move |books| {
            let Ok(book) = books.of(session) else { return Vec::new() };
            let open = book
                .of_pane(id, |state| matches!(state, MessageState::Typing | MessageState::Sent));
            open.cloned().collect::<Vec<_>>()
        });
        for noted in open.await {
            self.settle_message(pane, &noted).await;
        }
    }

    /// What is in the agent's own record was delivered. What is not in it is unknown to whoever
    /// goes on with the conversation, so it is brought again. Of a program that keeps no record
    /// nobody can tell.
    async fn settle_message(&self, pane: &Pane, noted: &Noted) {
        let (state, why) = match self.written(pane, &noted.message).await {
            Written::Yes => (MessageState::Delivered, None),
            Written::No => {
                (MessageState::Queued, Some("its program ended before it had accepted it"))
            }
            Written::Unknown => {
                (MessageState::Unsure, Some("its program ended when it may have had it"))
            }
        };
        self.became(&noted.message, state, why).await;
    }
}
