//! Messages on a keeper's socket.
//!
//! After the handshake a client may send requests ([`Request`], answered in order) and may attach
//! once. The [`View`] selects how an attached client receives the pane's output:
//!
//! - `Terminal`: the client passes the file descriptor of its terminal with the attach frame. The
//!   keeper reads input from it and paints on it directly; the client process is not on the data
//!   path and only restores its terminal at the end.
//! - `Relay`: the same output as `Paint` frames, for a client without a terminal to pass; input is
//!   sent as `Input` frames.
//! - `Follow`: the exact bytes. First a `Snapshot`, unless the client gives the offset it already
//!   has, then `Output` without gaps. A client that falls behind by more than the length of the
//!   log receives a new `Snapshot`.

use model::attach_keys::PrefixKey;
use model::limits::Limits;
use model::{ProcessIdentity, Size, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::ErrorBody;
use crate::greeting::Versions;
use crate::limits::LimitsView;
use crate::pane_io::Typing;
use crate::view::LiveView;

/// The file name of a keeper's socket in the pane's directory.
pub const SOCKET: &str = "keeper.sock";

/// The file in the pane's directory that exists while its processes are frozen: a
/// [`model::limits::Frozen`].
pub const FROZEN: &str = "frozen.json";

/// The file in the pane's directory that exists while it is over a measured limit: a
/// [`model::limits::OverLimit`].
pub const OVER_LIMIT: &str = "over_limit.json";

/// The file in the pane's directory that lists the paths of its control groups.
pub const GROUPS: &str = "groups.json";

/// The prefix of files with limit events, each a [`model::limits::LimitEvent`]. The daemon removes
/// them after recording the events.
pub const NEWS: &str = "news-";

/// A pane's keeper (`keeper.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeeperRecord {
    /// The protocol versions the keeper supports.
    pub protocol: Versions,
    /// Its release.
    pub version: String,
    /// The keeper's process.
    pub keeper: ProcessIdentity,
    /// The pane's main process.
    pub child: ProcessIdentity,
    /// When the keeper was started.
    pub started: Timestamp,
}

/// The parameters of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// How to receive the output.
    pub view: View,
    /// The size of the client's terminal (none: the client does not affect the pane's size).
    pub size: Option<Size>,
    /// Ignore the client's input.
    #[serde(default)]
    pub read_only: bool,
    /// How to treat the client's keys.
    #[serde(default, skip_serializing_if = "KeyOptions::is_default")]
    pub keys: KeyOptions,
}

/// How a keeper treats the keys of an attached client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyOptions {
    /// The prefix key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: PrefixKey,
    /// Whether the client shows the scrollback when [`Detached::scrollback`] asks for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scrollback: bool,
}

impl KeyOptions {
    fn is_default(&self) -> bool {
        is_default(self)
    }
}

/// Returns whether a field can be omitted.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How a client receives the output. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Painted on the terminal passed by the client; `ctrl-b d` detaches.
    Terminal,
    /// Sent as `Paint` frames; `ctrl-b d` detaches.
    Relay,
    /// The exact bytes.
    Follow {
        /// The offset at which to start (none: start with a snapshot).
        from: Option<u64>,
    },
}

/// Confirmation of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The current size of the pane.
    pub size: Size,
    /// The number of bytes written by the pane so far.
    pub log_end: u64,
}

/// Notification that the keeper has detached the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detached {
    /// The reason.
    pub why: DetachReason,
    /// Whether the user wants to see the scrollback. The client then attaches again. Only sent to
    /// clients that set [`KeyOptions::scrollback`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub scrollback: bool,
}

/// The reason for a detachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DetachReason {
    /// The client requested it, by key or by frame.
    Asked,
    /// The client's terminal was closed.
    TerminalGone,
}

/// A request to a keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Report the pane's status: [`Response::Status`].
    Status,
    /// Read the visible screen: [`Response::Screen`].
    Screen,
    /// Type input. Replies with [`Response::Done`] when the terminal has accepted all of it.
    Type(Typing),
    /// Type input unless input with this name was typed before. Replies with [`Response::Done`]
    /// when the terminal has accepted all of it. Safe to repeat if the reply is lost.
    TypeOnce {
        /// The unique name of the input.
        name: String,
        /// The input.
        typing: Typing,
    },
    /// Ask whether input with this name was typed: [`Response::WasTyped`].
    WasTyped {
        /// The unique name of the input.
        name: String,
    },
    /// Send a hangup, wait for the grace period, kill every process of the pane, record the ending
    /// and exit. Replies with [`Response::Done`] immediately; the keeper closes the connection when
    /// it exits.
    Stop {
        /// The grace period in milliseconds.
        grace_ms: u64,
    },
    /// Replace the pane's limits: [`Response::Limits`].
    SetLimits(Limits),
    /// Thaw the processes of a frozen pane: [`Response::Done`].
    Thaw,
    /// Start the daemon, outside of the limits and the environment of the pane. A descriptor passed
    /// with the request becomes its standard output, on which it reports that it is ready. Replies
    /// with [`Response::Done`] when the process is started.
    StartDaemon {
        /// The release of the client. A keeper of another release refuses: it would start a daemon
        /// of its own release.
        version: String,
    },
}

/// A keeper's reply to a request.
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
    /// The pane's status.
    Status(LiveView),
    /// The visible screen.
    Screen(ScreenView),
    /// The pane's limits and usage.
    Limits(LimitsView),
    /// Whether the input was typed or is queued.
    WasTyped {
        /// Whether it was typed or is queued.
        typed: bool,
    },
    /// The request was carried out; there is nothing to return.
    Done,
}

/// The visible screen of a pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenView {
    /// Its text.
    pub text: String,
    /// The cursor's row, starting at 0.
    pub row: u16,
    /// The cursor's column, starting at 0.
    pub col: u16,
    /// The terminal title.
    pub title: String,
    /// The number of output bytes the screen reflects.
    pub log_end: u64,
}
