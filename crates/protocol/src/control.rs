//! Requests to the daemon and its replies.
//!
//! The views in replies are the JSON that `--json` prints and the HTTP API returns.

use std::collections::BTreeMap;

use model::health::Health;
use model::limits::LimitOverrides;
use model::{Ending, LaunchRequest, Name, PaneId, Size};
use serde::{Deserialize, Serialize};

use crate::environment::EnvironmentView;
use crate::error::ErrorBody;
use crate::gc::GcReport;
use crate::hooks::{HookAnswer, HookRequest};
use crate::http::{ServeRequest, Serving, TokenRequest, TokenView};
use crate::limits::PaneLimits;
use crate::locks::{LockRequest, Locks};
use crate::message::{MessageRequest, Messages};
use crate::pane_io::{ReadView, Text, Typing, Until};
use crate::run::{RunAnswer, RunRequest, UpAnswer, UpRequest};
use crate::session::{MigrateRequest, Migration, TemplateRequest, TemplatesAnswer};
use crate::workspace::{ShareAnswer, ShareRequest, TrustAnswer, TrustRequest};

pub use crate::session::SessionView;
pub use crate::view::{ListedSession, LiveView, PaneView};

/// The file name of the control socket in the daemon's run directory.
pub const SOCKET: &str = "control.sock";

