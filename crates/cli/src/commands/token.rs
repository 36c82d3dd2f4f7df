//! `ccmux token`: print or replace a token of the HTTP API.

use protocol::control::{Request, Response};
use protocol::http::TokenRequest;

use crate::args::TokenArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context, args: &TokenArgs) -> Result<(), Failure> {
    let request = TokenRequest { scope: args.scope, rotate: args.rotate };
    let response = Link::new(context).ask_again(|| Request::Token(request))?;
    let Response::Token(token) = response else { return Err(unexpected(&response).into()) };
    context.out.answer(&token, |token, _| format!("{}\n", token.token))
}
