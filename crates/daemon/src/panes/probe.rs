//! Probes of agent programs: the version, and whether it reads its login from the store that all
//! panes share (B1).
//!
//! ```text
//!  pane started --> program known? --no--> probed in a scratch directory --> result saved
//! ```
//!
//! A program is identified by its path, size, modification time and inode, so an update is probed
//! again. A probe runs in a temporary directory, never in a pane, with an environment that contains
//! nothing of the user's and a proxy that blocks the network. No pane waits for it.

mod scratch;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use host::file::{self, Durability};
use host::program;
use host::record::{self, RecordError};
use model::agent::Agent;
use model::agent::probe::{Identity, Program, Verdict, version_in};
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::OnceCell;
use tracing::{info, warn};

use self::scratch::ScratchDir;
use super::pane::{Pane, process_ended};
use crate::runtime::{Runtime, run_blocking};

/// Timeout of one call of a program. The slowest one measured took 2 s.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum number of bytes that are read from a program's output.
const OUTPUT_MAX: u64 = 64 << 10;

/// File with the results, in the state root.
const PROBES_FILE: &str = "probes.json";

/// The result for one program; empty while it is being probed.
type ProbeCell = Arc<OnceCell<Program>>;

/// The service that probes agent programs and saves the results.
pub(crate) struct Probes {
    runtime: Arc<Runtime>,
    /// Timeout of one call of a program.
    timeout: Duration,
    known: Mutex<HashMap<Identity, ProbeCell>>,
    /// Set once the saved results are loaded.
    loaded: OnceCell<()>,
    /// Serialises writing the results, so that the last write has the latest results.
    write_lock: tokio::sync::Mutex<()>,
}

/// An installed agent program, and the search path to start it with.
#[derive(Clone, Debug)]
pub(crate) struct AgentProgram {
    pub(crate) agent: Agent,
    pub(crate) identity: Identity,
    path: PathBuf,
    search: String,
}

impl AgentProgram {
    /// Finds the program with this name in the search path. Blocks.
    pub(crate) fn find(agent: Agent, name: &str, search: &str, cwd: &Path) -> Option<Self> {
        let path = program::find(name, search, cwd)?;
        let identity = program::identify(&agent.name, &path).ok()?;
        Some(Self { agent, identity, path, search: search.to_owned() })
    }

    /// Finds the program whose login a pane depends on: its agent, or for a shell the first agent
    /// that the user can start in it. Blocks.
    pub(crate) fn of_pane(launch: &model::LaunchRecord, own: &Agent) -> Option<Self> {
        let (search, cwd) = (launch.env.get("PATH")?, Path::new(&launch.cwd));
        if own.variables.is_empty() {
            let first = Agent::everywhere().into_iter().next()?;
            let name = first.command.first()?.clone();
            return Self::find(first, &name, search, cwd);
        }
        Self::find(own.clone(), launch.asked().first()?, search, cwd)
    }
}

impl Probes {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        let (known, loaded, write_lock) =
            (Mutex::default(), OnceCell::new(), tokio::sync::Mutex::new(()));
        Self { runtime, timeout: CALL_TIMEOUT, known, loaded, write_lock }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, ProbeCell>> {
        self.known.lock()
    }

    /// Returns the cell of a program. Each program has one, so it is probed once at a time.
    fn cell(&self, identity: &Identity) -> ProbeCell {
        Arc::clone(self.lock().entry(identity.clone()).or_default())
    }

    /// Returns the results to save. Unclear results are left out, to be probed again, and so are older
    /// programs at the path of `newest`.
    fn results_to_save(&self, newest: &Identity) -> Vec<Program> {
        let is_old = |identity: &Identity| {
            identity.agent == newest.agent && identity.path == newest.path && identity != newest
        };
        let known = self.lock();
        let all = known.values().filter_map(|cell| cell.get());
        let mut results: Vec<Program> = all
            .filter(|program| !is_old(&program.identity))
            .filter(|program| !matches!(program.verdict, Some(Verdict::Unclear { .. })))
            .cloned()
            .collect();
        results.sort_by(|a, b| a.identity.path.cmp(&b.identity.path));
        results
    }

    /// Probes the agent program of a pane in a background task, if the agent can share its login.
    pub(crate) fn probe_in_background(self: &Arc<Self>, pane: &Arc<Pane>) {
        let (this, pane) = (Arc::clone(self), Arc::clone(pane));
        self.runtime.tasks.spawn(async move {
            let Some(program) = this.program_of(&pane).await else { return };
            let is_own = pane.launch().is_some_and(|own| own.agent == program.agent.name);
            if is_own && program.agent.logins.store.is_some() {
                this.probe(&program).await;
            }
        });
    }

    /// Returns the program whose login a pane depends on.
    pub(crate) async fn program_of(&self, pane: &Pane) -> Option<AgentProgram> {
        let launch = pane.launch()?;
        let config = self.runtime.config().await.ok();
        let agents = config.map(|config| config.agents.clone()).unwrap_or_default();
        let agent = Agent::named(&launch.agent, &agents).ok()?;
        run_blocking(move || AgentProgram::of_pane(&launch, &agent)).await
    }

    /// Returns the saved result for a program.
    pub(crate) async fn known_program(&self, identity: &Identity) -> Option<Program> {
        self.load().await;
        self.lock().get(identity).and_then(|cell| cell.get().cloned())
    }

    /// Returns the result for a program, which is probed if there is none. Returns `None` if it
    /// cannot be probed now.
    pub(crate) async fn probe(&self, program: &AgentProgram) -> Option<Program> {
        self.load().await;
        let cell = self.cell(&program.identity);
        if let Some(known) = cell.get() {
            return Some(known.clone());
        }
        let found = cell.get_or_try_init(|| self.run_probe(program)).await;
        match found {
            Ok(found) => {
                let found = found.clone();
                self.save(&program.identity).await;
                Some(found)
            }
            Err(error) => {
                warn!(program = %program.path.display(), %error, "agent program not probed");
                None
            }
        }
    }

