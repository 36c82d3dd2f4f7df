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
    let response = link.ask_again(|| request.clone())?;
    let Response::Serving(serving) = response else { return Err(unexpected(&response).into()) };
    context.out.answer(&serving, |serving, _| told(serving, !args.detach))?;
    if args.detach {
        return Ok(());
    }
    // The daemon serves for as long as it hears us; it says nothing more. An interrupt ends us, and
    // with us the connection.
    link.wait_for_ever()?;
    Ok(link.next_frame()?.map(|_| ()).map_err(|_| gone())?)
}

fn told(serving: &Serving, held: bool) -> String {
    let until = match (held, serving.began) {
        (true, true) => "ctrl-c ends it",
        (true, false) => "it was served already, and goes on after ctrl-c",
        (false, _) => "it is served until the daemon ends",
    };
    format!(
        "serving {}/v1 ({until})\nthe token is in {}, and printed by `ccmux token`\n",
        serving.url, serving.token_file
    )
}

fn gone() -> protocol::ErrorBody {
    let message = "the daemon has ended, and the HTTP API with it";
    protocol::ErrorBody::new(protocol::ErrorCode::Unreachable, message)
        .hint("set http.listen in ccmux.toml to have every daemon serve it")
}
