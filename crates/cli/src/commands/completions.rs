//! `ccmux completions`: print a shell completion script.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn run(out: &Output, args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ccmux", &mut script);
    out.bytes(&script)
}
