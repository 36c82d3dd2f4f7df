//! Prints the capabilities that the tests may require and this user has, one per line.
//!
//! `scripts/run-tests` compares them with the reasons of skipped tests.

use clap::ValueEnum as _;
use testkit::Capability;

#[expect(clippy::print_stdout, reason = "that is its purpose")]
fn main() {
    for capability in Capability::value_variants() {
        if capability.is_available() {
            println!("{capability}");
        }
    }
}
