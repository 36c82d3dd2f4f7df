//! The arguments of `hook`.

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
    /// What happens: prompt, pre-edit, post-edit, turn-end or session-end
    pub(crate) event: HookEvent,

    /// The pane whose agent it is, by its whole id; the one we run in otherwise
    #[arg(long, value_name = "ID")]
    pub(crate) pane: Option<PaneId>,

    /// Take a file in several worktrees of a repository for one file
    #[arg(long)]
    pub(crate) together: bool,

    /// Wait this many seconds for a file that another pane holds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0")]
    pub(crate) wait: Duration,

    /// What to say while the daemon does not answer: allow or deny
    #[arg(long, value_name = "POLICY", default_value = "allow")]
    pub(crate) when_away: WhenAway,
}

const EXAMPLES: &str = "\
Agents run this by themselves: panes of claude are started with hooks that take the lock of a file
before an edit, give it back after the turn, and tell which messages were accepted. What the agent
says about the edit is read from standard input. Exit code 2 refuses the edit, and standard error
says why, in words for the agent; 0 lets it go ahead.

Examples:
  echo '{\"tool_input\":{\"file_path\":\"/src/main.rs\"}}' | ccmux hook pre-edit
  ccmux hook turn-end --pane \"$CCMUX_PANE_ID\"";
