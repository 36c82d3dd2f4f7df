//! `ccmux stop`: stop the processes of panes or sessions and keep their directories.

use protocol::control::Request;
use serde::Serialize;

use super::show::Shown;
use crate::args::StopArgs;
use crate::connect::millis;
use crate::context::Context;
use crate::describe::changes;
use crate::each::{Counted, each};
use crate::failure::Failure;

/// Output of `stop --json`.
#[derive(Serialize)]
struct Stopped {
    stopped: Vec<Shown>,
}

pub(super) fn run(context: &Context, args: &StopArgs) -> Result<(), Failure> {
    let grace_ms = millis(args.grace);
    let progress = context.out.progress(Counted("stopping", args.ids.len()).to_string());

    let answers = each(context, &args.ids, |link, id| {
        // Idempotent, so it may be repeated.
        let stop = Request::Stop { target: id.to_owned(), grace_ms };
        link.request_retry(|| stop.clone()).and_then(Shown::from_response)
    });

    drop(progress);
    let (done, result) = context.sort_out(&args.ids, answers);
    let stopped = Stopped { stopped: done.into_iter().map(|(_, shown)| shown).collect() };
    context.out.answer(&stopped, |stopped, _| stopped.stopped.iter().map(line).collect())?;
    for shown in &stopped.stopped {
        let Shown::Pane(answer) = shown else { continue };
        for line in changes::lines(answer, context.env.get("HOME")) {
            context.out.note(&line);
        }
    }
    result
}

fn line(shown: &Shown) -> String {
    match shown {
        Shown::Pane(answer) => match &answer.pane.ending {
            Some(ending) => format!("stopped {} ({ending})\n", answer.pane.name),
            None => format!("stopped {}\n", answer.pane.name),
        },
        Shown::Session(answer) => {
            format!("stopped session {} ({} panes)\n", answer.session.name, answer.panes.len())
        }
    }
}
