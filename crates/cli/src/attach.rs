//! Attaching the user's terminal to a pane.
//!
//! The client asks the daemon for the keeper's location and passes its terminal to the keeper,
//! which reads input and paints without the client on the data path. The client forwards size
//! changes and restores the terminal however the attachment ends: by key, with the pane, with the
//! keeper's death, by a signal or by a panic of the client.

mod pager;
mod signals;
mod terminal;
mod watch;

use std::path::Path;

use ::terminal::outer;
use client::{Connection, ConnectionError};
use model::attach_keys::PrefixKey;
use model::{Ending, EndingReason, Name, PaneId};
use protocol::control::{Request, Response};
use protocol::pane::{KeyOptions, SOCKET, View};
use protocol::pane_io::ReadView;
use protocol::{ErrorBody, ErrorCode};

use crate::connect::{Link, connection_body};
use crate::context::Context;
use crate::describe::changes;
use crate::failure::{Failure, usage};
use signals::Signals;
use terminal::Restore;
pub(crate) use terminal::Terminal;
use watch::{Outcome, Watch};

/// The pane to attach to.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    /// Its id.
    pub(crate) pane: PaneId,
    /// Its name.
    pub(crate) name: &'a Name,
    /// Its directory, which contains the keeper's socket.
    pub(crate) dir: &'a Path,
}

/// How to attach.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Watch without sending input.
    pub(crate) read_only: bool,
    /// The prefix key.
    pub(crate) prefix: PrefixKey,
}

/// The number of lines that stay on the user's screen when a program has failed.
const LINES_OF_FAILURE: usize = 20;

/// Returns the terminal of this process.
///
/// # Errors
///
/// A usage error if there is none, or if this job is in the background.
pub(crate) fn needs_terminal() -> Result<Terminal, ErrorBody> {
    let terminal = Terminal::of_this_process().ok_or_else(|| {
        usage("attach needs a terminal on standard input and output")
            .hint("`ccmux read ID` prints the screen of a pane, `ccmux send ID` types into it")
    })?;
    if terminal.is_busy() {
        return Err(usage("attach needs the terminal, but this job is in the background")
            .hint("bring it to the foreground, or use `ccmux read ID`"));
    }
    Ok(terminal)
}

/// Attaches `terminal` to `target` until the user detaches or the pane ends.
///
/// # Errors
///
/// Why the attachment failed, or the signal that ended it.
pub(crate) fn attach(
    context: &Context,
    terminal: &Terminal,
    target: &Target<'_>,
    options: Options,
) -> Result<(), Failure> {
    refuse_own_pane(context.env.pane(), target)?;
    let signals = Signals::new().map_err(|error| Failure::io("attach the terminal", &error))?;
    let outcome = loop {
        match attach_once(context, terminal, target, options, &signals)? {
            Outcome::Scrollback => pager::show(context, target.pane)?,
            outcome @ (Outcome::Detached
            | Outcome::Ended(_)
            | Outcome::KeeperGone
            | Outcome::Signal(_)) => break outcome,
        }
        // Those that were meant for the pager.
        signals.discard();
    };
    let name = target.name;
    let has_ended = matches!(outcome, Outcome::Ended(_));
    let (line, result) = match outcome {
        Outcome::Ended(ending) => {
            let lines = if is_failure(&ending) { last_lines(context, target) } else { None };
            (format!("{}[{name} {ending}]", lines.unwrap_or_default()), Ok(()))
        }
        Outcome::KeeperGone => (
            format!("[{name}: connection to the keeper lost]"),
            Err(Failure::Reported(ErrorCode::Failed)),
        ),
        Outcome::Signal(signal) => {
            (format!("[detached from {name}]"), Err(Failure::Signal(signal)))
        }
        Outcome::Detached | Outcome::Scrollback => (format!("[detached from {name}]"), Ok(())),
    };
    if !context.out.json {
        // After a signal the terminal may be closed as well.
        let printed = context.out.text(&format!("{line}\n"));
        if has_ended {
            note_changes(context, target);
        }
        return result.and(printed);
    }
    result
}

