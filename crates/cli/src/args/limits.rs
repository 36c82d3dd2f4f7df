//! Arguments of `limit` and `thaw`.

use clap::Args;
use model::limits::LimitWishes;

/// Arguments of `limit`.
#[derive(Debug, Args)]
#[command(after_help = LIMIT)]
pub(crate) struct LimitArgs {
    /// Pane: name, id, unique beginning of an id, or SESSION/PANE
    pub(crate) id: String,

    /// What is to be different from now on, such as disk=2G or memory=none; nothing only shows
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) wishes: Vec<LimitWishes>,
}

/// Arguments of `thaw`.
#[derive(Debug, Args)]
#[command(after_help = THAW)]
pub(crate) struct ThawArgs {
    /// Panes: name, id, unique beginning of an id, or SESSION/PANE
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
}

const LIMIT: &str = "\
What can be limited: disk, memory (1G, 512M), processes, cpu (a share, where others have 100), files
(of each process), each of which may be `none`; policy is freeze, stop or warn.

Examples:
  ccmux limit dev1                         what it may take, what it takes, and who sees to it
  ccmux limit dev1 disk=4G policy=warn
  ccmux limit dev1 memory=none --json";

const THAW: &str = "\
A pane that takes more than it may is frozen: its processes stand still, nothing is lost. Make room,
or raise the limit, or it is soon frozen again.

Examples:
  ccmux limit dev1 disk=2G && ccmux thaw dev1";
