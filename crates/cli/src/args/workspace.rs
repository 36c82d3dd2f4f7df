//! Arguments of `trust` and `share`.

use std::path::PathBuf;

use clap::Args;

const TRUST: &str = "\
A project can run commands in every new workspace: `[workspace] setup = [[\"make\", \"deps\"]]` in
.ccmux.toml in its root directory, and likewise `teardown` when a workspace is removed. The commands
run only after you trust the file. If the file changes, you must trust it again.

Examples:
  ccmux trust
  ccmux trust ~/src/web
  ccmux trust --list --json
  ccmux trust --revoke ~/src/web";

const SHARE: &str = "\
Panes find the files under $CCMUX_SHARED. They can read them but not write them.

Examples:
  ccmux share docs/style.md api.yaml
  ccmux share --templates review.md
  ccmux share --list --json
  ccmux share --remove style.md";

/// Arguments of `trust`.
#[derive(Debug, Args)]
#[command(after_help = TRUST)]
pub(crate) struct TrustArgs {
    /// Directory of the project (default: the current directory)
    #[arg(conflicts_with = "list")]
    pub(crate) dir: Option<PathBuf>,

    /// List trusted projects
    #[arg(long)]
    pub(crate) list: bool,

    /// Revoke the trust in the project
    #[arg(long, conflicts_with = "list")]
    pub(crate) revoke: bool,
}

/// Arguments of `share`.
#[derive(Debug, Args)]
#[command(after_help = SHARE)]
pub(crate) struct ShareArgs {
    /// Files and directories to share; with --remove, their shared names
    #[arg(value_name = "PATH", required_unless_present = "list", conflicts_with = "list")]
    pub(crate) paths: Vec<PathBuf>,

    /// Share the files as templates instead of project files
    #[arg(long, conflicts_with_all = ["list", "remove"])]
    pub(crate) templates: bool,

    /// List shared files
    #[arg(long)]
    pub(crate) list: bool,

    /// Stop sharing the files
    #[arg(long, conflicts_with = "list")]
    pub(crate) remove: bool,
}
