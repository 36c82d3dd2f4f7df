//! Sends, lists and shows messages between panes, and waits for their delivery.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use host::clock;
use host::store::{SessionRow, StoreError};
use model::authority::{Access, Caller, decide};
use model::message::journal::TrackedMessage;
use model::message::route::{Member, NoRoute, route};
use model::message::{LONGEST, Message, MessageState, Sender};
use model::{MessageId, Name, PaneId, SessionId};
use protocol::message::{Awaited, MessageRequest, MessageView, Messages, SendMessage};
use tokio::time::timeout;

use super::Services;
use super::access::{AccessDenied, authorize, own_session};
use crate::fault::{Advice, Description, Fault, FaultKind, ShuttingDown, any_of};
use crate::messages::QueueError;
use crate::registry::{Rows, TargetError};

any_of! {
    /// Why a message request failed.
    pub(crate) enum MessageError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        Invalid(InvalidMessage),
        Route(RouteError),
        Queue(QueueError),
        Lookup(LookupError),
        Undelivered(Undelivered),
        Shutdown(ShuttingDown),
    }
}

/// A message that is invalid for any recipient.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidMessage {
    #[error("the message is empty")]
    Empty,
    #[error("the message has {0} bytes; at most {LONGEST} are allowed")]
    TooLong(usize),
    #[error("no session given for recipient {0:?}")]
    NoSession(String),
    #[error("recipient {to:?} is not in session {session:?}")]
    OtherSession { to: String, session: String },
}

impl Fault for InvalidMessage {
    fn describe(&self) -> Description {
        FaultKind::Invalid.advise(match self {
            Self::Empty => Advice::text("provide some text"),
            Self::TooLong(_) => Advice::text("put the text into a file and send its path"),
            Self::NoSession(_) => Advice::NameSession,
            Self::OtherSession { .. } => Advice::text("name the session only once"),
        })
    }
}

/// A recipient that does not select the panes it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RouteError {
    #[error("session {0} has no panes")]
    NoPanes(Name),
    #[error("no pane of session {session} matches {to:?}")]
    NoMatch { session: Name, to: String, members: Vec<Member> },
    #[error("{to:?} is ambiguous: it matches {} panes", matches.len())]
    Ambiguous { to: String, matches: Vec<Member> },
    #[error("{to:?} selects only the sender")]
    OnlySender { to: String, members: Vec<Member> },
}

impl Fault for RouteError {
    fn describe(&self) -> Description {
        let list = |members: &[Member]| -> String {
            members.iter().map(|member| format!("\n  {member}")).collect()
        };
        match self {
            Self::NoPanes(session) => {
                FaultKind::NotFound.advise(Advice::StartPane { session: session.to_string() })
            }
            Self::NoMatch { members, .. } => FaultKind::NotFound
                .advise(Advice::text(format!("the session has these panes:{}", list(members)))),
            Self::Ambiguous { matches, .. } => FaultKind::Conflict
                .advise(Advice::text(format!("name one of them:{}", list(matches)))),
            Self::OnlySender { members, .. } => FaultKind::Conflict
                .advise(Advice::text(format!("the session has these panes:{}", list(members)))),
        }
    }
}

/// A message id that does not select exactly one message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    #[error("no message {0:?}")]
    NotFound(String),
    #[error("{text:?} is ambiguous: it matches {count} messages")]
    Ambiguous { text: String, count: usize },
    #[error("a message was removed with its session")]
    Removed,
}

impl Fault for LookupError {
    fn describe(&self) -> Description {
        match self {
            Self::NotFound(_) => FaultKind::NotFound.advise(Advice::ListMessages),
            Self::Ambiguous { .. } => {
                FaultKind::Conflict.advise(Advice::text("give more characters of the id"))
            }
            Self::Removed => FaultKind::NotFound.plain(),
        }
    }
}

/// A message that did not reach the awaited state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undelivered {
    #[error("message {id} failed: {why}")]
    Failed { id: MessageId, why: String },
    #[error("it is unknown whether message {id} was delivered: {why}")]
    Unsure { id: MessageId, why: String },
    #[error("message {id} was delivered to a program that does not report answers")]
    NoAnswers { id: MessageId },
    #[error("after {timeout:?}, {states}")]
    TimedOut { timeout: Duration, states: String },
}

