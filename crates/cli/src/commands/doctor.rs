//! `ccmux doctor`: check panes, directories and configuration for problems and suggest fixes.

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
    let progress = context.out.progress("checking…");

    let response = Link::new(context).request_retry(|| doctor.clone())?;

    drop(progress);
    let Response::Health(health) = response else { return Err(unexpected(&response).into()) };
    context.out.answer(&health, describe::health)?;
    // The findings have been printed; the exit code is for scripts.
    if health.ok { Ok(()) } else { Err(Failure::Reported(ErrorCode::Conflict)) }
}
