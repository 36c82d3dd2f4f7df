//! `ccmux token`: print or rotate an HTTP API token.

use protocol::control::{Request, Response};
use protocol::http::TokenRequest;

use crate::args::TokenArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context, args: &TokenArgs) -> Result<(), Failure> {
    let request = TokenRequest { scope: args.scope, rotate: args.rotate };
    let response = Link::new(context).request_retry(|| Request::Token(request))?;
    let Response::Token(token) = response else { return Err(unexpected(&response).into()) };
    context.out.answer(&token, |token, _| format!("{}\n", token.token))
}
