//! The terminal emulator of ccmux, behind a narrow interface.
//!
//! A [`Terminal`] parses a program's output and maintains its screen. It answers the program's
//! queries and returns the screen as text, as modes, or as an exact snapshot. A [`Painter`] draws
//! that screen on a client's terminal, and a [`Filter`] forwards the program's output to it. [`key`]
//! encodes key presses for the program; [`outer`] prepares a client's terminal and restores it.
//! Nothing in this crate does I/O or reads a clock.

mod actions;
mod allowed;
mod alternate;
mod answers;
mod areas;
mod capability;
mod clusters;
mod coordinates;
mod csi;
mod extra;
mod extra_query;
mod filter;
pub mod key;
mod margins;
mod modes;
pub mod outer;
mod painter;
mod pen;
mod plain_text;
mod private_modes;
mod query;
mod repair;
mod scan;
mod screen;
mod skip;
mod snapshot;
mod terminal;
#[cfg(test)]
mod testing;
mod text;
mod tracked;
mod writer;

pub use filter::{Filter, Passed};
pub use modes::Modes;
pub use painter::Painter;
pub use terminal::{Cursor, Terminal};
