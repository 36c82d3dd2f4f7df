//! The name of an agent as a command: `ccmux claude` is short for `ccmux new --agent claude`.
//!
//! Agents can be defined in ccmux.toml, so the parser does not know them. A command line is rewritten
//! only after the parser has refused its command.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Returns the command that the parser does not know, if this is what the error is about.
pub(crate) fn unknown_command(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) => Some(name.clone()),
        _ => None,
    }
}

/// Rewrites `ccmux AGENT ARG...` as `ccmux new --agent AGENT -- ARG...`. A `--` after the name may
/// be omitted: all arguments are those of the agent.
pub(crate) fn as_new(words: &[OsString], agent: &str) -> Option<Vec<OsString>> {
    let at = words.iter().position(|word| word == agent)?;
    let (before, arguments) = (&words[..at], &words[at + 1..]);
    let arguments = match arguments {
        [first, rest @ ..] if first == "--" => rest,
        all => all,
    };
    let new = ["new", "--agent", agent, "--"].map(|word| OsStr::new(word).to_owned());
    Some(before.iter().cloned().chain(new).chain(arguments.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    fn rewritten(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = Cli::try_parse_from(&words).unwrap_err();
        let words = as_new(&words, &unknown_command(&error)?)?;
        Some(words.join(OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn agent_name_becomes_new_and_all_its_arguments_are_kept() {
        #[rustfmt::skip]
        let table = [
            ("ccmux claude", Some("ccmux new --agent claude --")),
            ("ccmux claude --model opus", Some("ccmux new --agent claude -- --model opus")),
            ("ccmux codex -- --model x", Some("ccmux new --agent codex -- --model x")),
            ("ccmux claude -- -- x", Some("ccmux new --agent claude -- -- x")),
            ("ccmux --json --home /s mine -p hi", Some("ccmux --json --home /s new --agent mine -- -p hi")),
            ("ccmux --unknown", None),
            ("ccmux show", None),
        ];
        for (line, expected) in table {
            assert_eq!(rewritten(line).as_deref(), expected, "{line}");
        }
    }
}
