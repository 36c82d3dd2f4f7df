//! `ccmux close`: stop panes and move their directories to the trash.

use std::time::Duration;

use protocol::control::{PaneView, Request, Response};
use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;

use super::restore;
use crate::args::CloseArgs;
use crate::connect::{Link, millis};
use crate::context::Context;
use crate::each::{Counted, each};
use crate::failure::{Failure, unexpected};

/// Output of `close --json`.
#[derive(Serialize)]
struct Closed<'a> {
    closed: Vec<&'a str>,
}

pub(super) fn run(context: &Context, args: &CloseArgs) -> Result<(), Failure> {
    if args.ended {
        return close_ended(context, args);
    }
    let progress = context.out.progress(Counted("closing", args.ids.len()).to_string());

    let answers = each(context, &args.ids, |link, id| close(link, id, args));

    drop(progress);
    let (done, result) = context.sort_out(&args.ids, answers);
    let closed = Closed { closed: done.iter().map(|(id, ())| *id).collect() };
    context.out.answer(&closed, |closed, _| {
        closed.closed.iter().map(|id| format!("closed {id}\n")).collect()
    })?;
    result
}

fn close(link: &mut Link<'_>, id: &str, args: &CloseArgs) -> Result<(), ErrorBody> {
    // Nothing of an ended pane has to exit.
    let grace_ms = if args.ended { millis(Duration::ZERO) } else { millis(args.grace) };
    let (target, discard, only_ended) = (id.to_owned(), args.discard.clone(), args.ended);
    let close = Request::Close { target, grace_ms, discard, only_ended };
    let response = link.request_once(&close, "the pane may or may not have been closed")?;
    if response == Response::Done { Ok(()) } else { Err(unexpected(&response)) }
}

/// Output of `close --ended --json`.
#[derive(Serialize)]
struct EndedClosed<'a> {
    closed: Vec<&'a str>,
    kept: Vec<Kept<'a>>,
    #[serde(skip)]
    names: Vec<&'a PaneView>,
}

/// An ended pane that was not closed.
#[derive(Serialize)]
struct Kept<'a> {
    id: &'a str,
    name: &'a str,
    reason: Reason,
}

/// The reason why an ended pane was not closed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    UnsavedWork,
    Interrupted,
    Running,
}

impl Reason {
    /// Returns why closing was refused; the error itself if it failed.
    fn of(body: ErrorBody) -> Result<Self, ErrorBody> {
        let has_work = body.details.as_ref().is_some_and(|details| details.get("panes").is_some());
        match (body.code, has_work) {
            (ErrorCode::Conflict, true) => Ok(Self::UnsavedWork),
            (ErrorCode::Conflict, false) => Ok(Self::Running),
            _ => Err(body),
        }
    }

    fn text(self, id: &str) -> String {
        match self {
            Self::UnsavedWork => format!("it has unsaved work, which `ccmux close {id}` lists"),
            Self::Interrupted => {
                format!("it was interrupted; restore it with `ccmux restore {id}`")
            }
            Self::Running => "it is running again".to_owned(),
        }
    }
}

/// Closes all ended panes that have no unsaved work and were not interrupted.
fn close_ended(context: &Context, args: &CloseArgs) -> Result<(), Failure> {
    let sessions = restore::list(&mut Link::new(context))?;
    let panes = sessions.iter().flat_map(|listed| &listed.panes);
    let panes: Vec<&PaneView> = panes.filter(|pane| !pane.state.is_live()).collect();
    let ids: Vec<String> = panes.iter().map(|pane| pane.id.to_string()).collect();
    let progress = context.out.progress(Counted("closing", panes.len()).to_string());

    let is_interrupted =
        |id: &str| panes.iter().any(|pane| pane.interrupted && pane.id.to_string() == id);
    let answers = each(context, &ids, |link, id| {
        if is_interrupted(id) {
            return Ok(Some(Reason::Interrupted));
        }
        match close(link, id, args) {
            Ok(()) => Ok(None),
            // Another client closed it.
            Err(body) if body.code == ErrorCode::NotFound => Ok(None),
            Err(body) => Reason::of(body).map(Some),
        }
    });

    drop(progress);
    let (done, result) = context.sort_out(&ids, answers);
    let name = |id: &str| panes.iter().find(|pane| pane.id.to_string() == id);
    let (mut closed, mut kept, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (id, reason) in done {
        match (reason, name(id)) {
            (Some(reason), Some(pane)) => kept.push(Kept { id, name: pane.name.as_str(), reason }),
            (_, pane) => {
                closed.push(id);
                names.extend(pane);
            }
        }
    }
    let ended = EndedClosed { closed, kept, names };
    context.out.answer(&ended, |ended, _| ended_text(ended))?;
    result
}

fn ended_text(ended: &EndedClosed<'_>) -> String {
    if ended.closed.is_empty() && ended.kept.is_empty() {
        return "no pane has ended\n".to_owned();
    }
    let closed =
        ended.names.iter().map(|pane| format!("closed {} ({})\n", pane.name, pane.id.short()));
    let kept = ended.kept.iter().map(|kept| {
        let short = kept.id.get(..8).unwrap_or(kept.id);
        format!("kept {} ({short}): {}\n", kept.name, kept.reason.text(short))
    });
    closed.chain(kept).collect()
}
