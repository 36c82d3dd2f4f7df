//! `ccmux env`: show the environment of a pane and the source of each variable.

use protocol::control::{Request, Response};

use crate::args::EnvArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::describe;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context, args: &EnvArgs) -> Result<(), Failure> {
    let ask = Request::Env { target: args.id.clone() };
    let response = Link::new(context).request_retry(|| ask.clone())?;
    let Response::Environment(mut view) = response else {
        return Err(unexpected(&response).into());
    };
    if !args.why {
        view.unused.clear();
    }
    context.out.answer(&*view, |view, style| describe::environment(view, args.why, style))
}
