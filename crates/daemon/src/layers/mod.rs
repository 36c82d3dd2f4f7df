//! The transports of the daemon: the control socket and HTTP.

pub(crate) mod control;
mod details;
pub(crate) mod http;
