//! Wire types of ccmux: frames, control messages, the pane stream and HTTP bodies.
//!
//! Two kinds of Unix sockets carry the same frames ([`frame`]): the daemon's control socket
//! ([`control`]) and one socket per keeper ([`pane`]). Every connection starts with the handshake of
//! [`greeting`], whose form never changes, so that any two releases either agree on a version or
//! can report why they do not.
//!
//! This crate does no I/O except [`frame::read`] and [`frame::write`]. The `client` crate
//! implements connections on top of it.

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
pub mod message;
pub mod pane;
pub mod pane_io;
pub mod run;
pub mod schema;
pub mod session;
pub mod view;
pub mod workspace;

pub use error::{ErrorBody, ErrorCode};
pub use frame::{Decoder, Frame, FrameError, Kind};
