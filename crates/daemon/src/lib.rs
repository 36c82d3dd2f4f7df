//! The supervisor of ccmux.
//!
//! ```text
//!  boot          start, recovery, shutdown: connects everything, decides nothing
//!    |
//!  layers        control socket and HTTP: identify the caller, translate, word errors
//!    |
//!  operations    what can be asked of the daemon, one file each
//!    |
//!  services      messages, housekeeping, health -> coordination -> panes -> sessions
//!    |
//!  registry      the one writer of the database; events
//! ```
//!
//! Dependencies point down. A service that must react to the life of panes observes it through
//! `lifecycle` instead of being called by name.
//!
//! # Invariants
//!
//! - The daemon may be killed at any instant. Nothing that a pane needs is in this process, and
//!   what was acknowledged is on disk: `recover` makes the rest whole or undoes it.
//! - Panes are started by `launch` and nowhere else.
//! - Whether a pane lives is asked of its keeper process, never stored.
//! - Every task runs on one `TaskTracker`; a graceful stop waits for it.

mod boot;
mod coordination;
mod fault;
mod file_watch;
mod health;
mod housekeeping;
mod layers;
mod lifecycle;
mod messages;
mod operations;
mod panes;
mod registry;
mod runtime;
mod sessions;
mod trash;
mod wire;

pub use boot::{RunningDaemon, Setup, StartError, run};
pub use host::descriptors::close_inherited;
pub use host::hooks;
pub use host::own_pane;
pub use host::{StateRoot, config, team};
