//! The client against a fake server on a Unix socket.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests may panic and write plain files"
)]

mod connection;
mod daemon;
mod events;
mod fake;
mod pane;
