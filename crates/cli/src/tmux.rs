//! Help for users of tmux: its commands with their equivalents, and its option `-t`.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Commands of tmux and their equivalents. A command that has an alias in `args` works as it is.
const EQUIVALENTS: [(&str, &str); 19] = [
    ("new-session -s NAME", "ccmux new -n NAME"),
    ("new-session -d -s NAME COMMAND", "ccmux new -d -n NAME -- COMMAND"),
    ("new-window COMMAND", "ccmux new --session SESSION -- COMMAND"),
    ("split-window COMMAND", "ccmux new --session SESSION -- COMMAND"),
    ("list-sessions, list-panes", "ccmux ls"),
    ("has-session -t NAME", "ccmux show NAME"),
    ("attach-session -t NAME", "ccmux attach NAME"),
    ("attach-session -r -t NAME", "ccmux attach --read-only NAME"),
    ("detach-client, or ctrl-b d", "ctrl-b d"),
    ("send-keys -t NAME TEXT Enter", "ccmux send NAME TEXT --enter"),
    ("capture-pane -p -t NAME", "ccmux read NAME"),
    ("capture-pane -p -S - -t NAME", "ccmux read NAME --log"),
    ("wait-for CHANNEL", "ccmux wait NAME --for exit"),
    ("rename-session NEW", "ccmux rename NAME NEW"),
    ("show-environment", "ccmux env NAME"),
    ("set-option NAME VALUE", "ccmux config, then edit ccmux.toml"),
    ("kill-pane -t NAME", "ccmux close NAME"),
    ("kill-session -t NAME", "ccmux stop NAME (keeps its directories)"),
    ("kill-server", "ccmux daemon stop (panes continue to run)"),
];

/// Returns the help topic `tmux`.
pub(crate) fn text() -> String {
    let mut text = "Commands of tmux and their equivalents. -t NAME works in every command.\n\n\
        tmux                            ccmux\n"
        .to_owned();
    let written = EQUIVALENTS.iter().try_for_each(|(tmux, ccmux)| {
        writeln!(text, "{tmux:<30}  {ccmux}") //
    });
    written.expect("writing to a string does not fail");
    text + "\nA pane outlives the daemon, `close` refuses to discard unsaved work, and the \
        directory of a closed\npane stays in the trash for some time.\n"
}

/// Returns the equivalent of a command of tmux.
pub(crate) fn equivalent(command: &str) -> Option<&'static str> {
    let names = |tmux: &str| tmux.split([' ', ',']).any(|word| word == command);
    EQUIVALENTS.iter().find(|(tmux, _)| names(tmux)).map(|(_, ccmux)| *ccmux)
}

/// Rewrites `VERB ... -t TARGET ...` as `VERB TARGET ...`, if `-t` is what the parser refused.
pub(crate) fn without_target_option(
    words: &[OsString],
    error: &clap::Error,
) -> Option<Vec<OsString>> {
    let refused = error.get(ContextKind::InvalidArg);
    let is_target = matches!(refused, Some(ContextValue::String(option)) if option == "-t");
    if error.kind() != ErrorKind::UnknownArgument || !is_target {
        return None;
    }
    let at = words.iter().take_while(|word| *word != "--").position(|word| word == "-t")?;
    let target = words.get(at + 1)?;
    // The words before `-t` are the verb and its options: the target becomes the first argument.
    let is_verb = |word: &OsString| !word.as_encoded_bytes().starts_with(b"-");
    let verb = words[..at].iter().skip(1).position(is_verb)? + 1;
    let mut rewritten = words.to_vec();
    rewritten.drain(at..at + 2);
    rewritten.insert(verb + 1, OsStr::to_owned(target));
    Some(rewritten)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn target_option_becomes_the_first_argument() {
        let rewritten = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = Cli::try_parse_from(&words).unwrap_err();
            let words = without_target_option(&words, &error)?;
            Some(words.join(OsStr::new(" ")).into_string().unwrap())
        };

        #[rustfmt::skip]
        let table = [
            ("ccmux attach -t dev1", Some("ccmux attach dev1")),
            ("ccmux send --enter -t dev1 hello", Some("ccmux send dev1 --enter hello")),
            ("ccmux --json read -t dev1 --log", Some("ccmux --json read dev1 --log")),
            ("ccmux attach -t", None),
            ("ccmux attach -x dev1", None),
        ];
        for (line, expected) in table {
            assert_eq!(rewritten(line).as_deref(), expected, "{line}");
        }
    }
}
