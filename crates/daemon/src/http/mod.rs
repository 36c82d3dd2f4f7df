//! The HTTP API: a skin over the operations, like the control socket.
//!
//! ```text
//!  server     accepts, bounds, TLS        one task per connection
//!    |
//!  problem    every error leaves as one   RFC 9457
//!    |
//!  guard      names, origins, tokens, rates, who did what
//!    |
//!  handlers   one file per kind of thing: body -> Request -> perform -> body
//! ```
//!
//! The description that callers read is made of the same declarations as the routes ([`openapi`]).

mod attach;
mod doctor;
mod events;
mod extract;
mod guard;
mod locks;
mod messages;
mod metrics;
mod openapi;
mod page;
mod panes;
mod problem;
mod runs;
mod server;
mod sessions;
mod stall;
mod tls;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use host::file::FileError;
use host::store::StoreError;
use host::token::TokenFile;
use host::{StateRoot, user};
use model::http::{Bucket, DEFAULT_LISTEN, Doors, Scope};
use protocol::control::{Request, Response};
use protocol::http::{ServeRequest, Serving, TokenRequest, TokenView};
use protocol::{ErrorBody, ErrorCode};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::command::Failure;
use crate::supervisor::{Supervisor, run_blocking};
use metrics::Metrics;
use problem::Refused;

/// How many connections there may be at once.
const CONNECTIONS: usize = 256;

/// How long the end of the daemon waits for answers that are on their way.
const LAST_ANSWERS: Duration = Duration::from_secs(8);

/// What the daemon keeps about the API, listening or not.
pub(crate) struct Http {
    tokens: Tokens,
    listening: Mutex<Option<Listening>>,
    connections: Arc<Semaphore>,
    metrics: Metrics,
}

/// Where we listen.
#[derive(Clone)]
struct Listening {
    address: SocketAddr,
    tls: bool,
    end: CancellationToken,
}

/// The tokens, one for each scope.
struct Tokens {
    read: TokenFile,
    control: TokenFile,
}

impl Tokens {
    fn of(&self, scope: Scope) -> &TokenFile {
        match scope {
            Scope::Read => &self.read,
            Scope::Control => &self.control,
        }
    }
}

/// What every handler is given.
#[derive(Clone)]
pub(crate) struct Api(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) supervisor: Arc<Supervisor>,
    /// What panes that are asked for over HTTP may take over.
    pub(crate) client_env: BTreeMap<String, String>,
    doors: Doors,
    rate: u32,
    buckets: Mutex<[Bucket; Scope::ALL.len()]>,
    /// The clock of the buckets.
    since: Instant,
    /// `openapi.json`.
    description: Bytes,
}

impl std::ops::Deref for Api {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Api {
    /// Where a pane is started that has nothing to work on.
    pub(crate) fn users_home(&self) -> String {
        self.client_env.get("HOME").cloned().unwrap_or_else(|| "/".to_owned())
    }

    /// Does what was asked, to its end even if the caller goes away.
    pub(crate) async fn perform(&self, request: Request) -> Result<Response, Refused> {
        let work = self.supervisor.tasks.spawn(Arc::clone(&self.supervisor).perform(request));
        Ok(work.await.map_err(|failed| Refused::crashed(&failed))??)
    }
}

impl Http {
    pub(crate) fn new(root: &StateRoot) -> Self {
        let tokens = Tokens {
            read: TokenFile::new(root.run().join("token.read")),
            control: TokenFile::new(root.run().join("token")),
        };
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        let metrics = Metrics::default();
        Self { tokens, listening: Mutex::default(), connections, metrics }
    }

    fn listening(&self) -> MutexGuard<'_, Option<Listening>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What requests begin with, while we listen.
    pub(crate) fn url(&self) -> Option<String> {
        self.listening().as_ref().map(Listening::url)
    }

    /// Stops to listen at this address, if we do.
    pub(crate) fn stop_listening(&self, address: &str) {
        let ended = self.listening().take_if(|listening| listening.address.to_string() == address);
        if let Some(listening) = ended {
            info!(%address, "no longer listening for HTTP");
            listening.end.cancel();
        }
    }

    /// Waits until what was asked is answered, but not for ever.
    pub(crate) async fn last_answers(&self) {
        let all = u32::try_from(CONNECTIONS).expect("it is a small number");
        if tokio::time::timeout(LAST_ANSWERS, self.connections.acquire_many(all)).await.is_err() {
            info!("HTTP clients are still waiting for answers they will not get");
        }
    }
}

impl Listening {
    fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
}

impl Supervisor {
    /// Listens where the configuration says, if it says so. That it cannot is a problem of the
    /// API, and not of the daemon.
    pub(crate) async fn serve_configured_http(self: &Arc<Self>) {
        let listen = match self.config().await {
            Ok(config) => config.http.listen,
            // Whoever needs the configuration is told what is wrong with it.
            Err(_) => None,
        };
        let Some(listen) = listen else { return };
        let root = self.root.path().to_owned();
        let client_env = run_blocking(move || user::login_environment(&root)).await;
        let request = ServeRequest { listen: Some(listen.to_string()), hold: false, client_env };
        if let Err(failure) = self.serve_http(request).await {
            let why = failure.into_body().message;
            self.add_problem(format!("the HTTP API is not served: {why}"));
        }
    }

