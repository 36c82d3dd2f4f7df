//! Maps control requests to operations and their results to responses.

use std::sync::Arc;

use model::authority::{Access, Caller};
use protocol::ErrorBody;
use protocol::control::{Request, Response};

use super::Control;
use super::declaration::{audit, is_frequent, required_access};
use super::wording::error_body;
use crate::fault::Failure;
use crate::operations::access::authorize;
use crate::operations::locate::Located;
use crate::operations::wait::Waited;
use crate::operations::{self, PaneOrSession};
use crate::registry::as_caller;

impl Control {
    /// Runs a request. [`Request::Events`] and [`Request::DaemonStop`] are handled by the
    /// connection itself.
    pub(super) async fn perform(
        self: Arc<Self>,
        caller: Caller,
        request: Request,
    ) -> Result<Response, ErrorBody> {
        as_caller(caller, Box::pin(self.dispatch(&caller, request)))
            .await
            .map_err(|failure| error_body(failure.fault()))
    }

    /// Runs a request that the caller may make, and records it.
    async fn dispatch(
        self: Arc<Self>,
        caller: &Caller,
        request: Request,
    ) -> Result<Response, Failure> {
        let services = &self.services;
        // The other kinds of access depend on the session, which the operation finds.
        if required_access(&request) == Access::Administer {
            authorize(services, caller, Access::Administer, None).await?;
        }
        let (event, frequent) = (audit(&request).event(), is_frequent(&request));
        let response = Box::pin(self.run(caller, request)).await?;
        match event {
            Some(event) if frequent => services.registry.queue_event(event).await,
            Some(event) => services.registry.record(event).await,
            None => {}
        }
        Ok(response)
    }

    #[expect(clippy::too_many_lines, reason = "one arm per request, each of them one call")]
    async fn run(&self, caller: &Caller, request: Request) -> Result<Response, Failure> {
        let services = &self.services;
        Ok(match request {
            Request::New(request) => {
                let pane = Box::pin(operations::launch_once(services, caller, *request)).await?;
                Response::Pane(Box::new(pane))
            }
            Request::Run(request) => Response::Run(Box::new(
                Box::pin(operations::run(services, caller, *request)).await?,
            )),
            Request::Up(request) => {
                Response::Up(Box::new(Box::pin(operations::up(services, caller, *request)).await?))
            }
            Request::List => Response::Sessions(operations::list(services, caller).await?),
            Request::Show { target } => operations::show(services, caller, &target).await?.into(),
            Request::Locate { target } => {
                let Located { pane, dir, over_limit } =
                    operations::locate(services, caller, target.as_deref()).await?;
                Response::Located { pane: pane.id, name: pane.name, dir, over_limit }
            }
            Request::Rename { target, name } => {
                operations::rename(services, caller, &target, name).await?.into()
            }
            Request::Stop { target, grace_ms } => {
                operations::stop(services, caller, &target, grace_ms).await?.into()
            }
            Request::Close { target, grace_ms, discard, only_ended } => {
                let request = operations::CloseRequest { grace_ms, discard: &discard, only_ended };
                Box::pin(operations::close(services, caller, &target, request)).await?;
                Response::Done
            }
            Request::Restore { target } => {
                Box::pin(operations::restore(services, caller, &target)).await?.into()
            }
            Request::Purge { target, grace_ms, discard, now } => {
                let request = operations::PurgeRequest { grace_ms, discard: &discard, now };
                Box::pin(operations::purge(services, caller, &target, request)).await?;
                Response::Done
            }
            Request::Gc { dry_run, empty_trash } => Response::Gc(
                Box::pin(operations::gc(services, caller, dry_run, empty_trash)).await?,
            ),
            Request::Send { target, typing, timeout_ms, force } => {
                let input = operations::Input { typing, timeout_ms, force };
                operations::send(services, caller, &target, input).await?;
                Response::Done
            }
            Request::Limit { target, wishes } => {
                Response::Limits(operations::limit(services, caller, &target, &wishes).await?)
            }
            Request::Thaw { target } => {
                Response::Pane(Box::new(operations::thaw(services, caller, &target).await?))
            }
            Request::LimitEvent { pane } => {
                operations::report_limits(services, caller, pane).await?;
                Response::Done
            }
            Request::Read { target, view } => {
                Response::Text(operations::read(services, caller, &target, view).await?)
            }
            Request::Wait { target, until, timeout_ms } => {
                let waited =
                    Box::pin(operations::wait(services, caller, &target, until, timeout_ms));
                let Waited { line, ending } = waited.await?;
                Response::Waited { line, ending }
            }
            Request::Env { target } => Response::Environment(Box::new(
                operations::environment(services, caller, &target).await?,
            )),
            Request::Events { .. } | Request::DaemonStop => Response::Done,
            Request::Doctor { client_env, version } => {
                Response::Health(operations::doctor(services, caller, client_env, version).await?)
            }
            Request::Lock(request) => {
                Response::Locks(Box::pin(operations::lock(services, caller, request)).await?)
            }
            Request::Hook(request) => {
                Response::Hook(operations::hook(services, caller, request).await?)
            }
            Request::Message(request) => {
                Response::Messages(Box::pin(operations::message(services, caller, request)).await?)
            }
            Request::Trust(request) => {
                Response::Trust(operations::trust(services, caller, request).await?)
            }
            Request::Share(request) => {
                Response::Share(operations::share(services, caller, request).await?)
            }
            Request::Resize { target, size } => {
                Response::Resized(operations::resize(services, caller, &target, size).await?)
            }
            Request::Serve(request) => Response::Serving(self.http.serve(request).await?),
            Request::Token(request) => Response::Token(self.http.token(request).await?),
            Request::Template(request) => {
                Response::Templates(operations::template(services, caller, request).await?)
            }
            Request::Migrate(request) => {
                let migrated = Box::pin(operations::migrate(services, caller, request)).await?;
                Response::Migration(Box::new(migrated))
            }
            Request::DaemonStatus => {
                let mut status = operations::daemon_status(services, caller).await?;
                status.http = self.http.url();
                Response::Status(status)
            }
        })
    }
}

impl From<PaneOrSession> for Response {
    fn from(answer: PaneOrSession) -> Self {
        match answer {
            PaneOrSession::Pane(pane) => Self::Pane(pane),
            PaneOrSession::Session(session) => Self::Session(*session),
        }
    }
}
