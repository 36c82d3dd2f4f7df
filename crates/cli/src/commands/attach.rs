//! `ccmux attach`: attach this terminal to a pane.

use std::path::Path;

use protocol::control::{Request, Response};

use crate::args::AttachArgs;
use crate::attach::{Target, attach, needs_terminal};
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context, args: &AttachArgs) -> Result<(), Failure> {
    let terminal = needs_terminal()?;
    let locate = Request::Locate { target: args.id.clone() };
    let response = Link::new(context).request_retry(|| locate.clone())?;
    let Response::Located { pane, name, dir } = response else {
        return Err(unexpected(&response).into());
    };
    let target = Target { pane, name: &name, dir: Path::new(&dir) };
    attach(context, &terminal, &target, args.read_only)
}
