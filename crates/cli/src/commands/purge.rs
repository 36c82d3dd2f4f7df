//! `ccmux purge`: end every pane of sessions and delete everything of them.

use std::fmt::Write as _;

use protocol::control::{Request, Response, SessionAnswer};
use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;

use super::show::Shown;
use crate::args::PurgeArgs;
use crate::connect::{Link, millis};
use crate::context::Context;
use crate::each::each;
use crate::failure::{Failure, unexpected};

/// What `purge --json` prints.
#[derive(Serialize)]
struct Purged<'a> {
    purged: Vec<&'a str>,
}

pub(super) fn run(context: &Context, args: &PurgeArgs) -> Result<(), Failure> {
    let grace_ms = millis(args.grace);
    // First all of them, so that a word that names none leaves the others alone, too.
    let sessions = find(context, &args.ids)?;
    if !args.yes {
        confirm(context, &sessions)?;
    }
    let ids: Vec<String> = sessions.iter().map(|found| found.session.id.to_string()).collect();
    let progress = context.out.progress(match ids.len() {
        1 => "purging 1 session…".to_owned(),
        count => format!("purging {count} sessions…"),
    });

    let answers = each(context, &ids, |link, id| purge(link, id, grace_ms, &args.discard));

    drop(progress);
    let (done, result) = context.sort_out(&ids, answers);
    let purged = Purged { purged: done.iter().map(|(id, ())| *id).collect() };
    context.out.answer(&purged, |purged, _| {
        let is_purged = |found: &&SessionAnswer| {
            let id = found.session.id.to_string();
            purged.purged.contains(&id.as_str())
        };
        let purged = sessions.iter().filter(is_purged);
        purged.map(|found| format!("purged session {}\n", found.session.name)).collect()
    })?;
    result
}

/// Asks until it is done. A daemon that dies may have done it already.
fn purge(
    link: &mut Link<'_>,
    id: &str,
    grace_ms: u64,
    discard: &[String],
) -> Result<(), ErrorBody> {
    let mut asked = 0;
    let answer = link.ask_again(|| {
        asked += 1;
        Request::Purge { target: id.to_owned(), grace_ms, discard: discard.to_vec() }
    });
    match answer {
        Ok(Response::Done) => Ok(()),
        Ok(other) => Err(unexpected(&other)),
        Err(body) if body.code == ErrorCode::NotFound && asked > 1 => Ok(()),
        Err(body) => Err(body),
    }
}

fn find(context: &Context, words: &[String]) -> Result<Vec<SessionAnswer>, ErrorBody> {
    let mut link = Link::new(context);
    let mut found: Vec<SessionAnswer> = Vec::new();
    for word in words {
        let shown = link.ask_again(|| Request::Show { target: word.clone() })?;
        match Shown::from_response(shown)? {
            // Two words may name the same session.
            Shown::Session(answer) if found.iter().any(|f| f.session == answer.session) => {}
            Shown::Session(answer) => found.push(*answer),
            Shown::Pane(answer) => {
                let message = format!("{word:?} is a pane, and only whole sessions are purged");
                return Err(ErrorBody::new(ErrorCode::Conflict, message).hint(format!(
                    "end it with `ccmux close {word}`; its session is {}",
                    answer.session.name
                )));
            }
        }
    }
    Ok(found)
}

/// Nothing happens without a yes.
fn confirm(context: &Context, sessions: &[SessionAnswer]) -> Result<(), Failure> {
    match context.out.confirm(&question(sessions))? {
        Some(true) => Ok(()),
        Some(false) => {
            Err(ErrorBody::new(ErrorCode::Conflict, "nothing was purged: you did not say yes")
                .into())
        }
        None => {
            let message = "nothing was purged: nobody is there to be asked";
            Err(ErrorBody::new(ErrorCode::Conflict, message)
                .hint("say --yes if everything of the session may be deleted")
                .into())
        }
    }
}

fn question(sessions: &[SessionAnswer]) -> String {
    let mut text = String::new();
    for SessionAnswer { session, panes } in sessions {
        let live = panes.iter().filter(|pane| pane.state.is_live()).count();
        let panes = match panes.len() {
            1 => "1 pane".to_owned(),
            count => format!("{count} panes"),
        };
        writeln!(text, "session {} ({}): {panes}, {live} running", session.name, session.id)
            .expect("a string takes everything");
    }
    text.push_str("End what runs and delete everything of this for good?");
    text
}
