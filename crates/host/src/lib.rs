//! Operating system interface of ccmux, in small functions.
//!
//! Linux-specific code (`/proc`, boot ids, pidfds) is confined to this crate, so that a port to another
//! system does not change the crates above.

pub mod ancestry;
pub mod cgroup;
pub mod clock;
pub mod config;
pub mod copy;
pub mod descriptors;
pub mod digest;
pub mod disk_usage;
pub mod file;
pub mod fingerprint;
pub mod git;
pub mod hooks;
pub mod inspect;
pub mod journal;
pub mod lock;
pub mod lock_keys;
pub mod lock_store;
pub mod log;
pub mod mirror;
pub mod mounts;
pub mod open_files;
pub mod own_pane;
pub mod own_processes;
pub mod pane_dirs;
pub mod ports;
mod proc_file;
pub mod process;
pub mod process_usage;
pub mod program;
pub mod project;
pub mod record;
pub mod remove;
pub mod repository;
pub mod reserve;
pub mod root;
pub mod root_identity;
pub mod scheduling;
pub mod shared;
pub mod socket;
pub mod state;
pub mod store;
pub mod team;
pub mod template;
pub mod token;
pub mod transcript;
pub mod user;
pub mod workspace;
pub mod write_tracker;

pub use root::StateRoot;
