//! What is said on the socket of a keeper.
//!
//! After the greeting a connection may ask questions ([`Request`], one answer each, in order) and
//! may attach once. How an attached client gets the pane's output depends on its [`View`]:
//!
//! - `Terminal`: the client passes the file descriptor of its own terminal along with the attach
//!   frame, and the keeper reads keys from it and paints on it directly. The client process is off
//!   the data path and only watches over its terminal.
//! - `Relay`: the same picture, as frames of kind `Paint` for a client that has no terminal to
//!   pass; keys come as `Input`.
//! - `Follow`: the exact bytes. First a `Snapshot` (unless the client names an offset it already
//!   has), then `Output` without gaps. A client that is slower than the log is long gets a new
//!   `Snapshot`.

use model::limits::Limits;
use model::{ProcessIdentity, Size, Timestamp};
use serde::{Deserialize, Serialize};

use crate::control::LiveView;
use crate::error::ErrorBody;
use crate::greeting::Versions;
use crate::limits::LimitsView;
use crate::look::Typing;

/// The name of a keeper's socket in the pane's directory.
pub const SOCKET: &str = "keeper.sock";

/// In the pane's directory while its processes stand still: a [`model::limits::Frozen`].
pub const FROZEN: &str = "frozen.json";

/// In the pane's directory while it has control groups: a list of their paths.
pub const GROUPS: &str = "groups.json";

/// What the names of files with news about limits begin with: each a [`model::limits::LimitNews`].
/// The daemon removes those that it has told.
pub const NEWS: &str = "news-";

/// Who keeps a pane (`keeper.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeeperRecord {
    /// What the keeper speaks.
    pub protocol: Versions,
    /// Its release.
    pub version: String,
    /// The keeper's own process.
    pub keeper: ProcessIdentity,
    /// The process at the head of the pane.
    pub child: ProcessIdentity,
    /// When it was started.
    pub started: Timestamp,
}

/// How to attach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// How to get the output.
    pub view: View,
    /// The size of the client's terminal. None has no say in the pane's size.
    pub size: Option<Size>,
    /// Keys are not passed on.
    #[serde(default)]
    pub read_only: bool,
}

/// How a client gets the output. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Painted on the terminal that came along; `ctrl-b d` detaches.
    Terminal,
    /// Painted, as frames; `ctrl-b d` detaches.
    Relay,
    /// The exact bytes.
    Follow {
        /// The offset that the client has; it gets what follows.
        from: Option<u64>,
    },
}

/// The attachment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The size of the pane now.
    pub size: Size,
    /// How many bytes the pane has written so far.
    pub log_end: u64,
}

/// The keeper let go of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detached {
    /// Why.
    pub why: DetachReason,
}

/// Why a client was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DetachReason {
    /// It asked for it, by key or by frame.
    Asked,
    /// Its terminal went away.
    TerminalGone,
}

/// A question to a keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// [`Response::Status`].
    Status,
    /// The visible screen: [`Response::Screen`].
    Screen,
    /// Type something: [`Response::Done`] when the terminal took all of it.
    Type(Typing),
    /// Type something, unless it was typed under this name before: [`Response::Done`] when the
    /// terminal took all of it. Whoever does not know whether it was heard asks again.
    TypeOnce {
        /// The name of it.
        name: String,
        /// What to type.
        typing: Typing,
    },
    /// Whether something was typed under this name: [`Response::WasTyped`].
    WasTyped {
        /// The name of it.
        name: String,
    },
    /// Hang up, wait for the grace period, kill every process of the pane, record the ending and
    /// leave: [`Response::Done`] at once, the end of the connection when it is over.
    Stop {
        /// How long the processes may take to leave by themselves.
        grace_ms: u64,
    },
    /// From now on the pane may take this: [`Response::Limits`].
    SetLimits(Limits),
    /// Let the processes of a frozen pane go on: [`Response::Done`].
    Thaw,
}

/// A keeper's word on a question.
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
    /// How the pane is.
    Status(LiveView),
    /// What it shows.
    Screen(ScreenView),
    /// What the pane may take and takes.
    Limits(LimitsView),
    /// Whether it was typed, or waits to be.
    WasTyped {
        /// It was.
        typed: bool,
    },
    /// It was done.
    Done,
}

/// What a pane shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenView {
    /// The visible screen as text.
    pub text: String,
    /// The cursor's row, from 0.
    pub row: u16,
    /// The cursor's column, from 0.
    pub col: u16,
    /// The program's title.
    pub title: String,
    /// How many bytes of output the screen stands for.
    pub log_end: u64,
}
