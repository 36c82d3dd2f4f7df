//! The scrollback of a pane in the user's pager.

use std::io::Write as _;
use std::process::{Command, Stdio};

use model::PaneId;
use protocol::ErrorBody;
use protocol::ErrorCode;
use protocol::control::{Request, Response};
use protocol::pane_io::ReadView;

use crate::connect::Link;
use crate::context::Context;
use crate::failure::unexpected;

/// The number of lines to show.
const LINES: usize = 10_000;

/// The pager if `PAGER` is not set: it starts at the end, where the user was.
const DEFAULT: &str = "less -R +G";

/// Shows the scrollback and waits until the user quits the pager.
///
/// # Errors
///
/// If the scrollback cannot be read, or there is no pager.
pub(super) fn show(context: &Context, pane: PaneId) -> Result<(), ErrorBody> {
    let view = ReadView::Lines(LINES);
    let read = || Request::Read { target: pane.to_string(), view: view.clone() };
    let response = Link::new(context).request_retry(read)?;
    let Response::Text(text) = response else { return Err(unexpected(&response)) };
    let pager = context.env.get("PAGER").unwrap_or(DEFAULT);
    let failed = |why: String| {
        let message = format!("cannot show the scrollback in `{pager}`: {why}");
        ErrorBody::new(ErrorCode::Failed, message)
            .hint("set PAGER to a program that is installed; the pane keeps running")
    };
    // By a shell, because PAGER may contain arguments.
    let started = Command::new("/bin/sh").args(["-c", pager]).stdin(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| failed(error.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        // A pager need not read everything.
        let _unread = input.write_all(text.text.trim_end().as_bytes());
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    // The exit codes of a shell that cannot run the program.
    match status.code() {
        Some(126 | 127) => Err(failed("the program cannot be run".to_owned())),
        _ => Ok(()),
    }
}
