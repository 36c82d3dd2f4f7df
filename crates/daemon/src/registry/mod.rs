//! The registry: the database writer, the event stream, and lookups of sessions and panes.

mod caller;
mod event_stream;
mod rows;
mod writer;

pub(crate) use caller::{as_caller, current_caller, inherit_caller};
pub(crate) use event_stream::EventStream;
pub(crate) use rows::{PaneOrSessionRow, Rows, TargetError};
pub(crate) use writer::Registry;
