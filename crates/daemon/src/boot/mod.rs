//! Startup and shutdown of the daemon: instance lock, control socket, readiness, recovery, service.

mod instance;
mod logging;
mod recover;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::file::FileError;
use host::lock::{self, Lock};
use host::lock_store::{LockStore, OpenedLockStore};
use host::own_processes::OwnProcesses;
use host::reserve::DiskReserve;
use host::root::UnusableRoot;
use host::root_identity::ExaminedRoot;
use host::store::{Opened, SetAside, Store, StoreError};
use host::{StateRoot, mounts, process, socket};
use protocol::control::SOCKET as CONTROL_SOCKET;
use protocol::{ErrorBody, ErrorCode};
use tokio::runtime::{Builder, Runtime as Tokio};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

pub use self::instance::RunningDaemon;
use self::recover::Recovery;
use crate::coordination::locks::{Locks, TaskContext};
use crate::layers::control::{Control, RecoveryState};
use crate::layers::http::Http;
use crate::operations::{self, Services};
use crate::panes::AgentUpdates;
use crate::registry::Registry;
use crate::runtime::{Runtime, point};

/// How long a graceful stop waits for background tasks.
const TASK_GRACE: Duration = Duration::from_secs(2);

/// How long a daemon that cannot recover tells clients the reason before it exits.
const FAILURE_GRACE: Duration = Duration::from_secs(2);

/// How long recovery may take. Reading thousands of records takes seconds; only a file system or a
/// lock that does not respond takes longer.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(120);

/// The parameters of a daemon.
#[derive(Debug)]
pub struct Setup {
    /// The state root.
    pub home: PathBuf,
    /// The program that is started as `exe keeper` for each pane.
    pub exe: PathBuf,
    /// A pipe to the parent process, which receives one line: `ready`, or an [`ErrorBody`] as JSON.
    pub ready: Option<File>,
}

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The state root cannot be used.
    #[error(transparent)]
    Root(#[from] UnusableRoot),
    /// Another daemon serves this state root.
    #[error("a daemon is already running for `{}`", .0.display())]
    AlreadyRunning(PathBuf),
    /// A file cannot be created, read or locked.
    #[error(transparent)]
    File(#[from] FileError),
    /// The registry cannot be opened or recovered.
    #[error(transparent)]
    Registry(#[from] StoreError),
    /// Recovery took too long.
    #[error("not finished after {} s ({step})", RECOVERY_TIMEOUT.as_secs())]
    RecoveryTimedOut {
        /// The step that was not finished.
        step: &'static str,
    },
    /// Another system call failed.
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
                body.hint("install the newer release again, or set CCMUX_HOME to another directory")
            }
            StartError::Registry(error) if error.is_busy() => {
                body.hint("another program has locked `ccmux.db`: close it and try again")
            }
            StartError::Registry(error) if error.is_full() => body.hint("make room on the disk"),
            StartError::File(error) if error.is_full() => body.hint("make room on the disk"),
            StartError::File(_)
            | StartError::Registry(_)
            | StartError::RecoveryTimedOut { .. }
            | StartError::System(_) => body,
        }
    }
}

impl From<StartError> for ErrorBody {
    fn from(error: StartError) -> Self {
        Self::from(&error)
    }
}

/// Runs the daemon until it is told to stop. Panes keep running.
///
/// # Errors
///
/// [`StartError`]. It is also written to `setup.ready`, unless recovery failed later.
pub fn run(setup: Setup) -> Result<(), StartError> {
    let Setup { home, exe, ready } = setup;
    let started = Started::new(&home, exe);
    if let Some(ready) = ready {
        report_start(ready, started.as_ref().err());
    }
    started?.run()
}

fn report_start(mut ready: File, failure: Option<&StartError>) {
    let line = match failure {
        None => "ready".to_owned(),
        Some(error) => serde_json::to_string(&ErrorBody::from(error))
            .expect("an error body has string keys only"),
    };
    // Fails if the parent process no longer waits.
    let _ignored = writeln!(ready, "{line}");
}

/// A daemon that holds the instance lock and the socket, before recovery.
struct Started {
    root: StateRoot,
    examined_root: ExaminedRoot,
    exe: PathBuf,
    boot: String,
    listener: UnixListener,
    set_aside: Option<SetAside>,
    registry: Registry,
    lock_store: OpenedLockStore,
    runtime: Tokio,
    /// Declared last, so that it is released last.
    _lock: Lock,
}

