//! `ccmux completions`: print a shell completion script.

use clap_complete::env::Shells;

use crate::args::CompletionsArgs;
use crate::environment::COMPLETE;
use crate::failure::{Failure, usage};
use crate::output::Output;

pub(super) fn run(out: &Output, args: &CompletionsArgs) -> Result<(), Failure> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells.completer(&name);
    let shell = shell.ok_or_else(|| usage(format!("no completions for the shell {name}")))?;
    let mut script = Vec::new();
    shell
        .write_registration(COMPLETE, "ccmux", "ccmux", "ccmux", &mut script)
        .map_err(|error| Failure::io("write the completion script", &error))?;
    out.bytes(&script)
}
