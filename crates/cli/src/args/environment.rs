//! Arguments about the surroundings of a pane.

use clap::Args;

use super::Variable;

/// What a pane is for, and what it shares with its session.
#[derive(Debug, Default, Args)]
pub(crate) struct SurroundingsArgs {
    /// Say what the pane is for: dev, qa, ux, pm, or a role of your own in ccmux.toml
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,

    /// Set a variable for this pane and every later one of its session, or hand one down from this
    /// environment (can be repeated)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) session_env: Vec<Variable>,
}
