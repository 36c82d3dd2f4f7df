//! The domain model of ccmux.
//!
//! Sessions contain panes, and each pane is a terminal that runs one command. This crate defines
//! these terms and which changes are valid. It does no I/O, reads no clock and no environment, and
//! uses no async runtime, so everything can be tested with plain function calls.

#[macro_use]
mod words;

pub mod agent;
pub mod attach_keys;
pub mod authority;
pub mod config;
pub mod conflict;
pub mod conversation;
pub mod ending;
pub mod environment;
pub mod event;
pub mod health;
pub mod http;
pub mod idempotency;
pub mod ids;
pub mod isolation;
pub mod key;
pub mod launch;
pub mod lifecycle;
pub mod limits;
pub mod lock;
pub mod message;
pub mod name;
pub mod nearest;
pub mod object;
pub mod orphan;
pub mod ports;
pub mod process;
pub mod rebase;
pub mod resolve;
pub mod role;
pub mod session;
pub mod size;
pub mod state;
pub mod team;
pub mod template;
pub mod time;
pub mod workspace;

pub use conversation::ConversationId;
pub use ending::{Ending, EndingReason};
pub use idempotency::IdempotencyKey;
pub use ids::{LockId, MessageId, PaneId, SessionId};
pub use launch::{LaunchRecord, LaunchRequest};
pub use lifecycle::PaneState;
pub use name::Name;
pub use process::ProcessIdentity;
pub use session::{SessionMode, SessionRecord, SessionStatus};
pub use size::Size;
pub use time::Timestamp;
pub use workspace::{Workspace, WorkspaceKind};
