//! The commands in the help of `ccmux`, grouped by task.

use std::fmt::Write as _;

use clap::Subcommand as _;

use super::Command;

/// Commands by task, those that a newcomer needs first.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Getting started", &["new", "ls", "attach", "send", "close"]),
    ("Watch and direct", &["show", "read", "wait", "message", "events", "rename"]),
    ("Stop, restore and clean up", &["stop", "restore", "purge", "gc"]),
    ("Teams and sessions", &["up", "down", "template", "migrate"]),
    ("Files, environment and limits", &["lock", "env", "limit", "thaw", "trust", "share"]),
    (
        "Administration",
        &["doctor", "config", "daemon", "serve", "token", "hook", "completions", "help"],
    ),
];

/// Returns the template of the help of `ccmux`. clap itself lists commands without groups.
pub(super) fn template() -> String {
    let commands = Command::augment_subcommands(clap::Command::default());
    let mut text = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    let written = GROUPS.iter().try_for_each(|(title, names)| {
        write!(text, "\n{title}:\n")?;
        names.iter().try_for_each(|name| {
            let about = commands.find_subcommand(name).and_then(clap::Command::get_about);
            writeln!(text, "  {name:<12} {}", about.cloned().unwrap_or_default())
        })
    });
    written.expect("writing to a string does not fail");
    text + "\nOptions:\n{options}{after-help}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_is_in_one_group() {
        let commands = Command::augment_subcommands(clap::Command::default());
        let visible = commands.get_subcommands().filter(|command| !command.is_hide_set());
        let mut visible: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.to_vec()).collect();

        visible.sort_unstable();
        grouped.sort_unstable();

        assert_eq!(grouped, visible);
    }
}
