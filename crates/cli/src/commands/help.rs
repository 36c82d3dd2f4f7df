//! `ccmux help`: print the help of a command or a topic.

use clap::CommandFactory as _;

use crate::args::{Cli, HelpArgs};
use crate::failure::{Failure, usage};
use crate::output::Output;
use crate::tmux;

pub(super) fn run(out: &Output, args: &HelpArgs) -> Result<(), Failure> {
    out.text(&text(&args.words)?)
}

fn text(words: &[String]) -> Result<String, Failure> {
    if words == ["tmux"] {
        return Ok(tmux::text());
    }
    let mut command = Cli::command();
    command.build();
    for word in words {
        command = command.find_subcommand(word).cloned().ok_or_else(|| {
            usage(format!("no help for `{}`", words.join(" ")))
                .hint("`ccmux help` lists all commands; `ccmux help tmux` compares with tmux")
        })?;
    }
    Ok(command.render_long_help().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_found_for_commands_aliases_and_topics() {
        let first_line = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            text(&words).map(|text| text.lines().next().unwrap_or_default().to_owned()).ok()
        };

        assert!(first_line(&[]).unwrap().starts_with("Run AI coding agents"));
        assert!(first_line(&["daemon", "stop"]).unwrap().starts_with("Stop the daemon"));
        assert_eq!(first_line(&["kill-pane"]), first_line(&["close"]));
        assert!(first_line(&["tmux"]).unwrap().starts_with("Commands of tmux"));
        assert_eq!(first_line(&["unknown"]), None);
    }
}