impl Fault for Undelivered {
    fn describe(&self) -> Description {
        match self {
            Self::Failed { .. } | Self::NoAnswers { .. } => FaultKind::Conflict.plain(),
            Self::Unsure { .. } => FaultKind::Failed.plain(),
            Self::TimedOut { .. } => FaultKind::TimedOut.advise(Advice::ListMessages),
        }
    }
}

/// The minimum length of an id prefix.
const MIN_PREFIX: usize = model::resolve::SHORTEST_PREFIX;

/// Performs a message request and returns the messages concerned.
pub(crate) async fn message(
    services: &Arc<Services>,
    caller: &Caller,
    request: MessageRequest,
) -> Result<Messages, MessageError> {
    let rows = services.panes.rows().await?;
    let found = match request {
        MessageRequest::Send(send) => send_message(services, caller, &rows, send).await?,
        MessageRequest::Wait { ids, until, timeout_ms } => {
            let timeout = timeout_ms.map_or(Duration::MAX, Duration::from_millis);
            authorize_read(services, caller, &messages_by_id(services, &ids).await?).await?;
            wait_for_messages(services, &ids, until, timeout).await?
        }
        MessageRequest::List { session, pane, state } => {
            let mut found =
                list_messages(services, &rows, session.as_deref(), pane.as_deref(), state).await?;
            if session.is_none() && pane.is_none() {
                retain_readable(services, caller, &mut found).await;
            }
            authorize_read(services, caller, &found).await?;
            found
        }
        MessageRequest::Show { id } => {
            let found = vec![find_message(services, &id).await?];
            authorize_read(services, caller, &found).await?;
            found
        }
    };
    let name = |pane: PaneId| rows.panes.iter().find(|row| row.id == pane);
    let views = found.into_iter().map(|TrackedMessage { message, receipts }| {
        let name = name(message.to).map(|row| row.name.clone());
        MessageView::new(message, receipts, name)
    });
    Ok(Messages { messages: views.collect() })
}

async fn send_message(
    services: &Arc<Services>,
    caller: &Caller,
    rows: &Rows,
    mut request: SendMessage,
) -> Result<Vec<TrackedMessage>, MessageError> {
    check(&request)?;
    // A pane is always the sender of its own messages, regardless of its environment.
    if let Caller::Pane { pane, .. } = caller {
        request.from = Some(*pane);
    }
    let from = request.from.map(|pane| sender(rows, pane)).transpose()?;
    let asked = request.to.clone();
    split_recipient(rows, &mut request)?;
    let session = recipient_session(rows, &request)?;
    authorize(services, caller, Access::Control, Some(session.record.id)).await?;
    let members: Vec<Member> = rows
        .panes_of(session.record.id)
        .filter(|row| !row.closing)
        .map(|row| {
            let launch = services.panes.get(row.id).and_then(|pane| pane.launch());
            Member {
                pane: row.id,
                name: row.name.clone(),
                role: launch.as_ref().and_then(|launch| launch.role.clone()),
                unit: launch.and_then(|launch| launch.unit.as_ref().map(ToString::to_string)),
            }
        })
        .collect();
    let recipients = route(&request.to, request.from, &members)
        .map_err(|why| route_error(&request.to, &session, &members, why))?;
    let at = clock::now();
    let messages = recipients.into_iter().map(|to| Message {
        id: MessageId::from_random(clock::random_id()),
        session: session.record.id,
        from: from.clone(),
        to,
        asked: asked.clone(),
        text: request.text.clone(),
        raw: request.raw,
        key: request.key.clone(),
        at,
    });
    let messages = messages.collect();
    Ok(services.messages.queue_messages(session.record.id, messages).await?)
}

async fn authorize_read(
    services: &Services,
    caller: &Caller,
    found: &[TrackedMessage],
) -> Result<(), AccessDenied> {
    let sessions: BTreeSet<SessionId> =
        found.iter().map(|tracked| tracked.message.session).collect();
    for session in sessions {
        authorize(services, caller, Access::Read, Some(session)).await?;
    }
    authorize(services, caller, Access::Read, None).await
}

