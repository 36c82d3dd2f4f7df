//! `ccmux wait`: wait until something is true of a pane.

use std::time::Instant;

use model::Ending;
use protocol::control::{Request, Response};
use protocol::look::Until;
use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;

use crate::args::WaitArgs;
use crate::connect::{Link, millis};
use crate::context::Context;
use crate::failure::{Failure, unexpected};
use crate::output::printable;

/// What `wait --json` prints.
#[derive(Debug, Serialize)]
struct Waited {
    /// The line that matched.
    line: Option<String>,
    /// How the pane ended, if it did.
    ending: Option<Ending>,
}

pub(super) fn run(context: &Context, args: &WaitArgs) -> Result<(), Failure> {
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let progress = context.out.progress(format!("waiting for {}…", args.id));

    // The next daemon is asked for what is left of the time.
    let response = Link::new(context).ask_again(|| Request::Wait {
        target: args.id.clone(),
        until: args.until.clone(),
        timeout_ms: deadline.map(|at| millis(at.saturating_duration_since(Instant::now()))),
    })?;

    drop(progress);
    let Response::Waited { line, ending } = response else {
        return Err(unexpected(&response).into());
    };
    let waited = came_true(args, Waited { line, ending })?;
    context.out.answer(&waited, |waited, _| match (&waited.line, &waited.ending) {
        (Some(line), _) => format!("{}\n", printable(line)),
        (None, Some(ending)) => format!("{ending}\n"),
        (None, None) => String::new(),
    })
}

/// A pane that ended will never show the text.
fn came_true(args: &WaitArgs, waited: Waited) -> Result<Waited, ErrorBody> {
    match (&args.until, &waited) {
        (Until::Text(pattern), Waited { line: None, ending: Some(ending) }) => {
            let message =
                format!("{} {ending} before a line matched {pattern:?}", printable(&args.id));
            Err(ErrorBody::new(ErrorCode::Failed, message)
                .hint(format!("`ccmux read {} --log` prints what it wrote", args.id)))
        }
        _ => Ok(waited),
    }
}

#[cfg(test)]
mod tests {
    use model::{EndingReason, Timestamp};

    use super::*;

    #[test]
    fn a_text_that_can_no_longer_come_is_a_failure() {
        let ended = || Waited {
            line: None,
            ending: Some(Ending::of(Some(1), None, EndingReason::Exited, Timestamp(0))),
        };
        let wait = |until| WaitArgs { id: "dev1".to_owned(), until, timeout: None };

        let never = came_true(&wait(Until::Text("ok".to_owned())), ended()).unwrap_err();
        assert_eq!(never.message, "dev1 exited with 1 before a line matched \"ok\"");
        assert!(came_true(&wait(Until::Exit), ended()).is_ok());
    }
}
