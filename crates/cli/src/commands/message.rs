//! `ccmux message`: send messages to panes and track their delivery.

use std::io;
use std::time::Instant;

use model::message::LONGEST;
use model::{IdempotencyKey, MessageId};
use protocol::ErrorBody;
use protocol::control::{Request, Response};
use protocol::message::{Awaited, MessageRequest, MessageView, Messages, SendMessage};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Serialize;

use crate::args::{MessageArgs, MessageCommand, MessageLsArgs, MessageSendArgs, MessageShowArgs};
use crate::connect::{Link, millis};
use crate::context::Context;
use crate::describe;
use crate::failure::{Failure, unexpected, usage};
use crate::output::printable;

/// JSON output for one message.
#[derive(Serialize)]
struct One<'a> {
    message: &'a MessageView,
}

pub(super) fn run(context: &Context, args: &MessageArgs) -> Result<(), Failure> {
    match &args.command {
        None => send(context, &args.send),
        Some(MessageCommand::Ls(args)) => ls(context, args),
        Some(MessageCommand::Show(args)) => show(context, args),
    }
}

fn send(context: &Context, args: &MessageSendArgs) -> Result<(), Failure> {
    let Some(to) = args.to.clone() else {
        return Err(usage("no recipient")
            .hint("set a pane or group with --to; `ccmux message ls` lists messages")
            .into());
    };
    let text = super::send::text(&args.text, &mut io::stdin().lock(), LONGEST)?;
    if text.trim().is_empty() {
        return Err(usage("the message is empty")
            .hint("give some text; `-` reads standard input")
            .into());
    }
    let from = match context.env.pane() {
        Some(own) => Some(own.parse().map_err(|_| usage("CCMUX_PANE_ID is not a valid pane ID"))?),
        None => None,
    };
    let request = SendMessage {
        to,
        session: args.session.clone(),
        from,
        text,
        raw: args.raw,
        // The key makes the request repeatable if the daemon dies.
        key: Some(args.key.clone().unwrap_or_else(random_key)),
    };
    let mut link = Link::new(context);
    let ask = || Request::Message(MessageRequest::Send(request.clone()));
    let mut messages = answer(link.request_retry(ask)?)?;
    if let Some(wait) = args.wait {
        let ids: Vec<_> = messages.messages.iter().map(|message| message.id).collect();
        messages = wait_for(context, &mut link, &ids, wait.into(), args)?;
    }
    context.out.answer(&messages, |messages, _| {
        let line = |message: &MessageView| {
            let name = message.to_name.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{}  {}  {}\n", message.id, message.state, printable(&name))
        };
        messages.messages.iter().map(line).collect()
    })
}

fn wait_for(
    context: &Context,
    link: &mut Link<'_>,
    ids: &[MessageId],
    until: Awaited,
    args: &MessageSendArgs,
) -> Result<Messages, Failure> {
    let progress = context.out.progress("waiting for the recipients…");
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let waited = link.request_retry(|| {
        let left = deadline.map(|at| millis(at.saturating_duration_since(Instant::now())));
        Request::Message(MessageRequest::Wait { ids: ids.to_vec(), until, timeout_ms: left })
    });
    drop(progress);
    Ok(answer(waited?)?)
}

fn ls(context: &Context, args: &MessageLsArgs) -> Result<(), Failure> {
    let request = MessageRequest::List {
        session: args.session.clone(),
        pane: args.pane.clone(),
        state: args.state,
    };
    context.out.answer(&ask(context, &request)?, describe::messages)
}

fn show(context: &Context, args: &MessageShowArgs) -> Result<(), Failure> {
    let found = ask(context, &MessageRequest::Show { id: args.id.clone() })?;
    let [message] = found.messages.as_slice() else {
        return Err(unexpected(&Response::Messages(found)).into());
    };
    context.out.answer(&One { message }, |one, _| describe::message(one.message))
}

fn ask(context: &Context, request: &MessageRequest) -> Result<Messages, Failure> {
    Ok(answer(Link::new(context).request_retry(|| Request::Message(request.clone()))?)?)
}

fn answer(response: Response) -> Result<Messages, ErrorBody> {
    let Response::Messages(messages) = response else { return Err(unexpected(&response)) };
    Ok(messages)
}

/// Returns a random idempotency key.
fn random_key() -> IdempotencyKey {
    let mut bytes = [0; 16];
    let got = getrandom(&mut bytes, GetRandomFlags::empty());
    assert_eq!(got, Ok(bytes.len()), "getrandom fills small buffers");
    let text = MessageId::from_random(bytes).to_string();
    text.parse().expect("an ID is a valid key")
}
