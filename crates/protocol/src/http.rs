//! Bodies and query parameters of the HTTP API, and requests to serve it.
//!
//! Field names are in camel case. Sessions and panes have the form that `--json` prints.

use std::collections::BTreeMap;

use model::http::Scope;
use model::isolation::Method;
use model::lock::{LockMode, LockScope};
use model::session::SessionStatus;
use model::team::Team;
use model::{Name, PaneId, SessionId, SessionMode, WorkspaceKind};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::locks::LockView;
use crate::schema;
use crate::session::SessionView;
use crate::view::{ListedSession, PaneView};

pub use crate::schema::SizeBody;

/// A request to serve the HTTP API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeRequest {
    /// The address and port to listen on (default: from the configuration).
    pub listen: Option<String>,
    /// Stop serving when this connection ends.
    pub hold: bool,
    /// The client's environment, which panes created over HTTP may inherit.
    pub client_env: BTreeMap<String, String>,
}

/// The address of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// The address and port.
    pub address: String,
    /// The base URL of requests.
    pub url: String,
    /// The file that contains the token.
    pub token_file: String,
    /// Whether this request started it.
    pub began: bool,
}

/// A request to show or rotate a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRequest {
    /// The token's scope.
    pub scope: Scope,
    /// Generate a new token first and invalidate the old one.
    pub rotate: bool,
}

/// A token of the HTTP API.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenView {
    /// The secret.
    pub token: String,
    /// The permissions it grants.
    pub scope: Scope,
    /// The file that contains it.
    pub file: String,
}

impl std::fmt::Debug for TokenView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secret must not appear in logs.
        f.debug_struct("TokenView").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// A failed call (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A URI reference that identifies the kind of problem; one per `code`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason phrase of the status.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What failed and why.
    pub detail: String,
    /// The kind of problem as one word.
    pub code: String,
    /// What the caller can do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Further information for programs; its form depends on `code` and the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, serde_json::Value>>)]
    pub details: Option<serde_json::Value>,
}

/// The reply to `GET /v1/healthz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Healthz {
    /// Always `ok`.
    pub status: String,
    /// The daemon's release.
    pub version: String,
}

/// A pane to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentBody {
    /// The pane's name (default: the name of its program).
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub name: Option<Name>,
    /// Its role, which adds the role's environment variables.
    pub role: Option<String>,
    /// The agent to run (default: inferred from the command).
    pub agent: Option<String>,
    /// The unit of the session it belongs to.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub unit: Option<Name>,
    /// The kind of workspace.
    #[schema(value_type = Option<schema::WorkspaceKind>)]
    pub workspace: Option<WorkspaceKind>,
    /// Whether the uncommitted changes of the directory are copied into a worktree or clone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub carry: bool,
    /// How the agent is isolated.
    #[schema(value_type = Option<schema::IsolationMethod>)]
    pub isolation: Option<Method>,
    /// Absolute path of the start directory (default: that of the run, or a new empty directory).
    pub cwd: Option<String>,
    /// Environment variables for this pane.
    pub env: BTreeMap<String, String>,
    /// Arguments appended to the command, or passed to the agent.
    pub args: Vec<String>,
    /// Program and arguments (default: the agent's program, or the user's shell).
    pub command: Vec<String>,
    /// The first prompt, sent when the agent is ready.
    pub prompt: Option<String>,
}

impl AgentBody {
    /// Returns the command followed by the additional arguments.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.command.iter().chain(&self.args).cloned().collect()
    }
}

/// A session with all its panes, created completely or not at all: with `agents` or with a `team`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RunBody {
    /// Whether its panes get their own directories (default: `isolated`).
    #[schema(value_type = Option<schema::SessionMode>)]
    pub session_mode: Option<SessionMode>,
    /// The session's name (default: `ccmux-` and eight digits).
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub name: Option<Name>,
    /// The template it is created from.
    pub template: Option<String>,
    /// Absolute path of the default start directory of the panes. Required for a legacy session.
    pub cwd: Option<String>,
    /// Environment variables for every pane.
    pub env: BTreeMap<String, String>,
    /// Its panes.
    #[serde(deserialize_with = "model::object::list")]
    #[schema(max_items = 64)]
    pub agents: Vec<AgentBody>,
    /// A team in the form of a team file, instead of `agents`.
    #[serde(deserialize_with = "model::object::option")]
    #[schema(value_type = Option<schema::Team>)]
    pub team: Option<Team>,
}

/// A session that was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunMade {
    /// Its id.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// Whether its panes have their own directories.
    #[schema(value_type = schema::SessionMode)]
    pub session_mode: SessionMode,
    /// Its status.
    #[schema(value_type = schema::SessionStatus)]
    pub status: SessionStatus,
    /// Its directory.
    pub working_dir: String,
    /// The directory with the descriptions of its units.
    pub unit_dir: String,
    /// The directory with its workflows.
    pub workflows_dir: String,
    /// Its panes, as printed by `ccmux show --json`.
    pub panes: Vec<PaneView>,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Filters and paging for listing sessions.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionsQuery {
    /// Only sessions with this status.
    #[param(value_type = Option<schema::SessionStatus>, inline)]
    pub status: Option<SessionStatus>,
    /// Only sessions with this mode.
    #[param(value_type = Option<schema::SessionMode>, inline)]
    pub mode: Option<SessionMode>,
    /// The maximum number of sessions.
    #[param(minimum = 1, maximum = 100, default = 50)]
    pub limit: Option<u16>,
    /// The `next` cursor of the previous page.
    pub cursor: Option<String>,
}

