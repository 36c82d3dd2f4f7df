//! terminal

mod modes;
mod query;
mod scan;

pub use modes::Modes;
