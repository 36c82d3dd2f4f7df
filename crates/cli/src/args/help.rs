//! Arguments of `ccmux help`.

use clap::Args;

const HELP: &str = "\
Examples:
  ccmux help
  ccmux help new
  ccmux help daemon stop
  ccmux help tmux";

/// Arguments of `help`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct HelpArgs {
    /// Command, or the topic `tmux`: the commands of tmux and their equivalents (default: all
    /// commands)
    #[arg(value_name = "COMMAND")]
    pub(crate) words: Vec<String>,
}
