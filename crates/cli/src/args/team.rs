//! Arguments of `up` and `down`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use model::Name;

use super::values::seconds;

const UP: &str = "\
The team file lists the panes (`ccmux up --preset seven --print` prints an example). Panes that match
the file are left alone; exited panes are restored.

The plan shows one action per pane: + create, ^ restore, = keep, ~ change, - remove. Changed panes
are replaced only with --replace. Panes that are no longer in the file are stopped, and closed only
with --prune.

Examples:
  ccmux up team.toml --dry-run
  ccmux up team.toml
  ccmux up team.toml --replace --prune
  ccmux up --preset seven --print > team.toml
  ccmux up --preset units --agent shell --name try
  ccmux up --schema > team.schema.json";

const DOWN: &str = "\
`ccmux up` restores the team.

Examples:
  ccmux down team.toml
  ccmux down web --grace 10
  ccmux down web --purge --yes";

/// Arguments of `up`.
#[derive(Debug, Args)]
#[command(after_help = UP)]
pub(crate) struct UpArgs {
    /// Team file
    #[arg(value_name = "FILE", required_unless_present_any = ["preset", "schema"], conflicts_with = "preset")]
    pub(crate) file: Option<PathBuf>,

    /// Use a built-in team instead of a file: seven or units
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,

    /// Agent to run in every pane of the preset
    #[arg(long, requires = "preset", default_value = model::agent::BUILT_IN[0])]
    pub(crate) agent: String,

    /// Print the team file of the preset instead of starting it
    #[arg(long, requires = "preset")]
    pub(crate) print: bool,

    /// Print the JSON Schema of team files, for completion in editors
    #[arg(long, conflicts_with_all = ["file", "preset"])]
    pub(crate) schema: bool,

    /// Name of the session (default: as set in the file, or the name of its directory)
    #[arg(short, long)]
    pub(crate) name: Option<Name>,

    /// Print the plan without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Replace panes that differ from the file; refused if one has unsaved work
    #[arg(long)]
    pub(crate) replace: bool,

    /// Close panes that are no longer in the file; refused if one has unsaved work
    #[arg(long)]
    pub(crate) prune: bool,
}

/// Arguments of `down`.
#[derive(Debug, Args)]
#[command(after_help = DOWN)]
pub(crate) struct DownArgs {
    /// Team: its file, or the name or ID of its session
    #[arg(value_name = "NAME|FILE")]
    pub(crate) team: String,

    /// Seconds to wait for processes to exit before killing them
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) grace: Duration,

    /// Also delete the session, as `ccmux purge` does
    #[arg(long)]
    pub(crate) purge: bool,

    /// Discard the unsaved work identified by TOKEN, which the error about it contains (can be
    /// repeated)
    #[arg(long, value_name = "TOKEN", requires = "purge")]
    pub(crate) discard: Vec<String>,

    /// Do not ask for confirmation before purging (required with --json and when there is no
    /// terminal)
    #[arg(short, long, requires = "purge")]
    pub(crate) yes: bool,
}
