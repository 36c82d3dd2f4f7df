//! Arguments of `limit` and `thaw`.

use clap::Args;
use model::limits::LimitOverrides;

/// Arguments of `limit`.
#[derive(Debug, Args)]
#[command(after_help = LIMIT)]
pub(crate) struct LimitArgs {
    /// Pane: name, ID, unique ID prefix, or SESSION/PANE
    #[arg(value_name = "PANE")]
    pub(crate) id: String,

    /// Limits to change, such as disk=2G or memory=none (default: show the current limits)
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) wishes: Vec<LimitOverrides>,
}

/// Arguments of `thaw`.
#[derive(Debug, Args)]
#[command(after_help = THAW)]
pub(crate) struct ThawArgs {
    /// Panes: name, ID, unique ID prefix, or SESSION/PANE
    #[arg(required = true, value_name = "PANE")]
    pub(crate) ids: Vec<String>,
}

const LIMIT: &str = "\
Limits:
  disk, memory   bytes, such as 1G or 512M
  processes      number of processes
  cpu            relative CPU share (100 is the share of an unlimited pane)
  files          open files per process
  policy         warn, freeze or stop: the action when a measured limit is exceeded (default: warn)
  count_ignored  on or off: whether directories ignored by git count as disk usage (default: off)
Any limit can be `none`.

Examples:
  ccmux limit dev1                      show limits, usage and enforcement
  ccmux limit dev1 disk=4G policy=freeze
  ccmux limit dev1 memory=none --json";

const THAW: &str = "\
With policy=freeze, a pane that exceeds a limit is frozen: its processes are suspended, and no work
is lost. Free some space or raise the limit first; otherwise the pane is frozen again.

Examples:
  ccmux thaw dev1
  ccmux limit dev1 disk=2G && ccmux thaw dev1";
