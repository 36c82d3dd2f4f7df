//! Frames over asynchronous sockets, and connections to the keepers of panes.

pub(crate) mod frames;
pub(crate) mod keeper;
