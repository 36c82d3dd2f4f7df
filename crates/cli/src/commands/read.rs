//! `ccmux read`: print what a pane shows or has written.

mod follow;
mod log;

use protocol::ErrorBody;
use protocol::control::{Request, Response};
use protocol::look::{Text, View};

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

/// The screen, with or without history, as text.
fn screen(context: &Context, args: &ReadArgs) -> Result<(), Failure> {
    let view = match args.lines {
        Some(lines) if !args.screen => View::Lines(lines),
        _ => View::Screen,
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

/// The output that is kept, as it is or as one JSON object.
fn log(context: &Context, args: &ReadArgs) -> Result<(), Failure> {
    let mut link = Link::new(context);
    let mut log = Log::new(&args.id, args.from);
    if !context.out.json && args.lines.is_none() {
        while let Some(piece) = log.next(&mut link)? {
            context.out.bytes(&piece)?;
        }
        return Ok(());
    }
    let mut collected = Collected::new(args.lines);
    while let Some(piece) = log.next(&mut link)? {
        collected.push(&piece);
    }
    if context.out.json {
        context.out.json_line(&collected.into_text(log.position().unwrap_or(0)))
    } else {
        context.out.bytes(&collected.bytes)
    }
}

fn ask(link: &mut Link<'_>, id: &str, view: &View) -> Result<Text, ErrorBody> {
    let response =
        link.ask_again(|| Request::Read { target: id.to_owned(), view: view.clone() })?;
    let Response::Text(text) = response else { return Err(unexpected(&response)) };
    Ok(text)
}

/// The end of `text` that has this many lines.
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
    fn the_last_lines_are_counted_from_the_end() {
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
