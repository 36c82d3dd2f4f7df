//! Arguments of `serve` and `token`.

use clap::Args;
use model::http::Scope;

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE)]
pub(crate) struct ServeArgs {
    /// Listen here; where ccmux.toml says, or at 127.0.0.1:8765, otherwise. Port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,

    /// Return at once, and serve until the daemon ends
    #[arg(short, long)]
    pub(crate) detach: bool,
}

/// Arguments of `token`.
#[derive(Debug, Args)]
#[command(after_help = TOKEN)]
pub(crate) struct TokenArgs {
    /// The token that allows this: read or control
    #[arg(long, default_value_t = Scope::Control)]
    pub(crate) scope: Scope,

    /// Make another one; the one before is refused from then on
    #[arg(long)]
    pub(crate) rotate: bool,
}

const SERVE: &str = "\
Examples:
  ccmux serve                            until ctrl-c
  ccmux serve --detach --listen 127.0.0.1:0 --json
  curl -H \"Authorization: Bearer $(ccmux token)\" http://127.0.0.1:8765/v1/sessions";

const TOKEN: &str = "\
Examples:
  ccmux token
  ccmux token --scope read     for callers who only look
  ccmux token --rotate         when somebody has seen it";
