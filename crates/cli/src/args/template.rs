//! Arguments about what sessions begin with, and about leaving legacy mode.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use model::{Name, WorkspaceKind};

pub(super) const TEMPLATE: &str = "\
A template is a directory with `unit`, `workflows` or `files` in it, and a `template.toml` that says
name and description. `ccmux new --template NAME` copies them into the directory of a new session,
where they may be changed; the template stays as it is. `default` comes with ccmux.

Examples:
  ccmux template ls
  ccmux template show default
  ccmux template add ~/templates/review-squad
  ccmux new --session web --template review-squad -- claude";

/// The verbs of `template`.
#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// List templates
    #[command(after_help = LS)]
    Ls,
    /// Show one template and its files
    #[command(after_help = SHOW)]
    Show(TemplateNameArgs),
    /// Copy a directory in as a template
    #[command(after_help = ADD)]
    Add(TemplateAddArgs),
    /// Remove a template of your own; sessions keep their copies
    #[command(after_help = RM)]
    Rm(TemplateNameArgs),
}

/// Arguments of `template show` and `template rm`.
#[derive(Debug, Args)]
pub(crate) struct TemplateNameArgs {
    /// Its name
    pub(crate) name: String,
}

/// Arguments of `template add`.
#[derive(Debug, Args)]
pub(crate) struct TemplateAddArgs {
    /// The directory
    pub(crate) dir: PathBuf,

    /// Call it this; what its template.toml says, or as the directory is called, otherwise
    #[arg(long)]
    pub(crate) name: Option<Name>,
}

/// Arguments of `migrate`.
#[derive(Debug, Args)]
#[command(after_help = MIGRATE)]
pub(crate) struct MigrateArgs {
    /// Session: name, id or unique beginning of an id
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,

    /// Give every pane a tree of this kind: auto, worktree, clone, copy or empty
    #[arg(long, value_name = "KIND")]
    pub(crate) workspace: Option<WorkspaceKind>,

    /// Only say what would be done
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
Links that lead out of the template are refused, and so is more than 64 MiB. One that has the name
already is replaced.

Examples:
  ccmux template add ~/templates/review-squad
  ccmux template add . --name default";

const RM: &str = "\
Examples:
  ccmux template rm review-squad";

const MIGRATE: &str = "\
The session has to be stopped. Every pane gets a tree of its own, as a new pane in that directory
would; `unit` and `workflows` of the project are copied into the session. The project is left as it
is. Interrupted, it goes on when it is asked for again.

Examples:
  ccmux migrate web --dry-run
  ccmux stop web && ccmux migrate web && ccmux restore web
  ccmux migrate web --workspace copy --json";
