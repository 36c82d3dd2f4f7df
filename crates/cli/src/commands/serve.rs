//! `ccmux serve`: serve the HTTP API.

use protocol::control::{Request, Response};
use protocol::http::{ServeRequest, Serving};

use crate::args::ServeArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context, args: &ServeArgs) -> Result<(), Failure> {
    let request = Request::Serve(ServeRequest {
        listen: args.listen.clone(),
        hold: !args.detach,
        client_env: context.env.for_pane(),
    });
    let mut link = Link::new(context);
    let response = link.request_retry(|| request.clone())?;
    let Response::Serving(serving) = response else { return Err(unexpected(&response).into()) };
    context.out.answer(&serving, |serving, _| describe(serving, !args.detach))?;
    if args.detach {
        return Ok(());
    }
    // The daemon serves as long as this connection is open and sends nothing more. An interrupt
    // ends this process and closes the connection.
    link.wait_closed()?;
    Err(daemon_stopped().into())
}

fn describe(serving: &Serving, held: bool) -> String {
    let until = match (held, serving.began) {
        (true, true) => "press ctrl-c to stop",
        (true, false) => "already running; continues after ctrl-c",
        (false, _) => "until the daemon stops",
    };
    // A Unix socket has no URL to append the path to.
    let path = if serving.url.starts_with("unix:") { "" } else { "/v1" };
    format!(
        "serving {}{path} ({until})\ntoken file: {} (`ccmux token` prints the token)\n",
        serving.url, serving.token_file
    )
}

fn daemon_stopped() -> protocol::ErrorBody {
    let message = "the daemon stopped, and the HTTP API with it";
    protocol::ErrorBody::new(protocol::ErrorCode::Unreachable, message)
        .hint("set http.listen in ccmux.toml to serve the API whenever the daemon runs")
}
