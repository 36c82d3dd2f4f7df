//! `ccmux` without a command: attach to a pane, or start one.

use std::path::Path;

use protocol::ErrorCode;
use protocol::control::{Request, Response};

use super::attach::{attach_to, warn_over_limit};
use super::{daemon, new, restore};
use crate::args::NewArgs;
use crate::attach::{Target, Terminal};
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    match Terminal::of_this_process().filter(|terminal| !context.out.json && !terminal.is_busy()) {
        Some(terminal) => {
            restore::offer(context)?;
            attach_to_last(context, &terminal)
        }
        None => print_overview(context),
    }
}

/// Attaches to the most recently created live pane, or to a shell in a new pane.
fn attach_to_last(context: &Context, terminal: &Terminal) -> Result<(), Failure> {
    let located = Link::new(context).request_retry(|| Request::Locate { target: None });
    match located {
        Ok(Response::Located { pane, name, dir, over_limit }) => {
            warn_over_limit(context, &name, over_limit.as_deref());
            let target = Target { pane, name: &name, dir: Path::new(&dir) };
            attach_to(context, terminal, &target, false)
        }
        Ok(other) => Err(unexpected(&other).into()),
        Err(body) if body.code == ErrorCode::NotFound => new::run(context, &NewArgs::default()),
        Err(body) => Err(body.into()),
    }
}

fn print_overview(context: &Context) -> Result<(), Failure> {
    let mut link = Link::new(context);
    let (status, sessions) = (daemon::status(&mut link)?, restore::list(&mut link)?);
    restore::note_interrupted(context, &sessions);
    context.out.answer(&status, |status, _| {
        format!(
            "ccmux {} is running in {} (daemon pid {}, {} panes)\n\
             \n\
             ccmux new -d -- COMMAND   start a command in a new pane\n\
             ccmux ls                  list sessions and panes\n\
             ccmux attach              attach to a pane, from a terminal\n\
             ccmux --help              show all commands\n",
            status.version, status.home, status.pid, status.panes
        )
    })
}
