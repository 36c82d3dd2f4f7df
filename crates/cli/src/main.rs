//! ccmux: the command line.
//!
//! `main` reads the environment and the arguments once; everything below gets them as values. The
//! same binary is the daemon (`ccmux daemon run`) and every keeper (`ccmux keeper`).

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
mod output;
#[cfg(test)]
mod reference;
mod start;
mod table;

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
    // Before everything else: a keeper is started for each pane and should cost nothing.
    if words.get(1).is_some_and(|verb| verb == "keeper") {
        return crate::keeper::run(env.home(), env.test_hooks());
    }
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error, &words, &env),
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

/// Prints the help that was asked for, or what is wrong with the line.
fn not_parsed(error: &clap::Error, words: &[OsString], env: &ClientEnv) -> ExitCode {
    let json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    if json && error.use_stderr() {
        Output::new(true, env, now()).error(&usage_body(error));
    } else {
        // Whoever closed the stream does not want to know.
        let _closed = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// The parser's words without their decoration.
fn usage_body(error: &clap::Error) -> protocol::ErrorBody {
    let text = error.to_string();
    let mut paragraphs = text.split("\n\n").map(str::trim);
    let message = paragraphs.next().unwrap_or_default().trim_start_matches("error: ");
    let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: "));
    usage(message).hint(tip.unwrap_or("see `ccmux --help`, or --help after a verb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_line_is_told_to_programs_as_well() {
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
