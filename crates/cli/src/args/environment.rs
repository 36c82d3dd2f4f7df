//! Arguments about the surroundings of a pane.

use clap::Args;

use super::{Variable, examples};

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

/// Arguments of `env`.
#[derive(Debug, Args)]
#[command(after_help = examples::ENV)]
pub(crate) struct EnvArgs {
    /// Pane: name, id, unique beginning of an id, or SESSION/PANE
    pub(crate) id: String,

    /// Name what was not used as well, and who won
    #[arg(long)]
    pub(crate) why: bool,
}
