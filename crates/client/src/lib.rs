//! The client side of ccmux: connections to the daemon and to keepers.
//!
//! ```text
//!  DaemonClient   requests to the daemon: connects, starts it if needed, retries
//!  EventStream    the event stream, resumed after a daemon restart
//!  PaneStream     one attachment to a keeper: screen output in, input out
//!  PaneFollower   the exact output of a pane, resumed at the last offset
//!       |
//!  Connection     one socket: handshake, requests, frames, timeouts
//! ```
//!
//! The crate prints nothing, reads no environment variables and knows no command line. Errors are
//! typed; callers add hints in their own vocabulary.
//!
//! # Versions
//!
//! Every connection starts with the handshake of [`protocol::greeting`], which also states the
//! compatibility rules. A server without a common version refuses with
//! [`ConnectionError::Refused`]; a server that selects a version outside of
//! [`protocol::greeting::SUPPORTED`] is rejected with [`ConnectionError::Protocol`].

mod connection;
mod daemon;
mod events;
mod pane;
mod socket;
mod start;
mod timeout;

pub use connection::{Connection, ConnectionError};
pub use daemon::{DaemonClient, DaemonError};
pub use events::EventStream;
pub use pane::{PaneControl, PaneEvent, PaneFollower, PaneStream};
pub use socket::{ForeignServer, connect_in};
pub use start::{DaemonCommand, StartError};
