//! Arguments about the environment of a pane.

use clap::Args;

use super::{Variable, examples};

/// Options of `new` that select variables by role and session.
#[derive(Debug, Default, Args)]
pub(crate) struct PaneEnvArgs {
    /// Role of the pane: dev, qa, ux, pm, or a role defined in ccmux.toml
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,

    /// Set an environment variable for this pane and all later panes of the session; without a
    /// value, copy it from the current environment (can be repeated)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) session_env: Vec<Variable>,
}

/// Arguments of `env`.
#[derive(Debug, Args)]
#[command(after_help = examples::ENV)]
pub(crate) struct EnvArgs {
    /// Pane: name, ID, unique ID prefix, or SESSION/PANE
    #[arg(value_name = "PANE")]
    pub(crate) id: String,

    /// Also list overridden and dropped variables, and the source that took precedence
    #[arg(long)]
    pub(crate) why: bool,
}
