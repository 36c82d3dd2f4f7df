//! What `session.state` holds: how a pane was when something last happened to it.
//!
//! A derived file, for people and programs that look at a pane's directory. What a pane is started
//! again from is its launch record. A conversation is in here by its id and by where and how long
//! its transcript was; the transcript itself stays the agent's.

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

/// How a pane was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// The pane.
    pub pane: PaneId,
    /// Its session.
    pub session: SessionId,
    /// What people call it.
    pub name: Name,
    /// The kind of program.
    pub agent: String,
    /// What it is for, where somebody said so.
    pub role: Option<String>,
    /// Where it was in its life.
    pub state: PaneState,
    /// How it ended, once it had.
    pub ending: Option<Ending>,
    /// The directory that it starts in.
    pub cwd: String,
    /// Where it works, where that is its own.
    pub workspace: Option<Workspace>,
    /// The agent's conversation.
    pub conversation: Option<SavedConversation>,
    /// Its environment, without secrets.
    pub env: BTreeMap<String, String>,
    /// Its ports.
    pub ports: Option<PortBlock>,
    /// The locks that it held.
    pub locks: Vec<SavedLock>,
    /// When it last wrote something.
    pub last_activity: Option<Timestamp>,
    /// When this was written.
    pub written: Timestamp,
}

/// A conversation, by reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedConversation {
    /// Its id.
    pub id: ConversationId,
    /// Those that the pane had before, oldest first.
    pub earlier: Vec<ConversationId>,
    /// The agent's own transcript of it.
    pub transcript: Option<String>,
    /// How long that was, in bytes.
    pub offset: Option<u64>,
}

/// A lock that a pane held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedLock {
    /// Its id.
    pub id: LockId,
    /// What is locked.
    pub path: String,
    /// With everything below it.
    pub tree: bool,
    /// How much of it.
    pub mode: LockMode,
    /// Its place among all locks ever granted.
    pub token: Token,
    /// When it was granted.
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

/// What can be seen of a pane besides its launch record.
#[derive(Clone, Debug, Default)]
pub struct Sightings {
    /// The agent's transcript and its length.
    pub transcript: Option<(String, u64)>,
    /// The locks that it holds.
    pub locks: Vec<SavedLock>,
    /// When it last wrote something.
    pub last_activity: Option<Timestamp>,
}

impl SavedState {
    /// The state of a pane, from its record and what can be seen of it.
    #[must_use]
    pub fn of(
        launch: &LaunchRecord,
        (state, ending): (PaneState, Option<Ending>),
        seen: Sightings,
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

    /// Whether it is about this pane. One that is not was moved here by somebody.
    #[must_use]
    pub fn is_of(&self, pane: PaneId, session: SessionId) -> bool {
        self.pane == pane && self.session == session
    }

    /// Whether it says the same as another one, whenever they were written.
    #[must_use]
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        *self == Self { written: self.written, ..other.clone() }
    }
}
