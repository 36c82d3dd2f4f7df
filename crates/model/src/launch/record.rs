//! The launch record: what a keeper executes, and what a pane is restored from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{SHARED, UNIT_DIR, WORKFLOWS_DIR, WORKING_DIR};
use crate::conversation::ConversationId;
use crate::environment::layers::{Layer, UnusedVariable};
use crate::environment::{Environment, InvalidVariable};
use crate::ids::{PaneId, SessionId};
use crate::isolation::Isolation;
use crate::limits::Limits;
use crate::name::Name;
use crate::ports::PortBlock;
use crate::size::Size;
use crate::team::WantedPane;
use crate::time::Timestamp;
use crate::workspace::{Workspace, WorkspacePlace};

/// Everything needed to launch a pane again in the same way (`pane.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// The pane.
    pub pane: PaneId,
    /// Its session.
    pub session: SessionId,
    /// Its name.
    pub name: Name,
    /// The name of its agent; `shell` for programs that are not a known agent.
    pub agent: String,
    /// Program and arguments as requested; empty in records of older releases.
    #[serde(default)]
    pub asked: Vec<String>,
    /// Program and arguments as executed: [`LaunchRecord::asked`] plus the arguments for the
    /// conversation and the hooks. Never empty.
    pub argv: Vec<String>,
    /// The directory to start in.
    pub cwd: String,
    /// The workspace; none in records of older releases, which means shared.
    #[serde(default)]
    pub workspace: Option<Workspace>,
    /// The complete environment.
    pub env: Environment,
    /// The initial size of the screen.
    pub size: Size,
    /// When it was first planned.
    pub created: Timestamp,
    /// The isolation.
    #[serde(default = "Isolation::none")]
    pub isolation: Isolation,
    /// The agent's conversation, if known.
    #[serde(default)]
    pub conversation: Option<ConversationId>,
    /// Whether the conversation has been used, so that a transcript has existed.
    #[serde(default)]
    pub used: bool,
    /// Earlier conversations, oldest first.
    #[serde(default)]
    pub earlier: Vec<ConversationId>,
    /// The user id of the owner of the state root.
    #[serde(default)]
    pub owner: Option<u32>,
    /// The role, if any.
    #[serde(default)]
    pub role: Option<String>,
    /// The layer that set each variable; empty in records of older releases.
    #[serde(default)]
    pub sources: BTreeMap<String, Layer>,
    /// Variables that were overridden or removed.
    #[serde(default)]
    pub unused: Vec<UnusedVariable>,
    /// The ports of the pane.
    #[serde(default)]
    pub ports: Option<PortBlock>,
    /// The resource limits.
    #[serde(default)]
    pub limits: Limits,
    /// The unit of its session that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Name>,
    /// The team's description of the pane, if a team created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Box<WantedPane>>,
}

impl LaunchRecord {
    /// Returns program and arguments as requested. Records of older releases only have the executed
    /// ones, which were the same.
    #[must_use]
    pub fn asked(&self) -> &[String] {
        if self.asked.is_empty() { &self.argv } else { &self.asked }
    }

    /// Returns the directory that all panes can read.
    #[must_use]
    pub fn shared(&self) -> Option<&str> {
        self.env.iter().find(|(name, _)| *name == SHARED).map(|(_, dir)| dir)
    }

    /// Changes the workspace, and the directories of units and workflows.
    ///
    /// # Errors
    ///
    /// [`InvalidVariable`] if a path cannot be the value of a variable.
    pub fn move_to(
        &mut self,
        place: WorkspacePlace,
        unit: &str,
        workflows: &str,
    ) -> Result<(), InvalidVariable> {
        let moved =
            [(WORKING_DIR, place.cwd.as_str()), (UNIT_DIR, unit), (WORKFLOWS_DIR, workflows)];
        for (name, value) in moved {
            self.env.set(name, value)?;
            self.sources.insert(name.to_owned(), Layer::Ccmux);
        }
        self.workspace = Some(place.workspace);
        self.cwd = place.cwd;
        Ok(())
    }

    /// Changes the conversation and keeps the id of the previous one.
    pub fn converse(&mut self, id: ConversationId) {
        if self.conversation.as_ref() == Some(&id) {
            return;
        }
        self.earlier.retain(|earlier| *earlier != id);
        self.earlier.extend(self.conversation.replace(id));
    }
}
