//! terminal

mod filter;
pub mod key;
mod modes;
pub mod outer;
mod query;
mod scan;
mod text;

pub use filter::{Filter, Passed};
pub use modes::Modes;
