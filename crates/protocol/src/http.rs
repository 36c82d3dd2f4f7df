//! What is said over HTTP, and what is asked of the daemon about it.
//!
//! Bodies are in camel case. What is inside of sessions and panes is what `--json` prints.

mod words;

use std::collections::BTreeMap;

use model::http::Scope;
use model::isolation::Method;
use model::lock::{LockMode, LockScope};
use model::session::SessionStatus;
use model::team::Team;
use model::{Name, PaneId, SessionId, SessionMode, WorkspaceKind};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::control::{ListedSession, PaneView, SessionView};
use crate::locks::LockView;

pub use words::{
    IsolationWord, LockModeWord, LockScopeWord, MessageStateWord, ModeWord, StateWord, StatusWord,
    WorkspaceWord,
};

/// Serve the HTTP API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeRequest {
    /// Where to listen, as an address with a port; as the configuration says otherwise.
    pub listen: Option<String>,
    /// Only for as long as this connection lasts.
    pub hold: bool,
    /// What panes that are asked for over HTTP may take over of the client's environment.
    pub client_env: BTreeMap<String, String>,
}

/// Where the HTTP API listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// The address with its port.
    pub address: String,
    /// What requests begin with.
    pub url: String,
    /// The file with the token.
    pub token_file: String,
    /// It did not listen before.
    pub began: bool,
}

/// Show or replace a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRequest {
    /// Which one.
    pub scope: Scope,
    /// Make another one first; the one before is worth nothing from then on.
    pub rotate: bool,
}

/// A token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenView {
    /// The token itself.
    pub token: String,
    /// What it allows.
    pub scope: Scope,
    /// The file it is in.
    pub file: String,
}

impl std::fmt::Debug for TokenView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Logs are no place for secrets.
        f.debug_struct("TokenView").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// Why a call failed (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Which kind, as a reference; the same for every problem of one `code`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status, in words.
    pub title: String,
    /// The status.
    pub status: u16,
    /// What, which and why.
    pub detail: String,
    /// Which kind, as one word.
    pub code: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The path that was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// What a program may want to know beyond that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<serde_json::Value>,
}

/// `GET /v1/healthz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Healthz {
    /// `ok`.
    pub status: String,
    /// The daemon's release.
    pub version: String,
}

/// What to start in a pane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentBody {
    /// What people will call the pane; its program's name if none is given.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub name: Option<Name>,
    /// What it is for; brings the variables of that role.
    pub role: Option<String>,
    /// The agent to run, by name; told by the program of the command if none is named.
    pub agent: Option<String>,
    /// The unit of the session that it belongs to.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub unit: Option<Name>,
    /// What tree to work in.
    #[schema(value_type = Option<WorkspaceWord>)]
    pub workspace: Option<WorkspaceKind>,
    /// How to keep the agent apart.
    #[schema(value_type = Option<IsolationWord>)]
    pub isolation: Option<Method>,
    /// The directory to start in, absolute. None: that of the run; without one, an empty one of
    /// its own.
    pub cwd: Option<String>,
    /// Variables for this pane.
    pub env: BTreeMap<String, String>,
    /// Arguments, of the command or of the agent.
    pub args: Vec<String>,
    /// Program and first arguments. Empty: the agent's own, or the user's shell.
    pub command: Vec<String>,
    /// What to say to the agent once it listens.
    pub prompt: Option<String>,
}

impl AgentBody {
    /// Program and arguments, or arguments of the named agent.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.command.iter().chain(&self.args).cloned().collect()
    }
}

/// A session with all its panes, made whole or not at all: with `agents`, or with a `team`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RunBody {
    /// Whose directories its panes work in; `isolated` if not said.
    #[schema(value_type = Option<ModeWord>)]
    pub session_mode: Option<SessionMode>,
    /// What people will call the session; `ccmux-` and eight digits if not said.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub name: Option<Name>,
    /// The template that it is made from.
    pub template: Option<String>,
    /// The directory in which panes start that do not say otherwise, absolute. A legacy session
    /// needs one.
    pub cwd: Option<String>,
    /// Variables of every pane.
    pub env: BTreeMap<String, String>,
    /// Its panes.
    #[serde(deserialize_with = "model::object::list")]
    #[schema(max_items = 64)]
    pub agents: Vec<AgentBody>,
    /// A team instead, in the form of a team file.
    #[serde(deserialize_with = "model::object::option")]
    #[schema(value_type = Option<Object>)]
    pub team: Option<Team>,
}

