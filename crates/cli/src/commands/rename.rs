//! `ccmux rename`: give a pane or a session another name.

use protocol::control::Request;

use super::show::Shown;
use crate::args::RenameArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::Failure;

pub(super) fn run(context: &Context, args: &RenameArgs) -> Result<(), Failure> {
    let rename = Request::Rename { target: args.id.clone(), name: args.name.clone() };
    let doubt = "it may or may not have its new name";
    let response = Link::new(context).ask_once(&rename, doubt)?;
    let shown = Shown::from_response(response)?;
    context.out.answer(&shown, |shown, _| match shown {
        Shown::Pane(answer) => format!("{} is now {}\n", args.id, answer.pane.name),
        Shown::Session(answer) => format!("{} is now {}\n", args.id, answer.session.name),
    })
}
