//! `ccmux trust`: allow a project to run its setup commands in new workspaces.

use std::fmt::Write as _;
use std::path::Path;

use protocol::control::{Request, Response};
use protocol::workspace::{TrustAnswer, TrustRequest, TrustedFile};

use super::new::absolute;
use crate::args::TrustArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};
use crate::output::printable;

pub(super) fn run(context: &Context, args: &TrustArgs) -> Result<(), Failure> {
    let dir = || absolute(args.dir.as_deref().unwrap_or(Path::new(".")));
    let request = if args.list {
        TrustRequest::List
    } else if args.revoke {
        TrustRequest::Revoke { dir: dir()? }
    } else {
        TrustRequest::Add { dir: dir()? }
    };

    let answer = Link::new(context).request_retry(|| Request::Trust(request.clone()))?;

    let Response::Trust(answer) = answer else { return Err(unexpected(&answer).into()) };
    context.out.answer(&answer, |answer, _| match request {
        TrustRequest::Revoke { .. } => revoked(answer),
        TrustRequest::Add { .. } | TrustRequest::List => describe(answer),
    })
}

fn revoked(answer: &TrustAnswer) -> String {
    match answer.files.first() {
        Some(file) => format!("{} is no longer trusted\n", printable(&file.path)),
        None => "the project was not trusted\n".to_owned(),
    }
}

fn describe(answer: &TrustAnswer) -> String {
    if answer.files.is_empty() {
        return "no trusted projects\n".to_owned();
    }
    let mut text = String::new();
    for TrustedFile { path, trusted, setup, teardown, .. } in &answer.files {
        let state = if *trusted { "trusted" } else { "changed or removed since it was trusted" };
        writeln!(text, "{}: {state}", printable(path)).expect("writing to a string cannot fail");
        for (phase, commands) in [("setup", setup), ("teardown", teardown)] {
            for words in commands {
                writeln!(text, "  {phase}: {}", printable(&words.join(" ")))
                    .expect("writing to a string cannot fail");
            }
        }
    }
    text
}
