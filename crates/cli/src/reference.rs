//! The help of every verb, and the reference made from it.

mod config;

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};

use crate::args::Cli;

/// Every command that people can see, with the words that call it.
fn visible() -> Vec<(String, Command)> {
    fn collect(command: &Command, words: &str, into: &mut Vec<(String, Command)>) {
        into.push((words.to_owned(), command.clone()));
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            collect(verb, &format!("{words} {}", verb.get_name()), into);
        }
    }
    let mut top = Cli::command().term_width(100);
    top.build();
    let mut all = Vec::new();
    collect(&top, "ccmux", &mut all);
    all
}

/// `docs/reference/cli.md`.
fn reference() -> String {
    let mut text =
        "# Command line\n\nGenerated from the program: `UPDATE=1 cargo test -p ccmux`.\n\
        \n`--home` and `--json` are accepted by every verb.\n"
            .to_owned();
    for (words, command) in visible() {
        section(&mut text, &words, &command).expect("a string takes everything");
    }
    text
}

fn section(text: &mut String, words: &str, command: &Command) -> std::fmt::Result {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    let usage = command.clone().render_usage().to_string();
    write!(text, "\n## `{words}`\n\n{}\n", about.unwrap_or_default())?;
    write!(text, "\n```\n{}\n```\n", usage.trim_start_matches("Usage: ").trim())?;
    let is_shown = |arg: &&Arg| {
        let is_global = arg.is_global_set() && words != "ccmux";
        !arg.is_hide_set() && !is_global && !matches!(arg.get_id().as_str(), "help" | "version")
    };
    let arguments: Vec<&Arg> = command.get_arguments().filter(is_shown).collect();
    if !arguments.is_empty() {
        text.push('\n');
    }
    for arg in arguments {
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
        let help = help.unwrap_or_default().replace("\n\n", ". ");
        let plain = arg.to_string();
        let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
        write!(text, "- {short}`{plain}`: {help}")?;
        let default: Vec<_> =
            arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
        if arg.get_action().takes_values() && !default.is_empty() {
            write!(text, " (default {})", default.join(" "))?;
        }
        text.push('\n');
    }
    if let Some(examples) = command.get_after_help() {
        write!(text, "\n```\n{examples}\n```\n")?;
    }
    Ok(())
}

#[test]
fn every_verb_explains_itself() {
    for (words, mut command) in visible() {
        let help = command.render_long_help().to_string();
        insta::assert_snapshot!(format!("help_{}", words.replace(' ', "_")), help);
    }
}

#[test]
fn every_verb_has_examples() {
    for (words, command) in visible() {
        // The four verbs of the daemon take no arguments and share one set.
        let shared = words.starts_with("ccmux daemon ");
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(shared || after.contains("Examples:"), "{words}");
    }
}

#[test]
fn the_reference_is_up_to_date() {
    assert_up_to_date("cli.md", &reference());
}

/// Compares a file in `docs/reference` with what it should be, or rewrites it with `UPDATE=1`.
#[expect(clippy::disallowed_methods, reason = "a test that rewrites a document when told to")]
fn assert_up_to_date(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);

    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, expected).unwrap();
    }

    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "run `UPDATE=1 cargo test -p ccmux` and commit what it changes");
}

#[test]
fn the_schema_of_team_files_is_up_to_date() {
    assert_up_to_date("team.schema.json", &model::team::schema());
}
