//! Connections: accepted, counted, bounded in time and size, ended with the daemon.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use super::stall::Impatient;

/// How long a caller may take for the head of a request, and be silent between two.
pub(super) const HEAD: Duration = Duration::from_secs(20);

/// How long a caller may take to agree on a cipher.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a caller may leave what we write unread.
const UNREAD: Duration = Duration::from_secs(20);

/// The most bytes of the head of a request.
const HEAD_SIZE: usize = 32 * 1024;

/// The most headers of a request.
const HEADERS: usize = 64;

/// How long a connection may go on with its last answer when we stop.
const LAST_ANSWER: Duration = Duration::from_secs(6);

/// What a caller is told for whom there is no room.
const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\n";

/// The other end of a connection.
///
/// Whoever goes on with a connection that was upgraded keeps this: it holds the connection's place
/// among those that there may be.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    _place: Arc<OwnedSemaphorePermit>,
}

/// Everything that a connection needs.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) router: Router,
    pub(super) acceptor: Option<TlsAcceptor>,
    pub(super) permits: Arc<Semaphore>,
    /// No more connections, and those that there are end after their answer.
    pub(super) end: CancellationToken,
    pub(super) tasks: TaskTracker,
    /// How long a caller may take for the head of a request.
    pub(super) head: Duration,
}

impl Server {
    /// Accepts until it is told to end.
    pub(super) async fn run(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.end.cancelled() => break,
            };
            match accepted {
                Ok((stream, address)) => self.welcome(stream, address),
                Err(error) => {
                    // Out of descriptors, most likely; others will be given back.
                    warn!(%error, "cannot accept an HTTP connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn welcome(&self, stream: TcpStream, address: SocketAddr) {
        let Ok(place) = Arc::clone(&self.permits).try_acquire_owned() else {
            warn!("too many HTTP connections");
            if self.acceptor.is_none() {
                self.tasks.spawn(turn_away(stream));
            }
            return;
        };
        let peer = Peer { address, _place: Arc::new(place) };
        let this = self.clone();
        self.tasks.spawn(async move {
            // Answers are small, and somebody waits for each.
            let _slower = stream.set_nodelay(true);
            let stream = Impatient::new(stream, UNREAD);
            match this.acceptor.clone() {
                None => this.converse(stream, peer).await,
                Some(acceptor) => match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => this.converse(stream, peer).await,
                    Ok(Err(error)) => debug!(%error, "no TLS connection"),
                    Err(_) => debug!("a TLS handshake took too long"),
                },
            }
        });
    }

    async fn converse(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
    ) {
        let router = self.router;
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer.clone());
            router.clone().oneshot(request)
        });
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(self.head)
                .max_headers(HEADERS)
                .max_buf_size(HEAD_SIZE)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
        );
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.end.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match timeout(LAST_ANSWER, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return debug!("an HTTP connection did not end"),
                }
            }
        };
        if let Err(error) = ended {
            debug!(%error, "an HTTP connection broke");
        }
    }
}

/// Says that there is no room.
async fn turn_away(mut stream: TcpStream) {
    let body = r#"{"type":"urn:ccmux:problem:too_many_connections","title":"Service Unavailable","status":503,"detail":"too many connections","code":"too_many_connections"}"#;
    let answer = format!("{FULL}content-length: {}\r\n\r\n{body}", body.len());
    let said = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // What was left unread would be answered by cutting the line, and with it our word.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    // Who does not listen need not know.
    let _unheard = timeout(Duration::from_secs(1), said).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// Bounded everything: a caller who sends half a head keeps no connection.
    #[tokio::test]
    async fn a_caller_who_never_ends_his_request_is_cut_off() {
        let (permits, tasks) = (Arc::new(Semaphore::new(1)), TaskTracker::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server {
            router: Router::new(),
            acceptor: None,
            permits: Arc::clone(&permits),
            end: CancellationToken::new(),
            tasks: tasks.clone(),
            head: Duration::from_millis(20),
        };
        tasks.spawn(server.run(listener));

        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
        let mut answer = Vec::new();
        // It may be told why, or not; in the end it is cut off.
        let _cut = slow.read_to_end(&mut answer).await;

        let place = timeout(Duration::from_secs(60), permits.acquire()).await;
        assert!(place.is_ok_and(|place| place.is_ok()), "its place is free again");
    }
}
