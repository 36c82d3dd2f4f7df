//! `ccmux rename`: rename a pane or session.

use protocol::control::Request;

use super::show::Shown;
use crate::args::RenameArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::Failure;

pub(super) fn run(context: &Context, args: &RenameArgs) -> Result<(), Failure> {
    let rename = Request::Rename { target: args.id.clone(), name: args.name.clone() };
    let doubt = "it may or may not have been renamed";
    let response = Link::new(context).request_once(&rename, doubt)?;
    let shown = Shown::from_response(response)?;
    context.out.answer(&shown, |shown, _| match shown {
        Shown::Pane(answer) => format!("renamed {} to {}\n", args.id, answer.pane.name),
        Shown::Session(answer) => format!("renamed {} to {}\n", args.id, answer.session.name),
    })
}
