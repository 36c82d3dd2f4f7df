//! `ccmux completions`: print a completion script for a shell.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::context::Context;
use crate::failure::Failure;

pub(super) fn run(context: &Context, args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ccmux", &mut script);
    context.out.bytes(&script)
}
