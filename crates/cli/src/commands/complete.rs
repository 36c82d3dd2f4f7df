//! Completion of command lines, called by the scripts of `ccmux completions`.
//!
//! The values of an argument follow from its name in the help: `PANE`, `SESSION`, and so on.
//! Completing never starts a daemon and never waits long for one.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use model::WorkspaceKind;
use model::team::presets::PRESETS;
use protocol::control::{Request, Response};
use protocol::session::TemplateRequest;
use protocol::view::ListedSession;

use super::daemon;
use crate::args::Cli;
use crate::connect::Link;
use crate::context::{Context, now};
use crate::environment::ClientEnv;
use crate::failure::{Failure, usage};
use crate::output::Output;

/// How long a running daemon may take to answer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The values that an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Panes,
    Sessions,
    PanesAndSessions,
    Agents,
    Presets,
    Templates,
    Workspaces,
}

/// Prints the completions of the command line that follows `--` in `words`.
///
/// # Errors
///
/// If the shell is unknown, or standard output cannot be written.
pub(crate) fn run(shell: &str, words: &[OsString], env: &ClientEnv) -> Result<(), Failure> {
    let out = Output::new(false, env, now());
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(shell) else {
        return Err(usage(format!("cannot complete for the shell {shell:?}")).into());
    };
    let line: Vec<OsString> =
        words.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    let home = line.iter().position(|word| word == "--home").and_then(|at| line.get(at + 1));
    let home = env.state_root(home.map(|home| home.as_ref()));
    let context = home.ok().filter(|home| home.is_dir());
    let context = context.map(|home| Context { env: env.clone(), home, out: out.clone() });
    let mut command = command(&Arc::new(context));
    let mut answer = Vec::new();
    let here = std::env::current_dir().ok();
    shell
        .write_complete(&mut command, line, here.as_deref(), &mut answer)
        .map_err(|error| Failure::io("complete the command line", &error))?;
    out.bytes(&answer)
}

/// Returns the command line with the agents as commands and the values of its arguments.
fn command(context: &Arc<Option<Context>>) -> Command {
    let mut command = Cli::command();
    for name in agents(Option::as_ref(context)) {
        // The names of commands are static. This process ends soon.
        let about = format!("Start {name} in a new pane");
        let arguments = Arg::new("arguments").num_args(0..).allow_hyphen_values(true);
        command = command.subcommand(Command::new(&*name.leak()).about(about).arg(arguments));
    }
    command.build();
    with_values(command, context)
}

fn with_values(command: Command, context: &Arc<Option<Context>>) -> Command {
    let complete = |arg: Arg| {
        let Some(values) = values(&arg) else { return arg };
        let context = Arc::clone(context);
        arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            candidates(values, context.as_ref().as_ref(), current)
        }))
    };
    command.mut_args(complete).mut_subcommands(|command| with_values(command, context))
}

/// Returns the values of an argument, by its name in the help.
fn values(arg: &Arg) -> Option<Values> {
    let name = arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
    match (arg.get_id().as_str(), name.unwrap_or_default()) {
        ("preset", _) => Some(Values::Presets),
        ("agent", _) => Some(Values::Agents),
        ("workspace", "KIND") => Some(Values::Workspaces),
        (_, "PANE" | "RECIPIENT") => Some(Values::Panes),
        (_, "SESSION" | "NAME|FILE") => Some(Values::Sessions),
        (_, "TARGET") => Some(Values::PanesAndSessions),
        (_, "TEMPLATE") => Some(Values::Templates),
        _ => None,
    }
}

fn candidates(
    values: Values,
    context: Option<&Context>,
    current: &OsStr,
) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let listed = || context.map(sessions).unwrap_or_default();
    let all = match values {
        Values::Panes => panes(&listed(), current.contains('/')),
        Values::Sessions => session_names(&listed()),
        Values::PanesAndSessions => {
            let listed = listed();
            let mut all = panes(&listed, current.contains('/'));
            all.extend(session_names(&listed));
            all
        }
        Values::Agents => agents(context),
        Values::Presets => PRESETS.iter().map(|preset| preset.name.to_owned()).collect(),
        Values::Templates => context.map(templates).unwrap_or_default(),
        Values::Workspaces => WorkspaceKind::ALL.map(|kind| kind.as_str().to_owned()).into(),
    };
    all.into_iter()
        .filter(|value| value.starts_with(current))
        .map(CompletionCandidate::new)
        .collect()
}

