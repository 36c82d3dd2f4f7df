//! The control socket: a skin over the operations.
//!
//! One task per connection, one request at a time in it, each request in a task of its own: a panic
//! there is an error for one client and nothing to anybody else. Requests that come before recovery
//! is complete wait for it.

use std::sync::Arc;
use std::time::Duration;

use host::socket;
use protocol::control::{Reply, Request, Response};
use protocol::frame::MAX_ANSWER;
use protocol::greeting::{Hello, Refusal, SPOKEN};
use protocol::http::ServeRequest;
use protocol::{ErrorBody, ErrorCode, Frame, Kind};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::command::{Failure, changes_something};
use crate::frames::{Frames, NoFrame};
use crate::supervisor::Supervisor;

/// How many clients are listened to at once. The others wait for their turn.
const CONNECTIONS: usize = 256;

/// How long they wait.
const TURN: Duration = Duration::from_secs(30);

/// How long a client may take for its first word.
const GREETING: Duration = Duration::from_secs(10);

/// How long a graceful stop waits for requests that are being carried out.
const LAST_ANSWERS: Duration = Duration::from_secs(8);

/// What is left to be done with a connection.
enum Next {
    Listen,
    HangUp,
}

impl Supervisor {
    /// Serves clients until the daemon is being stopped and the last of them is answered.
    pub(crate) async fn serve(self: Arc<Self>, listener: UnixListener) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.stopping.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => self.greet(stream, &permits),
                Err(error) => {
                    // Out of descriptors, most likely; others will be given back.
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(listener);
        let all = u32::try_from(CONNECTIONS).expect("it is a small number");
        if timeout(LAST_ANSWERS, permits.acquire_many(all)).await.is_err() {
            info!("clients are still waiting for answers they will not get");
        }
    }

    fn greet(self: &Arc<Self>, stream: UnixStream, permits: &Arc<Semaphore>) {
        if !socket::is_ours(&stream) {
            return warn!("a connection of another user was dropped");
        }
        let turn = timeout(TURN, Arc::clone(permits).acquire_owned());
        let this = Arc::clone(self);
        self.tasks.spawn(async move {
            let frames = Frames::new(stream);
            match turn.await {
                Ok(Ok(permit)) => this.converse(frames, permit).await,
                Ok(Err(_)) | Err(_) => {
                    refuse(frames, "too many clients are connected to the daemon").await;
                }
            }
        });
    }

    async fn converse(self: Arc<Self>, mut frames: Frames, permit: OwnedSemaphorePermit) {
        match timeout(GREETING, welcome(&mut frames)).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return refuse(frames, &why).await,
            Err(_) => return,
        }
        loop {
            let next = tokio::select! {
                next = frames.next() => next,
                () = self.stopping.cancelled() => break,
            };
            let frame = match next {
                Ok(Some(frame)) if frame.kind == Kind::Request => frame,
                Ok(Some(frame)) => {
                    return refuse(frames, &format!("a {:?} frame is no request", frame.kind))
                        .await;
                }
                Ok(None) | Err(NoFrame::Io(_)) => break,
                Err(NoFrame::Garbage(error)) => return refuse(frames, &error.to_string()).await,
            };
            match self.answer_frame(&mut frames, &frame).await {
                Ok(Next::Listen) => {}
                // A client that is gone needs no answer.
                Ok(Next::HangUp) | Err(_) => break,
            }
        }
        drop(permit);
    }

    async fn answer_frame(
        self: &Arc<Self>,
        frames: &mut Frames,
        frame: &Frame,
    ) -> std::io::Result<Next> {
        let request: Request = match frame.parse() {
            Ok(request) => request,
            Err(_) => {
                frames.write(&reply(Err(unknown(frame)))).await?;
                return Ok(Next::Listen);
            }
        };
        let mut recovered = self.recovered.subscribe();
        tokio::select! {
            // Fails only when the daemon ends.
            ready = recovered.wait_for(|recovered| *recovered) => if ready.is_err() {
                return Ok(Next::HangUp);
            },
            () = frames.gone() => return Ok(Next::HangUp),
            () = self.ending.cancelled() => return Ok(Next::HangUp),
        }
        if let Request::Events { after, follow } = request {
            return self.stream(frames, after, follow).await;
        }
        if let Request::Serve(wish) = &request
            && wish.hold
        {
            return self.hold_http(frames, wish.clone()).await;
        }
        if request == Request::DaemonStop {
            info!("asked to stop");
            let written = frames.write(&reply(Ok(Response::Done))).await;
            self.stopping.cancel();
            return written.map(|()| Next::HangUp);
        }
        self.answer_request(frames, request).await
    }

    async fn answer_request(
        self: &Arc<Self>,
        frames: &mut Frames,
        request: Request,
    ) -> std::io::Result<Next> {
        let to_its_end = changes_something(&request);
        let mut work = self.tasks.spawn(Arc::clone(self).perform(request));
        let done = tokio::select! {
            done = &mut work => done,
            () = frames.gone() => {
                if !to_its_end {
                    work.abort();
                }
                return Ok(Next::HangUp);
            }
        };
        let result = done.unwrap_or_else(|failed| {
            error!(%failed, "a request failed");
            Err(ErrorBody::new(ErrorCode::Failed, "the daemon failed at this request")
                .hint("its log, run/daemon.log in the state root, says more"))
        });
        frames.write(&reply(result)).await?;
        Ok(Next::Listen)
    }

    /// Serves the HTTP API for as long as the client stays.
    async fn hold_http(
        self: &Arc<Self>,
        frames: &mut Frames,
        wish: ServeRequest,
    ) -> std::io::Result<Next> {
        let served = Box::pin(Arc::clone(self).perform(Request::Serve(wish))).await;
        let held = match &served {
            Ok(Response::Serving(serving)) if serving.began => Some(serving.address.clone()),
            Ok(_) | Err(_) => None,
        };
        let failed = served.is_err();
        let written = frames.write(&reply(served)).await;
        if failed {
            return written.map(|()| Next::Listen);
        }
        tokio::select! {
            () = frames.gone() => {}
            () = self.stopping.cancelled() => {}
        }
        if let Some(address) = held {
            self.http.stop_listening(&address);
        }
        Ok(Next::HangUp)
    }

    async fn stream(
        self: &Arc<Self>,
        frames: &mut Frames,
        after: Option<u64>,
        follow: bool,
    ) -> std::io::Result<Next> {
        let mut events = self.events(after, follow);
        frames.write(&reply(Ok(Response::Done))).await?;
        loop {
            let next = tokio::select! {
                next = events.next() => next,
                () = frames.gone() => return Ok(Next::HangUp),
                () = self.stopping.cancelled(), if follow => return Ok(Next::HangUp),
            };
            match next {
                Ok(Some(event)) => frames.write(&Frame::json(Kind::Event, &event)).await?,
                Ok(None) => break,
                Err(error) => {
                    frames.write(&reply(Err(Failure::from(error).into_body()))).await?;
                    return Ok(Next::HangUp);
                }
            }
        }
        frames.write(&reply(Ok(Response::Done))).await?;
        Ok(Next::Listen)
    }
}

