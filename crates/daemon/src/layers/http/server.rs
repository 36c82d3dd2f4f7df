//! The HTTP listener and its connections, with limits on number, size and time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use super::listener::{Accepted, Listener};
use super::write_timeout::WriteTimeout;

/// The timeout for reading a request head, including idle time between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);

/// The timeout for a single write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum size of a request head in bytes.
const MAX_HEAD_SIZE: usize = 32 * 1024;

/// The maximum number of headers in a request.
const MAX_HEADERS: usize = 64;

/// The time that a connection has to finish its response during shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(6);

/// The maximum number of connections without a valid token. The oldest is closed to admit a new one.
pub(super) const MAX_STRANGERS: usize = 64;

/// The lifetime of a connection on which no request had a valid token.
pub(super) const STRANGER_TIMEOUT: Duration = Duration::from_secs(10);

/// The client of a connection, stored in the extensions of the request.
///
/// Holds the connection's permit, so the handler of an upgraded connection must keep it.
#[derive(Clone)]
pub(crate) struct Peer(Arc<Connection>);

struct Connection {
    from: String,
    permits: Arc<Semaphore>,
    /// Acquired by the first request with a valid token.
    permit: OnceLock<OwnedSemaphorePermit>,
    strangers: Arc<Strangers>,
    /// Cancelled to close the connection. Unused once the connection has a permit.
    evicted: CancellationToken,
    id: u64,
}

impl Peer {
    /// Returns the address of the client.
    pub(super) fn from(&self) -> &str {
        &self.0.from
    }

    /// Takes the connection out of the pool of those without a token. Returns false if too many
    /// connections are open.
    pub(super) fn authenticated(&self) -> bool {
        if self.0.permit.get().is_some() {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.0.permits).try_acquire_owned() else { return false };
        self.0.strangers.remove(self.0.id);
        // Requests of a connection are sequential, so the permit is not set twice.
        self.0.permit.set(permit).is_ok()
    }

    /// Waits until the connection is to be closed because it has no valid token.
    async fn evicted(&self, lifetime: Duration) {
        let _elapsed = timeout(lifetime, self.0.evicted.cancelled()).await;
        if self.0.permit.get().is_some() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.strangers.remove(self.id);
    }
}

/// The connections without a valid token, oldest first.
///
/// They are limited separately, because any local process can open them. A full pool closes its
/// oldest connection: a client that sends its token at once is not kept out by idle ones.
#[derive(Default)]
pub(super) struct Strangers {
    next_id: AtomicU64,
    open: Mutex<VecDeque<(u64, CancellationToken)>>,
}

impl Strangers {
    fn admit(&self) -> (u64, CancellationToken) {
        let (id, evicted) =
            (self.next_id.fetch_add(1, Ordering::Relaxed), CancellationToken::new());
        let mut open = self.open.lock();
        if open.len() >= MAX_STRANGERS
            && let Some((_, oldest)) = open.pop_front()
        {
            oldest.cancel();
        }
        open.push_back((id, evicted.clone()));
        (id, evicted)
    }

    fn remove(&self, id: u64) {
        self.open.lock().retain(|(other, _)| *other != id);
    }
}

/// The state shared by the connections of a listener.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) router: Router,
    pub(super) acceptor: Option<TlsAcceptor>,
    /// The permits of connections with a valid token.
    pub(super) permits: Arc<Semaphore>,
    pub(super) strangers: Arc<Strangers>,
    /// Cancelled to stop accepting; open connections close after their current response.
    pub(super) shutdown: CancellationToken,
    pub(super) tasks: TaskTracker,
    /// The lifetime of a connection without a valid token.
    pub(super) stranger_timeout: Duration,
}

impl Server {
    /// Accepts connections until shutdown.
    pub(super) async fn run(self, listener: Listener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.shutdown.cancelled() => break,
            };
            match accepted {
                Ok(Accepted::Tcp(stream, from)) => {
                    // Responses are small; without this, Nagle's algorithm delays them.
                    let _ignored = stream.set_nodelay(true);
                    self.spawn_connection(stream, from);
                }
                Ok(Accepted::Unix(stream, from)) => self.spawn_connection(stream, from),
                Err(error) => {
                    // Probably out of file descriptors; retry after some are closed.
                    warn!(%error, "HTTP accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn spawn_connection(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        from: String,
    ) {
        let (id, evicted) = self.strangers.admit();
        let peer = Peer(Arc::new(Connection {
            from,
            permits: Arc::clone(&self.permits),
            permit: OnceLock::new(),
            strangers: Arc::clone(&self.strangers),
            evicted,
            id,
        }));
        let this = self.clone();
        self.tasks.spawn(async move {
            let lifetime = this.stranger_timeout;
            let stream = WriteTimeout::new(stream, WRITE_TIMEOUT);
            let served = this.serve_stream(stream, peer.clone());
            tokio::select! {
                () = served => {}
                () = peer.evicted(lifetime) => {
                    debug!(from = peer.from(), "HTTP connection without token closed");
                }
            }
        });
    }

    async fn serve_stream(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
    ) {
        match self.acceptor.clone() {
            None => self.serve_connection(stream, peer).await,
            Some(acceptor) => match acceptor.accept(stream).await {
                Ok(stream) => self.serve_connection(stream, peer).await,
                Err(error) => debug!(%error, "TLS handshake failed"),
            },
        }
    }

    async fn serve_connection(
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
                .header_read_timeout(HEAD_TIMEOUT)
                .max_headers(MAX_HEADERS)
                .max_buf_size(MAX_HEAD_SIZE)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
        );
        let result = tokio::select! {
            result = connection.as_mut() => result,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match timeout(SHUTDOWN_TIMEOUT, connection).await {
                    Ok(result) => result,
                    Err(_) => return debug!("HTTP connection did not close during shutdown"),
                }
            }
        };
        if let Err(error) = result {
            debug!(%error, "HTTP connection failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn start(stranger_timeout: Duration) -> (std::net::SocketAddr, Arc<Strangers>) {
        let (tasks, strangers) = (TaskTracker::new(), Arc::new(Strangers::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server {
            router: Router::new(),
            acceptor: None,
            permits: Arc::new(Semaphore::new(1)),
            strangers: Arc::clone(&strangers),
            shutdown: CancellationToken::new(),
            tasks: tasks.clone(),
            stranger_timeout,
        };
        tasks.spawn(server.run(Listener::Tcp(listener)));
        (address, strangers)
    }

    async fn closed(stream: &mut TcpStream) {
        let mut response = Vec::new();
        // A reset is an end as well.
        let end = timeout(Duration::from_secs(60), stream.read_to_end(&mut response)).await;
        assert!(end.is_ok(), "not closed");
    }

    #[tokio::test]
    async fn connection_without_token_is_closed_after_its_lifetime() {
        let (address, _) = start(Duration::from_millis(20)).await;

        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();

        closed(&mut slow).await;
    }

    #[tokio::test]
    async fn full_pool_closes_the_oldest_connection_for_a_new_one() {
        let (address, strangers) = start(Duration::from_secs(3600)).await;
        let mut oldest = TcpStream::connect(address).await.unwrap();
        let mut idle = Vec::new();
        for _ in 0..MAX_STRANGERS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }

        closed(&mut oldest).await;

        let newest = idle.last_mut().unwrap();
        newest.write_all(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut response = String::new();
        newest.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 404"), "{response}");
        assert!(strangers.open.lock().len() <= MAX_STRANGERS);
    }
}
