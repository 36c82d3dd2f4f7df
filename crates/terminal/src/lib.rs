//! The terminal emulator of ccmux, behind a narrow type.
//!
//! A [`Terminal`] takes a program's output and knows what the screen looks like; it answers the
//! program's queries and gives out text, modes, and an exact snapshot. A [`Painter`] brings that
//! screen to a client's own terminal. Nothing here does I/O or reads a clock.

mod actions;
mod answers;
mod modes;
mod painter;
mod pen;
mod query;
mod repair;
mod request;
mod scan;
mod screen;
mod skip;
mod snapshot;
mod terminal;
mod text;
mod writer;

pub use modes::Modes;
pub use painter::Painter;
pub use terminal::{Cursor, Terminal};
