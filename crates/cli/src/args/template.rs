//! Arguments of `template` and `migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use model::{Name, WorkspaceKind};

pub(super) const TEMPLATE: &str = "\
A template is a directory that contains `unit`, `workflows` or `files`, and optionally a
`template.toml` with a name and description. `ccmux new --template NAME` copies its contents into the
directory of a new session. The template `default` is built in.

Examples:
  ccmux template ls
  ccmux template show default
  ccmux template add ~/templates/review-squad
  ccmux new --session web --template review-squad -- claude";

/// The commands of `template`.
#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// List templates
    #[command(after_help = LS)]
    Ls,
    /// Show a template and its files
    #[command(after_help = SHOW)]
    Show(TemplateNameArgs),
    /// Add a directory as a template
    #[command(after_help = ADD)]
    Add(TemplateAddArgs),
    /// Remove a template; existing sessions keep their copies
    #[command(after_help = RM)]
    Rm(TemplateNameArgs),
}

/// Arguments of `template show` and `template rm`.
#[derive(Debug, Args)]
pub(crate) struct TemplateNameArgs {
    /// Name of the template
    #[arg(value_name = "TEMPLATE")]
    pub(crate) name: String,
}

/// Arguments of `template add`.
#[derive(Debug, Args)]
pub(crate) struct TemplateAddArgs {
    /// Directory to copy
    pub(crate) dir: PathBuf,

    /// Name of the template (default: from its template.toml, or the name of the directory)
    #[arg(long)]
    pub(crate) name: Option<Name>,
}

/// Arguments of `migrate`.
#[derive(Debug, Args)]
#[command(after_help = MIGRATE)]
pub(crate) struct MigrateArgs {
    /// Session: name, ID or unique ID prefix
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,

    /// Kind of workspace for every pane: auto, worktree, clone, copy or empty (default: auto)
    #[arg(long, value_name = "KIND")]
    pub(crate) workspace: Option<WorkspaceKind>,

    /// Print the changes without making them
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const LS: &str = "\
Examples:
  ccmux template ls
  ccmux template ls --json | jq -r '.templates[].name'";

const SHOW: &str = "\
Examples:
  ccmux template show default
  ccmux template show default --json | jq -r '.template.files[]'";

const ADD: &str = "\
Replaces an existing template of the same name. Templates larger than 64 MiB, or with symbolic links
that point outside the template, are refused.

Examples:
  ccmux template add ~/templates/review-squad
  ccmux template add . --name default";

const RM: &str = "\
Examples:
  ccmux template rm review-squad";

const MIGRATE: &str = "\
The session must be stopped. Every pane gets its own workspace, as a new pane in its directory
would, and `unit` and `workflows` of the project are copied into the session. The project is not
changed. If the migration is interrupted, run the command again to continue.

Examples:
  ccmux migrate web --dry-run
  ccmux stop web && ccmux migrate web && ccmux restore web
  ccmux migrate web --workspace copy --json";