/// A request to the daemon.
///
/// A `target` is a name, an id or a unique prefix of an id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Start a pane. Replies with [`Response::Pane`] when its process runs and its record is
    /// durable.
    New(Box<LaunchRequest>),
    /// Create a session with all its panes. Replies with [`Response::Run`] when everything is
    /// durable.
    Run(Box<RunRequest>),
    /// Reconcile a team with its description: [`Response::Up`].
    Up(Box<UpRequest>),
    /// List every session with its panes: [`Response::Sessions`].
    List,
    /// Show one pane or session: [`Response::Pane`] or [`Response::Session`].
    Show {
        /// The pane or session.
        target: String,
    },
    /// Find the directory of one live pane: [`Response::Located`].
    Locate {
        /// The pane, or a session with exactly one live pane (default: the newest live pane).
        target: Option<String>,
    },
    /// Rename a pane or session: [`Response::Pane`] or [`Response::Session`].
    Rename {
        /// The pane or session.
        target: String,
        /// The new name.
        name: Name,
    },
    /// Stop the processes of a pane or session and keep its directories. Replies with
    /// [`Response::Pane`] or [`Response::Session`] when no process is left.
    Stop {
        /// The pane or session.
        target: String,
        /// The grace period before the processes are killed, in milliseconds.
        grace_ms: u64,
    },
    /// Stop a pane as [`Request::Stop`] does and retire its directories: [`Response::Done`]. A pane
    /// with unsaved work is not stopped.
    Close {
        /// The pane.
        target: String,
        /// The grace period before the processes are killed, in milliseconds.
        grace_ms: u64,
        /// Tokens of unsaved work that may be discarded.
        #[serde(default)]
        discard: Vec<String>,
        /// Refuse if the pane is live.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        only_ended: bool,
    },
    /// Start an ended pane, or every ended pane of a session, and resume its conversation:
    /// [`Response::Pane`] or [`Response::Session`].
    Restore {
        /// The pane or session.
        target: String,
    },
    /// Stop every pane of a session and remove its data. Replies with [`Response::Done`] when the
    /// session is no longer in the registry and its directories are in the trash.
    Purge {
        /// The session.
        target: String,
        /// The grace period before the processes are killed, in milliseconds.
        grace_ms: u64,
        /// Tokens of unsaved work that may be discarded.
        #[serde(default)]
        discard: Vec<String>,
        /// Delete the directories at once instead of after the retention period.
        #[serde(default)]
        now: bool,
    },
    /// Collect directories that belong to no pane: [`Response::Gc`].
    Gc {
        /// Report the actions without taking them.
        dry_run: bool,
        /// Delete everything in the trash, regardless of its age.
        #[serde(default)]
        empty_trash: bool,
    },
    /// Change the limits of a pane and report limits and usage: [`Response::Limits`].
    Limit {
        /// The pane.
        target: String,
        /// The changes (empty: report only).
        wishes: LimitOverrides,
    },
    /// Thaw the processes of a frozen pane: [`Response::Pane`].
    Thaw {
        /// The pane.
        target: String,
    },
    /// A keeper reports that it has written limit events to disk. Replies with [`Response::Done`]
    /// when they are recorded.
    #[serde(rename = "limit_news")]
    LimitEvent {
        /// The pane.
        pane: PaneId,
    },
    /// Type into a pane. Replies with [`Response::Done`] when the terminal has accepted all input.
    Send {
        /// The pane.
        target: String,
        /// The input.
        typing: Typing,
        /// How long the pane may take to read the input, in milliseconds.
        timeout_ms: u64,
        /// Type even if the agent is asking a question, which the input would answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Read the output of a running or ended pane: [`Response::Text`].
    Read {
        /// The pane.
        target: String,
        /// The part to read.
        view: ReadView,
    },
    /// Wait for a condition on a pane: [`Response::Waited`].
    Wait {
        /// The pane.
        target: String,
        /// The condition.
        until: Until,
        /// The timeout in milliseconds (none: wait indefinitely).
        timeout_ms: Option<u64>,
    },
    /// Show the environment of a pane and the source of each variable: [`Response::Environment`].
    Env {
        /// The pane.
        target: String,
    },
    /// Stream events. Replies with [`Response::Done`], then sends `Event` frames. With `follow`
    /// the stream continues until the connection ends; otherwise it ends with a second
    /// [`Response::Done`] after the recorded events.
    Events {
        /// Send only events after this sequence number (default: start with the oldest event).
        after: Option<u64>,
        /// Continue with new events.
        follow: bool,
        /// The newest set of event kinds that the client knows ([`model::event::EVENT_SET`]); newer
        /// kinds are not sent.
        #[serde(default)]
        set: u32,
    },
    /// Check the health of the installation: [`Response::Health`].
    Doctor {
        /// The client's environment variables that locate programs and user directories
        /// ([`model::launch::inheritance::is_sent_for_diagnosis`]).
        client_env: BTreeMap<String, String>,
        /// The client's release.
        version: String,
    },
    /// Acquire, renew, release, check or list locks: [`Response::Locks`].
    Lock(LockRequest),
    /// Report from an agent's hook: [`Response::Hook`].
    Hook(HookRequest),
    /// Send, wait for or list messages between panes: [`Response::Messages`].
    Message(MessageRequest),
    /// Change or list trusted project files: [`Response::Trust`].
    Trust(TrustRequest),
    /// Change or list the files every pane can read: [`Response::Share`].
    Share(ShareRequest),
    /// Resize a pane. Replies with [`Response::Resized`] and the resulting size; attached terminals
    /// take precedence.
    Resize {
        /// The pane.
        target: String,
        /// The requested size.
        size: Size,
    },
    /// Serve the HTTP API. Replies with [`Response::Serving`] when it listens.
    Serve(ServeRequest),
    /// Show or rotate a token of the HTTP API: [`Response::Token`].
    Token(TokenRequest),
    /// Change or list templates: [`Response::Templates`].
    Template(TemplateRequest),
    /// Convert a legacy session to isolated workspaces: [`Response::Migration`].
    Migrate(MigrateRequest),
    /// Report the daemon's status: [`Response::Status`].
    DaemonStatus,
    /// Stop the daemon and leave every pane running. Replies with [`Response::Done`], then the
    /// daemon exits.
    DaemonStop,
}

/// The daemon's reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The request succeeded.
    Ok(Response),
    /// The request failed.
    Error(ErrorBody),
}

