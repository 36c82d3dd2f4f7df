//! The operations: what can be asked of the daemon, once, whoever asks.
//!
//! One method per request. Sockets and other skins turn their messages into a [`Request`], call
//! [`Supervisor::perform`] and turn the answer back.

mod doctor;
mod end;
mod environment;
mod events;
mod gc;
mod hook;
pub(crate) mod limits;
mod locks;
mod look;
mod message;
pub(crate) mod page;
mod project;
mod purge;
mod read;
mod rename;
mod resize;
pub(crate) mod resolution;
mod restore;
mod run;
mod send;
mod template;
mod wait;

pub(crate) use events::EventStream;

use std::sync::Arc;

use host::store::StoreError;
use protocol::control::{Request, Response};
use protocol::{ErrorBody, ErrorCode};

use crate::supervisor::Supervisor;

/// Why an operation failed, on its way to whoever asked.
#[derive(Debug)]
pub(crate) struct Failure(ErrorBody);

impl Failure {
    pub(crate) fn into_body(self) -> ErrorBody {
        self.0
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Self {
        Self(body)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let say = |code| ErrorBody::new(code, error.to_string());
        Self(match &error {
            StoreError::SessionNameTaken(_) | StoreError::PaneNameTaken(_) => {
                say(ErrorCode::Conflict).hint("choose another name")
            }
            StoreError::Gone => say(ErrorCode::NotFound).hint("see what there is with `ccmux ls`"),
            full if full.is_full() => say(ErrorCode::Failed).hint("make room on the disk"),
            StoreError::Sqlite(_)
            | StoreError::File(_)
            | StoreError::TooNew { .. }
            | StoreError::Damaged { .. }
            | StoreError::Meaningless(_)
            | StoreError::Closed => say(ErrorCode::Failed),
        })
    }
}

/// Whether a request changes something. Such a one is carried out to its end even if nobody waits
/// for the answer any more.
pub(crate) fn changes_something(request: &Request) -> bool {
    match request {
        Request::New(_)
        | Request::Run(_)
        | Request::Trust(_)
        | Request::Share(_)
        | Request::Rename { .. }
        | Request::Stop { .. }
        | Request::Close { .. }
        | Request::Restore { .. }
        | Request::Purge { .. }
        | Request::Gc { dry_run: false, .. }
        | Request::Send { .. }
        | Request::Hook(_)
        | Request::Limit { .. }
        | Request::LimitNews { .. }
        | Request::Thaw { .. }
        | Request::Resize { .. }
        | Request::Serve(_)
        | Request::Token(_)
        | Request::DaemonStop => true,
        Request::Template(request) => request.changes_something(),
        Request::Migrate(request) => !request.dry_run,
        Request::Lock(request) => request.changes_something(),
        Request::Message(request) => request.changes_something(),
        Request::Up(request) => !request.dry_run,
        Request::List
        | Request::Show { .. }
        | Request::Locate { .. }
        | Request::Read { .. }
        | Request::Wait { .. }
        | Request::Env { .. }
        | Request::Events { .. }
        | Request::Doctor { .. }
        | Request::Gc { dry_run: true, .. }
        | Request::DaemonStatus => false,
    }
}

impl Supervisor {
    /// Does what was asked. The stream of [`Request::Events`] is had from
    /// [`Supervisor::events`]; here it is only said that there is one.
    pub(crate) async fn perform(self: Arc<Self>, request: Request) -> Result<Response, ErrorBody> {
        let done = match request {
            Request::New(request) => {
                let answer = Box::pin(self.launch_once(*request)).await?;
                Ok(Response::Pane(Box::new(answer)))
            }
            Request::Run(request) => Box::pin(self.run(*request)).await,
            Request::Up(request) => Box::pin(self.up(*request)).await,
            Request::List => self.list().await,
            Request::Show { target } => self.show(&target).await,
            Request::Locate { target } => self.locate(target.as_deref()).await,
            Request::Rename { target, name } => self.rename(&target, name).await,
            Request::Stop { target, grace_ms } => self.stop(&target, grace_ms).await,
            Request::Close { target, grace_ms, discard } => {
                Box::pin(self.close(&target, grace_ms, &discard)).await
            }
            Request::Restore { target } => Box::pin(self.restore(&target)).await,
            Request::Purge { target, grace_ms, discard } => {
                Box::pin(self.purge(&target, grace_ms, &discard)).await
            }
            Request::Gc { dry_run, empty_trash } => Box::pin(self.gc(dry_run, empty_trash)).await,
            Request::Send { target, typing, timeout_ms } => {
                self.send(&target, typing, timeout_ms).await
            }
            Request::Limit { target, wishes } => self.limit(&target, &wishes).await,
            Request::Thaw { target } => self.thaw(&target).await,
            Request::LimitNews { pane } => self.limit_news(pane).await,
            Request::Read { target, view } => self.read(&target, view).await,
            Request::Wait { target, until, timeout_ms } => {
                Box::pin(self.wait(&target, until, timeout_ms)).await
            }
            Request::Env { target } => self.environment(&target).await,
            Request::Events { .. } | Request::DaemonStop => Ok(Response::Done),
            Request::Doctor { client_env, version } => {
                Box::pin(self.doctor(client_env, version)).await
            }
            Request::Lock(request) => Box::pin(self.lock(request)).await,
            Request::Hook(request) => self.hook(request).await,
            Request::Message(request) => Box::pin(self.message(request)).await,
            Request::Trust(request) => self.trust(request).await,
            Request::Share(request) => self.share(request).await,
            Request::Resize { target, size } => self.resize(&target, size).await,
            Request::Serve(request) => self.serve_http(request).await,
            Request::Token(request) => self.token(request).await,
            Request::Template(request) => self.template(request).await,
            Request::Migrate(request) => Box::pin(self.migrate(request)).await,
            Request::DaemonStatus => self.status().await,
        };
        done.map_err(Failure::into_body)
    }
}
