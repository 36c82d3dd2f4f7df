//! `ccmux thaw`: resume the processes of frozen panes.

use protocol::control::Request;
use serde::Serialize;

use super::show::Shown;
use crate::args::ThawArgs;
use crate::context::Context;
use crate::each::each;
use crate::failure::Failure;

/// Output of `thaw --json`.
#[derive(Serialize)]
struct Thawed {
    thawed: Vec<Shown>,
}

pub(super) fn run(context: &Context, args: &ThawArgs) -> Result<(), Failure> {
    let answers = each(context, &args.ids, |link, id| {
        let thaw = Request::Thaw { target: id.to_owned() };
        let doubt = "the pane may or may not have been thawed";
        link.request_once(&thaw, doubt).and_then(Shown::from_response)
    });
    let (done, result) = context.sort_out(&args.ids, answers);
    let thawed = Thawed { thawed: done.into_iter().map(|(_, shown)| shown).collect() };
    context.out.answer(&thawed, |thawed, _| thawed.thawed.iter().map(line).collect())?;
    result
}

fn line(shown: &Shown) -> String {
    match shown {
        Shown::Pane(answer) => format!("thawed {}\n", answer.pane.name),
        Shown::Session(answer) => format!("thawed session {}\n", answer.session.name),
    }
}
