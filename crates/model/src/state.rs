//! The contents of `session.state`: a snapshot of a pane after its last event.
//!
//! The file is derived, for people and programs that look at a pane's directory; panes are restored
//! from their launch records. A conversation is stored as its id and the location and length of its
//! transcript; the transcript itself stays with the agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::conversation::ConversationId;
use crate::ending::Ending;
use crate::environment::shown;
use crate::ids::{PaneId, SessionId};
use crate::launch::LaunchRecord;
use crate::lifecycle::PaneState;
use crate::lock::{Held, LockId, LockMode, Token};
use crate::name::Name;
use crate::ports::PortBlock;
use crate::time::Timestamp;
use crate::workspace::Workspace;

/// The name of the file in a pane's directory.
pub const FILE: &str = "session.state";

/// A snapshot of a pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// The pane.
    pub pane: PaneId,
    /// Its session.
    pub session: SessionId,
    /// Its name.
    pub name: Name,
    /// The name of its agent.
    pub agent: String,
    /// Its role, if any.
    pub role: Option<String>,
    /// Its life-cycle state.
    pub state: PaneState,
    /// Its ending, once the process has ended.
    pub ending: Option<Ending>,
    /// The directory that it starts in.
    pub cwd: String,
    /// Its workspace, if it is not shared.
    pub workspace: Option<Workspace>,
    /// The conversation of its agent.
    pub conversation: Option<SavedConversation>,
    /// Its environment, with secrets masked.
    pub env: BTreeMap<String, String>,
    /// Its ports.
    pub ports: Option<PortBlock>,
    /// The locks that it held.
    pub locks: Vec<SavedLock>,
    /// Time of its last output.
    pub last_activity: Option<Timestamp>,
    /// Time of this snapshot.
    pub written: Timestamp,
}

/// A reference to a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedConversation {
    /// Its id.
    pub id: ConversationId,
    /// Earlier conversations of the pane, oldest first.
    pub earlier: Vec<ConversationId>,
    /// The path of the agent's transcript.
    pub transcript: Option<String>,
    /// The length of the transcript in bytes.
    pub offset: Option<u64>,
}

/// A lock that a pane held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedLock {
    /// Its id.
    pub id: LockId,
    /// The locked path.
    pub path: String,
    /// Whether everything below the path is locked too.
    pub tree: bool,
    /// Shared or exclusive.
    pub mode: LockMode,
    /// The fencing token.
    pub token: Token,
    /// When the lock was granted.
    pub acquired: Timestamp,
}

impl From<Held> for SavedLock {
    fn from(held: Held) -> Self {
        Self {
            id: held.id,
            path: held.path.shown,
            tree: held.path.tree,
            mode: held.mode,
            token: held.token,
            acquired: held.lease.acquired,
        }
    }
}

/// The observations about a pane that complement its launch record.
#[derive(Clone, Debug, Default)]
pub struct PaneObservation {
    /// The path and length of the agent's transcript.
    pub transcript: Option<(String, u64)>,
    /// The locks that it holds.
    pub locks: Vec<SavedLock>,
    /// Time of its last output.
    pub last_activity: Option<Timestamp>,
}

impl SavedState {
    /// Makes a snapshot of a pane from its record and the observations.
    #[must_use]
    pub fn of(
        launch: &LaunchRecord,
        (state, ending): (PaneState, Option<Ending>),
        seen: PaneObservation,
        now: Timestamp,
    ) -> Self {
        let env =
            launch.env.iter().map(|(name, value)| (name.to_owned(), shown(name, value).to_owned()));
        let (transcript, offset) = seen.transcript.unzip();
        let conversation = launch.conversation.clone().map(|id| SavedConversation {
            id,
            earlier: launch.earlier.clone(),
            transcript,
            offset,
        });
        Self {
            pane: launch.pane,
            session: launch.session,
            name: launch.name.clone(),
            agent: launch.agent.clone(),
            role: launch.role.clone(),
            state,
            ending,
            cwd: launch.cwd.clone(),
            workspace: launch.workspace.clone(),
            conversation,
            env: env.collect(),
            ports: launch.ports,
            locks: seen.locks,
            last_activity: seen.last_activity,
            written: now,
        }
    }

    /// Returns true if this is the snapshot of the given pane, and was not moved here from another.
    #[must_use]
    pub fn is_of(&self, pane: PaneId, session: SessionId) -> bool {
        self.pane == pane && self.session == session
    }

    /// Returns true if both snapshots are equal except for their time.
    #[must_use]
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        *self == Self { written: self.written, ..other.clone() }
    }
}
