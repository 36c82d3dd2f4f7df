//! What is said about messages between panes.

use model::message::{Message, MessageState, Receipt};
use model::{IdempotencyKey, MessageId, Name, PaneId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A question about messages: [`Messages`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum MessageRequest {
    /// Take a message on for everybody who is meant: one per receiver. Answered when all of them
    /// are on disk; delivered when each receiver can take it.
    Send(SendMessage),
    /// Wait until messages have come so far, or cannot any more.
    Wait {
        /// Which.
        ids: Vec<MessageId>,
        /// How far.
        until: Awaited,
        /// How long; none waits for ever.
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// The messages that are on record, oldest first.
    List {
        /// Only those of this session: name, id or unique beginning of an id.
        #[serde(default)]
        session: Option<String>,
        /// Only those to this pane: name, id or unique beginning of an id.
        #[serde(default)]
        pane: Option<String>,
        /// Only those that have come this far and no further.
        #[serde(default)]
        state: Option<MessageState>,
    },
    /// One of them.
    Show {
        /// Its id, or the unique beginning of it.
        id: String,
    },
}

/// What is to be said to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SendMessage {
    /// A pane by name, id or the beginning of its id, or `role:R`, `unit:U`, `managers`,
    /// `workers`, `all`.
    pub to: String,
    /// The session in which the receivers are looked for: name, id or unique beginning of an id.
    /// None: that of the sender.
    pub session: Option<String>,
    /// The pane that says it; none for somebody outside of panes.
    pub from: Option<PaneId>,
    /// What is said.
    pub text: String,
    /// Without a line that says who it is from.
    pub raw: bool,
    /// A request that was made before under this key, in the same session, is not made again: the
    /// answer is what became of it.
    pub key: Option<IdempotencyKey>,
}

/// How far to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// The receivers have it.
    Delivered,
    /// The turns that it led to are over.
    Answered,
}

impl Awaited {
    /// Whether a message has come so far.
    #[must_use]
    pub fn is_reached(self, state: MessageState) -> bool {
        match self {
            Self::Delivered => state.is_delivered(),
            Self::Answered => state == MessageState::Answered,
        }
    }
}

impl MessageRequest {
    /// Whether it changes something.
    #[must_use]
    pub fn changes_something(&self) -> bool {
        matches!(self, Self::Send(_))
    }

    /// How long the answer may take by its own word, in milliseconds; none is for ever.
    #[must_use]
    pub fn allowed_ms(&self) -> Option<u64> {
        match self {
            Self::Wait { timeout_ms, .. } => *timeout_ms,
            Self::Send(_) | Self::List { .. } | Self::Show { .. } => Some(0),
        }
    }
}

/// Messages, as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// The messages, oldest first.
    pub messages: Vec<MessageView>,
}

/// A message, as everybody sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageView {
    /// Its identity.
    pub id: MessageId,
    /// The session of the receiver.
    pub session: SessionId,
    /// The pane that said it; none if it came from outside of panes.
    pub from: Option<PaneId>,
    /// What that pane was called then.
    pub from_name: Option<Name>,
    /// The pane that it is for.
    pub to: PaneId,
    /// What that pane is called; none if it is gone.
    pub to_name: Option<Name>,
    /// Whom the sender named.
    pub asked: String,
    /// What is said.
    pub text: String,
    /// The receiver gets the text alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
    /// The key that it was sent under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
    /// When it was taken on.
    pub at: Timestamp,
    /// How far it has come.
    pub state: MessageState,
    /// Since when.
    pub since: Timestamp,
    /// Why it is in that state, where that is not clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What became of it, oldest first.
    pub receipts: Vec<Receipt>,
}

impl MessageView {
    /// A message with what became of it so far, and what its receiver is called.
    #[must_use]
    pub fn new(message: Message, receipts: Vec<Receipt>, to_name: Option<Name>) -> Self {
        let last = receipts.last();
        Self {
            state: last.map_or(MessageState::Queued, |receipt| receipt.state),
            since: last.map_or(message.at, |receipt| receipt.at),
            why: last.and_then(|receipt| receipt.why.clone()),
            id: message.id,
            session: message.session,
            from: message.from.as_ref().map(|sender| sender.pane),
            from_name: message.from.map(|sender| sender.name),
            to: message.to,
            to_name,
            asked: message.asked,
            text: message.text,
            raw: message.raw,
            key: message.key,
            at: message.at,
            receipts,
        }
    }
}

/// What is to be said to whom, over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MessageBody {
    /// A pane by name, id or the beginning of its id, or `role:R`, `unit:U`, `managers`,
    /// `workers`, `all`.
    pub to: String,
    /// What is said.
    #[schema(min_length = 1, max_length = 65_536)]
    pub text: String,
    /// The session in which the receivers are looked for; a whole id of a pane needs none.
    #[serde(default)]
    pub session: Option<String>,
    /// The pane that says it, by its whole id; none for somebody outside of panes.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub from: Option<PaneId>,
    /// Without a line that says who it is from.
    #[serde(default)]
    pub raw: bool,
}

/// Which messages to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MessagesQuery {
    /// Only those of this session.
    pub session: Option<String>,
    /// Only those to this pane.
    pub pane: Option<String>,
    /// Only those that have come this far and no further.
    #[param(value_type = Option<crate::http::MessageStateWord>, inline)]
    pub state: Option<MessageState>,
}

/// Messages, over HTTP.
#[derive(ToSchema)]
#[schema(as = Messages)]
pub struct MessagesBody {
    /// The messages, as `ccmux message ls --json` prints them.
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<MessageView>,
}
