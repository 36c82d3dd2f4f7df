//! `ccmux` without a verb: be in a pane, whatever that takes.

use std::path::Path;

use model::WorkspaceKind;
use protocol::ErrorCode;
use protocol::control::{Request, Response};

use super::{daemon, new};
use crate::args::NewArgs;
use crate::attach::{Target, Terminal, attach};
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    match Terminal::of_this_process().filter(|terminal| !context.out.json && !terminal.is_busy()) {
        Some(terminal) => attach_to_last(context, &terminal),
        None => say_what_next(context),
    }
}

/// Attaches to the pane created last among those alive, or to a shell in a new one.
fn attach_to_last(context: &Context, terminal: &Terminal) -> Result<(), Failure> {
    let located = Link::new(context).ask_again(|| Request::Locate { target: None });
    match located {
        Ok(Response::Located { pane, name, dir }) => {
            let target = Target { pane, name: &name, dir: Path::new(&dir) };
            attach(context, terminal, &target, false)
        }
        Ok(other) => Err(unexpected(&other).into()),
        Err(body) if body.code == ErrorCode::NotFound => start(context),
        Err(body) => Err(body.into()),
    }
}

/// Starts a shell in a new pane. Where no tree follows from the directory, as in a home, the pane
/// works in the directory itself: who types nothing but `ccmux` is not asked what to choose.
fn start(context: &Context) -> Result<(), Failure> {
    let started = new::run(context, &NewArgs::default());
    let Err(Failure::Error(body)) = &started else { return started };
    if body.code != ErrorCode::Conflict {
        return started;
    }
    context.out.warn(&format!("{}, so the new pane works in it directly", body.message));
    let shared = NewArgs { workspace: Some(WorkspaceKind::Shared), ..NewArgs::default() };
    new::run(context, &shared)
}

fn say_what_next(context: &Context) -> Result<(), Failure> {
    let status = daemon::status(&mut Link::new(context))?;
    context.out.answer(&status, |status, _| {
        format!(
            "ccmux {} is ready in {} (daemon {}, {} panes)\n\
             \n\
             ccmux new -d -- COMMAND   start something in a pane\n\
             ccmux ls                  see what runs\n\
             ccmux attach              look at it, from a terminal\n\
             ccmux --help              everything else\n",
            status.version, status.home, status.pid, status.panes
        )
    })
}