impl Started {
    fn new(home: &std::path::Path, exe: PathBuf) -> Result<Self, StartError> {
        let root = StateRoot::open(home)?;
        // Requires a single-threaded process.
        let namespace_left = mounts::leave_pane_namespace(
            &root.shared(),
            &OwnProcesses::of_root(&root.path().to_string_lossy()),
        );
        let Some(lock) = lock::take_file(&root.run().join(instance::LOCK))? else {
            if let Some(running) = RunningDaemon::find(home) {
                running.restore_socket(home);
            }
            return Err(StartError::AlreadyRunning(home.to_owned()));
        };
        logging::init(&root.run())?;
        if let Err(error) = namespace_left {
            warn!(%error, "mount namespace of the pane not left, shared directories are read-only");
        }
        DiskReserve::of(&root).release_if_full();
        let examined_root = ExaminedRoot::of(&root)?;
        let listener = socket::listen_in(&root.run(), CONTROL_SOCKET)?;
        listener.set_nonblocking(true)?;
        match Self::open(&root) {
            Ok((Opened { store, set_aside }, lock_store, boot, runtime)) => {
                let registry = Registry::start(store)?;
                info!(
                    pid = std::process::id(),
                    version = env!("CARGO_PKG_VERSION"),
                    "daemon started"
                );
                let _lock = lock;
                Ok(Self {
                    root,
                    examined_root,
                    exe,
                    boot,
                    listener,
                    set_aside,
                    registry,
                    lock_store,
                    runtime,
                    _lock,
                })
            }
            Err(error) => {
                error!(%error, "daemon start failed");
                remove_socket(&root);
                Err(error)
            }
        }
    }

    /// Opens everything whose failure must be reported through `Setup::ready`.
    fn open(root: &StateRoot) -> Result<(Opened, OpenedLockStore, String, Tokio), StartError> {
        let opened = Store::open(root)?;
        let lock_store = LockStore::open(root)?;
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok((opened, lock_store, process::boot_id()?, runtime))
    }

    fn run(self) -> Result<(), StartError> {
        let Self {
            root,
            examined_root,
            exe,
            boot,
            listener,
            set_aside,
            registry,
            mut lock_store,
            runtime,
            _lock,
        } = self;
        let set_aside = [set_aside, lock_store.set_aside.take()].into_iter().flatten().collect();
        let shared = Arc::new(Runtime::new(root, examined_root, exe, boot.clone()));
        let workers = TaskContext {
            tasks: shared.tasks.clone(),
            ending: shared.ending.clone(),
            runtime: runtime.handle().clone(),
        };
        let locks = Locks::start(lock_store, &boot, workers)?;
        let (services, updates) = Services::new(Arc::clone(&shared), registry, locks);
        let result = runtime.block_on(serve(Arc::new(services), listener, set_aside, updates));
        if shared.is_root_in_place() {
            remove_socket(&shared.root);
        }
        runtime.shutdown_timeout(Duration::from_secs(1));
        info!("daemon stopped");
        result
    }
}

fn remove_socket(root: &StateRoot) {
    // A socket that remains is replaced by the next daemon.
    let _ignored = fs::remove_file(root.run().join(CONTROL_SOCKET));
}

