//! The process that holds one pane.
//!
//! A keeper owns the master side of the pane's terminal, the emulator that knows what is on its
//! screen, and the log of everything the pane ever wrote. It is the parent of last resort of every
//! process in the pane (the subreaper), so nothing escapes it by forking twice. Clients come and go
//! on its socket; the daemon starts it and watches it, and is not needed for anything it does.
//!
//! One thread, one `poll`; nothing happens while nothing happens: an idle pane costs no processor
//! time. Only what a pane takes is looked at now and then, ever more rarely, beside the loop.
//! Whoever is slow waits for itself: a client that does not keep up gets the latest picture, not a
//! backlog, and the pane never waits for anybody.
//!
//! What must survive the keeper lies in the pane's directory: `keeper.json` (who keeps it), `log/`
//! (what it wrote) and `exit.json` (how it ended, written last).

mod client;
mod display;
mod input;
mod limits;
mod pace;
mod pane;
mod prefix;
mod pty;
mod start;
mod tree;
mod typing;

pub use host::hooks;
pub use host::household::Household;
pub use start::run;
