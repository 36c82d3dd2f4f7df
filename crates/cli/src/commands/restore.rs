//! `ccmux restore`: restart ended panes and resume their conversations.

use protocol::control::{ListedSession, PaneView, Request, Response};
use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;

use super::show::Shown;
use crate::args::RestoreArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::each::{Counted, each};
use crate::failure::{Failure, unexpected};

/// Output of `restore --json`.
#[derive(Serialize)]
struct Restored {
    restored: Vec<Shown>,
}

pub(super) fn run(context: &Context, args: &RestoreArgs) -> Result<(), Failure> {
    if !args.ids.is_empty() {
        return restore(context, &args.ids, ask_to_restore);
    }
    let sessions = list(&mut Link::new(context))?;
    let (ids, none) = if args.all {
        (ids_of(&sessions, |pane| !pane.state.is_live()), "no pane has ended\n")
    } else {
        (ids_of(&sessions, |pane| pane.interrupted), "no pane was interrupted\n")
    };
    if ids.is_empty() {
        let restored = Restored { restored: Vec::new() };
        return context.out.answer(&restored, |_, _| none.to_owned());
    }
    restore(context, &ids, restore_unless_running)
}

/// Asks on the terminal whether to restore the panes that were interrupted, and restores them. Says
/// how to restore them if there is no terminal.
pub(super) fn offer(context: &Context) -> Result<(), Failure> {
    let sessions = list(&mut Link::new(context))?;
    let ids = ids_of(&sessions, |pane| pane.interrupted);
    if ids.is_empty() {
        return Ok(());
    }
    let (were, them) = interrupted(ids.len());
    match context.out.confirm_by_default(&format!("{were}; restore {them}?"))? {
        // Failures are reported, and do not prevent what the user asked for.
        Some(true) => drop(restore(context, &ids, restore_unless_running)),
        Some(false) => context.out.note(
            "`ccmux restore` restores interrupted panes later, `ccmux close PANE` removes one",
        ),
        None => note_interrupted(context, &sessions),
    }
    Ok(())
}

/// Says how to restore the panes that were interrupted, if there are any.
pub(super) fn note_interrupted(context: &Context, sessions: &[ListedSession]) {
    let count = ids_of(sessions, |pane| pane.interrupted).len();
    if count > 0 {
        let (were, them) = interrupted(count);
        context.out.note(&format!("{were}; restore {them} with `ccmux restore`"));
    }
}

/// Returns the subject and the object of a sentence about interrupted panes.
fn interrupted(count: usize) -> (String, &'static str) {
    match count {
        1 => ("1 pane was interrupted".to_owned(), "it"),
        count => (format!("{count} panes were interrupted"), "them"),
    }
}

/// Lists all sessions with their panes.
pub(super) fn list(link: &mut Link<'_>) -> Result<Vec<ListedSession>, ErrorBody> {
    let response = link.request_retry(|| Request::List)?;
    let Response::Sessions(listing) = response else { return Err(unexpected(&response)) };
    Ok(listing.sessions)
}

fn ids_of(sessions: &[ListedSession], is_meant: impl Fn(&PaneView) -> bool) -> Vec<String> {
    let panes = sessions.iter().flat_map(|listed| &listed.panes);
    panes.filter(|pane| is_meant(pane)).map(|pane| pane.id.to_string()).collect()
}

fn restore(
    context: &Context,
    ids: &[String],
    ask: impl Fn(&mut Link<'_>, &str) -> Result<Shown, ErrorBody> + Sync,
) -> Result<(), Failure> {
    let progress = context.out.progress(Counted("restoring", ids.len()).to_string());

    let answers = each(context, ids, ask);

    drop(progress);
    let (done, result) = context.sort_out(ids, answers);
    let restored = Restored { restored: done.into_iter().map(|(_, shown)| shown).collect() };
    context.out.answer(&restored, |restored, _| restored.restored.iter().map(line).collect())?;
    result
}

fn ask_to_restore(link: &mut Link<'_>, id: &str) -> Result<Shown, ErrorBody> {
    let restore = Request::Restore { target: id.to_owned() };
    let doubt = "the pane may or may not have been restored";
    link.request_once(&restore, doubt).and_then(Shown::from_response)
}

/// Restores a pane that was listed as ended, unless it was restored since.
fn restore_unless_running(link: &mut Link<'_>, id: &str) -> Result<Shown, ErrorBody> {
    let refused = match ask_to_restore(link, id) {
        Err(body) if body.code == ErrorCode::Conflict => body,
        answer => return answer,
    };
    let shown = link.request_retry(|| Request::Show { target: id.to_owned() })?;
    match Shown::from_response(shown)? {
        Shown::Pane(answer) if answer.pane.state.is_live() => Ok(Shown::Pane(answer)),
        Shown::Pane(_) | Shown::Session(_) => Err(refused),
    }
}

fn line(shown: &Shown) -> String {
    match shown {
        Shown::Pane(answer) => match (&answer.pane.problem, &answer.pane.conversation) {
            (Some(problem), _) => format!("restored {}, but {problem}\n", answer.pane.name),
            (None, Some(id)) => format!("restored {} (conversation {id})\n", answer.pane.name),
            (None, None) => format!("restored {}\n", answer.pane.name),
        },
        Shown::Session(answer) => {
            format!("restored session {} ({} panes)\n", answer.session.name, answer.panes.len())
        }
    }
}
