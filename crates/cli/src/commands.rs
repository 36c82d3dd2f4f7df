//! The verbs, one file each.

mod attach;
mod bare;
mod close;
mod completions;
mod daemon;
mod events;
mod ls;
mod man;
mod new;
mod read;
mod rename;
mod send;
mod show;
mod stop;
mod wait;

use crate::args::Command;
use crate::context::Context;
use crate::failure::Failure;

/// Does what was typed.
///
/// # Errors
///
/// Why it was not done.
pub(crate) fn run(context: &Context, command: Option<&Command>) -> Result<(), Failure> {
    let Some(command) = command else { return bare::run(context) };
    match command {
        Command::New(args) => new::run(context, args),
        Command::Ls => ls::run(context),
        Command::Show(args) => show::run(context, args),
        Command::Attach(args) => attach::run(context, args),
        Command::Rename(args) => rename::run(context, args),
        Command::Send(args) => send::run(context, args),
        Command::Read(args) => read::run(context, args),
        Command::Wait(args) => wait::run(context, args),
        Command::Stop(args) => stop::run(context, args),
        Command::Close(args) => close::run(context, args),
        Command::Events(args) => events::run(context, args),
        Command::Daemon(command) => daemon::run(context, command),
        Command::Completions(args) => completions::run(context, args),
        Command::Man(args) => man::run(args),
    }
}
