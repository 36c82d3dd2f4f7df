//! The supervisor of ccmux.
//!
//! ```text
//!  control socket        serve      one task per connection, a skin over the operations
//!        |
//!        v
//!    operations          command    one method per request, launch starts panes
//!     |       |
//!     v       v
//!  registry  panes       registry   the one thread that writes the database
//!     |       |          supervise  one task per live pane, which sees it end
//!     v       v
//!  ccmux.db  keepers     keeper     what is said to the process that holds a pane
//! ```
//!
//! # Invariants
//!
//! - The daemon may be killed at any instant. Nothing that a pane needs is in this process, and
//!   what was acknowledged is on disk: `recover` makes the rest whole or undoes it.
//! - Panes are started by `launch` and nowhere else.
//! - Whether a pane lives is asked of its keeper process, never stored.
//! - Every task runs on one `TaskTracker`; a graceful stop waits for it.

mod command;
mod commons;
mod conflicts;
mod conversation;
mod follow;
mod frames;
mod health;
mod hooked;
mod http;
mod index;
mod keeper;
mod launch;
mod locks;
mod logging;
mod messages;
mod migrate;
mod once;
mod pane;
mod ports;
mod probe;
mod recover;
mod registry;
mod replay;
mod retire;
mod serve;
mod session;
mod session_env;
mod settings;
mod spawn;
mod start;
mod state;
mod supervise;
mod supervisor;
mod sweep;
mod trash;
mod watchman;
mod workspace;

pub use host::descriptors::close_inherited;
pub use host::hooks;
pub use host::{StateRoot, config, team};
pub use start::{Setup, StartError, run};
