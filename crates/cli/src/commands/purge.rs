//! `ccmux purge`: stop all panes of sessions and remove the sessions.

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

/// Output of `purge --json`.
#[derive(Serialize)]
struct Purged<'a> {
    purged: Vec<&'a str>,
}

pub(super) fn run(context: &Context, args: &PurgeArgs) -> Result<(), Failure> {
    let grace_ms = millis(args.grace);
    // Look up all sessions first, so that nothing is purged if one does not exist.
    let sessions = find(context, &args.ids)?;
    if !args.yes {
        confirm(context, &sessions, args.now)?;
    }
    let ids: Vec<String> = sessions.iter().map(|found| found.session.id.to_string()).collect();
    let progress = context.out.progress(match ids.len() {
        1 => "purging 1 session…".to_owned(),
        count => format!("purging {count} sessions…"),
    });

    let answers = each(context, &ids, |link, id| purge(link, id, grace_ms, args));

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

/// Purges a session. "Not found" in a repeated request means that the first one succeeded.
fn purge(link: &mut Link<'_>, id: &str, grace_ms: u64, args: &PurgeArgs) -> Result<(), ErrorBody> {
    let mut asked = 0;
    let answer = link.request_retry(|| {
        asked += 1;
        let (target, discard) = (id.to_owned(), args.discard.clone());
        Request::Purge { target, grace_ms, discard, now: args.now }
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
        let shown = link.request_retry(|| Request::Show { target: word.clone() })?;
        match Shown::from_response(shown)? {
            // Skip duplicates.
            Shown::Session(answer) if found.iter().any(|f| f.session == answer.session) => {}
            Shown::Session(answer) => found.push(*answer),
            Shown::Pane(answer) => {
                let message = format!("{word:?} is a pane, not a session");
                return Err(ErrorBody::new(ErrorCode::Conflict, message).hint(format!(
                    "close the pane with `ccmux close {word}`, or purge its session {}",
                    answer.session.name
                )));
            }
        }
    }
    Ok(found)
}

/// Asks for confirmation.
fn confirm(context: &Context, sessions: &[SessionAnswer], now: bool) -> Result<(), Failure> {
    match context.out.confirm(&question(sessions, now))? {
        Some(true) => Ok(()),
        Some(false) => {
            Err(ErrorBody::new(ErrorCode::Conflict, "not confirmed; nothing was purged").into())
        }
        None => {
            let message = "cannot ask for confirmation without a terminal; nothing was purged";
            Err(ErrorBody::new(ErrorCode::Conflict, message)
                .hint("use --yes to purge without confirmation")
                .into())
        }
    }
}

fn question(sessions: &[SessionAnswer], now: bool) -> String {
    let mut text = String::new();
    for SessionAnswer { session, panes } in sessions {
        let live = panes.iter().filter(|pane| pane.state.is_live()).count();
        let panes = match panes.len() {
            1 => "1 pane".to_owned(),
            count => format!("{count} panes"),
        };
        writeln!(text, "session {} ({}): {panes}, {live} running", session.name, session.id)
            .expect("writing to a string cannot fail");
    }
    text.push_str(if now {
        "Stop all panes and permanently delete this?"
    } else {
        "Stop all panes and move this to the trash?"
    });
    text
}
