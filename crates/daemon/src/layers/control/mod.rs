//! The control socket: a thin layer over the operations.
//!
//! Each connection has a task and handles one request at a time. Each request runs in its own task,
//! so a panic affects only its client. Requests that arrive during recovery wait until it is
//! complete.

mod caller;
mod declaration;
mod dispatch;
mod wording;

use std::sync::Arc;
use std::time::Duration;

use host::socket;
use model::authority::{Access, Caller};
use protocol::control::{Reply, Request, Response};
use protocol::frame::MAX_ANSWER;
use protocol::greeting::{Hello, Refusal, SUPPORTED};
use protocol::http::ServeRequest;
use protocol::{ErrorBody, ErrorCode, Frame, Kind};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tracing::{error, info, warn};

use self::declaration::{audit, is_mutation};
use crate::layers::http::Http;
use crate::operations::Services;
use crate::operations::access::authorize;
use crate::registry::{EventStream, as_caller};
use crate::wire::frames::{FrameReadError, Frames};

/// The maximum number of connections served at once. Connections over the limit wait.
const MAX_CONNECTIONS: usize = 256;

/// The time that a connection over the limit waits.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout for the greeting of a client.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that a connection waits for recovery before it is told to try again. It is shorter than
/// the time that clients wait for a greeting.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(8);

/// The time that shutdown waits for running requests.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(8);

/// The next step of a connection.
enum Next {
    Continue,
    Close,
}

/// The control socket.
pub(crate) struct Control {
    pub(crate) services: Arc<Services>,
    pub(crate) http: Arc<Http>,
    pub(crate) recovered: watch::Sender<RecoveryState>,
}

/// The progress of recovery, for which connections wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryState {
    Running,
    Complete,
    /// The daemon stops. Contains the reason for its clients.
    Failed(String),
}

impl Control {
    pub(crate) fn new(services: Arc<Services>, http: Arc<Http>) -> Self {
        Self { services, http, recovered: watch::channel(RecoveryState::Running).0 }
    }

