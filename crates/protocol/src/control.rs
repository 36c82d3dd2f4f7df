//! What clients ask of the daemon, and what it answers.
//!
//! The views in here are the JSON that `--json` prints and the HTTP API will serve: one shape per
//! thing, whoever asks.

use std::collections::BTreeMap;

use model::event::Event;
use model::health::Health;
use model::isolation::Isolation;
use model::limits::{Frozen, LimitWishes};
use model::ports::PortBlock;
use model::{
    ConversationId, Ending, LaunchRequest, Name, PaneId, PaneState, Size, Timestamp, WorkspaceKind,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::environment::EnvironmentView;
use crate::error::ErrorBody;
use crate::gc::Collected;
use crate::hooks::{HookAnswer, HookRequest};
use crate::http::{ServeRequest, Serving, TokenRequest, TokenView};
use crate::limits::{LimitsView, PaneLimits};
use crate::locks::{LockRequest, LockView, Locks};
use crate::look::{Text, Typing, Until, View};
use crate::message::{MessageRequest, Messages};
use crate::run::{RunAnswer, RunRequest, UpAnswer, UpRequest};
use crate::session::{MigrateRequest, Migration, TemplateRequest, TemplatesAnswer};
use crate::workspace::{ShareAnswer, ShareRequest, TrustAnswer, TrustRequest};

pub use crate::session::SessionView;

/// A question to the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Start a pane. Answered by [`Response::Pane`] when its process runs and the record of it is
    /// durable.
    New(Box<LaunchRequest>),
    /// Make a session with all its panes: [`Response::Run`] when everything of it is durable.
    Run(Box<RunRequest>),
    /// Bring a team to what is described: [`Response::Up`].
    Up(Box<UpRequest>),
    /// Every session with its panes: [`Response::Sessions`].
    List,
    /// One pane or session: [`Response::Pane`] or [`Response::Session`].
    Show {
        /// Name, id or unique beginning of an id.
        target: String,
    },
    /// The one pane that is meant, and where its keeper listens: [`Response::Located`].
    ///
    /// A session stands for its only live pane. None: the pane created last among the live ones.
    Locate {
        /// Name, id or unique beginning of an id.
        target: Option<String>,
    },
    /// Give a pane or session another name: [`Response::Pane`] or [`Response::Session`].
    Rename {
        /// Name, id or unique beginning of an id.
        target: String,
        /// The new name.
        name: Name,
    },
    /// End the processes of a pane or of a whole session; keep the directories. Answered by
    /// [`Response::Pane`] or [`Response::Session`] when no process is left.
    Stop {
        /// Name, id or unique beginning of an id.
        target: String,
        /// How long the processes may take to leave by themselves.
        grace_ms: u64,
    },
    /// End a pane as [`Request::Stop`] does and retire its directory: [`Response::Done`].
    Close {
        /// Name, id or unique beginning of an id.
        target: String,
        /// How long the processes may take to leave by themselves.
        grace_ms: u64,
        /// Work that may be lost with it, each by the word for exactly that.
        #[serde(default)]
        discard: Vec<String>,
    },
    /// Start a pane again that has ended, or every such pane of a session, going on with its
    /// conversation: [`Response::Pane`] or [`Response::Session`].
    Restore {
        /// Name, id or unique beginning of an id.
        target: String,
    },
    /// End every pane of a session and delete everything of it: [`Response::Done`] when it is out
    /// of the registry and its directories are on their way out of the trash.
    Purge {
        /// Name, id or unique beginning of an id.
        target: String,
        /// How long the processes may take to leave by themselves.
        grace_ms: u64,
        /// Work that may be lost with it, each by the word for exactly that.
        #[serde(default)]
        discard: Vec<String>,
    },
    /// Look for directories that nobody needs, and deal with them: [`Response::Gc`].
    Gc {
        /// Only say what would be done.
        dry_run: bool,
        /// Delete everything that is in the trash, however long it has been there.
        #[serde(default)]
        empty_trash: bool,
    },
    /// What a pane may take and takes, after `wishes` have been granted: [`Response::Limits`].
    Limit {
        /// Name, id or unique beginning of an id.
        target: String,
        /// What is to be different.
        wishes: LimitWishes,
    },
    /// Let the processes of a frozen pane go on: [`Response::Pane`].
    Thaw {
        /// Name, id or unique beginning of an id.
        target: String,
    },
    /// A keeper has left news about the limits of its pane: [`Response::Done`] when they are told.
    LimitNews {
        /// The pane.
        pane: PaneId,
    },
    /// Type into a pane: [`Response::Done`] when the terminal took all of it.
    Send {
        /// Name, id or unique beginning of an id.
        target: String,
        /// What to type.
        typing: Typing,
        /// How long the pane may take to read it.
        timeout_ms: u64,
    },
    /// Look at a pane, alive or not: [`Response::Text`].
    Read {
        /// Name, id or unique beginning of an id.
        target: String,
        /// What to look at.
        view: View,
    },
    /// Wait for something to be true of a pane: [`Response::Waited`].
    Wait {
        /// Name, id or unique beginning of an id.
        target: String,
        /// What to wait for.
        until: Until,
        /// How long; none waits for ever.
        timeout_ms: Option<u64>,
    },
    /// The environment of a pane, and who set what of it: [`Response::Environment`].
    Env {
        /// Name, id or unique beginning of an id.
        target: String,
    },
    /// The event stream: [`Response::Done`] and then frames of kind `Event`, until the connection
    /// ends or, without `follow`, until the recorded ones are through (then [`Response::Done`]
    /// again).
    Events {
        /// Only those after this number; none begins with the oldest that is kept.
        after: Option<u64>,
        /// Go on with what happens from now on.
        follow: bool,
    },
    /// Look at everything there is for what is wrong: [`Response::Health`].
    Doctor {
        /// What the asking client's own environment says about where programs and the user's own
        /// directories are ([`model::environment::is_examined`]).
        client_env: BTreeMap<String, String>,
        /// The client's release.
        version: String,
    },
    /// Something about locks: [`Response::Locks`].
    Lock(LockRequest),
    /// An agent is about to do something, or has done it: [`Response::Hook`].
    Hook(HookRequest),
    /// Something about messages between panes: [`Response::Messages`].
    Message(MessageRequest),
    /// Change or show which projects are trusted: [`Response::Trust`].
    Trust(TrustRequest),
    /// Change or show what all panes may read: [`Response::Share`].
    Share(ShareRequest),
    /// Give a pane another size: [`Response::Resized`] with the one it has then. Terminals that are
    /// attached have the last word.
    Resize {
        /// Name, id or unique beginning of an id.
        target: String,
        /// The size.
        size: Size,
    },
    /// Serve the HTTP API: [`Response::Serving`] once it listens.
    Serve(ServeRequest),
    /// Show or replace a token of the HTTP API: [`Response::Token`].
    Token(TokenRequest),
    /// Something about templates: [`Response::Templates`].
    Template(TemplateRequest),
    /// Give a legacy session directories of its own: [`Response::Migration`].
    Migrate(MigrateRequest),
    /// About the daemon itself: [`Response::Status`].
    DaemonStatus,
    /// End the daemon and leave every pane running: [`Response::Done`], then the daemon ends.
    DaemonStop,
}

