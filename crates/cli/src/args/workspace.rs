//! Arguments about what workspaces are made with.

use std::path::PathBuf;

use clap::Args;

const TRUST: &str = "\
A project may have commands run in every new workspace: `[workspace] setup = [[\"make\", \"deps\"]]` in
.ccmux.toml in its root, and `teardown` likewise. They are run only after you trusted exactly what
the file says; once it is changed, it has to be trusted again.

Examples:
  ccmux trust
  ccmux trust ~/src/web
  ccmux trust --list --json
  ccmux trust --revoke ~/src/web";

const SHARE: &str = "\
Every pane finds what is shared under $CCMUX_SHARED and can read it, not write it.

Examples:
  ccmux share docs/style.md api.yaml
  ccmux share --templates review.md
  ccmux share --list --json
  ccmux share --remove style.md";

/// Arguments of `trust`.
#[derive(Debug, Args)]
#[command(after_help = TRUST)]
pub(crate) struct TrustArgs {
    /// The project; the one of the current directory otherwise
    #[arg(conflicts_with = "list")]
    pub(crate) dir: Option<PathBuf>,

    /// Show everything that was trusted
    #[arg(long)]
    pub(crate) list: bool,

    /// Trust it no more
    #[arg(long, conflicts_with = "list")]
    pub(crate) revoke: bool,
}

/// Arguments of `share`.
#[derive(Debug, Args)]
#[command(after_help = SHARE)]
pub(crate) struct ShareArgs {
    /// Files and directories to copy in; with --remove, what they are called there
    #[arg(value_name = "PATH", required_unless_present = "list", conflicts_with = "list")]
    pub(crate) paths: Vec<PathBuf>,

    /// Share them as templates, not as project files
    #[arg(long, conflicts_with_all = ["list", "remove"])]
    pub(crate) templates: bool,

    /// Show everything that is shared
    #[arg(long)]
    pub(crate) list: bool,

    /// Take them out
    #[arg(long, conflicts_with = "list")]
    pub(crate) remove: bool,
}
