//! `ccmux attach`: attach this terminal to a pane.

use std::path::Path;

use model::Name;
use protocol::control::{Request, Response};

use super::daemon;
use crate::args::AttachArgs;
use crate::attach::{Options, Target, Terminal, attach, needs_terminal};
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context, args: &AttachArgs) -> Result<(), Failure> {
    let terminal = needs_terminal()?;
    let locate = Request::Locate { target: args.id.clone() };
    let response = Link::new(context).request_retry(|| locate.clone())?;
    let Response::Located { pane, name, dir, over_limit } = response else {
        return Err(unexpected(&response).into());
    };
    warn_over_limit(context, &name, over_limit.as_deref());
    let target = Target { pane, name: &name, dir: Path::new(&dir) };
    attach_to(context, &terminal, &target, args.read_only)
}

/// Attaches `terminal` to `target` with the configured keys.
///
/// # Errors
///
/// Why the attachment failed, or the signal that ended it.
pub(super) fn attach_to(
    context: &Context,
    terminal: &Terminal,
    target: &Target<'_>,
    read_only: bool,
) -> Result<(), Failure> {
    // An invalid configuration does not keep the user from a pane; the daemon reports it.
    let prefix = daemon::configuration(context).map(|loaded| loaded.config.prefix);
    let options = Options { read_only, prefix: prefix.unwrap_or_default() };
    attach(context, terminal, target, options)
}

/// Warns before attaching that a pane exceeds a limit. The warning is still there after detaching.
pub(super) fn warn_over_limit(context: &Context, name: &Name, over_limit: Option<&str>) {
    if let Some(why) = over_limit {
        context.out.warn(&format!("{name} is {why}; `ccmux limit {name}` shows its usage"));
    }
}