/// A session that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunMade {
    /// Its identity.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// What people call it.
    #[schema(value_type = String)]
    pub name: Name,
    /// Whose directories its panes work in.
    #[schema(value_type = ModeWord)]
    pub session_mode: SessionMode,
    /// How it is.
    #[schema(value_type = StatusWord)]
    pub status: SessionStatus,
    /// Its directory.
    pub working_dir: String,
    /// What its units have.
    pub unit_dir: String,
    /// How its units work together.
    pub workflows_dir: String,
    /// Its panes, as `ccmux show --json` prints them.
    pub panes: Vec<PaneView>,
    /// What was not done that somebody may have expected, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The size of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeBody {
    /// Columns.
    #[schema(minimum = 2, maximum = 1000)]
    pub cols: u16,
    /// Rows.
    #[schema(minimum = 2, maximum = 1000)]
    pub rows: u16,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionsQuery {
    /// Only those with this status.
    #[param(value_type = Option<StatusWord>, inline)]
    pub status: Option<SessionStatus>,
    /// Only those of this mode.
    #[param(value_type = Option<ModeWord>, inline)]
    pub mode: Option<SessionMode>,
    /// How many at most.
    #[param(minimum = 1, maximum = 100, default = 50)]
    pub limit: Option<u16>,
    /// Where the page before ended: its `next`.
    pub cursor: Option<String>,
}

/// A page of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionsPage {
    /// The sessions with their panes, oldest first, as `ccmux ls --json` prints them.
    pub sessions: Vec<ListedSession>,
    /// The cursor of the next page; none at the end.
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
    /// Each of its panes that lives.
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
    /// A WebSocket with its screen.
    pub web_socket: String,
    /// What to type on the same machine.
    pub command: Vec<String>,
}

/// How to end something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StopBody {
    /// How long processes may take to leave by themselves, in milliseconds; 5000 if not said.
    #[schema(maximum = 600_000)]
    pub grace_ms: Option<u64>,
}

/// How to remove something.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct RemoveQuery {
    /// How long processes may take to leave by themselves, in milliseconds; 5000 if not said.
    #[param(maximum = 600_000)]
    pub grace_ms: Option<u64>,
    /// Work that may be lost with it: the words that a refusal gave for exactly that, with commas
    /// between them.
    pub discard: Option<String>,
}

/// What to type into a pane: text, then keys, then Enter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct InputBody {
    /// Text, delivered as a paste where the program takes pastes.
    pub text: String,
    /// Keys after the text, such as `esc`, `ctrl-c`, `up` or `f5`.
    pub keys: Vec<String>,
    /// Press Enter at the end.
    pub enter: bool,
    /// How long the pane may take to read it, in milliseconds; 10000 if not said.
    #[schema(maximum = 60_000)]
    pub timeout_ms: Option<u64>,
}

/// How much of a screen.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScreenQuery {
    /// The last lines of screen and history; without it, the visible screen.
    #[param(minimum = 1, maximum = 100_000)]
    pub lines: Option<u32>,
}

/// What a pane shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScreenBody {
    /// The text.
    pub text: String,
    /// How many bytes of output it stands for.
    pub offset: u64,
}

/// Which part of a pane's output.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// The first byte wanted; the oldest kept if not said.
    pub from: Option<u64>,
    /// How many bytes at most.
    #[param(minimum = 1, maximum = 1_048_576)]
    pub limit: Option<u32>,
}

/// A piece of a pane's output, for callers who accept only JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogBody {
    /// The bytes, with what is not UTF-8 replaced.
    pub text: String,
    /// The offset of the first byte.
    pub from: u64,
    /// The offset after the last byte.
    pub next: u64,
    /// More is there already.
    pub more: bool,
}

/// What to lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LockBody {
    /// The paths, absolute; what they name need not exist.
    #[schema(min_items = 1, max_items = 1000)]
    pub paths: Vec<String>,
    /// How much of them.
    #[schema(value_type = LockModeWord)]
    pub mode: LockMode,
    /// The pane that will hold it: name, id or unique beginning of an id.
    pub pane: String,
    /// With everything below them.
    #[serde(default)]
    pub tree: bool,
    /// What makes two paths the same.
    #[serde(default)]
    #[schema(value_type = LockScopeWord)]
    pub scope: LockScope,
    /// The length of the lease in milliseconds, which is then only renewed when asked for. None:
    /// it is renewed for as long as the pane lives and is not stopped.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub ttl_ms: Option<u64>,
    /// How long to wait for those who have it, in milliseconds.
    #[serde(default)]
    #[schema(maximum = 60_000)]
    pub wait_ms: Option<u64>,
    /// What it is taken for.
    #[serde(default)]
    pub tag: Option<String>,
}

/// Which locks to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LocksQuery {
    /// Only those of this pane.
    pub pane: Option<String>,
    /// Only those that stand for this path, absolute.
    pub path: Option<String>,
}

/// Which state of a lock.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LockQuery {
    /// The token that came with the lock, to be sure that it is still that one.
    pub token: Option<u64>,
}

/// Locks.
#[derive(ToSchema)]
#[schema(as = Locks)]
pub struct LocksBody {
    /// The locks, as `ccmux lock ls --json` prints them.
    pub locks: Vec<LockView>,
}
