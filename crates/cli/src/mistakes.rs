//! Commands that do not exist but that people type, and what to type instead.
//!
//! A command that removes something is never suggested for a similar word.

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use model::nearest::nearest;
use protocol::ErrorBody;

use crate::args::Cli;
use crate::failure::usage;
use crate::tmux;

/// Words of other programs, and the next step.
const WORDS: [(&[&str], &str); 17] = [
    (
        &["status", "st", "stat"],
        "`ccmux ls` lists sessions and panes, `ccmux show NAME` shows one of them, `ccmux daemon \
         status` shows the daemon",
    ),
    (&["list", "ps", "sessions", "panes", "top"], "`ccmux ls` lists sessions and panes"),
    (
        &["start", "run", "create", "open", "exec", "spawn"],
        "`ccmux new -- COMMAND` starts a command in a new pane",
    ),
    (
        &["split", "split-pane", "window", "tab"],
        "`ccmux new --session SESSION -- COMMAND` adds a pane to a session",
    ),
    (
        &["logs", "log", "tail", "cat", "output"],
        "`ccmux read NAME --log` prints the output of a pane, with --follow as it appears",
    ),
    (&["screen", "capture", "view", "peek"], "`ccmux read NAME` prints the screen of a pane"),
    (
        &["info", "inspect", "describe", "get"],
        "`ccmux show NAME` shows the details of a pane or session",
    ),
    (&["detach", "exit", "quit", "leave"], "`ctrl-b d` detaches from a pane; it keeps running"),
    (&["connect", "join", "switch", "focus", "enter"], "`ccmux attach NAME` attaches to a pane"),
    (
        &["resume", "continue", "reopen", "unstop"],
        "`ccmux restore NAME` restarts a pane and resumes its conversation",
    ),
    (&["restart"], "`ccmux stop NAME && ccmux restore NAME` restarts a pane"),
    (
        &["type", "prompt", "ask", "tell", "say", "input"],
        "`ccmux send NAME 'TEXT' --enter` types a prompt into a pane",
    ),
    (
        &["msg", "mail", "chat", "broadcast"],
        "`ccmux message --to NAME 'TEXT'` sends a message to a pane",
    ),
    (
        &["rm", "remove", "delete", "del", "destroy", "clean", "prune"],
        "`ccmux stop NAME` ends a pane and keeps its directories; `ccmux help` lists the commands that remove them",
    ),
    (
        &["init", "setup", "install"],
        "ccmux needs no setup: `ccmux claude` starts an agent, `ccmux` a shell",
    ),
    (&["version", "-v", "ver"], "`ccmux --version` prints the version"),
    (
        &["settings", "configure", "options", "set"],
        "`ccmux config` shows the configuration and its file",
    ),
];

/// Commands that end or remove something.
const REMOVING: [&str; 6] = ["close", "purge", "gc", "down", "stop", "token"];

/// Returns the error for a command that does not exist, or none if `error` is about something else.
pub(crate) fn unknown_command(error: &clap::Error) -> Option<ErrorBody> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let body = usage(format!("`{word}` is not a ccmux command"));
    if let Some(equivalent) = tmux::equivalent(word) {
        return Some(body.hint(format!("in ccmux: {equivalent}; `ccmux help tmux` lists more")));
    }
    let known = WORDS.iter().find(|(words, _)| words.contains(&word.as_str()));
    if let Some((_, next)) = known {
        return Some(body.hint(*next));
    }
    let similar = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(similar)) => similar.clone(),
        Some(ContextValue::String(similar)) => vec![similar.clone()],
        _ => Vec::new(),
    };
    // The best match comes last. It may be an alias.
    let commands = Cli::command();
    let similar = similar.last().and_then(|similar| commands.find_subcommand(similar));
    let similar = similar.map(clap::Command::get_name).filter(|name| !REMOVING.contains(name));
    let similar = similar.and_then(|name| nearest(word, [name]));
    Some(body.hint(match similar {
        Some(similar) => format!("did you mean `ccmux {similar}`? `ccmux help` lists all commands"),
        None => "`ccmux help` lists all commands".to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn hint(word: &str) -> String {
        let error = Cli::try_parse_from(["ccmux", word]).unwrap_err();
        unknown_command(&error).unwrap().hint.unwrap()
    }

    #[test]
    fn commands_that_remove_are_never_suggested_for_a_similar_word() {
        for word in [
            "purg",
            "purge-pane",
            "clos",
            "clsoe",
            "capture-pane",
            "gcc",
            "gd",
            "dwn",
            "stp",
            "tokn",
            "kil",
            "killpane",
        ] {
            let hint = hint(word);
            assert!(
                !REMOVING.iter().any(|verb| hint.contains(&format!("`ccmux {verb}"))),
                "{word}: {hint}"
            );
        }
        assert!(hint("attahc").contains("`ccmux attach`"));
        assert!(hint("statsu").contains("`ccmux help`"));
    }

    #[test]
    fn words_of_other_programs_are_not_commands() {
        for word in WORDS.iter().flat_map(|(words, _)| *words).filter(|word| !word.starts_with('-'))
        {
            let error = Cli::try_parse_from(["ccmux", word]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSubcommand, "{word}");
        }
    }
}
