//! Arguments of `serve` and `token`.

use clap::Args;
use model::http::Scope;

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 selects a free port, unix:PATH is a Unix socket (default:
    /// http.listen in ccmux.toml, or 127.0.0.1:8765)
    #[arg(long, value_name = "ADDRESS:PORT|unix:PATH")]
    pub(crate) listen: Option<String>,

    /// Return immediately and serve until the daemon stops
    #[arg(short, long)]
    pub(crate) detach: bool,
}

/// Arguments of `token`.
#[derive(Debug, Args)]
#[command(after_help = TOKEN)]
pub(crate) struct TokenArgs {
    /// Scope of the token: read or control
    #[arg(long, default_value_t = Scope::Control)]
    pub(crate) scope: Scope,

    /// Replace the token; the old one becomes invalid and its streams end
    #[arg(long)]
    pub(crate) rotate: bool,
}

const SERVE: &str = "\
Examples:
  ccmux serve                            serve until ctrl-c
  ccmux serve --detach --listen 127.0.0.1:0 --json
  curl -H \"Authorization: Bearer $(ccmux token)\" http://127.0.0.1:8765/v1/sessions";

const TOKEN: &str = "\
Examples:
  ccmux token
  ccmux token --scope read     read-only access
  ccmux token --rotate         after the token has leaked";
