//! `ccmux show`: show details of a pane or session.

use protocol::ErrorBody;
use protocol::control::{PaneAnswer, Request, Response, SessionAnswer};
use serde::Serialize;

use crate::args::ShowArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::describe;
use crate::failure::{Failure, unexpected};
use crate::output::Style;

/// A pane or a session.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Shown {
    /// A pane.
    Pane(Box<PaneAnswer>),
    /// A session.
    Session(Box<SessionAnswer>),
}

impl Shown {
    /// Converts a response of the daemon.
    ///
    /// # Errors
    ///
    /// If it is neither a pane nor a session.
    pub(super) fn from_response(response: Response) -> Result<Self, ErrorBody> {
        match response {
            Response::Pane(answer) => Ok(Self::Pane(answer)),
            Response::Session(answer) => Ok(Self::Session(Box::new(answer))),
            other @ (Response::Sessions(_)
            | Response::Located { .. }
            | Response::Text(_)
            | Response::Waited { .. }
            | Response::Environment(_)
            | Response::Health(_)
            | Response::Limits(_)
            | Response::Gc(_)
            | Response::Trust(_)
            | Response::Share(_)
            | Response::Locks(_)
            | Response::Resized(_)
            | Response::Serving(_)
            | Response::Token(_)
            | Response::Status(_)
            | Response::Hook(_)
            | Response::Messages(_)
            | Response::Run(_)
            | Response::Up(_)
            | Response::Templates(_)
            | Response::Migration(_)
            | Response::Done) => Err(unexpected(&other)),
        }
    }

    /// Formats the text output.
    pub(super) fn text(&self, style: Style) -> String {
        match self {
            Self::Pane(answer) => describe::pane(answer, style),
            Self::Session(answer) => describe::session(answer, style),
        }
    }
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<(), Failure> {
    let show = Request::Show { target: args.id.clone() };
    let response = Link::new(context).request_retry(|| show.clone())?;
    context.out.answer(&Shown::from_response(response)?, Shown::text)
}