/// The result of a successful request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Response {
    /// A pane with its session.
    Pane(Box<PaneAnswer>),
    /// A new session with its panes.
    Run(Box<RunAnswer>),
    /// The result of reconciling a team.
    Up(Box<UpAnswer>),
    /// A session with its panes.
    Session(SessionAnswer),
    /// Every session with its panes.
    Sessions(Listing),
    /// The location of a pane's keeper.
    Located {
        /// The pane.
        pane: PaneId,
        /// Its name.
        name: Name,
        /// The pane's directory, which contains the keeper's socket.
        dir: String,
        /// Which limits it exceeds, as a phrase, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        over_limit: Option<String>,
    },
    /// A piece of a pane's output.
    Text(Text),
    /// The result of waiting.
    Waited {
        /// The line that matched, when waiting for text.
        line: Option<String>,
        /// How the pane ended, when waiting for its exit or when it ended before the text appeared.
        ending: Option<Ending>,
    },
    /// The environment of a pane.
    Environment(Box<EnvironmentView>),
    /// The health report.
    Health(Health),
    /// The limits and usage of a pane.
    Limits(PaneLimits),
    /// The result of garbage collection.
    Gc(GcReport),
    /// Locks.
    Locks(Locks),
    /// Whether an agent may proceed.
    Hook(HookAnswer),
    /// Messages between panes.
    Messages(Messages),
    /// Trusted project files.
    Trust(TrustAnswer),
    /// Shared files.
    Share(ShareAnswer),
    /// The size of a pane.
    Resized(Size),
    /// The address of the HTTP API.
    Serving(Serving),
    /// A token of the HTTP API.
    Token(TokenView),
    /// Templates.
    Templates(TemplatesAnswer),
    /// The result, or the plan, of a migration.
    Migration(Box<Migration>),
    /// The daemon's status.
    Status(DaemonStatus),
    /// The request was carried out; there is nothing to return.
    Done,
}

/// The reply to `show PANE` and `new`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneAnswer {
    /// The pane's session.
    pub session: SessionView,
    /// The pane.
    pub pane: PaneView,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Changes that the workspace does not contain because they are not committed (`new` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncommitted: Option<UncommittedFiles>,
    /// Dependencies and settings that git ignores, such as `node_modules` and `.env`, which the
    /// user's work tree has and the workspace does not contain (`new` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// The changes in the worktree or clone of an ended pane (`show` and `stop` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<WorkspaceChanges>,
    /// Whether an earlier request with the same idempotency key created the pane.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// The changes in a worktree or clone since it was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceChanges {
    /// The root of the work tree that it was made from.
    pub source: String,
    /// Whether it is a clone, whose branch the repository of the source does not have.
    pub is_clone: bool,
    /// The number of changed files, committed or not.
    pub files: usize,
    /// The number of added lines.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
    /// The number of files with changes that are not committed.
    pub uncommitted: usize,
}

/// Files of the user that are not committed, so that a new worktree or clone does not contain them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncommittedFiles {
    /// The root of the user's work tree.
    pub dir: String,
    /// The number of changed and untracked files.
    pub count: usize,
}

/// The reply to `show SESSION`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionAnswer {
    /// The session.
    pub session: SessionView,
    /// Its panes, oldest first.
    pub panes: Vec<PaneView>,
}

/// The reply to `ls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Every session, oldest first.
    pub sessions: Vec<ListedSession>,
    /// Records that could not be read and are missing from the listing, as text for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// The reply to `daemon status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// The daemon's process id.
    pub pid: u32,
    /// Its release.
    pub version: String,
    /// The state root.
    pub home: String,
    /// The number of live panes.
    pub panes: usize,
    /// The address of the HTTP API, if it listens.
    pub http: Option<String>,
    /// The sequence number of the latest event.
    pub last_event: u64,
    /// Records that were unreadable at startup and set aside, as text for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_keep_their_wire_format() {
        let show = Request::Show { target: "dev1".to_owned() };
        let text = serde_json::to_string(&show).unwrap();
        assert_eq!(text, r#"{"do":"show","target":"dev1"}"#);

        let new = Request::New(Box::default());
        let text = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), new);

        // Keepers of other releases send this request.
        let news = format!(r#"{{"do":"limit_news","pane":"{}"}}"#, PaneId::from_random([1; 16]));
        assert_eq!(
            serde_json::to_string(&serde_json::from_str::<Request>(&news).unwrap()).unwrap(),
            news
        );

        let done = serde_json::to_string(&Reply::Ok(Response::Done)).unwrap();
        assert_eq!(done, r#"{"ok":{"answer":"done"}}"#);
    }
}
