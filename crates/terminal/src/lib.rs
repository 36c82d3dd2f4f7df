//! terminal

mod filter;
pub mod key;
mod modes;
pub mod outer;
mod query;
mod scan;

pub use filter::{Filter, Passed};
pub use modes::Modes;
