//! Test support for ccmux.
//!
//! A [`Home`] is a hermetic home for one test: a private state root, a private environment, and the
//! real binary. A [`Screen`] is a terminal window, [`Hooks`] pause the real binary at named points,
//! a [`FullDisk`] can be filled, and the power of a [`CrashDisk`] can be cut. An [`ApiStub`] replaces the services of the
//! real agents ([`agents`]). [`require!`] skips a test that needs a [`Capability`] the machine
//! lacks. Nothing sleeps for a guessed time: every wait has a visible condition and a deadline
//! ([`wait_until`]).
//!
//! Failures panic with the expected and the actual state.

pub mod agents;
pub mod capability;
pub mod crash_disk;
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
pub use capability::Capability;
pub use crash_disk::CrashDisk;
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
