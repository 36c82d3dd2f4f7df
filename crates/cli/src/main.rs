//! The `ccmux` binary.
//!
//! `main` reads the environment and the arguments once and passes them down as values. The same
//! binary also runs as the daemon (`ccmux daemon run`) and as the keeper of a pane (`ccmux keeper`).

mod agent_verb;
mod args;
mod attach;
mod commands;
mod connect;
mod context;
mod describe;
mod each;
mod environment;
mod failure;
mod keeper;
mod mistakes;
mod output;
#[cfg(test)]
mod reference;
mod table;
mod tmux;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use args::Cli;
use context::now;
use environment::ClientEnv;
use failure::{Failure, usage};
use output::Output;

fn main() -> ExitCode {
    let env = ClientEnv::new(std::env::vars_os());
    let words: Vec<OsString> = std::env::args_os().collect();
    // Checked before parsing: a keeper starts with every pane and should start fast.
    if words.get(1).is_some_and(|word| word == "keeper") {
        return crate::keeper::run(env.home(), env.test_hooks());
    }
    if let Some(shell) = env.completing_shell() {
        // A shell shows no errors while it completes.
        return ExitCode::from(u8::from(commands::complete(shell, &words, &env).is_err()));
    }
    let cli = match parse(&words, &env) {
        Ok(cli) => cli,
        Err(error) => return report_parse_error(&error, &words, &env),
    };
    let out = Output::new(cli.json, &env, now());
    match commands::run(&cli, env, &out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Failure::Error(body) = &failure {
                out.error(body);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Parses the command line. The name of an agent is accepted as a command, and `-t` as in tmux.
fn parse(words: &[OsString], env: &ClientEnv) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(words).or_else(|error| {
        let verb = || {
            let name = agent_verb::unknown_command(&error)?;
            let cli = Cli::try_parse_from(agent_verb::as_new(words, &name)?).ok()?;
            commands::is_agent(&name, env, &cli).then_some(cli)
        };
        let target = || Cli::try_parse_from(tmux::without_target_option(words, &error)?).ok();
        verb().or_else(target).ok_or(error)
    })
}

/// Prints a usage error, or the requested help or version.
fn report_parse_error(error: &clap::Error, words: &[OsString], env: &ClientEnv) -> ExitCode {
    let json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    if let Some(body) = mistakes::unknown_command(error) {
        Output::new(json, env, now()).error(&body);
    } else if json && error.use_stderr() {
        Output::new(true, env, now()).error(&usage_body(error));
    } else {
        // Fails only if the stream is closed.
        let _closed = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Converts an error of the parser to a usage error.
fn usage_body(error: &clap::Error) -> protocol::ErrorBody {
    let text = error.to_string();
    let mut paragraphs = text.split("\n\n").map(str::trim);
    let message = paragraphs.next().unwrap_or_default().trim_start_matches("error: ");
    let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: "));
    usage(message).hint(tip.unwrap_or("see `ccmux --help` or `ccmux COMMAND --help`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_errors_have_a_json_form() {
        let lines: [&[&str]; 4] = [
            &["ccmux", "new", "--templates", "t"],
            &["ccmux", "show"],
            &["ccmux", "lss"],
            &["ccmux", "wait", "dev1", "--for", "idle"],
        ];

        let bodies = lines.map(|line| {
            let error = Cli::try_parse_from(line).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            serde_json::to_string_pretty(&usage_body(&error)).unwrap()
        });

        insta::assert_snapshot!(bodies.join("\n"));
    }
}
