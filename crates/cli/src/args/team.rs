//! Arguments of the verbs about teams.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use model::Name;

use super::values::seconds;

const UP: &str = "\
The file says which panes there are (`ccmux up --preset seven --print` writes one to begin with). What
is there already and is as described stays as it is; panes that have ended are started again.

The plan shows what becomes of each pane: + made, ^ started again, = kept, ~ different, - not in the
file any more. Different panes are replaced only with --replace, and those that are not in the file
are stopped and kept unless --prune closes them.

Examples:
  ccmux up team.toml --dry-run
  ccmux up team.toml
  ccmux up team.toml --replace --prune
  ccmux up --preset seven --print > team.toml
  ccmux up --preset units --agent shell --name try
  ccmux up --schema > team.schema.json";

const DOWN: &str = "\
Ends every process of a team and keeps its directories: `ccmux up` goes on with it.

Examples:
  ccmux down team.toml
  ccmux down web --grace 10
  ccmux down web --purge --yes";

/// Arguments of `up`.
#[derive(Debug, Args)]
#[command(after_help = UP)]
pub(crate) struct UpArgs {
    /// The team file
    #[arg(value_name = "FILE", required_unless_present_any = ["preset", "schema"], conflicts_with = "preset")]
    pub(crate) file: Option<PathBuf>,

    /// Take a team that comes with ccmux: seven, units
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,

    /// Run this agent in every pane of a preset
    #[arg(long, requires = "preset", default_value = model::agent::BUILT_IN[0])]
    pub(crate) agent: String,

    /// Print the preset's file instead of starting it
    #[arg(long, requires = "preset")]
    pub(crate) print: bool,

    /// Print the JSON Schema of team files, with which editors complete them
    #[arg(long, conflicts_with_all = ["file", "preset"])]
    pub(crate) schema: bool,

    /// Call the session this; as the file says, or as its directory is called, otherwise
    #[arg(short, long)]
    pub(crate) name: Option<Name>,

    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Replace panes that differ from what the file says; refused if one has unsaved work
    #[arg(long)]
    pub(crate) replace: bool,

    /// Close panes that are not in the file any more; refused if one has unsaved work
    #[arg(long)]
    pub(crate) prune: bool,
}

/// Arguments of `down`.
#[derive(Debug, Args)]
#[command(after_help = DOWN)]
pub(crate) struct DownArgs {
    /// The team: its file, or the name or id of its session
    #[arg(value_name = "NAME|FILE")]
    pub(crate) team: String,

    /// Kill what has not left by itself after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) grace: Duration,

    /// Delete everything of the session as well, as `ccmux purge` does
    #[arg(long)]
    pub(crate) purge: bool,

    /// Lose the work that this word stands for; an error that names work gives it (can be repeated)
    #[arg(long, value_name = "TOKEN", requires = "purge")]
    pub(crate) discard: Vec<String>,

    /// Do not ask before purging; without a terminal, and with --json, nobody can be asked
    #[arg(short, long, requires = "purge")]
    pub(crate) yes: bool,
}
