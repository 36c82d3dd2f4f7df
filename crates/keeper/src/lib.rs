//! The keeper: the process that owns one pane.
//!
//! A keeper owns the master side of the pane's terminal, the emulator that maintains its screen, and
//! the log of its output. It is the subreaper of every process in the pane, so no process escapes by
//! double-forking. Clients connect to its socket. The daemon starts and monitors it, but is not
//! needed for its operation.
//!
//! The keeper runs one `poll` loop on one thread, so an idle pane uses no processor time. Resource
//! usage is measured on a separate thread, at increasing intervals. Slow clients do not delay the
//! pane or each other: a client that falls behind gets the current screen instead of a backlog.
//!
//! State that must survive the keeper is in the pane's directory: `keeper.json` (the identity of the
//! keeper), `log/` (the output) and `exit.json` (how the pane ended, written last).

mod client;
mod daemon;
mod display;
mod event_log;
mod follower_pace;
mod input;
mod limits;
mod pane;
mod prefix;
mod process_tree;
mod pty;
mod start;
mod typing;

pub use host::hooks;
pub use host::own_processes::OwnProcesses;
pub use start::run;
