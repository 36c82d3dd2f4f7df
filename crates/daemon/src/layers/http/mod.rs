//! The HTTP API: a thin layer over the operations, like the control socket.
//!
//! ```text
//!  server     connections, limits, TLS; one task per connection
//!    |
//!  problem    error bodies (RFC 9457)
//!    |
//!  guard      host and origin checks, tokens, rate limits, audit events
//!    |
//!  handlers   one file per resource: body -> operation -> body
//! ```
//!
//! Routes and the OpenAPI description share one declaration ([`openapi`]).

mod attach;
mod doctor;
mod events;
mod extract;
mod guard;
mod listener;
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
mod tls;
mod tokens;
mod wording;
mod write_timeout;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use host::file::FileError;
use host::store::StoreError;
use host::user;
use model::authority::Caller;
use model::config::HttpConfig;
use model::http::{Bucket, DEFAULT_LISTEN, HostPolicy, InvalidListen, Listen, Scope};
use parking_lot::{Mutex, MutexGuard};
use protocol::http::{ServeRequest, Serving, TokenRequest, TokenView};
use protocol::{ErrorBody, ErrorCode};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::listener::Listener;
use self::metrics::Metrics;
use self::problem::ApiError;
use self::server::Strangers;
use self::tokens::Tokens;
use crate::fault::{Failure, Fault};
use crate::operations::Services;
use crate::registry::{as_caller, current_caller};
use crate::runtime::run_blocking;

/// The maximum number of open connections with a valid token.
const MAX_CONNECTIONS: usize = 256;

/// The time that shutdown waits for pending responses.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(8);

/// The state of the HTTP API, which exists even if the daemon does not listen.
pub(crate) struct Http {
    services: Arc<Services>,
    tokens: Arc<Tokens>,
    listening: Mutex<Option<Listening>>,
    connections: Arc<Semaphore>,
    strangers: Arc<Strangers>,
    metrics: Metrics,
}

/// An open listener.
#[derive(Clone)]
struct Listening {
    address: Listen,
    tls: bool,
    shutdown: CancellationToken,
}

/// The state passed to every handler.
#[derive(Clone)]
pub(crate) struct Api(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) services: Arc<Services>,
    pub(crate) http: Arc<Http>,
    /// The environment that panes started over HTTP inherit from.
    pub(crate) client_env: BTreeMap<String, String>,
    host_policy: HostPolicy,
    rate: u32,
    buckets: Mutex<[Bucket; Scope::ALL.len()]>,
    /// The time origin of the buckets.
    since: Instant,
    /// The contents of `openapi.json`.
    description: Bytes,
}

impl std::ops::Deref for Api {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Api {
    /// Returns the directory of panes started without one.
    pub(crate) fn users_home(&self) -> String {
        self.client_env.get("HOME").cloned().unwrap_or_else(|| "/".to_owned())
    }

    /// Runs an operation to completion, even if the client disconnects.
    pub(crate) async fn perform<T: Send + 'static, E: Fault, F>(
        &self,
        operation: impl FnOnce(Arc<Services>, Caller) -> F,
    ) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let caller = current_caller();
        let work = operation(Arc::clone(&self.services), caller);
        let work = self.services.runtime.tasks.spawn(as_caller(caller, work));
        let done = work.await.map_err(|failed| ApiError::internal(&failed))?;
        done.map_err(|error| wording::api_error(&error))
    }
}

impl Http {
    pub(crate) fn new(services: Arc<Services>) -> Self {
        let tokens = Arc::new(Tokens::new(&services.runtime.root));
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let metrics = Metrics::default();
        Self {
            services,
            tokens,
            listening: Mutex::default(),
            connections,
            strangers: Arc::default(),
            metrics,
        }
    }

