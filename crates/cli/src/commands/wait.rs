//! `ccmux wait`: wait until a pane exits or prints a matching line.

use std::time::Instant;

use model::Ending;
use protocol::control::{Request, Response};
use protocol::pane_io::Until;
use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;

use crate::args::WaitArgs;
use crate::connect::{Link, millis};
use crate::context::Context;
use crate::failure::{Failure, unexpected};
use crate::output::printable;

/// Output of `wait --json`.
#[derive(Debug, Serialize)]
struct Waited {
    /// The line that matched.
    line: Option<String>,
    /// Exit status of the pane, if it exited.
    ending: Option<Ending>,
}

pub(super) fn run(context: &Context, args: &WaitArgs) -> Result<(), Failure> {
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let progress = context.out.progress(format!("waiting for {}…", args.id));

    // A repeated request has only the remaining time.
    let response = Link::new(context).request_retry(|| Request::Wait {
        target: args.id.clone(),
        until: args.until.clone(),
        timeout_ms: deadline.map(|at| millis(at.saturating_duration_since(Instant::now()))),
    })?;

    drop(progress);
    let Response::Waited { line, ending } = response else {
        return Err(unexpected(&response).into());
    };
    let waited = check_match(args, Waited { line, ending })?;
    context.out.answer(&waited, |waited, _| match (&waited.line, &waited.ending) {
        (Some(line), _) => format!("{}\n", printable(line)),
        (None, Some(ending)) => format!("{ending}\n"),
        (None, None) => String::new(),
    })
}

/// Returns an error if the pane exited before a line matched.
fn check_match(args: &WaitArgs, waited: Waited) -> Result<Waited, ErrorBody> {
    match (&args.until, &waited) {
        (Until::Text(pattern), Waited { line: None, ending: Some(ending) }) => {
            let message =
                format!("{} {ending} before a line matched {pattern:?}", printable(&args.id));
            Err(ErrorBody::new(ErrorCode::Failed, message)
                .hint(format!("`ccmux read {} --log` prints its output", args.id)))
        }
        _ => Ok(waited),
    }
}

#[cfg(test)]
mod tests {
    use model::{EndingReason, Timestamp};

    use super::*;

    #[test]
    fn check_match_fails_if_the_pane_exits_before_a_match() {
        let ended = || Waited {
            line: None,
            ending: Some(Ending::of(Some(1), None, EndingReason::Exited, Timestamp(0))),
        };
        let wait = |until| WaitArgs { id: "dev1".to_owned(), until, timeout: None };

        let error = check_match(&wait(Until::Text("ok".to_owned())), ended()).unwrap_err();
        assert_eq!(error.message, "dev1 exited with 1 before a line matched \"ok\"");
        assert!(check_match(&wait(Until::Exit), ended()).is_ok());
    }
}
