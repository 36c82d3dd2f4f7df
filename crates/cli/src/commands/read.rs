//! `ccmux read`: print the screen or the output log of a pane.

mod follow;
mod log;

use protocol::ErrorBody;
use protocol::control::{Request, Response};
use protocol::pane_io::{ReadView, Text};

use crate::args::ReadArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};
use log::{Collected, Log};

pub(super) fn run(context: &Context, args: &ReadArgs) -> Result<(), Failure> {
    match (args.log, args.follow) {
        (false, _) => screen(context, args),
        (true, true) => follow::run(context, args),
        (true, false) => log(context, args),
    }
}

/// Prints the screen as text, with or without scrollback.
fn screen(context: &Context, args: &ReadArgs) -> Result<(), Failure> {
    let view = match args.lines {
        Some(lines) if !args.screen => ReadView::Lines(lines),
        _ => ReadView::Screen,
    };
    let mut text = ask(&mut Link::new(context), &args.id, &view)?;
    if let Some(lines) = args.lines.filter(|_| args.screen) {
        text.text = last_lines(&text.text, lines).to_owned();
    }
    context.out.answer(&text, |text, _| match text.text.as_str() {
        "" => String::new(),
        text if text.ends_with('\n') => text.to_owned(),
        text => format!("{text}\n"),
    })
}

/// Prints the output log as raw bytes or as one JSON object.
fn log(context: &Context, args: &ReadArgs) -> Result<(), Failure> {
    let mut link = Link::new(context);
    let mut log = Log::new(&args.id, args.from);
    if !context.out.json && args.lines.is_none() {
        let mut output = context.out.pane_output();
        while let Some(chunk) = log.next(&mut link)? {
            output.print(&chunk)?;
        }
        return Ok(());
    }
    let mut collected = Collected::new(args.lines);
    while let Some(chunk) = log.next(&mut link)? {
        collected.push(&chunk);
    }
    if context.out.json {
        context.out.json_line(&collected.into_text(log.position().unwrap_or(0)))
    } else {
        context.out.pane_output().print(&collected.bytes)
    }
}

fn ask(link: &mut Link<'_>, id: &str, view: &ReadView) -> Result<Text, ErrorBody> {
    let response =
        link.request_retry(|| Request::Read { target: id.to_owned(), view: view.clone() })?;
    let Response::Text(text) = response else { return Err(unexpected(&response)) };
    Ok(text)
}

/// Returns the last `lines` lines of `text`.
fn last_lines(text: &str, lines: usize) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    if lines == 0 {
        return "";
    }
    match body.rmatch_indices('\n').nth(lines - 1) {
        Some((at, _)) => &text[at + 1..],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_counts_from_the_end() {
        let cases = [
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb", 5, "a\nb"),
            ("a\n\n", 1, "\n"),
            ("a", 0, ""),
            ("", 3, ""),
        ];
        for (text, lines, expected) in cases {
            assert_eq!(last_lines(text, lines), expected, "{lines} of {text:?}");
        }
    }
}