/// Removes the messages of sessions that the caller may not read.
async fn retain_readable(services: &Services, caller: &Caller, found: &mut Vec<TrackedMessage>) {
    if let Some(own) = own_session(caller) {
        let policy = services.runtime.config().await.map(|config| config.authority.panes);
        let policy = policy.unwrap_or_default();
        found.retain(|tracked| {
            let session = tracked.message.session;
            session == own || decide(caller, Access::Read, Some(session), policy).is_ok()
        });
    }
}

async fn list_messages(
    services: &Services,
    rows: &Rows,
    session: Option<&str>,
    pane: Option<&str>,
    state: Option<MessageState>,
) -> Result<Vec<TrackedMessage>, MessageError> {
    let session = session.map(|text| rows.find_session(text)).transpose()?;
    let session = session.map(|row| row.record.id);
    let pane = pane.map(|text| rows.find_pane(text)).transpose()?.map(|row| row.id);
    let found = services.messages.apply(move |journals| {
        let all = journals.all().flat_map(|journal| journal.iter());
        let mut found: Vec<TrackedMessage> = all
            .filter(|TrackedMessage { message, .. }| session.is_none_or(|id| message.session == id))
            .filter(|TrackedMessage { message, .. }| pane.is_none_or(|id| message.to == id))
            .filter(|tracked| state.is_none_or(|state| tracked.state() == state))
            .cloned()
            .collect();
        found.sort_by_key(|tracked| tracked.message.at);
        found
    });
    Ok(found.await)
}

async fn find_message(services: &Services, text: &str) -> Result<TrackedMessage, LookupError> {
    let sought = text.to_owned();
    let mut found = services
        .messages
        .apply(move |journals| {
            let matches = |tracked: &&TrackedMessage| {
                let id = tracked.message.id.to_string();
                id == sought || (sought.len() >= MIN_PREFIX && id.starts_with(&sought))
            };
            let all = journals.all().flat_map(|journal| journal.iter());
            all.filter(matches).cloned().collect::<Vec<_>>()
        })
        .await;
    match (found.pop(), found.len()) {
        (Some(message), 0) => Ok(message),
        (None, _) => Err(LookupError::NotFound(text.to_owned())),
        (Some(_), others) => {
            Err(LookupError::Ambiguous { text: text.to_owned(), count: others + 1 })
        }
    }
}

async fn wait_for_messages(
    services: &Arc<Services>,
    ids: &[MessageId],
    until: Awaited,
    limit: Duration,
) -> Result<Vec<TrackedMessage>, MessageError> {
    let waited = async {
        let mut changed = services.messages.subscribe();
        loop {
            let found = messages_by_id(services, ids).await?;
            for tracked in &found {
                check_reachable(services, tracked, until).await?;
            }
            if found.iter().all(|tracked| until.is_reached(tracked.state())) {
                return Ok(found);
            }
            // `services` holds the sender, so this cannot fail.
            let _ignored = changed.changed().await;
        }
    };
    tokio::select! {
        waited = timeout(limit, waited) => match waited {
            Ok(result) => result,
            Err(_) => Err(timed_out(services, ids, limit).await.into()),
        },
        () = services.runtime.stopping.cancelled() => Err(ShuttingDown.into()),
    }
}

async fn messages_by_id(
    services: &Services,
    ids: &[MessageId],
) -> Result<Vec<TrackedMessage>, MessageError> {
    let sought = ids.to_vec();
    let found: Vec<TrackedMessage> = services
        .messages
        .apply(move |journals| {
            let get = |id: &MessageId| journals.all().find_map(|journal| journal.get(*id)).cloned();
            sought.iter().filter_map(get).collect()
        })
        .await;
    if found.len() == ids.len() {
        return Ok(found);
    }
    Err(LookupError::Removed.into())
}

