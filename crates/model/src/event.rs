//! The event stream.

use serde::{Deserialize, Serialize};

use crate::authority::{Access, Caller};
use crate::conflict::{Attribution, ConflictOutcome};
use crate::conversation::ConversationId;
use crate::ending::Ending;
use crate::ids::{MessageId, PaneId, SessionId};
use crate::limits::{LimitEvent, Policy, Resource};
use crate::name::Name;
use crate::time::Timestamp;

/// One entry of the event stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Sequence number: grows by one, is never reused, persists across restarts.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// The origin of the request that caused it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Caller>,
    /// The event.
    #[serde(flatten)]
    pub what: EventBody,
}

impl Event {
    /// Makes an event without a known caller.
    #[must_use]
    pub fn new(seq: u64, at: Timestamp, what: EventBody) -> Self {
        Self { seq, at, caller: None, what }
    }

    /// Returns the event with its caller.
    #[must_use]
    pub fn by(self, caller: Option<Caller>) -> Self {
        Self { caller, ..self }
    }
}

/// The contents of an event. Each is a fact, named by a participle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventBody {
    /// A daemon finished its recovery.
    DaemonStarted {
        /// The process id of the daemon.
        pid: u32,
        /// Number of panes that were found alive.
        adopted: usize,
    },
    /// A request was denied. The caller of the event is the caller that was denied.
    AccessDenied {
        /// The access that was asked for.
        access: Access,
        /// The session that was asked for, if one was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// Why it was denied.
        why: String,
    },
    /// A session was created.
    SessionCreated {
        /// The session.
        session: SessionId,
        /// Its name.
        name: Name,
    },
    /// A session was closed; its directory is in the trash.
    SessionClosed {
        /// The session.
        session: SessionId,
    },
    /// A pane's process was started for the first time.
    PaneCreated {
        /// Its session.
        session: SessionId,
        /// The pane.
        pane: PaneId,
        /// Its name.
        name: Name,
    },
    /// A pane was renamed.
    PaneRenamed {
        /// The pane.
        pane: PaneId,
        /// The new name.
        name: Name,
    },
    /// A session was renamed.
    SessionRenamed {
        /// The session.
        session: SessionId,
        /// The new name.
        name: Name,
    },
    /// A legacy session was migrated: its panes no longer share the project directory.
    SessionMigrated {
        /// The session.
        session: SessionId,
        /// Number of panes that got their own workspace.
        panes: usize,
    },
    /// The process of an ended pane was started again.
    PaneRestored {
        /// The pane.
        pane: PaneId,
        /// The conversation that was resumed.
        conversation: Option<ConversationId>,
    },
    /// A pane changed to another conversation.
    ConversationChanged {
        /// The pane.
        pane: PaneId,
        /// The new conversation.
        conversation: ConversationId,
    },
    /// A conversation could not be resumed. The pane keeps its id.
    ResumeFailed {
        /// The pane.
        pane: PaneId,
        /// The conversation.
        conversation: ConversationId,
        /// The message of the agent.
        why: String,
    },
    /// Ports of a restored pane are in use by another process. The pane keeps them.
    PortsTaken {
        /// The pane.
        pane: PaneId,
        /// The ports in use.
        ports: Vec<u16>,
    },
    /// An unused directory was moved to the trash.
    Retired {
        /// Its former path.
        path: String,
        /// Its path in the trash.
        kept_as: String,
        /// Why it is unused.
        why: String,
    },
    /// A file or directory could not be removed.
    CleanupFailed {
        /// Its path.
        path: String,
        /// The cause.
        why: String,
    },
    /// A pane's process ended.
    PaneExited {
        /// The pane.
        pane: PaneId,
        /// The ending.
        ending: Ending,
    },
    /// A pane's keeper died without an exit record; its remaining processes were killed.
    PaneLost {
        /// The pane.
        pane: PaneId,
        /// Number of processes killed.
        killed: usize,
    },
    /// A pane is close to a limit.
    LimitNear {
        /// The pane.
        pane: PaneId,
        /// The resource.
        resource: Resource,
        /// Current usage.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// A pane exceeded a limit.
    LimitExceeded {
        /// The pane.
        pane: PaneId,
        /// The resource.
        resource: Resource,
        /// Current usage.
        used: u64,
        /// The limit.
        limit: u64,
        /// The action taken.
        policy: Policy,
    },
    /// The kernel enforced a limit: it killed or refused a process of the pane.
    LimitKept {
        /// The pane.
        pane: PaneId,
        /// The resource.
        resource: Resource,
        /// The limit.
        limit: u64,
    },
    /// The processes of a frozen pane were resumed.
    PaneThawed {
        /// The pane.
        pane: PaneId,
    },
    /// A pane was closed; its directory is in the trash.
    PaneClosed {
        /// The pane.
        pane: PaneId,
    },
    /// A change was requested over HTTP.
    ApiCalled {
        /// The scope of the token, the first digits of its digest, and the remote address.
        who: String,
        /// The HTTP method.
        method: String,
        /// The request path.
        path: String,
        /// The status of the response.
        status: u16,
    },
    /// A change was requested over the control socket that no other event describes.
    ControlCalled {
        /// The name of the request.
        request: String,
        /// The pane, session, path or name that it concerns, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// A pane asked for or changed a file that another pane holds or had just changed.
    Conflict {
        /// The file.
        path: String,
        /// The pane that asked for or changed it, if known.
        pane: Option<PaneId>,
        /// The name of that pane at that time.
        name: Option<Name>,
        /// The pane that holds or had changed it; none for a holder outside all panes.
        holder: Option<PaneId>,
        /// The name of the holder at that time.
        held_by: String,
        /// The result.
        outcome: ConflictOutcome,
        /// How the pane was identified.
        evidence: Attribution,
    },
    /// A message was accepted for delivery.
    MessageQueued {
        /// The message.
        message: MessageId,
        /// The session of the recipient.
        session: SessionId,
        /// The recipient.
        pane: PaneId,
        /// The sending pane; none if the sender is not in a pane.
        from: Option<PaneId>,
    },
    /// A message was delivered.
    MessageDelivered {
        /// The message.
        message: MessageId,
        /// The recipient.
        pane: PaneId,
    },
    /// The turn that a message started has ended.
    MessageAnswered {
        /// The message.
        message: MessageId,
        /// The recipient.
        pane: PaneId,
    },
    /// A message was not delivered, or it is unknown whether it was.
    MessageFailed {
        /// The message.
        message: MessageId,
        /// The recipient.
        pane: PaneId,
        /// The cause.
        why: String,
    },
    /// A damaged file was set aside.
    Quarantined {
        /// Its former path.
        path: String,
        /// Its present path.
        kept_as: String,
        /// The damage.
        why: String,
    },
}

/// The newest set of event kinds. Grows when kinds are added, because an older client cannot read
/// them.
pub const EVENT_SET: u32 = 1;

impl EventBody {
    /// Returns the first set of event kinds that has this kind.
    #[must_use]
    pub fn set(&self) -> u32 {
        u32::from(matches!(self, Self::AccessDenied { .. } | Self::ControlCalled { .. }))
    }

    /// Converts a keeper's report about the limits of its pane.
    #[must_use]
    pub fn of_limits(pane: PaneId, news: LimitEvent) -> Self {
        match news {
            LimitEvent::Near { resource, used, limit } => {
                Self::LimitNear { pane, resource, used, limit }
            }
            LimitEvent::Over { resource, used, limit, policy } => {
                Self::LimitExceeded { pane, resource, used, limit, policy }
            }
            LimitEvent::Kept { resource, limit } => Self::LimitKept { pane, resource, limit },
            LimitEvent::Thawed => Self::PaneThawed { pane },
        }
    }

    /// Returns the pane that the event is about, if any.
    #[must_use]
    pub fn pane(&self) -> Option<PaneId> {
        match self {
            Self::PaneCreated { pane, .. }
            | Self::PaneRenamed { pane, .. }
            | Self::PaneExited { pane, .. }
            | Self::PaneLost { pane, .. }
            | Self::PaneRestored { pane, .. }
            | Self::ConversationChanged { pane, .. }
            | Self::ResumeFailed { pane, .. }
            | Self::LimitNear { pane, .. }
            | Self::LimitExceeded { pane, .. }
            | Self::LimitKept { pane, .. }
            | Self::PaneThawed { pane }
            | Self::PortsTaken { pane, .. }
            | Self::MessageQueued { pane, .. }
            | Self::MessageDelivered { pane, .. }
            | Self::MessageAnswered { pane, .. }
            | Self::MessageFailed { pane, .. }
            | Self::PaneClosed { pane } => Some(*pane),
            Self::Conflict { pane, .. } => *pane,
            Self::DaemonStarted { .. }
            | Self::AccessDenied { .. }
            | Self::SessionCreated { .. }
            | Self::SessionClosed { .. }
            | Self::SessionRenamed { .. }
            | Self::SessionMigrated { .. }
            | Self::Retired { .. }
            | Self::CleanupFailed { .. }
            | Self::ApiCalled { .. }
            | Self::ControlCalled { .. }
            | Self::Quarantined { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_json_has_a_caller_only_if_known() {
        let pane = PaneId::from_random([1; 16]);
        let event = Event::new(7, Timestamp(3), EventBody::PaneThawed { pane });
        let json = format!(r#"{{"seq":7,"at":3,"event":"pane_thawed","pane":"{pane}"}}"#);
        assert_eq!(serde_json::to_string(&event).unwrap(), json);
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);

        let event = Event { caller: Some(Caller::LocalUser), ..event };
        let json = serde_json::to_string(&event).unwrap();
        assert!(json.contains(r#""caller":{"kind":"local_user"}"#), "{json}");
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
    }
}