    fn listening(&self) -> MutexGuard<'_, Option<Listening>> {
        self.listening.lock()
    }

    /// Returns the base URL of the API, or `None` if the daemon does not listen.
    pub(crate) fn url(&self) -> Option<String> {
        self.listening().as_ref().map(Listening::url)
    }

    /// Closes the listener at an address, if there is one.
    pub(crate) fn stop_listening(&self, address: &str) {
        let closed = self.listening().take_if(|listening| listening.address.to_string() == address);
        if let Some(listening) = closed {
            info!(%address, "HTTP listener closed");
            listening.shutdown.cancel();
        }
    }

    /// Waits for pending responses, up to a timeout.
    pub(crate) async fn last_answers(&self) {
        let all = u32::try_from(MAX_CONNECTIONS).expect("the limit fits into u32");
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.connections.acquire_many(all)).await.is_err()
        {
            info!("shutdown timed out waiting for HTTP responses");
        }
    }
}

impl Listening {
    fn url(&self) -> String {
        match &self.address {
            Listen::Tcp(address) if self.tls => format!("https://{address}"),
            Listen::Tcp(address) => format!("http://{address}"),
            Listen::Unix(_) => self.address.to_string(),
        }
    }
}

impl Http {
    /// Listens at the configured address, if there is one. A failure is reported as a problem and
    /// does not stop the daemon.
    pub(crate) async fn serve_configured(self: &Arc<Self>) {
        let listen = match self.services.runtime.config().await {
            Ok(config) => config.http.listen.clone(),
            // Operations that need the configuration report the error.
            Err(_) => None,
        };
        let Some(listen) = listen else { return };
        let root = self.services.runtime.root.path().to_owned();
        let client_env = run_blocking(move || user::login_environment(&root)).await;
        let request = ServeRequest { listen: Some(listen.to_string()), hold: false, client_env };
        if let Err(failure) = self.serve(request).await {
            self.services.runtime.add_problem(format!("HTTP API not served: {failure}"));
        }
    }

    /// Starts to listen for HTTP, or returns the existing listener.
    pub(crate) async fn serve(self: &Arc<Self>, request: ServeRequest) -> Result<Serving, Failure> {
        let config = self.services.runtime.config().await?;
        let requested = request.listen.as_deref().map(str::parse::<Listen>).transpose();
        let requested = requested.map_err(|error| invalid_address(&error))?;
        if let Some(serving) = self.already_serving(requested.as_ref())? {
            return Ok(serving);
        }
        let default = || DEFAULT_LISTEN.parse().expect("the default address is valid");
        let address = requested.or_else(|| config.http.listen.clone()).unwrap_or_else(default);
        let acceptor = match &address {
            Listen::Tcp(_) => {
                let http = config.http.clone();
                run_blocking(move || tls::acceptor(&http)).await?
            }
            Listen::Unix(_) => None,
        };
        if let Listen::Tcp(tcp) = &address
            && !tcp.ip().is_loopback()
            && acceptor.is_none()
        {
            return Err(unprotected(&address).into());
        }
        self.read_token(Scope::Control, false).await?;
        let listener =
            Listener::open(&address).await.map_err(|why| cannot_listen(&address, &why))?;
        let address = listener.address().map_err(|why| cannot_listen(&address, &why))?;
        let shutdown = self.services.runtime.stopping.child_token();
        let tls = acceptor.is_some();
        let listening = Listening { address: address.clone(), tls, shutdown: shutdown.clone() };
        let serving = Serving { began: true, ..self.serving(&listening) };
        {
            let mut current = self.listening();
            if let Some(other) = &*current {
                // Another request has started to listen in the meantime.
                return Ok(self.serving(other));
            }
            *current = Some(listening);
        }
        info!(%address, tls, "HTTP listener opened");
        let router = self.router(address, tls, &config.http, request.client_env);
        let server = server::Server {
            router,
            acceptor,
            permits: Arc::clone(&self.connections),
            strangers: Arc::clone(&self.strangers),
            shutdown,
            tasks: self.services.runtime.tasks.clone(),
            stranger_timeout: server::STRANGER_TIMEOUT,
        };
        let (tokens, file_watch) =
            (Arc::clone(&self.tokens), self.services.runtime.file_watch.clone());
        let watch = run_blocking(move || tokens.watch(&file_watch)).await;
        self.services.runtime.tasks.spawn(async move {
            server.run(listener).await;
            run_blocking(move || drop(watch)).await;
        });
        Ok(serving)
    }

