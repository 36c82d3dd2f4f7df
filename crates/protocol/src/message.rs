//! Messages between panes.

use model::message::{Message, MessageState, Receipt};
use model::{IdempotencyKey, MessageId, Name, PaneId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::schema;

/// A request about messages. Replies with [`Messages`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum MessageRequest {
    /// Queue one message per recipient. The reply is sent when all of them are durable; each is
    /// delivered when its recipient can accept it.
    Send(SendMessage),
    /// Wait until messages have reached a state, or can no longer reach it.
    Wait {
        /// The messages.
        ids: Vec<MessageId>,
        /// The state.
        until: Awaited,
        /// The timeout in milliseconds (none: wait indefinitely).
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// List recorded messages, oldest first.
    List {
        /// Only messages of this session: name, id or unique prefix of an id.
        #[serde(default)]
        session: Option<String>,
        /// Only messages to this pane: name, id or unique prefix of an id.
        #[serde(default)]
        pane: Option<String>,
        /// Only messages in this state.
        #[serde(default)]
        state: Option<MessageState>,
    },
    /// Show one message.
    Show {
        /// Its id, or a unique prefix of it.
        id: String,
    },
}

/// A message to send.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SendMessage {
    /// The recipients: a pane by name, id or prefix of its id, or `role:R`, `unit:U`, `managers`,
    /// `workers`, `all`.
    pub to: String,
    /// The session of the recipients: name, id or unique prefix of an id (default: the sender's).
    pub session: Option<String>,
    /// The sending pane (none: the sender is not a pane).
    pub from: Option<PaneId>,
    /// The text.
    pub text: String,
    /// Omit the line that names the sender.
    pub raw: bool,
    /// The idempotency key. A repeated request in the same session sends nothing and returns the
    /// state of the original messages.
    pub key: Option<IdempotencyKey>,
}

/// The state to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// The recipients have received the message.
    Delivered,
    /// The recipients have finished the turns the message started.
    Answered,
}

impl Awaited {
    /// Returns whether a message in `state` has reached this state.
    #[must_use]
    pub fn is_reached(self, state: MessageState) -> bool {
        match self {
            Self::Delivered => state.is_delivered(),
            Self::Answered => state == MessageState::Answered,
        }
    }
}

impl MessageRequest {
    /// Returns whether the request changes state.
    #[must_use]
    pub fn is_mutation(&self) -> bool {
        matches!(self, Self::Send(_))
    }

    /// Returns how long the request allows the server to wait, in milliseconds (none: without
    /// limit).
    #[must_use]
    pub fn server_wait_ms(&self) -> Option<u64> {
        match self {
            Self::Wait { timeout_ms, .. } => *timeout_ms,
            Self::Send(_) | Self::List { .. } | Self::Show { .. } => Some(0),
        }
    }
}

/// The current state of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// The messages, oldest first.
    pub messages: Vec<MessageView>,
}

/// A message with its delivery state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Message)]
pub struct MessageView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: MessageId,
    /// The recipient's session.
    #[schema(value_type = String)]
    pub session: SessionId,
    /// The sending pane (none if the sender is not a pane).
    #[schema(value_type = Option<String>)]
    pub from: Option<PaneId>,
    /// The sender's name at the time of sending.
    #[schema(value_type = Option<String>)]
    pub from_name: Option<Name>,
    /// The receiving pane.
    #[schema(value_type = String)]
    pub to: PaneId,
    /// The recipient's name (none if the pane no longer exists).
    #[schema(value_type = Option<String>)]
    pub to_name: Option<Name>,
    /// The recipients as given by the sender.
    pub asked: String,
    /// The text.
    pub text: String,
    /// Whether the line that names the sender is omitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
    /// The idempotency key it was sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub key: Option<IdempotencyKey>,
    /// When it was queued, in milliseconds since the Unix epoch.
    #[schema(value_type = i64)]
    pub at: Timestamp,
    /// Its state.
    #[schema(value_type = schema::MessageState)]
    pub state: MessageState,
    /// When it entered that state, in milliseconds since the Unix epoch.
    #[schema(value_type = i64)]
    pub since: Timestamp,
    /// The reason for the state, if it needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its state changes, oldest first.
    #[schema(value_type = Vec<schema::MessageReceipt>)]
    pub receipts: Vec<Receipt>,
}

impl MessageView {
    /// Creates the view of a message from its receipts so far and its recipient's name.
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

/// A message to send over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MessageBody {
    /// The recipients: a pane by name, id or prefix of its id, or `role:R`, `unit:U`, `managers`,
    /// `workers`, `all`.
    pub to: String,
    /// The text.
    #[schema(min_length = 1, max_length = 65_536)]
    pub text: String,
    /// The session of the recipients (not needed if `to` is a complete pane id).
    #[serde(default)]
    pub session: Option<String>,
    /// The sending pane by its complete id (none: the sender is not a pane).
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub from: Option<PaneId>,
    /// Omit the line that names the sender.
    #[serde(default)]
    pub raw: bool,
}

/// Filters for listing messages over HTTP.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MessagesQuery {
    /// Only messages of this session.
    pub session: Option<String>,
    /// Only messages to this pane.
    pub pane: Option<String>,
    /// Only messages in this state.
    #[param(value_type = Option<schema::MessageState>, inline)]
    pub state: Option<MessageState>,
}

/// Messages, over HTTP.
#[derive(ToSchema)]
#[schema(as = Messages)]
pub struct MessagesBody {
    /// The messages, as printed by `ccmux message ls --json`.
    pub messages: Vec<MessageView>,
}