/// The daemon's word on a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It is so.
    Ok(Response),
    /// It is not.
    Error(ErrorBody),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Response {
    /// One pane with its session.
    Pane(Box<PaneAnswer>),
    /// A session that was made with all its panes.
    Run(Box<RunAnswer>),
    /// What became of a team.
    Up(Box<UpAnswer>),
    /// One session with its panes.
    Session(SessionAnswer),
    /// Everything there is.
    Sessions(Listing),
    /// Where a pane's keeper listens.
    Located {
        /// The pane.
        pane: PaneId,
        /// Its name.
        name: Name,
        /// The pane's directory, in which the keeper's socket lies.
        dir: String,
    },
    /// A piece of a pane's output.
    Text(Text),
    /// What was waited for is true.
    Waited {
        /// For a text: the line that matched.
        line: Option<String>,
        /// For an exit, or when the pane ended before the text came: how it ended.
        ending: Option<Ending>,
    },
    /// The environment of a pane.
    Environment(Box<EnvironmentView>),
    /// How everything is.
    Health(Health),
    /// What a pane may take and takes.
    Limits(PaneLimits),
    /// What lies around, and what became of it.
    Gc(Collected),
    /// Locks.
    Locks(Locks),
    /// Whether an agent may go ahead.
    Hook(HookAnswer),
    /// Messages between panes.
    Messages(Messages),
    /// What is trusted.
    Trust(TrustAnswer),
    /// What is shared.
    Share(ShareAnswer),
    /// The size of a pane.
    Resized(Size),
    /// Where the HTTP API listens.
    Serving(Serving),
    /// A token of the HTTP API.
    Token(TokenView),
    /// Templates.
    Templates(TemplatesAnswer),
    /// What became of a legacy session, or would.
    Migration(Box<Migration>),
    /// About the daemon.
    Status(DaemonStatus),
    /// It was done.
    Done,
}

