//! The terminal emulator of ccmux, behind a narrow type.
//!
//! A [`Terminal`] takes a program's output and knows what the screen looks like; it answers the
//! program's queries and gives out text, modes, and an exact snapshot. A [`Painter`] brings that
//! screen to a client's own terminal, and a [`Filter`] lets the program's own bytes through to it.
//! [`key`] writes key presses as the program wants them, [`outer`] takes over a client's terminal
//! and gives it back. Nothing here does I/O or reads a clock.

mod actions;
mod answers;
mod filter;
pub mod key;
mod modes;
pub mod outer;
mod painter;
mod pen;
mod query;
mod readout;
mod repair;
mod request;
mod scan;
mod screen;
mod skip;
mod snapshot;
mod terminal;
#[cfg(test)]
mod testing;
mod text;
mod writer;

pub use filter::{Filter, Passed};
pub use modes::Modes;
pub use painter::Painter;
pub use terminal::{Cursor, Terminal};