/// Checks that a message can still reach the awaited state.
async fn check_reachable(
    services: &Services,
    tracked: &TrackedMessage,
    until: Awaited,
) -> Result<(), Undelivered> {
    let id = tracked.message.id;
    let why = || {
        let why = tracked.receipts.last().and_then(|receipt| receipt.why.clone());
        why.unwrap_or_else(|| "the reason is unknown".to_owned())
    };
    match tracked.state() {
        MessageState::Failed => Err(Undelivered::Failed { id, why: why() }),
        MessageState::Unsure => Err(Undelivered::Unsure { id, why: why() }),
        MessageState::Delivered if until == Awaited::Answered => {
            if services.messages.detects_answers(tracked.message.to).await {
                return Ok(());
            }
            Err(Undelivered::NoAnswers { id })
        }
        MessageState::Queued
        | MessageState::Typing
        | MessageState::Sent
        | MessageState::Delivered
        | MessageState::Answered => Ok(()),
    }
}

async fn timed_out(services: &Services, ids: &[MessageId], limit: Duration) -> Undelivered {
    let found = messages_by_id(services, ids).await.unwrap_or_default();
    let states: Vec<String> = found
        .iter()
        .map(|tracked| format!("{} is {}", tracked.message.id, tracked.state()))
        .collect();
    Undelivered::TimedOut { timeout: limit, states: states.join(", ") }
}

fn check(request: &SendMessage) -> Result<(), InvalidMessage> {
    if request.text.trim().is_empty() {
        return Err(InvalidMessage::Empty);
    }
    if request.text.len() > LONGEST {
        return Err(InvalidMessage::TooLong(request.text.len()));
    }
    Ok(())
}

fn sender(rows: &Rows, pane: PaneId) -> Result<Sender, TargetError> {
    let row = rows.panes.iter().find(|row| row.id == pane).ok_or(TargetError::NoPane(pane))?;
    let session = rows.session(row.session).ok_or(TargetError::NoPane(pane))?;
    Ok(Sender { pane, name: row.name.clone(), session: session.record.name.clone() })
}

/// Separates the session from a recipient given as `SESSION/PANE`.
fn split_recipient(rows: &Rows, request: &mut SendMessage) -> Result<(), MessageError> {
    let Some((session, pane)) = request.to.split_once('/') else { return Ok(()) };
    if let Some(requested) = &request.session {
        let ids = [session, requested].map(|text| rows.find_session(text).map(|row| row.record.id));
        let [of_recipient, requested_id] = ids;
        if of_recipient? != requested_id? {
            let (to, session) = (request.to.clone(), requested.clone());
            return Err(InvalidMessage::OtherSession { to, session }.into());
        }
    }
    (request.session, request.to) = (Some(session.to_owned()), pane.to_owned());
    Ok(())
}

/// Determines the session of the recipients: the requested one, that of a recipient given by its
/// full id, or that of the sender.
fn recipient_session(rows: &Rows, request: &SendMessage) -> Result<SessionRow, MessageError> {
    if let Some(session) = &request.session {
        return Ok(rows.find_session(session)?.clone());
    }
    let full_id = request.to.parse::<PaneId>().ok();
    let pane = request.from.filter(|_| full_id.is_none()).or(full_id);
    let found = pane.and_then(|pane| rows.panes.iter().find(|row| row.id == pane));
    if let Some(session) = found.and_then(|row| rows.session(row.session)) {
        return Ok(session.clone());
    }
    if let Some(pane) = full_id {
        return Err(TargetError::NoPane(pane).into());
    }
    Err(InvalidMessage::NoSession(request.to.clone()).into())
}

fn route_error(to: &str, session: &SessionRow, members: &[Member], why: NoRoute) -> RouteError {
    let (session, to) = (session.record.name.clone(), to.to_owned());
    match why {
        NoRoute::NotFound if members.is_empty() => RouteError::NoPanes(session),
        NoRoute::NotFound => RouteError::NoMatch { session, to, members: members.to_vec() },
        NoRoute::Ambiguous(matches) => RouteError::Ambiguous { to, matches },
        NoRoute::OnlySender => RouteError::OnlySender { to, members: members.to_vec() },
    }
}