/// A page of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionsPage {
    /// The sessions with their panes, oldest first, as printed by `ccmux ls --json`.
    pub sessions: Vec<ListedSession>,
    /// The cursor of the next page (none on the last page).
    pub next: Option<String>,
}

/// A session with its panes.
#[derive(ToSchema)]
#[schema(as = Session)]
pub struct SessionBody {
    /// The session.
    pub session: SessionView,
    /// Its panes, oldest first.
    pub panes: Vec<PaneView>,
}

/// A pane with its session.
#[derive(ToSchema)]
#[schema(as = Pane)]
pub struct PaneBody {
    /// The session.
    pub session: SessionView,
    /// The pane.
    pub pane: PaneView,
}

/// The agents of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentsBody {
    /// Its panes, oldest first.
    pub agents: Vec<PaneView>,
}

/// How to attach to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectBody {
    /// The session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// Its live panes.
    pub panes: Vec<ConnectPane>,
}

/// How to attach to a pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectPane {
    /// The pane.
    #[schema(value_type = String)]
    pub pane_id: PaneId,
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// The URL of a WebSocket with its screen.
    pub web_socket: String,
    /// The command that attaches on the same machine.
    pub command: Vec<String>,
}

/// Parameters of a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StopBody {
    /// The grace period before processes are killed, in milliseconds (default: 5000).
    #[schema(maximum = 600_000)]
    pub grace_ms: Option<u64>,
}

/// Parameters of a removal.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct RemoveQuery {
    /// The grace period before processes are killed, in milliseconds (default: 5000).
    #[param(maximum = 600_000)]
    pub grace_ms: Option<u64>,
    /// Comma-separated tokens of unsaved work that may be discarded, as given by a refusal.
    pub discard: Option<String>,
}

/// Parameters of the removal of a session.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct PurgeQuery {
    /// The grace period before processes are killed, in milliseconds (default: 5000).
    #[param(maximum = 600_000)]
    pub grace_ms: Option<u64>,
    /// Comma-separated tokens of unsaved work that may be discarded, as given by a refusal.
    pub discard: Option<String>,
    /// Whether to delete the data at once instead of moving it to the trash (default: false).
    pub now: bool,
}

/// Input for a pane: text, then keys, then Enter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct InputBody {
    /// Text, sent as a bracketed paste if the program has enabled that mode.
    pub text: String,
    /// Keys pressed after the text, such as `esc`, `ctrl-c`, `up` or `f5`.
    pub keys: Vec<String>,
    /// Press Enter at the end.
    pub enter: bool,
    /// How long the pane may take to read the input, in milliseconds (default: 10000).
    #[schema(maximum = 60_000)]
    pub timeout_ms: Option<u64>,
    /// Type even if the agent is asking a question, which the input would answer.
    pub force: bool,
}

/// The part of the screen to read.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScreenQuery {
    /// The number of last lines of scrollback and screen (default: the visible screen).
    #[param(minimum = 1, maximum = 100_000)]
    pub lines: Option<u32>,
}

/// The screen of a pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScreenBody {
    /// The text.
    pub text: String,
    /// The number of output bytes the screen reflects.
    pub offset: u64,
}

/// The part of the output log to read.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// The offset of the first byte (default: the oldest byte in the log).
    pub from: Option<u64>,
    /// The maximum number of bytes.
    #[param(minimum = 1, maximum = 1_048_576)]
    pub limit: Option<u32>,
}

/// A piece of a pane's output, for callers that accept only JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogBody {
    /// The output, with invalid UTF-8 replaced.
    pub text: String,
    /// The offset of the first byte.
    pub from: u64,
    /// The offset after the last byte.
    pub next: u64,
    /// Whether more output is available now.
    pub more: bool,
}

/// The parameters of a lock acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LockBody {
    /// Absolute paths, which need not exist.
    #[schema(min_items = 1, max_items = 1000)]
    pub paths: Vec<String>,
    /// The access to claim.
    #[schema(value_type = schema::LockMode)]
    pub mode: LockMode,
    /// The owning pane: name, id or unique prefix of an id.
    pub pane: String,
    /// Include everything below the paths.
    #[serde(default)]
    pub tree: bool,
    /// Whether the same file in several worktrees counts as one.
    #[serde(default)]
    #[schema(value_type = schema::LockScope)]
    pub scope: LockScope,
    /// The duration of a lease that is renewed only on request, in milliseconds (default: the lease
    /// is renewed while the pane is alive and not stopped).
    #[serde(default)]
    #[schema(minimum = 1)]
    pub ttl_ms: Option<u64>,
    /// How long to wait for current owners, in milliseconds.
    #[serde(default)]
    #[schema(maximum = 60_000)]
    pub wait_ms: Option<u64>,
    /// A tag for releasing locks together.
    #[serde(default)]
    pub tag: Option<String>,
}

/// Filters for listing locks.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LocksQuery {
    /// Only locks of this pane.
    pub pane: Option<String>,
    /// Only locks that cover this absolute path.
    pub path: Option<String>,
}

/// Parameters of a renewal or release.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LockQuery {
    /// The fencing token returned with the lock, which is checked if given.
    pub token: Option<u64>,
}

/// Locks.
#[derive(ToSchema)]
#[schema(as = Locks)]
pub struct LocksBody {
    /// The locks, as printed by `ccmux lock ls --json`.
    pub locks: Vec<LockView>,
}
