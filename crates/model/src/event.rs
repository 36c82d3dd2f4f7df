//! What happened, in order.

use serde::{Deserialize, Serialize};

use crate::conflict::{Evidence, Outcome};
use crate::conversation::ConversationId;
use crate::ending::Ending;
use crate::ids::{MessageId, PaneId, SessionId};
use crate::limits::{LimitNews, Policy, Resource};
use crate::name::Name;
use crate::time::Timestamp;

/// One entry of the event stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the stream: grows by one, is never reused, survives every restart.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub what: Happening,
}

/// The kinds of events, as participles: each is a fact that can no longer fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happening {
    /// A daemon finished its recovery.
    DaemonStarted {
        /// Its process.
        pid: u32,
        /// Panes that were found alive.
        adopted: usize,
    },
    /// A session was made.
    SessionCreated {
        /// The session.
        session: SessionId,
        /// Its name.
        name: Name,
    },
    /// A session is gone; its directory is in the trash.
    SessionClosed {
        /// The session.
        session: SessionId,
    },
    /// A pane's process was started.
    PaneCreated {
        /// Its session.
        session: SessionId,
        /// The pane.
        pane: PaneId,
        /// Its name.
        name: Name,
    },
    /// A pane has another name.
    PaneRenamed {
        /// The pane.
        pane: PaneId,
        /// The new name.
        name: Name,
    },
    /// A session has another name.
    SessionRenamed {
        /// The session.
        session: SessionId,
        /// The new name.
        name: Name,
    },
    /// A session has directories of its own from now on, and shares its project's no more.
    SessionMigrated {
        /// The session.
        session: SessionId,
        /// How many panes were given a tree of their own.
        panes: usize,
    },
    /// The process of a pane that had ended was started again.
    PaneRestored {
        /// The pane.
        pane: PaneId,
        /// The conversation that it went on with.
        conversation: Option<ConversationId>,
    },
    /// A pane has another conversation than before.
    ConversationChanged {
        /// The pane.
        pane: PaneId,
        /// The conversation that it has now.
        conversation: ConversationId,
    },
    /// A conversation could not be gone on with. The pane still has it.
    ResumeFailed {
        /// The pane.
        pane: PaneId,
        /// The conversation.
        conversation: ConversationId,
        /// What the agent said.
        why: String,
    },
    /// Somebody else listens on ports of a pane that is being restored. They stay the pane's.
    PortsTaken {
        /// The pane.
        pane: PaneId,
        /// Which of its ports.
        ports: Vec<u16>,
    },
    /// A directory that nobody needs any more is in the trash.
    Retired {
        /// Where it was.
        path: String,
        /// Where it is now.
        kept_as: String,
        /// Why it is not needed.
        why: String,
    },
    /// Something that should have gone is still there.
    CleanupFailed {
        /// What.
        path: String,
        /// Why.
        why: String,
    },
    /// A pane's process has ended.
    PaneExited {
        /// The pane.
        pane: PaneId,
        /// How.
        ending: Ending,
    },
    /// A pane's keeper died without a record; its remaining processes were ended.
    PaneLost {
        /// The pane.
        pane: PaneId,
        /// Processes of the pane that were still there and were killed.
        killed: usize,
    },
    /// Little is left of what a pane may take.
    LimitNear {
        /// The pane.
        pane: PaneId,
        /// Of what.
        resource: Resource,
        /// What it takes.
        used: u64,
        /// What it may take.
        limit: u64,
    },
    /// A pane takes more than it may.
    LimitExceeded {
        /// The pane.
        pane: PaneId,
        /// Of what.
        resource: Resource,
        /// What it takes.
        used: u64,
        /// What it may take.
        limit: u64,
        /// What was done about it.
        policy: Policy,
    },
    /// The system ended or refused a process of a pane to keep it within its limit.
    LimitKept {
        /// The pane.
        pane: PaneId,
        /// For want of what.
        resource: Resource,
        /// What it may take.
        limit: u64,
    },
    /// The processes of a frozen pane go on.
    PaneThawed {
        /// The pane.
        pane: PaneId,
    },
    /// A pane is gone; its directory is in the trash.
    PaneClosed {
        /// The pane.
        pane: PaneId,
    },
    /// Somebody asked for a change over HTTP.
    ApiCalled {
        /// Who: the scope and the first digits of the digest of the token, and from where.
        who: String,
        /// The method.
        method: String,
        /// The path.
        path: String,
        /// What the answer was.
        status: u16,
    },
    /// A pane wanted or changed a file that another one held or had just changed.
    Conflict {
        /// The file.
        path: String,
        /// The pane that wanted or changed it; none if nothing tells.
        pane: Option<PaneId>,
        /// What that pane was called then.
        name: Option<Name>,
        /// The pane that held or had changed it; none if a process outside of panes held it.
        holder: Option<PaneId>,
        /// What that one was called then.
        held_by: String,
        /// What became of it.
        outcome: Outcome,
        /// How it is known who it was.
        evidence: Evidence,
    },
    /// A message was taken on.
    MessageQueued {
        /// The message.
        message: MessageId,
        /// The session of the receiver.
        session: SessionId,
        /// The pane that it is for.
        pane: PaneId,
        /// The pane that it is from; none if it came from outside of panes.
        from: Option<PaneId>,
    },
    /// A pane has a message.
    MessageDelivered {
        /// The message.
        message: MessageId,
        /// The pane that it is for.
        pane: PaneId,
    },
    /// The turn that a message led to is over.
    MessageAnswered {
        /// The message.
        message: MessageId,
        /// The pane that it was for.
        pane: PaneId,
    },
    /// A message will not be delivered, or nobody can tell whether it was.
    MessageFailed {
        /// The message.
        message: MessageId,
        /// The pane that it was for.
        pane: PaneId,
        /// Why.
        why: String,
    },
    /// Something on disk could not be read and was set aside.
    Quarantined {
        /// The damaged file, where it was.
        path: String,
        /// Where it is now.
        kept_as: String,
        /// What was wrong with it.
        why: String,
    },
}

impl Happening {
    /// What a keeper told about the limits of its pane.
    #[must_use]
    pub fn of_limits(pane: PaneId, news: LimitNews) -> Self {
        match news {
            LimitNews::Near { resource, used, limit } => {
                Self::LimitNear { pane, resource, used, limit }
            }
            LimitNews::Over { resource, used, limit, policy } => {
                Self::LimitExceeded { pane, resource, used, limit, policy }
            }
            LimitNews::Kept { resource, limit } => Self::LimitKept { pane, resource, limit },
            LimitNews::Thawed => Self::PaneThawed { pane },
        }
    }

    /// The pane it is about, where it is about one.
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
            | Self::SessionCreated { .. }
            | Self::SessionClosed { .. }
            | Self::SessionRenamed { .. }
            | Self::SessionMigrated { .. }
            | Self::Retired { .. }
            | Self::CleanupFailed { .. }
            | Self::ApiCalled { .. }
            | Self::Quarantined { .. } => None,
        }
    }
}
