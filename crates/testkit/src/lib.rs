//! What the tests of ccmux stand on.
//!
//! A [`Home`] is a machine of its own for one test: a private state root, a private environment,
//! and the real binary. A [`Screen`] is a terminal with a person's eyes, a [`Hooks`] stops the real
//! binary at a named point, a [`FullDisk`] is a disk that can be filled. An [`ApiStub`] is what the
//! real agents ([`agents`]) talk to instead of their vendors. Nothing here sleeps for a guessed
//! time: every wait is for something visible and has a deadline ([`wait_until`]).
//!
//! Everything panics on failure, with what was expected and what was there: a test that could go
//! on after a broken promise proves nothing.

pub mod agents;
pub mod full_disk;
pub mod home;
pub mod hooks;
pub mod http;
pub mod invocation;
pub mod mount;
pub mod pane;
pub mod process;
pub mod pty;
pub mod screen;
mod screen_emulator;
pub mod soak;
pub mod stub;
pub mod tls;
pub mod tree;
pub mod wait;

pub use agents::Agent;
pub use full_disk::FullDisk;
pub use home::Home;
pub use hooks::Hooks;
pub use http::Http;
pub use invocation::{Finished, Invocation};
pub use mount::Mount;
pub use pane::Pane;
pub use pty::Pty;
pub use screen::Screen;
pub use soak::Dice;
pub use stub::ApiStub;
pub use tree::{put, tree};
pub use wait::{DEADLINE, wait_for, wait_until};