    /// Runs a program in a scratch directory.
    async fn run_probe(&self, program: &AgentProgram) -> io::Result<Program> {
        let AgentProgram { agent, identity, path, search } = program;
        let (run, of) = (self.runtime.root.run(), agent.clone());
        let scratch = run_blocking(move || ScratchDir::new(&run, &of)).await?;
        let environment = scratch.environment(agent, search);
        let call = |arguments: &'static [&'static str]| {
            self.call(path, arguments, &environment, scratch.path())
        };
        let version = match call(&["--version"]).await? {
            CallResult::Exited { output, .. } => version_in(&String::from_utf8_lossy(&output)),
            CallResult::Failed(_) => None,
        };
        let verdict = match agent.logins.store.map(|store| store.probe) {
            Some(probe) => Some(match call(probe.arguments).await? {
                CallResult::Exited { code, output } => (probe.verdict)(code, &output),
                CallResult::Failed(why) => Verdict::unclear(why),
            }),
            None => None,
        };
        run_blocking(move || drop(scratch)).await;
        let found = Program { identity: identity.clone(), version, verdict };
        info!(
            program = %path.display(), version = found.version, verdict = ?found.verdict,
            "agent program probed"
        );
        Ok(found)
    }

    /// Starts a program and reads its output until it exits, the timeout expires or the daemon
    /// stops.
    ///
    /// # Errors
    ///
    /// An I/O error, also if the daemon stops; there is no result then.
    async fn call(
        &self,
        program: &Path,
        arguments: &[&str],
        environment: &[(String, String)],
        cwd: &Path,
    ) -> io::Result<CallResult> {
        let timeout = self.timeout;
        let mut running = match Running::start(program, arguments, environment, cwd) {
            Ok(running) => running,
            Err(error) => return Ok(CallResult::Failed(format!("it does not start: {error}"))),
        };
        let output = tokio::select! {
            output = running.output() => Some(output),
            () = tokio::time::sleep(timeout) => None,
            () = self.runtime.stopping.cancelled() => Some(Err(io::ErrorKind::Interrupted.into())),
        };
        let status = run_blocking(move || running.kill()).await?;
        Ok(match output {
            Some(output) => CallResult::Exited { code: status.code(), output: output? },
            None => CallResult::Failed(format!("it did not end within {timeout:?}")),
        })
    }

    /// Loads the saved results, once.
    async fn load(&self) {
        let load = || async {
            let root = self.runtime.root.clone();
            let saved = run_blocking(move || {
                ScratchDir::remove_stale(&root.run());
                read_saved(&root.path().join(PROBES_FILE))
            });
            let mut known = HashMap::new();
            for program in saved.await {
                let cell = ProbeCell::new(OnceCell::new_with(Some(program.clone())));
                known.insert(program.identity, cell);
            }
            self.lock().extend(known);
        };
        self.loaded.get_or_init(load).await;
    }

    async fn save(&self, newest: &Identity) {
        let _guard = self.write_lock.lock().await;
        let results = self.results_to_save(newest);
        let path = self.runtime.root.path().join(PROBES_FILE);
        let written = run_blocking(move || match record::read::<Vec<Program>>(&path) {
            // A file of a newer release must not be replaced.
            Err(RecordError::TooNew { .. }) => Ok(()),
            Ok(saved) if saved == results => Ok(()),
            Ok(_) | Err(_) => record::write(&path, &results, Durability::ProcessCrash),
        });
        if let Err(error) = written.await {
            warn!(%error, "probe results not saved");
        }
    }
}

/// Reads the saved results. If they cannot be read, programs are probed again.
fn read_saved(path: &Path) -> Vec<Program> {
    match record::read(path) {
        Ok(programs) => programs,
        Err(RecordError::Missing(_)) => Vec::new(),
        Err(error) => {
            warn!(%error, "probe results not readable");
            if let (RecordError::Damaged { .. }, Some(dir)) = (&error, path.parent())
                && let Err(error) = file::set_aside(path, dir, &format!("{PROBES_FILE}.damaged"))
            {
                warn!(%error, "damaged probe results not set aside");
            }
            Vec::new()
        }
    }
}

/// The result of calling a program.
#[derive(Debug, PartialEq, Eq)]
enum CallResult {
    Exited { code: Option<i32>, output: Vec<u8> },
    Failed(String),
}

/// A running program that leads its own process group.
#[derive(Debug)]
struct Running {
    child: Child,
    pidfd: OwnedFd,
}

impl Running {
    fn start(
        program: &Path,
        arguments: &[&str],
        environment: &[(String, String)],
        cwd: &Path,
    ) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(cwd)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self { child, pidfd }),
            Err(error) => {
                // It may have exited by itself.
                let _killed = child.kill();
                let _reaped = child.wait();
                Err(error.into())
            }
        }
    }

    /// Reads its output until it has exited and every copy of the pipe is closed.
    async fn output(&mut self) -> io::Result<Vec<u8>> {
        let stdout = self.child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut output = Vec::new();
        let pipe = pipe::Receiver::from_owned_fd(stdout.into())?;
        pipe.take(OUTPUT_MAX).read_to_end(&mut output).await?;
        process_ended(self.pidfd.as_fd()).await?;
        Ok(output)
    }

    /// Kills its process group and reaps it. Blocks.
    fn kill(mut self) -> io::Result<ExitStatus> {
        // The child was not waited for, so its process id cannot have been reused.
        let _killed = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.child.wait()
    }
}

#[cfg(test)]
mod tests;