/// Says where the changes of an ended pane are. The attachment has succeeded without it.
fn note_changes(context: &Context, target: &Target<'_>) {
    let show = Request::Show { target: target.pane.to_string() };
    if let Ok(Response::Pane(answer)) = Link::new(context).request_retry(|| show.clone()) {
        for line in changes::lines(&answer, context.env.get("HOME")) {
            context.out.note(&line);
        }
    }
}

/// Attaches until the user detaches, wants to see the scrollback, or the pane ends.
fn attach_once(
    context: &Context,
    terminal: &Terminal,
    target: &Target<'_>,
    options: Options,
    signals: &Signals,
) -> Result<Outcome, Failure> {
    let passes = terminal.to_pass().is_some() && !context.env.wants_relay();
    let view = if passes { View::Terminal } else { View::Relay };
    let keeper = match Connection::open(target.dir, SOCKET) {
        Ok(keeper) => keeper,
        Err(error) => return Ok(Outcome::Ended(ending(context, target, &error)?)),
    };
    match watch(keeper, terminal, view, options, signals) {
        // The keeper cannot open a terminal of another user, as after `su`: relay its output.
        Err(Failure::Error(_)) if view == View::Terminal => {
            let keeper = Connection::open(target.dir, SOCKET).map_err(connection_body)?;
            watch(keeper, terminal, View::Relay, options, signals)
        }
        outcome => outcome,
    }
}

/// Attaches the terminal and waits for the end. The terminal is restored on return.
fn watch(
    keeper: Connection,
    terminal: &Terminal,
    view: View,
    options: Options,
    signals: &Signals,
) -> Result<Outcome, Failure> {
    let failed = |error| Failure::io("attach the terminal", &error);
    let restore = Restore::later(terminal).map_err(failed)?;
    restore.also_on_panic();
    if view == View::Relay {
        terminal.make_raw().map_err(failed)?;
        terminal.paint(&outer::enter()).map_err(failed)?;
    }
    let keys = KeyOptions { prefix: options.prefix, scrollback: true };
    let watch = Watch::attach(keeper, terminal, signals, view, options.read_only, keys)
        .map_err(|error| Failure::from(connection_body(error)))?;
    let outcome = watch.run();
    drop(restore);
    Ok(outcome?)
}

/// Returns whether the program failed by itself.
fn is_failure(ending: &Ending) -> bool {
    ending.reason == EndingReason::Exited && ending.code != Some(0)
}

/// Returns the last lines of a pane, so that the reason of a failure stays visible. None if they
/// cannot be read.
fn last_lines(context: &Context, target: &Target<'_>) -> Option<String> {
    let view = ReadView::Lines(4 * LINES_OF_FAILURE);
    let read = || Request::Read { target: target.pane.to_string(), view: view.clone() };
    let Ok(Response::Text(text)) = Link::new(context).request_retry(read) else { return None };
    let lines: Vec<&str> = text.text.trim_end().lines().collect();
    let from = lines.len().saturating_sub(LINES_OF_FAILURE);
    Some(lines[from..].iter().flat_map(|line| [line, "\n"]).collect())
}

/// Refuses to attach a pane to itself, which would paint its own output forever.
fn refuse_own_pane(own: Option<&str>, target: &Target<'_>) -> Result<(), ErrorBody> {
    if own != Some(target.pane.to_string().as_str()) {
        return Ok(());
    }
    let message = format!("cannot attach pane {} to itself", target.name);
    Err(ErrorBody::new(ErrorCode::Conflict, message)
        .hint("name another pane, or run the command outside of ccmux"))
}

/// Returns how a pane ended whose keeper has exited: a short command may end before the client
/// attaches.
///
/// # Errors
///
/// Why the keeper could not be reached, if the pane has not ended.
fn ending(
    context: &Context,
    target: &Target<'_>,
    error: &ConnectionError,
) -> Result<Ending, ErrorBody> {
    let show = || Request::Show { target: target.pane.to_string() };
    if let Ok(Response::Pane(answer)) = Link::new(context).request_retry(show)
        && let Some(ending) = answer.pane.ending
    {
        return Ok(ending);
    }
    let message = format!("cannot attach to {}: keeper unreachable: {error}", target.name);
    Err(ErrorBody::new(ErrorCode::Failed, message)
        .hint(format!("`ccmux show {}` shows its state", target.pane.short())))
}

#[cfg(test)]
mod tests;
