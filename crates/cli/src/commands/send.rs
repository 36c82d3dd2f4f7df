//! `ccmux send`: type text and keys into a pane.

use std::io::{self, Read as _};

use protocol::control::{Request, Response};
use protocol::pane_io::Typing;
use serde::Serialize;

use crate::args::SendArgs;
use crate::connect::{Link, millis};
use crate::context::Context;
use crate::failure::{Failure, unexpected, usage};

/// Maximum size of the text, so that its JSON form fits into one frame.
const MAX_TEXT: usize = 1 << 20;

/// Output of `send --json`.
#[derive(Serialize)]
struct Sent {
    sent: bool,
}

pub(super) fn run(context: &Context, args: &SendArgs) -> Result<(), Failure> {
    let typing = typing(args, &mut io::stdin().lock())?;
    let timeout_ms = millis(args.timeout);
    let send = Request::Send { target: args.id.clone(), typing, timeout_ms, force: args.force };
    let progress = context.out.progress(format!("waiting for {} to accept the text…", args.id));

    let doubt = "the text may or may not have been typed";
    let response = Link::new(context).request_once(&send, doubt)?;

    drop(progress);
    if response != Response::Done {
        return Err(unexpected(&response).into());
    }
    context.out.answer(&Sent { sent: true }, |_, _| String::new())
}

fn typing(args: &SendArgs, stdin: &mut impl io::Read) -> Result<Typing, Failure> {
    if args.text.is_empty() && args.key.is_empty() && !args.enter {
        return Err(usage("nothing to send")
            .hint("give some text, a key with --key, or --enter; `-` reads standard input")
            .into());
    }
    let text = text(&args.text, stdin, MAX_TEXT)?;
    Ok(Typing { text, keys: args.key.clone(), enter: args.enter })
}

/// Joins the words of a command line. A single `-` reads up to `limit` bytes from standard input.
///
/// # Errors
///
/// If standard input cannot be read, or has more than `limit` bytes.
pub(super) fn text(
    words: &[String],
    stdin: &mut impl io::Read,
    limit: usize,
) -> Result<String, Failure> {
    if !matches!(words, [only] if only == "-") {
        return Ok(words.join(" "));
    }
    let mut text = String::new();
    stdin
        .take(limit as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::io("read the text from standard input", &error))?;
    if text.len() <= limit {
        Ok(text)
    } else {
        Err(usage(format!("standard input has more than {limit} bytes"))
            .hint("write the text to a file and send its path instead")
            .into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn args(text: &[&str], enter: bool) -> SendArgs {
        let text = text.iter().map(|&word| word.to_owned()).collect();
        let (id, timeout) = ("dev1".to_owned(), Duration::from_secs(1));
        SendArgs { id, text, key: vec![], enter, force: false, timeout }
    }

    fn text_of(args: &SendArgs, stdin: &[u8]) -> Result<String, u8> {
        typing(args, &mut &*stdin).map(|typing| typing.text).map_err(|f| f.exit_code())
    }

    #[test]
    fn typing_takes_text_from_arguments_or_standard_input() {
        assert_eq!(text_of(&args(&["fix", "it"], false), b"unread"), Ok("fix it".to_owned()));
        assert_eq!(text_of(&args(&["-"], false), b"a\nb\n"), Ok("a\nb\n".to_owned()));
        assert_eq!(text_of(&args(&["-", "x"], false), b"unread"), Ok("- x".to_owned()));
        assert_eq!(text_of(&args(&[], true), b"unread"), Ok(String::new()));
    }

    #[test]
    fn typing_rejects_no_input_and_too_much_input() {
        let oversized = vec![b'x'; (1 << 20) + 1];

        assert_eq!(text_of(&args(&[], false), b""), Err(2));
        assert_eq!(text_of(&args(&["-"], false), &oversized), Err(2));
        assert_eq!(text_of(&args(&["-"], false), b"\xff"), Err(1));
    }
}
