//! `ccmux close`: stop panes and move their directories to the trash.

use protocol::control::{Request, Response};
use serde::Serialize;

use crate::args::CloseArgs;
use crate::connect::millis;
use crate::context::Context;
use crate::each::{Counted, each};
use crate::failure::{Failure, unexpected};

/// Output of `close --json`.
#[derive(Serialize)]
struct Closed<'a> {
    closed: Vec<&'a str>,
}

pub(super) fn run(context: &Context, args: &CloseArgs) -> Result<(), Failure> {
    let grace_ms = millis(args.grace);
    let progress = context.out.progress(Counted("closing", args.ids.len()).to_string());

    let answers = each(context, &args.ids, |link, id| {
        let close =
            Request::Close { target: id.to_owned(), grace_ms, discard: args.discard.clone() };
        let response = link.request_once(&close, "the pane may or may not have been closed")?;
        if response == Response::Done { Ok(()) } else { Err(unexpected(&response)) }
    });

    drop(progress);
    let (done, result) = context.sort_out(&args.ids, answers);
    let closed = Closed { closed: done.iter().map(|(id, ())| *id).collect() };
    context.out.answer(&closed, |closed, _| {
        closed.closed.iter().map(|id| format!("closed {id}\n")).collect()
    })?;
    result
}
