//! `ccmux events`: print what has happened.

use model::event::Event;
use protocol::control::Request;
use protocol::{ErrorBody, ErrorCode, Frame, Kind};

use crate::args::EventsArgs;
use crate::connect::{Deaths, Link};
use crate::context::Context;
use crate::describe;
use crate::failure::Failure;

pub(super) fn run(context: &Context, args: &EventsArgs) -> Result<(), Failure> {
    let mut link = Link::new(context);
    let mut deaths = Deaths::default();
    let mut after = args.after;
    // Each turn is one daemon. The numbers survive it, so the next one goes on where it stopped.
    loop {
        link.ask_again(|| Request::Events { after, follow: args.follow })?;
        loop {
            match link.next_frame()? {
                Ok(frame) if frame.kind == Kind::Event => {
                    let event = parse(&frame)?;
                    context.out.answer(&event, describe::event)?;
                    after = Some(event.seq);
                }
                // The recorded ones are through.
                Ok(_) => return Ok(()),
                Err(why) => {
                    deaths.count(&why)?;
                    break;
                }
            }
        }
    }
}

fn parse(frame: &Frame) -> Result<Event, ErrorBody> {
    frame.parse().map_err(|error| {
        ErrorBody::new(ErrorCode::Failed, format!("the daemon sent {error}"))
            .hint("is it of this release? `ccmux daemon status` tells")
    })
}