/// Recovers, serves requests until the daemon is stopped, and ends all tasks.
async fn serve(
    services: Arc<Services>,
    listener: UnixListener,
    set_aside: Vec<SetAside>,
    updates: AgentUpdates,
) -> Result<(), StartError> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let stops = stop_signals()?;
    let runtime = Arc::clone(&services.runtime);
    let http = Arc::new(Http::new(Arc::clone(&services)));
    let control = Arc::new(Control::new(Arc::clone(&services), Arc::clone(&http)));
    runtime.tasks.spawn(handle_signals(Arc::clone(&control), stops));
    start_background_tasks(&services, updates);
    let serving = runtime.tasks.spawn(Arc::clone(&control).serve(listener));
    point("recover.bound").await;
    let recovered = recover(&services, set_aside).await;
    match &recovered {
        Ok(()) => {
            services.coordination.release_locks_of_ended_panes().await;
            services.messages.open_journals().await;
            runtime.tasks.spawn(Arc::clone(&services.coordination).keep_lock_snapshot());
            point("recover.done").await;
            control.recovered.send_replace(RecoveryState::Complete);
            runtime.tasks.spawn(Arc::clone(&services.housekeeping).run_sweeper());
            http.serve_configured().await;
        }
        Err(error) => {
            error!(%error, "recovery failed");
            control.recovered.send_replace(RecoveryState::Failed(failure_text(error)));
            // The client that started this daemon may not have connected yet.
            tokio::select! {
                () = tokio::time::sleep(FAILURE_GRACE) => {}
                () = runtime.stopping.cancelled() => {}
            }
            runtime.stopping.cancel();
        }
    }
    if let Err(error) = serving.await {
        error!(%error, "control socket task failed");
    }
    runtime.stopping.cancel();
    http.last_answers().await;
    runtime.ending.cancel();
    runtime.tasks.close();
    if tokio::time::timeout(TASK_GRACE, runtime.tasks.wait()).await.is_err() {
        info!(tasks = runtime.tasks.len(), "tasks still running at exit");
    }
    services.registry.close().await;
    services.coordination.locks.close().await;
    recovered
}

/// Returns the reason for a failed recovery, with advice.
fn failure_text(error: &StartError) -> String {
    let hint = match error {
        StartError::Registry(error) if error.is_full() => "; make room on the disk",
        StartError::RecoveryTimedOut { .. } => "; see `daemon.log` in the run directory",
        StartError::Root(_)
        | StartError::AlreadyRunning(_)
        | StartError::File(_)
        | StartError::Registry(_)
        | StartError::System(_) => "",
    };
    format!("the daemon cannot recover its state: {error}{hint}")
}

fn start_background_tasks(services: &Services, updates: AgentUpdates) {
    let tasks = &services.runtime.tasks;
    tasks.spawn(Arc::clone(&services.housekeeping).run_index_writer());
    tasks.spawn(Arc::clone(&services.housekeeping).run_state_writer());
    tasks.spawn(Arc::clone(&services.panes).follow_agents(updates));
    tasks.spawn(Arc::clone(&services.coordination).watch_held_files());
    tasks.spawn(Arc::clone(&services.coordination).watch_shared_trees());
}

/// Recovers the registry and the panes, then undoes runs that the last daemon left incomplete, within
/// [`RECOVERY_TIMEOUT`].
async fn recover(services: &Arc<Services>, set_aside: Vec<SetAside>) -> Result<(), StartError> {
    let recovery = async {
        Box::pin(Recovery(services).run(set_aside)).await?;
        services.runtime.enter_recovery_step("undoing incomplete runs");
        Box::pin(operations::roll_back_pending(services)).await
    };
    match tokio::time::timeout(RECOVERY_TIMEOUT, recovery).await {
        Ok(recovered) => Ok(recovered?),
        Err(_) => Err(StartError::RecoveryTimedOut { step: services.runtime.recovery_step() }),
    }
}

/// The signals that the daemon handles.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// Restores a missing control socket. An ignored signal would stay ignored in keepers.
    hang_up: Signal,
}

fn stop_signals() -> io::Result<StopSignals> {
    Ok(StopSignals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hang_up: signal(SignalKind::hangup())?,
    })
}

async fn handle_signals(control: Arc<Control>, mut signals: StopSignals) {
    let runtime = Arc::clone(&control.services.runtime);
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
            _ = signals.hang_up.recv() => restore_socket(&control),
            () = runtime.stopping.cancelled() => return,
        }
    }
    info!("stop requested by signal");
    runtime.stopping.cancel();
}

/// Listens on a new control socket if the old one was removed.
fn restore_socket(control: &Arc<Control>) {
    let runtime = &control.services.runtime;
    let run = runtime.root.run();
    if !runtime.is_root_in_place() || run.join(CONTROL_SOCKET).symlink_metadata().is_ok() {
        return;
    }
    let listening = socket::listen_in(&run, CONTROL_SOCKET).map_err(io::Error::other);
    let listening = listening.and_then(|listener| {
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    });
    match listening {
        Ok(listener) => {
            info!("control socket created again");
            drop(runtime.tasks.spawn(Arc::clone(control).serve(listener)));
        }
        Err(error) => warn!(%error, "control socket not created again"),
    }
}
