//! The life of the daemon: lock, socket, ready, recovery, service, end.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::file::FileError;
use host::household::Household;
use host::ledger::{Ledger, OpenedLedger};
use host::lock::{self, Lock};
use host::root::UnusableRoot;
use host::store::{Opened, SetAside, Store, StoreError};
use host::{StateRoot, mounts, process, socket};
use protocol::client::CONTROL_SOCKET;
use protocol::{ErrorBody, ErrorCode};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::follow::{Follower, News};
use crate::locks::{Locks, Workers};
use crate::logging;
use crate::registry::Registry;
use crate::supervisor::{Supervisor, point};

/// How long a graceful stop waits for what only watches.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// Held while a daemon runs.
const INSTANCE_LOCK: &str = "daemon.lock";

/// What a daemon needs to know.
#[derive(Debug)]
pub struct Setup {
    /// The state root.
    pub home: PathBuf,
    /// The program to start keepers with, as `exe keeper`.
    pub exe: PathBuf,
    /// A pipe to the process that started us. It gets one line: `ready`, or an [`ErrorBody`] as
    /// JSON.
    pub ready: Option<File>,
}

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The state root cannot be used.
    #[error(transparent)]
    Root(#[from] UnusableRoot),
    /// There is one already.
    #[error("a daemon is already running for `{}`", .0.display())]
    AlreadyRunning(PathBuf),
    /// The system refused a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The registry cannot be opened, or could not be made whole.
    #[error(transparent)]
    Registry(#[from] StoreError),
    /// The system refused something else.
    #[error("cannot start the daemon: {0}")]
    System(#[from] io::Error),
}

impl From<&StartError> for ErrorBody {
    fn from(error: &StartError) -> Self {
        let running = matches!(error, StartError::AlreadyRunning(_));
        let code = if running { ErrorCode::Conflict } else { ErrorCode::Failed };
        let body = Self::new(code, error.to_string());
        match error {
            StartError::Root(root) => body.hint(root.hint()),
            StartError::AlreadyRunning(_) => body.hint("stop it with `ccmux daemon stop`"),
            StartError::Registry(StoreError::TooNew { .. }) => {
                body.hint("install the newer release again, or choose another CCMUX_HOME")
            }
            StartError::Registry(error) if error.is_full() => body.hint("make room on the disk"),
            StartError::File(error) if error.is_full() => body.hint("make room on the disk"),
            StartError::File(_) | StartError::Registry(_) | StartError::System(_) => body,
        }
    }
}

impl From<StartError> for ErrorBody {
    fn from(error: StartError) -> Self {
        Self::from(&error)
    }
}

/// Is the daemon, until it is asked to stop. Panes run on.
///
/// # Errors
///
/// [`StartError`]; whoever waits at the other end of `setup.ready` was told.
pub fn run(setup: Setup) -> Result<(), StartError> {
    let Setup { home, exe, ready } = setup;
    let started = Started::new(&home, exe);
    if let Some(ready) = ready {
        tell(ready, started.as_ref().err());
    }
    started?.run()
}

fn tell(mut ready: File, failed: Option<&StartError>) {
    let line = match failed {
        None => "ready".to_owned(),
        Some(error) => serde_json::to_string(&ErrorBody::from(error))
            .expect("an error body has string keys only"),
    };
    // Who started us may have given up waiting.
    let _unheard = writeln!(ready, "{line}");
}

/// A daemon that holds the lock and the socket, and has not yet recovered.
struct Started {
    root: StateRoot,
    exe: PathBuf,
    boot: String,
    listener: UnixListener,
    set_aside: Option<SetAside>,
    registry: Registry,
    ledger: OpenedLedger,
    runtime: Runtime,
    /// Let go of last.
    _lock: Lock,
}

impl Started {
    fn new(home: &std::path::Path, exe: PathBuf) -> Result<Self, StartError> {
        let root = StateRoot::open(home)?;
        // While there is no thread but this one.
        let left =
            mounts::leave_pane(&root.shared(), &Household::of(&root.path().to_string_lossy()));
        let lock = lock::take_file(&root.run().join(INSTANCE_LOCK))?
            .ok_or_else(|| StartError::AlreadyRunning(home.to_owned()))?;
        logging::begin(&root.run())?;
        if let Err(error) = left {
            warn!(%error, "started in a pane, and cannot write to what panes share");
        }
        let listener = socket::listen_in(&root.run(), CONTROL_SOCKET)?;
        listener.set_nonblocking(true)?;
        match Self::open(&root) {
            Ok((Opened { store, set_aside }, ledger, boot, runtime)) => {
                let registry = Registry::start(store)?;
                info!(pid = std::process::id(), version = env!("CARGO_PKG_VERSION"), "started");
                let _lock = lock;
                Ok(Self { root, exe, boot, listener, set_aside, registry, ledger, runtime, _lock })
            }
            Err(error) => {
                error!(%error, "cannot start");
                remove_socket(&root);
                Err(error)
            }
        }
    }

    /// What can only be refused before anybody is told that we are ready.
    fn open(root: &StateRoot) -> Result<(Opened, OpenedLedger, String, Runtime), StartError> {
        let opened = Store::open(root)?;
        let ledger = Ledger::open(root)?;
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok((opened, ledger, process::boot_id()?, runtime))
    }

    fn run(self) -> Result<(), StartError> {
        let Self { root, exe, boot, listener, set_aside, registry, mut ledger, runtime, _lock } =
            self;
        let socket_root = root.clone();
        let (follower, news) = Follower::new();
        let set_aside = [set_aside, ledger.set_aside.take()].into_iter().flatten().collect();
        let (tasks, ending) = (TaskTracker::new(), CancellationToken::new());
        let workers = Workers {
            tasks: tasks.clone(),
            ending: ending.clone(),
            runtime: runtime.handle().clone(),
        };
        let locks = Locks::start(ledger, &boot, workers)?;
        let supervisor =
            Arc::new(Supervisor::new(root, exe, boot, registry, locks, follower, (tasks, ending)));
        let result = runtime.block_on(live(&supervisor, listener, set_aside, news));
        remove_socket(&socket_root);
        runtime.shutdown_timeout(Duration::from_secs(1));
        info!("ended");
        result
    }
}

fn remove_socket(root: &StateRoot) {
    // One that is left is removed by the next daemon.
    let _left = fs::remove_file(root.run().join(CONTROL_SOCKET));
}

async fn live(
    supervisor: &Arc<Supervisor>,
    listener: UnixListener,
    set_aside: Vec<SetAside>,
    news: News,
) -> Result<(), StartError> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let stops = stop_signals()?;
    supervisor.tasks.spawn(stop_on_signal(Arc::clone(supervisor), stops));
    supervisor.tasks.spawn(Arc::clone(supervisor).keep_index());
    supervisor.tasks.spawn(Arc::clone(supervisor).keep_states());
    supervisor.tasks.spawn(Arc::clone(supervisor).keep_following(news));
    supervisor.tasks.spawn(Arc::clone(supervisor).keep_watch());
    supervisor.tasks.spawn(Arc::clone(supervisor).keep_commons());
    let serving = supervisor.tasks.spawn(Arc::clone(supervisor).serve(listener));
    point("recover.bound").await;
    let recovered = match Box::pin(supervisor.recover(set_aside)).await {
        Ok(()) => Box::pin(supervisor.take_back_pending()).await,
        failed => failed,
    };
    match &recovered {
        Ok(()) => {
            supervisor.release_locks_of_the_dead().await;
            supervisor.open_messages().await;
            supervisor.tasks.spawn(Arc::clone(supervisor).keep_lock_snapshot());
            point("recover.done").await;
            supervisor.recovered.send_replace(true);
            supervisor.tasks.spawn(Arc::clone(supervisor).keep_tidy());
            supervisor.serve_configured_http().await;
        }
        Err(error) => {
            error!(%error, "recovery failed");
            supervisor.stopping.cancel();
        }
    }
    if let Err(failed) = serving.await {
        error!(%failed, "the control socket failed");
    }
    supervisor.stopping.cancel();
    supervisor.http.last_answers().await;
    supervisor.ending.cancel();
    supervisor.tasks.close();
    if tokio::time::timeout(LAST_TASKS, supervisor.tasks.wait()).await.is_err() {
        info!(left = supervisor.tasks.len(), "tasks are still running");
    }
    supervisor.registry.close().await;
    supervisor.locks.close().await;
    Ok(recovered?)
}

/// The signals that end the daemon, and those that must not.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// Caught and not "ignored", which keepers would inherit.
    hang_up: Signal,
}

fn stop_signals() -> io::Result<StopSignals> {
    Ok(StopSignals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hang_up: signal(SignalKind::hangup())?,
    })
}

async fn stop_on_signal(supervisor: Arc<Supervisor>, mut signals: StopSignals) {
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
            _ = signals.hang_up.recv() => {}
            () = supervisor.stopping.cancelled() => return,
        }
    }
    info!("stopped by a signal");
    supervisor.stopping.cancel();
}
