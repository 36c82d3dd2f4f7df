//! `ccmux restore`: restart exited panes and resume their conversations.

use protocol::control::Request;
use serde::Serialize;

use super::show::Shown;
use crate::args::RestoreArgs;
use crate::context::Context;
use crate::each::{Counted, each};
use crate::failure::Failure;

/// Output of `restore --json`.
#[derive(Serialize)]
struct Restored {
    restored: Vec<Shown>,
}

pub(super) fn run(context: &Context, args: &RestoreArgs) -> Result<(), Failure> {
    let progress = context.out.progress(Counted("restoring", args.ids.len()).to_string());

    let answers = each(context, &args.ids, |link, id| {
        let restore = Request::Restore { target: id.to_owned() };
        let doubt = "the pane may or may not have been restored";
        link.request_once(&restore, doubt).and_then(Shown::from_response)
    });

    drop(progress);
    let (done, result) = context.sort_out(&args.ids, answers);
    let restored = Restored { restored: done.into_iter().map(|(_, shown)| shown).collect() };
    context.out.answer(&restored, |restored, _| restored.restored.iter().map(line).collect())?;
    result
}

fn line(shown: &Shown) -> String {
    match shown {
        Shown::Pane(answer) => match (&answer.pane.problem, &answer.pane.conversation) {
            (Some(problem), _) => format!("restored {}, but {problem}\n", answer.pane.name),
            (None, Some(id)) => format!("restored {} (conversation {id})\n", answer.pane.name),
            (None, None) => format!("restored {}\n", answer.pane.name),
        },
        Shown::Session(answer) => {
            format!("restored session {} ({} panes)\n", answer.session.name, answer.panes.len())
        }
    }
}
