//! Arguments of `hook`.

use std::time::Duration;

use clap::Args;
use model::PaneId;
use model::agent::hooks::HookEvent;
use model::config::locks::WhenAway;

use super::values::seconds;

/// Arguments of `hook`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HookArgs {
    /// Event: prompt, pre-edit, post-edit, turn-end or session-end
    pub(crate) event: HookEvent,

    /// Full ID of the agent's pane (default: $CCMUX_PANE_ID)
    #[arg(long, value_name = "ID")]
    pub(crate) pane: Option<PaneId>,

    /// Treat a file in several worktrees of a repository as one file
    #[arg(long)]
    pub(crate) together: bool,

    /// Seconds to wait for a file that another pane has locked
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0")]
    pub(crate) wait: Duration,

    /// Decision when the daemon does not answer: allow or deny
    #[arg(long, value_name = "POLICY", default_value = "allow")]
    pub(crate) when_away: WhenAway,
}

const EXAMPLES: &str = "\
Agents run this command; you rarely need to. Panes of claude start with hooks that lock a file before
an edit, release it after the turn, and confirm messages. The hook input is read from standard input.
Exit code 0 allows the edit. Exit code 2 refuses it, with the reason for the agent on standard error.

Examples:
  echo '{\"tool_input\":{\"file_path\":\"/src/main.rs\"}}' | ccmux hook pre-edit
  ccmux hook turn-end --pane \"$CCMUX_PANE_ID\"";
