//! Upgrades: state, running panes and clients of earlier releases work with this one.
//!
//! Every format has a test here, in two forms:
//!
//! - **Recorded** (`recorded.rs`, part of `make test`): state roots and frames that earlier releases
//!   wrote, one directory per release in `recorded/`. This binary lists, shows, restores and closes
//!   what is in them, and answers every recorded request in a form that the recorded client reads.
//! - **Live** (`live.rs`, part of `make soak`): the previous release, built from git by
//!   `scripts/build-previous-release`, with agents running while it is replaced.
//!
//! `scripts/record-upgrade-fixtures` (`recorder.rs`) adds a recording. Run it for a release before
//! its formats change. A recording is never edited: a test that fails on one is a broken promise.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compare;
mod frames;
mod live;
mod recorded;
mod recorded_keeper;
mod recorder;
mod recording;
mod release;
mod workload;

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");
