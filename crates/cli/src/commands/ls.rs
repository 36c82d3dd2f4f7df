//! `ccmux ls`: list sessions and panes.

use protocol::control::{Request, Response};

use super::restore;
use crate::connect::Link;
use crate::context::Context;
use crate::describe;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let response = Link::new(context).request_retry(|| Request::List)?;
    let Response::Sessions(listing) = response else { return Err(unexpected(&response).into()) };
    context.out.answer(&listing, describe::listing)?;
    for pane in listing.sessions.iter().flat_map(|listed| &listed.panes) {
        if let Some(problem) = &pane.problem {
            context.out.warn(&format!("{} ({}): {problem}", pane.name, pane.id.short()));
        }
    }
    for session in listing.sessions.iter().map(|listed| &listed.session) {
        if let Some(problem) = &session.problem {
            context.out.warn(&format!("session {}: {problem}", session.name));
        }
    }
    for problem in &listing.problems {
        context.out.warn(problem);
    }
    restore::note_interrupted(context, &listing.sessions);
    Ok(())
}
