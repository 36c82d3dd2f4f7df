//! Panes as clients see them: the JSON printed by `--json` and returned by the HTTP API.

use model::event::Event;
use model::isolation::Isolation;
use model::limits::Frozen;
use model::ports::PortBlock;
use model::{ConversationId, Ending, Name, PaneId, PaneState, Size, Timestamp, WorkspaceKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::limits::LimitsView;
use crate::locks::LockView;
use crate::schema;
use crate::session::SessionView;

/// A session in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ListedSession)]
pub struct ListedSession {
    /// The session.
    #[serde(flatten)]
    pub session: SessionView,
    /// Its panes, oldest first.
    pub panes: Vec<PaneView>,
}

/// A pane. Its state is determined when the request is handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PaneInfo)]
pub struct PaneView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: PaneId,
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// The kind of program it runs.
    pub agent: String,
    /// Its role, if it has one.
    pub role: Option<String>,
    /// The unit of the session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub unit: Option<Name>,
    /// The process id of the pane's main process while it runs.
    pub pid: Option<u32>,
    /// Its state.
    #[schema(value_type = schema::PaneState)]
    pub state: PaneState,
    /// How its process ended.
    #[schema(value_type = Option<schema::Ending>)]
    pub ending: Option<Ending>,
    /// The agent's own configuration directory, if it has one.
    pub config_dir: Option<String>,
    /// How the agent is isolated and how it authenticates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::PaneIsolation>)]
    pub isolation: Option<Isolation>,
    /// The result of checking the shared login (`show` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_note: Option<String>,
    /// Why the pane has write access to the shared files (`show` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_note: Option<String>,
    /// Its workspace directory.
    pub workspace: String,
    /// The kind of workspace, if recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::WorkspaceKind>)]
    pub workspace_kind: Option<WorkspaceKind>,
    /// The branch created for the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Its `TMPDIR`.
    pub temp: String,
    /// Its `OUTPUT_DIR`.
    pub output: String,
    /// The ports allocated to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::PortBlock>)]
    pub ports: Option<PortBlock>,
    /// The id of the agent's conversation, if it has one.
    #[schema(value_type = Option<String>)]
    pub conversation: Option<ConversationId>,
    /// The requested program and arguments.
    #[serde(default)]
    pub asked: Vec<String>,
    /// The program and arguments that are executed.
    pub command: Vec<String>,
    /// The directory it was started in.
    pub cwd: String,
    /// When it was created, in milliseconds since the Unix epoch.
    #[schema(value_type = i64)]
    pub created: Timestamp,
    /// The pane's directory in the state root.
    pub dir: String,
    /// Why its processes are frozen, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Frozen>)]
    pub frozen: Option<Frozen>,
    /// Information from the pane's keeper (`show` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveView>,
    /// The locks it holds (`show` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<LockView>,
    /// Recent file conflicts with other panes (`show` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::Event>)]
    pub conflicts: Vec<Event>,
    /// Whether it ended although its program did not exit by itself and no caller stopped it, as in
    /// a crash or a reboot (default: false).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// A problem with the pane, as text for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Information that only the pane's keeper has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PaneLive)]
pub struct LiveView {
    /// The keeper's process id.
    pub keeper_pid: u32,
    /// The size of the screen.
    #[schema(value_type = schema::SizeBody)]
    pub size: Size,
    /// The terminal title set by the program.
    pub title: String,
    /// The offset of the oldest byte in the output log.
    pub log_start: u64,
    /// The number of bytes written by the pane so far.
    pub log_end: u64,
    /// The number of attached clients.
    pub clients: usize,
    /// When the pane last wrote output, in milliseconds since the Unix epoch.
    #[schema(value_type = Option<i64>)]
    pub last_output: Option<Timestamp>,
    /// Its resource limits and usage (absent from keepers of older releases).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsView>,
    /// Why output is missing from the log, if any is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_problem: Option<String>,
}