    /// Listens for HTTP, unless we do already.
    pub(crate) async fn serve_http(
        self: &Arc<Self>,
        request: ServeRequest,
    ) -> Result<Response, Failure> {
        let config = self.config().await?;
        let address: SocketAddr = match &request.listen {
            Some(text) => text.parse().map_err(|_| no_address(text))?,
            None => config.http.listen.unwrap_or(DEFAULT_LISTEN.parse().expect("it is one")),
        };
        if let Some(serving) = self.already_serving(request.listen.is_some().then_some(address))? {
            return Ok(Response::Serving(serving));
        }
        let http = config.http.clone();
        let acceptor = run_blocking(move || tls::acceptor(&http)).await?;
        if !address.ip().is_loopback() && acceptor.is_none() {
            return Err(unprotected(address).into());
        }
        self.make_token(Scope::Control, false).await?;
        let listener = TcpListener::bind(address).await.map_err(|why| taken(address, &why))?;
        let address = listener.local_addr().map_err(|why| taken(address, &why))?;
        let end = self.stopping.child_token();
        let listening = Listening { address, tls: acceptor.is_some(), end: end.clone() };
        let serving = Serving { began: true, ..self.serving(&listening) };
        {
            let mut current = self.http.listening();
            if let Some(other) = &*current {
                // Somebody was quicker.
                return Ok(Response::Serving(self.serving(other)));
            }
            *current = Some(listening);
        }
        info!(%address, tls = acceptor.is_some(), "listening for HTTP");
        let doors = Doors {
            address,
            tls: acceptor.is_some(),
            hosts: config.http.allowed_hosts.clone(),
            origins: config.http.allowed_origins.clone(),
        };
        let (router, description) = openapi::router();
        let api = Api(Arc::new(Shared {
            supervisor: Arc::clone(self),
            client_env: request.client_env,
            doors,
            rate: config.http.rate,
            buckets: Mutex::default(),
            since: Instant::now(),
            description: description.into(),
        }));
        let router = guard::around(router, &api);
        let permits = Arc::clone(&self.http.connections);
        let tasks = self.tasks.clone();
        let server = server::Server { router, acceptor, permits, end, tasks, head: server::HEAD };
        self.tasks.spawn(server.run(listener));
        Ok(Response::Serving(serving))
    }

    /// Where we listen already, if that is what was asked for.
    fn already_serving(&self, asked: Option<SocketAddr>) -> Result<Option<Serving>, ErrorBody> {
        let Some(listening) = self.http.listening().clone() else { return Ok(None) };
        let same = |asked: SocketAddr| asked == listening.address || asked.port() == 0;
        if asked.is_none_or(same) {
            return Ok(Some(self.serving(&listening)));
        }
        let message = format!("the HTTP API is already served at {}", listening.url());
        Err(ErrorBody::new(ErrorCode::Conflict, message)
            .hint("use that address, or end what serves it there"))
    }

    fn serving(&self, listening: &Listening) -> Serving {
        Serving {
            address: listening.address.to_string(),
            url: listening.url(),
            token_file: self.http.tokens.control.path().to_string_lossy().into_owned(),
            began: false,
        }
    }

    /// Shows or replaces a token.
    pub(crate) async fn token(
        self: &Arc<Self>,
        request: TokenRequest,
    ) -> Result<Response, Failure> {
        let token = self.make_token(request.scope, request.rotate).await?;
        let file = self.http.tokens.of(request.scope).path().to_string_lossy().into_owned();
        Ok(Response::Token(TokenView { token, scope: request.scope, file }))
    }

    async fn make_token(
        self: &Arc<Self>,
        scope: Scope,
        another: bool,
    ) -> Result<String, ErrorBody> {
        let this = Arc::clone(self);
        let made = run_blocking(move || {
            let file = this.http.tokens.of(scope);
            if another { file.replace() } else { file.get() }
        });
        made.await.map_err(|error| unusable_token(&error))
    }
}

/// The registry could not be read.
fn unread(error: StoreError) -> Refused {
    Failure::from(error).into_body().into()
}

fn unusable_token(error: &FileError) -> ErrorBody {
    warn!(%error, "the token of the HTTP API cannot be used");
    ErrorBody::new(ErrorCode::Failed, format!("the token cannot be used: {error}"))
        .hint("`ccmux token --rotate` makes another one")
}

fn no_address(text: &str) -> ErrorBody {
    let message = format!("{text:?} is no address to listen at");
    ErrorBody::new(ErrorCode::Usage, message)
        .hint("give an address and a port, such as 127.0.0.1:8765; port 0 takes a free one")
}

fn unprotected(address: SocketAddr) -> ErrorBody {
    let message =
        format!("{address} can be reached from other machines, and no TLS certificate is set");
    ErrorBody::new(ErrorCode::Conflict, message)
        .hint("set http.tls_cert and http.tls_key in ccmux.toml, or listen at 127.0.0.1")
}

fn taken(address: SocketAddr, why: &std::io::Error) -> ErrorBody {
    let in_use = why.kind() == std::io::ErrorKind::AddrInUse;
    let code = if in_use { ErrorCode::Conflict } else { ErrorCode::Failed };
    ErrorBody::new(code, format!("cannot listen at {address}: {why}"))
        .hint("choose another address with --listen; port 0 takes a free one")
}