/// Exchanges greetings; why not, if that fails.
async fn welcome(frames: &mut Frames) -> Result<(), String> {
    let first = match frames.next().await {
        Ok(Some(frame)) if frame.kind == Kind::Hello => frame,
        Ok(Some(frame)) => return Err(format!("a {:?} frame is no greeting", frame.kind)),
        Ok(None) => return Err("nothing was said".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let hello: Hello = first.parse().map_err(|error| error.to_string())?;
    let welcome = hello.answer(std::process::id(), "daemon").map_err(|refusal| refusal.message)?;
    frames.write(&Frame::json(Kind::Welcome, &welcome)).await.map_err(|error| error.to_string())
}

/// Says why, where somebody still listens, and hangs up.
async fn refuse(mut frames: Frames, why: &str) {
    let refusal = Refusal {
        protocol: SPOKEN,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        message: why.to_owned(),
    };
    let frame = Frame::json(Kind::Refused, &refusal);
    // Who sends garbage may not listen at all.
    let _unheard = timeout(Duration::from_secs(1), frames.write(&frame)).await;
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
    let body = ErrorBody::new(ErrorCode::Failed, "the answer is too long").hint("ask for less");
    Frame::json(Kind::Reply, &Reply::Error(body))
}

/// The answer to a request that this release does not know, or not in this form.
fn unknown(frame: &Frame) -> ErrorBody {
    let version = env!("CARGO_PKG_VERSION");
    let asked: Option<serde_json::Value> = serde_json::from_slice(&frame.body).ok();
    let name = asked.as_ref().and_then(|value| value.get("do")?.as_str()).map(str::to_owned);
    let why = frame.parse::<Request>().err().map(|error| error.to_string()).unwrap_or_default();
    let message = match name {
        Some(name) => format!("the daemon is ccmux {version} and cannot do {name:?}: {why}"),
        None => format!("the daemon is ccmux {version} and cannot read the request: {why}"),
    };
    ErrorBody::new(ErrorCode::Usage, message).hint(
        "restart the daemon with the release of the client: `ccmux daemon stop`; panes run on",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_request_is_named_in_the_answer() {
        let frame = Frame::new(Kind::Request, br#"{"do":"fly","to":"the moon"}"#.to_vec());

        let body = unknown(&frame);

        assert_eq!(body.code, ErrorCode::Usage);
        assert!(body.message.contains("\"fly\""), "{}", body.message);
        assert!(body.message.contains(env!("CARGO_PKG_VERSION")), "{}", body.message);
    }

    #[test]
    fn an_answer_that_does_not_fit_is_an_error_and_no_panic() {
        let text = protocol::look::Text {
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
