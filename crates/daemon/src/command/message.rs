//! Messages between panes: who is meant, what is on record, and waiting for it.

use std::sync::Arc;
use std::time::Duration;

use host::clock;
use host::store::SessionRow;
use model::message::book::Noted;
use model::message::route::{Member, NoRoute, route};
use model::message::{LONGEST, Message, MessageState, Sender};
use model::{MessageId, PaneId};
use protocol::control::Response;
use protocol::message::{Awaited, MessageRequest, MessageView, Messages, SendMessage};
use protocol::{ErrorBody, ErrorCode};
use tokio::time::timeout;

use super::Failure;
use super::resolution::{Rows, no_pane};
use super::wait::stopping;
use crate::supervisor::Supervisor;

/// The fewest digits of an id that are taken as one.
const SHORTEST: usize = model::resolve::SHORTEST_PREFIX;

impl Supervisor {
    /// Something about messages.
    pub(super) async fn message(
        self: &Arc<Self>,
        request: MessageRequest,
    ) -> Result<Response, Failure> {
        let rows = self.rows().await?;
        let found = match request {
            MessageRequest::Send(wish) => self.send_message(&rows, wish).await?,
            MessageRequest::Wait { ids, until, timeout_ms } => {
                let patience = timeout_ms.map_or(Duration::MAX, Duration::from_millis);
                self.wait_for_messages(&ids, until, patience).await?
            }
            MessageRequest::List { session, pane, state } => {
                self.list_messages(&rows, session.as_deref(), pane.as_deref(), state).await?
            }
            MessageRequest::Show { id } => vec![self.find_message(&id).await?],
        };
        let name = |pane: PaneId| rows.panes.iter().find(|row| row.id == pane);
        let views = found.into_iter().map(|Noted { message, receipts }| {
            let name = name(message.to).map(|row| row.name.clone());
            MessageView::new(message, receipts, name)
        });
        Ok(Response::Messages(Messages { messages: views.collect() }))
    }

    async fn send_message(
        self: &Arc<Self>,
        rows: &Rows,
        wish: SendMessage,
    ) -> Result<Vec<Noted>, ErrorBody> {
        check(&wish)?;
        let from = wish.from.map(|pane| sender(rows, pane)).transpose()?;
        let session = session_of(rows, &wish)?;
        let members: Vec<Member> = rows
            .panes_of(session.record.id)
            .filter(|row| !row.closing)
            .map(|row| {
                let launch = self.pane(row.id).and_then(|pane| pane.launch());
                Member {
                    pane: row.id,
                    name: row.name.clone(),
                    role: launch.as_ref().and_then(|launch| launch.role.clone()),
                    unit: launch.and_then(|launch| launch.unit.as_ref().map(ToString::to_string)),
                }
            })
            .collect();
        let meant = route(&wish.to, wish.from, &members)
            .map_err(|why| nobody(&wish.to, &session, &members, why))?;
        let at = clock::now();
        let messages = meant.into_iter().map(|to| Message {
            id: MessageId::from_random(clock::random_id()),
            session: session.record.id,
            from: from.clone(),
            to,
            asked: wish.to.clone(),
            text: wish.text.clone(),
            raw: wish.raw,
            key: wish.key.clone(),
            at,
        });
        let messages = messages.collect();
        self.take_messages(session.record.id, messages).await
    }

    async fn list_messages(
        &self,
        rows: &Rows,
        session: Option<&str>,
        pane: Option<&str>,
        state: Option<MessageState>,
    ) -> Result<Vec<Noted>, ErrorBody> {
        let session = session.map(|text| rows.find_session(text)).transpose()?;
        let session = session.map(|row| row.record.id);
        let pane = pane.map(|text| rows.find_pane(text)).transpose()?.map(|row| row.id);
        let found = self.messages.apply(move |books| {
            let all = books.all().flat_map(|book| book.iter());
            let mut found: Vec<Noted> = all
                .filter(|Noted { message, .. }| session.is_none_or(|id| message.session == id))
                .filter(|Noted { message, .. }| pane.is_none_or(|id| message.to == id))
                .filter(|noted| state.is_none_or(|state| noted.state() == state))
                .cloned()
                .collect();
            found.sort_by_key(|noted| noted.message.at);
            found
        });
        Ok(found.await)
    }

    async fn find_message(&self, text: &str) -> Result<Noted, ErrorBody> {
        let sought = text.to_owned();
        let mut found = self
            .messages
            .apply(move |books| {
                let fits = |noted: &&Noted| {
                    let id = noted.message.id.to_string();
                    id == sought || (sought.len() >= SHORTEST && id.starts_with(&sought))
                };
                let all = books.all().flat_map(|book| book.iter());
                all.filter(fits).cloned().collect::<Vec<_>>()
            })
            .await;
        match (found.pop(), found.len()) {
            (Some(one), 0) => Ok(one),
            (None, _) => {
                let message = format!("there is no message {text:?}");
                Err(ErrorBody::new(ErrorCode::NotFound, message)
                    .hint("see what there is with `ccmux message ls`"))
            }
            (Some(_), others) => {
                let message = format!("{text:?} could be any of {} messages", others + 1);
                Err(ErrorBody::new(ErrorCode::Conflict, message).hint("give more of its id"))
            }
        }
    }

    async fn wait_for_messages(
        self: &Arc<Self>,
        ids: &[MessageId],
        until: Awaited,
        patience: Duration,
    ) -> Result<Vec<Noted>, ErrorBody> {
        let waited = async {
            let mut changed = self.messages.subscribe();
            loop {
                let found = self.messages_by_id(ids).await?;
                for noted in &found {
                    self.check_may_come(noted, until).await?;
                }
                if found.iter().all(|noted| until.is_reached(noted.state())) {
                    return Ok(found);
                }
                // The sender lives as long as we do.
                let _alive = changed.changed().await;
            }
        };
        tokio::select! {
            waited = timeout(patience, waited) => match waited {
                Ok(result) => result,
                Err(_) => Err(self.too_late(ids, patience).await),
            },
            () = self.stopping.cancelled() => Err(stopping()),
        }
    }