    /// Makes the router of a listener.
    fn router(
        self: &Arc<Self>,
        address: Listen,
        tls: bool,
        config: &HttpConfig,
        client_env: BTreeMap<String, String>,
    ) -> Router {
        let host_policy = HostPolicy {
            address,
            tls,
            hosts: config.allowed_hosts.clone(),
            origins: config.allowed_origins.clone(),
        };
        let (router, description) = openapi::router();
        let api = Api(Arc::new(Shared {
            services: Arc::clone(&self.services),
            http: Arc::clone(self),
            client_env,
            host_policy,
            rate: config.rate,
            buckets: Mutex::default(),
            since: Instant::now(),
            description: description.into(),
        }));
        guard::wrap(router, &api)
    }

    /// Returns the existing listener if it satisfies the request.
    fn already_serving(&self, requested: Option<&Listen>) -> Result<Option<Serving>, ErrorBody> {
        let Some(listening) = self.listening().clone() else { return Ok(None) };
        let same = |requested: &Listen| match (requested, &listening.address) {
            // Any port is good enough.
            (Listen::Tcp(requested), Listen::Tcp(_)) if requested.port() == 0 => true,
            (requested, current) => requested == current,
        };
        if requested.is_none_or(same) {
            return Ok(Some(self.serving(&listening)));
        }
        let message = format!("the HTTP API is already served at {}", listening.url());
        Err(ErrorBody::new(ErrorCode::Conflict, message)
            .hint("use that address, or stop the process that serves the API there"))
    }

    fn serving(&self, listening: &Listening) -> Serving {
        Serving {
            address: listening.address.to_string(),
            url: listening.url(),
            token_file: self.tokens.path(Scope::Control).to_string_lossy().into_owned(),
            began: false,
        }
    }

    /// Returns a token, replacing it first if requested.
    pub(crate) async fn token(
        self: &Arc<Self>,
        request: TokenRequest,
    ) -> Result<TokenView, Failure> {
        let token = self.read_token(request.scope, request.rotate).await?;
        let file = self.tokens.path(request.scope).to_string_lossy().into_owned();
        Ok(TokenView { token, scope: request.scope, file })
    }

    async fn read_token(self: &Arc<Self>, scope: Scope, rotate: bool) -> Result<String, ErrorBody> {
        let tokens = Arc::clone(&self.tokens);
        let token =
            run_blocking(move || if rotate { tokens.rotate(scope) } else { tokens.get(scope) });
        token.await.map_err(|error| unusable_token(&error))
    }
}

/// Converts an error of the registry.
#[expect(clippy::needless_pass_by_value, reason = "used as a function of `map_err`")]
fn unread(error: StoreError) -> ApiError {
    wording::api_error(&error)
}

fn unusable_token(error: &FileError) -> ErrorBody {
    warn!(%error, "HTTP token file unusable");
    ErrorBody::new(ErrorCode::Failed, format!("cannot use the token file: {error}"))
        .hint("create a new token with `ccmux token --rotate`")
}

fn invalid_address(error: &InvalidListen) -> ErrorBody {
    ErrorBody::new(ErrorCode::Usage, format!("invalid listen address: {error}")).hint(
        "use ADDRESS:PORT, for example 127.0.0.1:8765 (port 0 selects a free port), or unix:PATH",
    )
}

fn unprotected(address: &Listen) -> ErrorBody {
    let message = format!("cannot listen at {address} without TLS: it is not a loopback address");
    ErrorBody::new(ErrorCode::Conflict, message)
        .hint("set http.tls_cert and http.tls_key in ccmux.toml, or listen at 127.0.0.1")
}

fn cannot_listen(address: &Listen, why: &std::io::Error) -> ErrorBody {
    let in_use = why.kind() == std::io::ErrorKind::AddrInUse;
    let code = if in_use { ErrorCode::Conflict } else { ErrorCode::Failed };
    ErrorBody::new(code, format!("cannot listen at {address}: {why}"))
        .hint("choose another address with --listen; port 0 selects a free port")
}
