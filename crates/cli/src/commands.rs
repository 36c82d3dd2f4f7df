//! The commands, one file each.

mod attach;
mod bare;
mod close;
mod complete;
mod completions;
mod config;
mod daemon;
mod doctor;
mod down;
mod env;
mod events;
mod gc;
mod help;
mod hook;
mod limit;
mod lock;
mod ls;
mod man;
mod message;
mod migrate;
mod new;
mod purge;
mod read;
mod rename;
mod restore;
mod send;
mod serve;
mod share;
mod show;
mod stop;
mod template;
mod thaw;
mod token;
mod trust;
mod up;
mod wait;

pub(crate) use complete::run as complete;

use crate::args::{Cli, Command};
use crate::context::{Context, now};
use crate::environment::ClientEnv;
use crate::failure::Failure;
use crate::output::Output;

/// Runs the parsed command.
///
/// # Errors
///
/// [`Failure`] if the command does not succeed.
pub(crate) fn run(cli: &Cli, env: ClientEnv, out: &Output) -> Result<(), Failure> {
    // These commands also run in package builds, where there may be no home directory.
    match &cli.command {
        Some(Command::Completions(args)) => completions::run(out, args),
        Some(Command::Help(args)) => help::run(out, args),
        Some(Command::Man(args)) => man::run(args),
        Some(Command::Config(args)) if args.defaults => config::print_defaults(out),
        command => {
            let home = env.state_root(cli.home.as_deref())?;
            let context = Context { env, home, out: out.clone() };
            match command {
                Some(command) => run_command(&context, command),
                None => bare::run(&context),
            }
        }
    }
}

/// Returns whether `name` is an agent: a built-in one, or one that ccmux.toml defines. An invalid
/// configuration defines none; the daemon reports it.
pub(crate) fn is_agent(name: &str, env: &ClientEnv, cli: &Cli) -> bool {
    if model::agent::BUILT_IN.contains(&name) {
        return true;
    }
    let Ok(home) = env.state_root(cli.home.as_deref()) else { return false };
    // Loading the configuration creates the state root, which a mistyped command should not.
    if !home.is_dir() {
        return false;
    }
    let out = Output::new(cli.json, env, now());
    let context = Context { env: env.clone(), home, out };
    daemon::configuration(&context).is_ok_and(|loaded| loaded.config.agents.contains_key(name))
}

fn run_command(context: &Context, command: &Command) -> Result<(), Failure> {
    match command {
        Command::New(args) => new::run(context, args),
        Command::Ls(_) => ls::run(context),
        Command::Show(args) => show::run(context, args),
        Command::Attach(args) => attach::run(context, args),
        Command::Rename(args) => rename::run(context, args),
        Command::Send(args) => send::run(context, args),
        Command::Message(args) => message::run(context, args),
        Command::Read(args) => read::run(context, args),
        Command::Limit(args) => limit::run(context, args),
        Command::Thaw(args) => thaw::run(context, args),
        Command::Wait(args) => wait::run(context, args),
        Command::Stop(args) => stop::run(context, args),
        Command::Restore(args) => restore::run(context, args),
        Command::Close(args) => close::run(context, args),
        Command::Purge(args) => purge::run(context, args),
        Command::Gc(args) => gc::run(context, args),
        Command::Up(args) => up::run(context, args),
        Command::Down(args) => down::run(context, args),
        Command::Env(args) => env::run(context, args),
        Command::Trust(args) => trust::run(context, args),
        Command::Share(args) => share::run(context, args),
        Command::Template(command) => template::run(context, command),
        Command::Migrate(args) => migrate::run(context, args),
        Command::Events(args) => events::run(context, args),
        Command::Doctor => doctor::run(context),
        Command::Config(args) => config::run(context, args),
        Command::Hook(args) => hook::run(context, args),
        Command::Lock(command) => lock::run(context, command),
        Command::Serve(args) => serve::run(context, args),
        Command::Token(args) => token::run(context, args),
        Command::Daemon(command) => daemon::run(context, command),
        Command::Completions(args) => completions::run(&context.out, args),
        Command::Help(args) => help::run(&context.out, args),
        Command::Man(args) => man::run(args),
    }
}
