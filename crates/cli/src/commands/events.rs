//! `ccmux events`: print the event log.

use crate::args::EventsArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::describe;
use crate::failure::Failure;

pub(super) fn run(context: &Context, args: &EventsArgs) -> Result<(), Failure> {
    for event in Link::new(context).events(args.after, args.follow) {
        context.out.answer(&event?, describe::event)?;
    }
    Ok(())
}