/// Returns the names of all panes; those that are not unique, or all if `qualified`, with the session.
fn panes(listed: &[ListedSession], qualified: bool) -> Vec<String> {
    let names = || listed.iter().flat_map(|session| session.panes.iter().map(|pane| &pane.name));
    let mut all = Vec::new();
    for session in listed {
        for pane in &session.panes {
            let is_unique = names().filter(|name| **name == pane.name).count() == 1;
            all.push(match is_unique && !qualified {
                true => pane.name.to_string(),
                false => format!("{}/{}", session.session.name, pane.name),
            });
        }
    }
    all
}

fn session_names(listed: &[ListedSession]) -> Vec<String> {
    listed.iter().map(|session| session.session.name.to_string()).collect()
}

fn sessions(context: &Context) -> Vec<ListedSession> {
    match ask(context, Request::List) {
        Some(Response::Sessions(listing)) => listing.sessions,
        _ => Vec::new(),
    }
}

fn templates(context: &Context) -> Vec<String> {
    match ask(context, Request::Template(TemplateRequest::List)) {
        Some(Response::Templates(answer)) => {
            answer.templates.into_iter().map(|template| template.name).collect()
        }
        _ => Vec::new(),
    }
}

/// Asks the daemon, if one is running and answers soon.
fn ask(context: &Context, request: Request) -> Option<Response> {
    let (send, answer) = mpsc::channel();
    let context = context.clone();
    std::thread::spawn(move || {
        let answer = Link::to_running(&context).request_retry(|| request.clone());
        // After the timeout, nothing waits for the answer.
        let _late = send.send(answer);
    });
    answer.recv_timeout(TIMEOUT).ok()?.ok()
}

/// Returns the built-in agents and those of ccmux.toml.
fn agents(context: Option<&Context>) -> Vec<String> {
    let loaded = context.and_then(|context| daemon::configuration(context).ok());
    let own = loaded.map(|loaded| loaded.config.agents.into_keys().collect::<Vec<_>>());
    let built_in = model::agent::BUILT_IN.iter().map(ToString::to_string);
    built_in.chain(own.unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the values of the argument `id` of the command with these words.
    fn values_of(words: &[&str], id: &str) -> Option<Values> {
        let mut command = &command(&Arc::new(None));
        for word in words {
            command = command.find_subcommand(word).unwrap();
        }
        values(command.get_arguments().find(|arg| arg.get_id() == id).unwrap())
    }

    #[test]
    fn values_follow_from_the_name_of_the_argument() {
        #[rustfmt::skip]
        let table: [(&[&str], &str, Option<Values>); 14] = [
            (&["attach"],          "id",        Some(Values::Panes)),
            (&["close"],           "ids",       Some(Values::Panes)),
            (&["show"],            "id",        Some(Values::PanesAndSessions)),
            (&["restore"],         "ids",       Some(Values::PanesAndSessions)),
            (&["purge"],           "ids",       Some(Values::Sessions)),
            (&["down"],            "team",      Some(Values::Sessions)),
            (&["new"],             "session",   Some(Values::Sessions)),
            (&["new"],             "agent",     Some(Values::Agents)),
            (&["new"],             "template",  Some(Values::Templates)),
            (&["template", "show"], "name",     Some(Values::Templates)),
            (&["new"],             "workspace", Some(Values::Workspaces)),
            (&["up"],              "preset",    Some(Values::Presets)),
            (&["message"],         "to",        Some(Values::Panes)),
            (&["new"],             "cwd",       None),
        ];
        for (words, id, expected) in table {
            assert_eq!(values_of(words, id), expected, "{words:?} {id}");
        }
    }

    #[test]
    fn fixed_values_are_completed_without_a_state_root() {
        let complete = |values, current: &str| {
            let found = candidates(values, None, OsStr::new(current));
            found.iter().map(|one| one.get_value().to_owned()).collect::<Vec<_>>()
        };

        assert_eq!(complete(Values::Agents, "cl"), ["claude"]);
        assert_eq!(complete(Values::Presets, "se"), ["seven"]);
        assert_eq!(complete(Values::Workspaces, "w"), ["worktree"]);
        assert!(complete(Values::Panes, "").is_empty());
    }
}