    async fn messages_by_id(&self, ids: &[MessageId]) -> Result<Vec<Noted>, ErrorBody> {
        let sought = ids.to_vec();
        let found: Vec<Noted> = self
            .messages
            .apply(move |books| {
                let get = |id: &MessageId| books.all().find_map(|book| book.get(*id)).cloned();
                sought.iter().filter_map(get).collect()
            })
            .await;
        if found.len() == ids.len() {
            return Ok(found);
        }
        Err(ErrorBody::new(ErrorCode::NotFound, "a message is gone, with its session"))
    }

    /// Whether a message may still come as far as somebody waits for.
    async fn check_may_come(&self, noted: &Noted, until: Awaited) -> Result<(), ErrorBody> {
        let id = noted.message.id;
        let why = || {
            let why = noted.receipts.last().and_then(|receipt| receipt.why.clone());
            why.unwrap_or_else(|| "nobody knows why".to_owned())
        };
        let refuse = |code, text| Err(ErrorBody::new(code, text));
        match noted.state() {
            MessageState::Failed => {
                refuse(ErrorCode::Conflict, format!("message {id} failed: {}", why()))
            }
            MessageState::Unsure => refuse(
                ErrorCode::Failed,
                format!("nobody can tell whether message {id} was delivered: {}", why()),
            ),
            MessageState::Delivered if until == Awaited::Answered => {
                if self.tells_answers(noted.message.to).await {
                    return Ok(());
                }
                let text = format!(
                    "message {id} was delivered, to a program that does not tell when it has \
                     answered"
                );
                refuse(ErrorCode::Conflict, text)
            }
            MessageState::Queued
            | MessageState::Typing
            | MessageState::Sent
            | MessageState::Delivered
            | MessageState::Answered => Ok(()),
        }
    }

    async fn too_late(&self, ids: &[MessageId], patience: Duration) -> ErrorBody {
        let found = self.messages_by_id(ids).await.unwrap_or_default();
        let states: Vec<String> = found
            .iter()
            .map(|noted| format!("{} is {}", noted.message.id, noted.state()))
            .collect();
        let message = format!("after {patience:?}, {}", states.join(", "));
        ErrorBody::new(ErrorCode::TimedOut, message)
            .hint("they are still on their way; see `ccmux message ls`")
    }
}

/// What is wrong with a wish, whoever it is for.
fn check(wish: &SendMessage) -> Result<(), ErrorBody> {
    let usage = |message: String| ErrorBody::new(ErrorCode::Usage, message);
    if wish.text.trim().is_empty() {
        return Err(usage("nothing to say".to_owned()).hint("give some text"));
    }
    if wish.text.len() > LONGEST {
        let message = format!("{} bytes are too long for a message", wish.text.len());
        return Err(usage(message).hint("give the receiver a file to read instead"));
    }
    Ok(())
}

fn sender(rows: &Rows, pane: PaneId) -> Result<Sender, ErrorBody> {
    let row = rows.panes.iter().find(|row| row.id == pane).ok_or_else(|| no_pane(pane))?;
    let session = rows.session(row.session).ok_or_else(|| no_pane(pane))?;
    Ok(Sender { pane, name: row.name.clone(), session: session.record.name.clone() })
}

/// The session in which the receivers are looked for. Nothing is guessed.
fn session_of(rows: &Rows, wish: &SendMessage) -> Result<SessionRow, ErrorBody> {
    if let Some(session) = &wish.session {
        return rows.find_session(session).cloned();
    }
    let whole_id = wish.to.parse::<PaneId>().ok();
    let pane = wish.from.filter(|_| whole_id.is_none()).or(whole_id);
    let found = pane.and_then(|pane| rows.panes.iter().find(|row| row.id == pane));
    if let Some(session) = found.and_then(|row| rows.session(row.session)) {
        return Ok(session.clone());
    }
    if let Some(pane) = whole_id {
        return Err(no_pane(pane));
    }
    Err(ErrorBody::new(ErrorCode::Usage, format!("in which session is {:?}?", wish.to))
        .hint("name it with --session, or run this in one of its panes; a whole id needs neither"))
}

/// There is nobody to say it to: says who there is.
fn nobody(to: &str, session: &SessionRow, members: &[Member], why: NoRoute) -> ErrorBody {
    let list = |members: &[Member]| -> String {
        members.iter().map(|member| format!("\n  {member}")).collect()
    };
    let name = &session.record.name;
    match why {
        NoRoute::Nobody if members.is_empty() => {
            ErrorBody::new(ErrorCode::NotFound, format!("the session {name} has no panes"))
                .hint(format!("start one with `ccmux new --session {name}`"))
        }
        NoRoute::Nobody => {
            let message = format!("nobody in the session {name} is {to:?}");
            ErrorBody::new(ErrorCode::NotFound, message)
                .hint(format!("these are there:{}", list(members)))
        }
        NoRoute::Several(several) => {
            let message = format!("{to:?} could be any of {} panes", several.len());
            ErrorBody::new(ErrorCode::Conflict, message)
                .hint(format!("name one of them:{}", list(&several)))
        }
        NoRoute::Oneself => {
            let message = format!("{to:?} is only the sender itself");
            ErrorBody::new(ErrorCode::Conflict, message)
                .hint(format!("these are there:{}", list(members)))
        }
    }
}
