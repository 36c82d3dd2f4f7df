//! The server: one thread on which all connections are served.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::authority::PLAYED;
use super::request::RecordedRequest;
use super::state::State;

/// Opens a free port.
pub(super) fn listen() -> (StdListener, SocketAddr) {
    let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
    listener.set_nonblocking(true).expect("a socket can be polled");
    let address = listener.local_addr().expect("a bound socket has an address");
    (listener, address)
}

/// Serves until the sender of `ended` is dropped, and then drops all connections.
pub(super) fn run(
    listener: StdListener,
    acceptor: TlsAcceptor,
    state: &Arc<State>,
    ended: oneshot::Receiver<()>,
) {
    let runtime = runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).expect("the socket can be polled");
        tokio::select! {
            () = serve(listener, acceptor, state) => {}
            _ = ended => {}
        }
    });
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, state: &Arc<State>) {
    let (tunnels, mut opened) = mpsc::unbounded_channel();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // An agent may be killed before it is served.
                let Ok((stream, _)) = accepted else { continue };
                let connection = Connection { state: Arc::clone(state), tunnels: tunnels.clone() };
                connections.spawn(connection.serve(TokioIo::new(stream)));
            }
            Some(tunnel) = opened.recv() => {
                let connection = Connection { state: Arc::clone(state), tunnels: tunnels.clone() };
                connections.spawn(serve_tunnel(tunnel, acceptor.clone(), connection));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Plays the host to which a tunnel was opened.
async fn serve_tunnel(tunnel: OnUpgrade, acceptor: TlsAcceptor, connection: Connection) {
    // An agent may disconnect during the handshake.
    let Ok(upgraded) = tunnel.await else { return };
    let Ok(stream) = acceptor.accept(TokioIo::<Upgraded>::new(upgraded)).await else { return };
    connection.serve(TokioIo::new(stream)).await;
}

/// The handler of one connection.
struct Connection {
    state: Arc<State>,
    tunnels: mpsc::UnboundedSender<OnUpgrade>,
}

impl Connection {
    async fn serve<S>(self, stream: TokioIo<S>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let service = service_fn(|request| self.respond(request));
        // Agents may disconnect at any time.
        let _ended = http1::Builder::new().serve_connection(stream, service).with_upgrades().await;
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        if request.method() == Method::CONNECT {
            return Ok(self.open_tunnel(request));
        }
        let reply = self.state.answer(read(request).await).await;
        let mut response = Response::new(Full::from(reply.body));
        *response.status_mut() = StatusCode::from_u16(reply.status).expect("a status of HTTP");
        let content_type = reply.content_type.parse().expect("a header of ours");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        Ok(response)
    }

    fn open_tunnel(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::default());
        let host = request.uri().host().unwrap_or_default();
        if PLAYED.contains(&host) {
            // The receiver is gone only when the server stops.
            let _served = self.tunnels.send(hyper::upgrade::on(request));
        } else {
            self.state.refuse(host);
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        response
    }
}

async fn read(request: Request<Incoming>) -> RecordedRequest {
    let (head, body) = request.into_parts();
    // An agent may be killed while it sends.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers =
        head.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes())));
    RecordedRequest {
        method: head.method.to_string(),
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: headers.collect(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    }
}
