//! Everything of ccmux that touches the operating system, in small functions.
//!
//! What only Linux has (`/proc`, boot ids, process descriptors) stays in here, so that another
//! system can follow without touching the crates above.

pub mod appetite;
pub mod cgroup;
pub mod clock;
pub mod config;
pub mod copy;
pub mod descriptors;
pub mod digest;
pub mod examine;
pub mod file;
pub mod furnish;
pub mod git;
pub mod hooks;
pub mod household;
pub mod journal;
pub mod ledger;
pub mod lock;
pub mod log;
pub mod mounts;
pub mod place;
pub mod ports;
pub mod process;
pub mod program;
pub mod project;
pub mod record;
pub mod remove;
pub mod repository;
pub mod root;
pub mod shared;
pub mod socket;
pub mod state;
pub mod store;
pub mod team;
pub mod template;
pub mod token;
pub mod transcript;
pub mod turns;
pub mod usage;
pub mod user;
pub mod witness;
pub mod workspace;
pub mod writer;

pub use root::StateRoot;
