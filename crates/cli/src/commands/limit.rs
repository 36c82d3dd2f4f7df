//! `ccmux limit`: show or change the resource limits of a pane.

use model::limits::LimitOverrides;
use protocol::control::{Request, Response};

use crate::args::LimitArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::describe;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context, args: &LimitArgs) -> Result<(), Failure> {
    let wishes = args.wishes.iter().flat_map(|wishes| wishes.0.clone()).collect();
    let limit = Request::Limit { target: args.id.clone(), wishes: LimitOverrides(wishes) };
    // Idempotent, so it may be repeated.
    let response = Link::new(context).request_retry(|| limit.clone())?;
    let Response::Limits(limits) = response else { return Err(unexpected(&response).into()) };
    context.out.answer(&limits, describe::limits)
}
