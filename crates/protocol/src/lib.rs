//! What the processes of ccmux say to each other.
//!
//! Two kinds of Unix sockets speak the same frames ([`frame`]): the daemon's control socket
//! ([`control`]) and the socket of each keeper ([`pane`]). Every connection begins with the
//! greeting of [`greeting`], which never changes its form, so that any two releases can at least
//! tell each other why they cannot talk. [`client`] is the blocking end of both.

pub mod client;
pub mod control;
pub mod environment;
pub mod error;
pub mod frame;
pub mod gc;
pub mod greeting;
pub mod hooks;
pub mod http;
pub mod limits;
pub mod locks;
pub mod look;
pub mod message;
pub mod pane;
pub mod run;
pub mod session;
pub mod workspace;

pub use error::{ErrorBody, ErrorCode};
pub use frame::{Decoder, Frame, FrameError, Kind};
