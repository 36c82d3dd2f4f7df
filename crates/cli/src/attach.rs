//! Attaching the user's terminal to a pane.
//!
//! The client asks the daemon only where the keeper is. Then it hands its terminal over to the
//! keeper, which reads keys and paints without the client in between, and watches over it: news of
//! its size go to the keeper, and however the attachment ends (by key, with the pane, with the
//! keeper's death, by a signal or by a panic of ours), the terminal is put back as it was.

mod signals;
mod terminal;
mod watch;

use std::path::Path;

use ::terminal::outer;
use model::{Ending, Name, PaneId};
use protocol::client::{ClientError, Connection};
use protocol::control::{Request, Response};
use protocol::pane::{SOCKET, View};
use protocol::{ErrorBody, ErrorCode};

use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, usage};
use signals::Signals;
use terminal::Restore;
pub(crate) use terminal::Terminal;
use watch::{Outcome, Watch};

/// The pane that is meant.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    /// Its id.
    pub(crate) pane: PaneId,
    /// Its name.
    pub(crate) name: &'a Name,
    /// Its directory, in which the keeper listens.
    pub(crate) dir: &'a Path,
}

/// The terminal to attach.
///
/// # Errors
///
/// A usage error if there is none, or if it belongs to another job.
pub(crate) fn needs_terminal() -> Result<Terminal, ErrorBody> {
    let terminal = Terminal::of_this_process().ok_or_else(|| {
        usage("attach needs a terminal on standard input and output")
            .hint("`ccmux read ID` prints what a pane shows, `ccmux send ID` types into it")
    })?;
    if terminal.is_busy() {
        return Err(usage("attach needs the terminal, and this job is in the background")
            .hint("bring it to the foreground, or use `ccmux read ID`"));
    }
    Ok(terminal)
}

/// Attaches `terminal` to `target` until either is gone or the user has had enough.
///
/// # Errors
///
/// Why it cannot, or the signal that ended it.
pub(crate) fn attach(
    context: &Context,
    terminal: &Terminal,
    target: &Target<'_>,
    read_only: bool,
) -> Result<(), Failure> {
    refuse_itself(context.env.pane(), target)?;
    let passes = terminal.to_pass().is_some() && !context.env.wants_relay();
    let view = if passes { View::Terminal } else { View::Relay };
    let outcome = match Connection::open(target.dir, SOCKET) {
        Ok(keeper) => match watch(&keeper, terminal, view, read_only) {
            // A terminal that is ours to use but not to open, as after `su`: then we stay between.
            Err(Failure::Error(_)) if view == View::Terminal => {
                let keeper =
                    Connection::open(target.dir, SOCKET).map_err(ClientError::into_body)?;
                watch(&keeper, terminal, View::Relay, read_only)?
            }
            outcome => outcome?,
        },
        Err(error) => Outcome::Ended(ending(context, target, error)?),
    };
    let name = target.name;
    let (line, result) = match outcome {
        Outcome::Detached => (format!("[detached from {name}]"), Ok(())),
        Outcome::Ended(ending) => (format!("[{name} {ending}]"), Ok(())),
        Outcome::KeeperGone => {
            (format!("[{name}: the keeper is gone]"), Err(Failure::Told(ErrorCode::Failed)))
        }
        Outcome::Signal(signal) => {
            (format!("[detached from {name}]"), Err(Failure::Signal(signal)))
        }
    };
    if !context.out.json {
        // Whoever ended us may have taken the terminal away as well.
        let told = context.out.text(&format!("{line}\n"));
        return result.and(told);
    }
    result
}

/// Hands the terminal over and watches. It is as it was when this returns.
fn watch(
    keeper: &Connection,
    terminal: &Terminal,
    view: View,
    read_only: bool,
) -> Result<Outcome, Failure> {
    let failed = |error| Failure::io("attach the terminal", &error);
    // Before anything that has to be undone, and before the size is read.
    let signals = Signals::new().map_err(failed)?;
    let restore = Restore::later(terminal).map_err(failed)?;
    restore.also_on_panic();
    if view == View::Relay {
        terminal.make_raw().map_err(failed)?;
        terminal.paint(&outer::enter()).map_err(failed)?;
    }
    let watch =
        Watch::attach(keeper.stream(), terminal, &signals, view, read_only).map_err(failed)?;
    let outcome = watch.run();
    drop(restore);
    Ok(outcome?)
}

/// A pane that shows itself paints what it paints, for ever.
fn refuse_itself(own: Option<&str>, target: &Target<'_>) -> Result<(), ErrorBody> {
    if own != Some(target.pane.to_string().as_str()) {
        return Ok(());
    }
    let message = format!("this terminal is {} itself and cannot be attached to it", target.name);
    Err(ErrorBody::new(ErrorCode::Conflict, message)
        .hint("name another pane, or run this outside of ccmux"))
}

/// How a pane ended whose keeper has left: a short command is through before anybody can look.
///
/// # Errors
///
/// If it has not ended, why the keeper could not be reached.
fn ending(context: &Context, target: &Target<'_>, error: ClientError) -> Result<Ending, ErrorBody> {
    let show = || Request::Show { target: target.pane.to_string() };
    if let Ok(Response::Pane(answer)) = Link::new(context).ask_again(show)
        && let Some(ending) = answer.pane.ending
    {
        return Ok(ending);
    }
    let why = error.into_body().message;
    let message = format!("cannot attach to {}: its keeper does not answer: {why}", target.name);
    Err(ErrorBody::new(ErrorCode::Failed, message)
        .hint(format!("`ccmux show {}` tells what became of it", target.pane.short())))
}

#[cfg(test)]
mod tests;