    /// Serves clients until the daemon stops and pending requests are answered.
    pub(crate) async fn serve(self: Arc<Self>, listener: UnixListener) {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.services.runtime.stopping.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => self.spawn_connection(stream, &permits),
                Err(error) => {
                    // Probably out of file descriptors; retry after some are closed.
                    warn!(%error, "control socket accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(listener);
        let all = u32::try_from(MAX_CONNECTIONS).expect("the limit fits into u32");
        if timeout(SHUTDOWN_TIMEOUT, permits.acquire_many(all)).await.is_err() {
            info!("shutdown timed out waiting for control requests");
        }
    }

    fn spawn_connection(self: &Arc<Self>, stream: UnixStream, permits: &Arc<Semaphore>) {
        if !self.services.runtime.is_root_in_place() {
            // The client retries, and thus starts a daemon for the new path.
            info!("daemon stops because its state root was moved");
            return self.services.runtime.stopping.cancel();
        }
        if !socket::is_same_user(&stream) {
            return warn!("control connection of another user rejected");
        }
        let permit = timeout(QUEUE_TIMEOUT, Arc::clone(permits).acquire_owned());
        let this = Arc::clone(self);
        self.services.runtime.tasks.spawn(async move {
            let caller = this.establish_caller(&stream).await;
            let frames = Frames::new(stream);
            match permit.await {
                Ok(Ok(permit)) => match caller {
                    Ok(caller) => this.serve_connection(frames, caller, permit).await,
                    Err(why) => refuse(frames, &why).await,
                },
                Ok(Err(_)) | Err(_) => {
                    refuse(frames, "too many clients are connected to the daemon").await;
                }
            }
        });
    }

    async fn serve_connection(
        self: Arc<Self>,
        mut frames: Frames,
        caller: Caller,
        permit: OwnedSemaphorePermit,
    ) {
        match timeout(GREETING_TIMEOUT, exchange_greetings(&mut frames)).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return refuse(frames, &why).await,
            Err(_) => return,
        }
        loop {
            let next = tokio::select! {
                next = frames.next() => next,
                () = self.services.runtime.stopping.cancelled() => break,
            };
            let frame = match next {
                Ok(Some(frame)) if frame.kind == Kind::Request => frame,
                Ok(Some(frame)) => {
                    return refuse(
                        frames,
                        &format!("expected a Request frame, got {:?}", frame.kind),
                    )
                    .await;
                }
                Ok(None) | Err(FrameReadError::Io(_)) => break,
                Err(FrameReadError::Invalid(error)) => {
                    return refuse(frames, &error.to_string()).await;
                }
            };
            match self.answer_frame(&mut frames, caller, &frame).await {
                Ok(Next::Continue) => {}
                // The client has disconnected.
                Ok(Next::Close) | Err(_) => break,
            }
        }
        drop(permit);
    }

    /// Establishes the caller of a connection, after recovery, because it needs the known panes.
    async fn establish_caller(&self, stream: &UnixStream) -> Result<Caller, String> {
        let mut recovered = self.recovered.subscribe();
        tokio::select! {
            // Usually recovery is complete, and no timer is needed.
            biased;
            ready = recovered.wait_for(|state| *state != RecoveryState::Running) => {
                if let Ok(state) = ready && let RecoveryState::Failed(why) = &*state {
                    return Err(why.clone());
                }
            }
            () = tokio::time::sleep(RECOVERY_PATIENCE) => {
                let step = self.services.runtime.recovery_step();
                return Err(format!("the daemon is still recovering ({step}); try again later"));
            }
            () = self.services.runtime.ending.cancelled() => {}
        }
        caller::caller_of(stream, &self.services)
    }

    async fn answer_frame(
        self: &Arc<Self>,
        frames: &mut Frames,
        caller: Caller,
        frame: &Frame,
    ) -> std::io::Result<Next> {
        let request: Request = match frame.parse() {
            Ok(request) => request,
            Err(_) => {
                frames.write(&reply(Err(unknown_request(frame)))).await?;
                return Ok(Next::Continue);
            }
        };
        let mut recovered = self.recovered.subscribe();
        tokio::select! {
            // Fails only at the end of the daemon.
            ready = recovered.wait_for(|state| *state == RecoveryState::Complete) => if ready.is_err() {
                return Ok(Next::Close);
            },
            () = frames.closed() => return Ok(Next::Close),
            () = self.services.runtime.ending.cancelled() => return Ok(Next::Close),
        }
        if let Request::Events { after, follow, set } = request {
            let events = self.services.registry.events(after, follow);
            return self.stream(frames, caller, events, follow, set).await;
        }
        if let Request::Serve(serve) = &request
            && serve.hold
        {
            return self.hold_http(frames, caller, serve.clone()).await;
        }
        if request == Request::DaemonStop {
            let services = &self.services;
            let allowed = as_caller(caller, authorize(services, &caller, Access::Administer, None));
            if let Err(denied) = allowed.await {
                frames.write(&reply(Err(wording::error_body(&denied)))).await?;
                return Ok(Next::Continue);
            }
            info!("stop requested");
            if let Some(event) = audit(&request).event() {
                as_caller(caller, services.registry.record(event)).await;
            }
            let written = frames.write(&reply(Ok(Response::Done))).await;
            self.services.runtime.stopping.cancel();
            return written.map(|()| Next::Close);
        }
        self.answer_request(frames, caller, request).await
    }

    async fn answer_request(
        self: &Arc<Self>,
        frames: &mut Frames,
        caller: Caller,
        request: Request,
    ) -> std::io::Result<Next> {
        let is_mutation = is_mutation(&request);
        let mut work = self.services.runtime.tasks.spawn(Arc::clone(self).perform(caller, request));
        let done = tokio::select! {
            done = &mut work => done,
            () = frames.closed() => {
                if !is_mutation {
                    work.abort();
                }
                return Ok(Next::Close);
            }
        };
        let result = done.unwrap_or_else(|failed| {
            error!(%failed, "control request failed");
            Err(ErrorBody::new(ErrorCode::Failed, "internal error")
                .hint("see run/daemon.log in the state root"))
        });
        frames.write(&reply(result)).await?;
        Ok(Next::Continue)
    }

    /// Serves the HTTP API until the client disconnects.
    async fn hold_http(
        self: &Arc<Self>,
        frames: &mut Frames,
        caller: Caller,
        request: ServeRequest,
    ) -> std::io::Result<Next> {
        let served = Box::pin(Arc::clone(self).perform(caller, Request::Serve(request))).await;
        let held = match &served {
            Ok(Response::Serving(serving)) if serving.began => Some(serving.address.clone()),
            Ok(_) | Err(_) => None,
        };
        let failed = served.is_err();
        let written = frames.write(&reply(served)).await;
        if failed {
            return written.map(|()| Next::Continue);
        }
        tokio::select! {
            () = frames.closed() => {}
            () = self.services.runtime.stopping.cancelled() => {}
        }
        if let Some(address) = held {
            self.http.stop_listening(&address);
        }
        Ok(Next::Close)
    }

    async fn stream(
        self: &Arc<Self>,
        frames: &mut Frames,
        caller: Caller,
        mut events: EventStream,
        follow: bool,
        set: u32,
    ) -> std::io::Result<Next> {
        let services = &self.services;
        let allowed = as_caller(caller, authorize(services, &caller, Access::Read, None));
        if let Err(denied) = allowed.await {
            frames.write(&reply(Err(wording::error_body(&denied)))).await?;
            return Ok(Next::Continue);
        }
        frames.write(&reply(Ok(Response::Done))).await?;
        loop {
            let next = tokio::select! {
                next = events.next() => next,
                () = frames.closed() => return Ok(Next::Close),
                () = self.services.runtime.stopping.cancelled(), if follow => return Ok(Next::Close),
            };
            match next {
                Ok(Some(event)) if event.what.set() > set => {}
                Ok(Some(event)) => frames.write(&Frame::json(Kind::Event, &event)).await?,
                Ok(None) => break,
                Err(error) => {
                    frames.write(&reply(Err(wording::error_body(&error)))).await?;
                    return Ok(Next::Close);
                }
            }
        }
        frames.write(&reply(Ok(Response::Done))).await?;
        Ok(Next::Continue)
    }
}

/// Exchanges greetings, or returns the reason to refuse the connection.
async fn exchange_greetings(frames: &mut Frames) -> Result<(), String> {
    let first = match frames.next().await {
        Ok(Some(frame)) if frame.kind == Kind::Hello => frame,
        Ok(Some(frame)) => return Err(format!("expected a Hello frame, got {:?}", frame.kind)),
        Ok(None) => return Err("connection closed before the greeting".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let hello: Hello = first.parse().map_err(|error| error.to_string())?;
    let welcome = hello.answer(std::process::id(), "daemon").map_err(|refusal| refusal.message)?;
    frames.write(&Frame::json(Kind::Welcome, &welcome)).await.map_err(|error| error.to_string())
}

/// Sends the reason and closes the connection.
async fn refuse(mut frames: Frames, why: &str) {
    let refusal = Refusal {
        protocol: SUPPORTED,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        message: why.to_owned(),
    };
    let frame = Frame::json(Kind::Refused, &refusal);
    // Best effort: the client may not be reading.
    let _ignored = timeout(Duration::from_secs(1), frames.write(&frame)).await;
}

fn reply(result: Result<Response, ErrorBody>) -> Frame {
    let frame = Frame::json(
        Kind::Reply,
        &match result {
            Ok(response) => Reply::Ok(response),
            Err(body) => Reply::Error(body),
        },
    );
    if frame.body.len() <= MAX_ANSWER {
        return frame;
    }
    let body =
        ErrorBody::new(ErrorCode::Failed, "the response is too long").hint("request less data");
    Frame::json(Kind::Reply, &Reply::Error(body))
}

/// Returns the error for a request that this version cannot parse.
fn unknown_request(frame: &Frame) -> ErrorBody {
    let version = env!("CARGO_PKG_VERSION");
    let value: Option<serde_json::Value> = serde_json::from_slice(&frame.body).ok();
    let name = value.as_ref().and_then(|value| value.get("do")?.as_str()).map(str::to_owned);
    let why = frame.parse::<Request>().err().map(|error| error.to_string()).unwrap_or_default();
    let message = match name {
        Some(name) => {
            format!("daemon version {version} does not support the request {name:?}: {why}")
        }
        None => format!("daemon version {version} cannot parse the request: {why}"),
    };
    ErrorBody::new(ErrorCode::Usage, message).hint(
        "run `ccmux daemon stop` to restart the daemon with the version of the client; panes keep running",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_request_error_contains_request_name() {
        let frame = Frame::new(Kind::Request, br#"{"do":"fly","to":"the moon"}"#.to_vec());

        let body = unknown_request(&frame);

        assert_eq!(body.code, ErrorCode::Usage);
        assert!(body.message.contains("\"fly\""), "{}", body.message);
        assert!(body.message.contains(env!("CARGO_PKG_VERSION")), "{}", body.message);
    }

    #[test]
    fn oversized_response_becomes_error() {
        let text = protocol::pane_io::Text {
            text: "x".repeat(MAX_ANSWER),
            bytes: None,
            from: 0,
            next: 0,
            more: false,
        };

        let frame = reply(Ok(Response::Text(text)));

        let Reply::Error(body) = frame.parse().unwrap() else { panic!("{frame:?}") };
        assert!(body.message.contains("too long"), "{}", body.message);
    }
}
