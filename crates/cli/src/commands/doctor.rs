//! `ccmux doctor`: check that everything is as it should be, and say what to do where it is not.

use protocol::ErrorCode;
use protocol::control::{Request, Response};

use crate::connect::Link;
use crate::context::Context;
use crate::describe;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let doctor = Request::Doctor {
        client_env: context.env.for_doctor(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let progress = context.out.progress("looking at everything…");

    let response = Link::new(context).ask_again(|| doctor.clone())?;

    drop(progress);
    let Response::Health(health) = response else { return Err(unexpected(&response).into()) };
    context.out.answer(&health, describe::health)?;
    // What is wrong was told; the exit code tells it to scripts.
    if health.ok { Ok(()) } else { Err(Failure::Told(ErrorCode::Conflict)) }
}