/// `show PANE` and `new`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneAnswer {
    /// The pane's session.
    pub session: SessionView,
    /// The pane.
    pub pane: PaneView,
    /// What was not done that somebody may have expected, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// It was there already: an earlier request with the same key has made it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// `show SESSION`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionAnswer {
    /// The session.
    pub session: SessionView,
    /// Its panes, oldest first.
    pub panes: Vec<PaneView>,
}

/// `ls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Every session, oldest first.
    pub sessions: Vec<ListedSession>,
    /// What could not be read and was left out, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

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

/// A pane, as everybody sees it. Its state is derived at the moment of asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PaneInfo)]
pub struct PaneView {
    /// Its identity.
    #[schema(value_type = String)]
    pub id: PaneId,
    /// What people call it.
    #[schema(value_type = String)]
    pub name: Name,
    /// The kind of program.
    pub agent: String,
    /// What it is for, where somebody said so.
    pub role: Option<String>,
    /// The unit of its session that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub unit: Option<Name>,
    /// The process at the head of the pane, while it lives.
    pub pid: Option<u32>,
    /// Where it is in its life.
    #[schema(value_type = crate::http::StateWord)]
    pub state: PaneState,
    /// How it ended, once it has.
    #[schema(value_type = Option<Object>)]
    pub ending: Option<Ending>,
    /// The agent's configuration directory, where it has one of its own.
    pub config_dir: Option<String>,
    /// What keeps it apart, and how its agent is logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub isolation: Option<Isolation>,
    /// How a check of the login that panes share came out; `show` says it, listings do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_note: Option<String>,
    /// Why it could write to what panes should only read; `show` says it, listings do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_note: Option<String>,
    /// Where it works.
    pub workspace: String,
    /// What kind of tree that is, where it is on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<crate::http::WorkspaceWord>)]
    pub workspace_kind: Option<WorkspaceKind>,
    /// The branch that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Its `TMPDIR`.
    pub temp: String,
    /// Its `OUTPUT_DIR`.
    pub output: String,
    /// The ports that are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub ports: Option<PortBlock>,
    /// The agent's conversation, where it has one.
    #[schema(value_type = Option<String>)]
    pub conversation: Option<ConversationId>,
    /// Program and arguments as they were asked for.
    #[serde(default)]
    pub asked: Vec<String>,
    /// Program and arguments as they are executed.
    pub command: Vec<String>,
    /// The directory it was started in.
    pub cwd: String,
    /// When it was made.
    #[schema(value_type = i64)]
    pub created: Timestamp,
    /// The pane's own directory.
    pub dir: String,
    /// Why its processes stand still, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub frozen: Option<Frozen>,
    /// What only its keeper knows; `show` asks for it, listings do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveView>,
    /// What it has locked; `show` says it, listings do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<LockView>,
    /// What happened lately between it and others over files; `show` says it, listings do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub conflicts: Vec<Event>,
    /// What is wrong with it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a pane's keeper knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PaneLive)]
pub struct LiveView {
    /// The keeper's process.
    pub keeper_pid: u32,
    /// The size of the screen.
    #[schema(value_type = crate::http::SizeBody)]
    pub size: Size,
    /// The title that the program set.
    pub title: String,
    /// The oldest byte of output that is kept.
    pub log_start: u64,
    /// How many bytes the pane has written in its life.
    pub log_end: u64,
    /// How many clients are attached.
    pub clients: usize,
    /// When it last wrote something.
    #[schema(value_type = Option<i64>)]
    pub last_output: Option<Timestamp>,
    /// What it may take and takes; keepers of older releases do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub limits: Option<LimitsView>,
    /// Why output is missing from the log, if some is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_problem: Option<String>,
}

/// `daemon status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Its process.
    pub pid: u32,
    /// Its release.
    pub version: String,
    /// The state root.
    pub home: String,
    /// How many panes are alive.
    pub panes: usize,
    /// Where the HTTP API listens, if it does.
    pub http: Option<String>,
    /// The number of the latest event.
    pub last_event: u64,
    /// What could not be read at the start and was set aside, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A frame of kind `Event`.
pub type EventFrame = Event;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_keep_their_form_on_the_wire() {
        let show = Request::Show { target: "dev1".to_owned() };
        let text = serde_json::to_string(&show).unwrap();
        assert_eq!(text, r#"{"do":"show","target":"dev1"}"#);

        let new = Request::New(Box::default());
        let text = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), new);

        let done = serde_json::to_string(&Reply::Ok(Response::Done)).unwrap();
        assert_eq!(done, r#"{"ok":{"answer":"done"}}"#);
    }
}
