//! Events.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pane::Ending;
use super::words::{ConflictEvidence, ConflictOutcome, LimitPolicy, Resource, TokenScope};

/// An entry of the event stream.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Event)]
pub struct Event {
    /// Its sequence number: increases by one, is never reused and survives restarts.
    pub seq: u64,
    /// When it was recorded, in milliseconds since the Unix epoch.
    pub at: i64,
    /// The origin of the request that caused the event, if known.
    #[serde(default)]
    pub caller: Option<EventCaller>,
    /// The event's kind and its fields.
    #[serde(flatten)]
    pub data: EventData,
}

/// The origin of a request.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(as = EventCaller)]
pub enum EventCaller {
    /// A process of the user outside all panes.
    LocalUser,
    /// The daemon itself.
    Daemon,
    /// A process in a pane.
    Pane {
        /// The pane.
        pane: String,
        /// Its session.
        session: String,
    },
    /// An HTTP client with a valid token.
    HttpToken {
        /// The scope of the token.
        scope: TokenScope,
    },
}

/// The kind of an event, in the field `event`, and the fields of that kind.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[schema(as = EventData)]
pub enum EventData {
    /// A request was denied.
    AccessDenied {
        /// The access that was asked for: list, read, control or administer.
        access: String,
        /// The session that was asked for.
        session: Option<String>,
        /// Why it was denied.
        why: String,
    },
    /// A daemon has finished its recovery.
    DaemonStarted {
        /// The daemon's process id.
        pid: u32,
        /// The number of live panes it adopted.
        adopted: usize,
    },
    /// A session was created.
    SessionCreated {
        /// The session.
        session: String,
        /// Its name.
        name: String,
    },
    /// A session was closed; its directory is in the trash.
    SessionClosed {
        /// The session.
        session: String,
    },
    /// A pane's process was started.
    PaneCreated {
        /// Its session.
        session: String,
        /// The pane.
        pane: String,
        /// Its name.
        name: String,
    },
    /// A pane was renamed.
    PaneRenamed {
        /// The pane.
        pane: String,
        /// The new name.
        name: String,
    },
    /// A session was renamed.
    SessionRenamed {
        /// The session.
        session: String,
        /// The new name.
        name: String,
    },
    /// A legacy session was converted to isolated workspaces.
    SessionMigrated {
        /// The session.
        session: String,
        /// The number of panes that received their own workspace.
        panes: usize,
    },
    /// The process of an ended pane was started again.
    PaneRestored {
        /// The pane.
        pane: String,
        /// The conversation it resumed.
        conversation: Option<String>,
    },
    /// A pane's conversation changed.
    ConversationChanged {
        /// The pane.
        pane: String,
        /// The new conversation.
        conversation: String,
    },
    /// A conversation could not be resumed. The pane keeps it.
    ResumeFailed {
        /// The pane.
        pane: String,
        /// The conversation.
        conversation: String,
        /// The agent's message.
        why: String,
    },
    /// Another process listens on ports of a pane that is being restored. The pane keeps them.
    PortsTaken {
        /// The pane.
        pane: String,
        /// The ports in use.
        ports: Vec<u16>,
    },
    /// A directory was moved to the trash.
    Retired {
        /// Its former path.
        path: String,
        /// Its path in the trash.
        kept_as: String,
        /// The reason.
        why: String,
    },
    /// A file or directory could not be removed.
    CleanupFailed {
        /// Its path.
        path: String,
        /// The reason.
        why: String,
    },
    /// A pane's process has ended.
    PaneExited {
        /// The pane.
        pane: String,
        /// How it ended.
        ending: Ending,
    },
    /// A pane's keeper died without a record; the pane's remaining processes were killed.
    PaneLost {
        /// The pane.
        pane: String,
        /// The number of processes killed.
        killed: usize,
    },
    /// A pane has almost reached a limit.
    LimitNear {
        /// The pane.
        pane: String,
        /// The resource.
        resource: Resource,
        /// The usage.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// A pane has exceeded a limit.
    LimitExceeded {
        /// The pane.
        pane: String,
        /// The resource.
        resource: Resource,
        /// The usage.
        used: u64,
        /// The limit.
        limit: u64,
        /// The action taken.
        policy: LimitPolicy,
    },
    /// The system killed or refused a process to enforce a limit.
    LimitKept {
        /// The pane.
        pane: String,
        /// The resource.
        resource: Resource,
        /// The limit.
        limit: u64,
    },
    /// A frozen pane was thawed.
    PaneThawed {
        /// The pane.
        pane: String,
    },
    /// A pane was closed; its directory is in the trash.
    PaneClosed {
        /// The pane.
        pane: String,
    },
    /// A change was requested over HTTP.
    ApiCalled {
        /// The scope and digest prefix of the token, and the caller's address.
        who: String,
        /// The HTTP method.
        method: String,
        /// The path.
        path: String,
        /// The HTTP status of the response.
        status: u16,
    },
    /// A change was requested over the control socket that no other event describes.
    ControlCalled {
        /// The name of the request.
        request: String,
        /// The pane, session, path or name that it concerns.
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// A pane wanted or changed a file that another pane had locked or just changed.
    Conflict {
        /// The file.
        path: String,
        /// The pane that wanted or changed it (none if unknown).
        pane: Option<String>,
        /// That pane's name at the time.
        name: Option<String>,
        /// The pane that held or had changed it (none if the owner is not a pane).
        holder: Option<String>,
        /// The owner's name at the time.
        held_by: String,
        /// The result.
        outcome: ConflictOutcome,
        /// How `pane` was identified.
        evidence: ConflictEvidence,
    },
    /// A message was queued.
    MessageQueued {
        /// The message.
        message: String,
        /// The recipient's session.
        session: String,
        /// The recipient.
        pane: String,
        /// The sending pane (none if the sender is not a pane).
        from: Option<String>,
    },
    /// A message was delivered.
    MessageDelivered {
        /// The message.
        message: String,
        /// The recipient.
        pane: String,
    },
    /// The recipient has finished the turn a message started.
    MessageAnswered {
        /// The message.
        message: String,
        /// The recipient.
        pane: String,
    },
    /// A message could not be delivered, or its delivery is unknown.
    MessageFailed {
        /// The message.
        message: String,
        /// The recipient.
        pane: String,
        /// The reason.
        why: String,
    },
    /// A damaged file was set aside.
    Quarantined {
        /// Its former path.
        path: String,
        /// Its new path.
        kept_as: String,
        /// The damage found.
        why: String,
    },
}
