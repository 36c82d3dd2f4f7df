//! Asking a release of an agent, once, how it calls itself and whether it takes its login from the
//! store that all panes share (B1).
//!
//! ```text
//!  pane started --> program known? --no--> asked in a room of its own --> remembered
//! ```
//!
//! A program is known by its path, length, time and inode: another release is another program. It
//! is asked in a throwaway directory, with an environment that has nothing of the user's in it and
//! leads nowhere but to this machine, and never in a pane. No pane waits for it.

mod room;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::file::{self, Survive};
use host::program;
use host::record::{self, RecordError};
use model::agent::Agent;
use model::agent::probe::{Identity, Program, Verdict, version_in};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::OnceCell;
use tracing::{info, warn};

use self::room::Room;
use crate::pane::{Pane, process_ended};
use crate::supervisor::{Supervisor, run_blocking};

/// How long a program may take to answer one question. The slowest one seen took 2 s.
const PATIENCE: Duration = Duration::from_secs(15);

/// How much is read of what it says.
const SAID_MAX: u64 = 64 << 10;

/// What was found out, in the state root.
const REMEMBERED: &str = "probes.json";

/// A program that was asked, or is being asked.
type Asked = Arc<OnceCell<Program>>;

/// What is known of programs.
#[derive(Debug)]
pub(crate) struct Probes {
    /// How long a program may take to answer one question.
    patience: Duration,
    known: Mutex<HashMap<Identity, Asked>>,
    /// What earlier daemons found out was read.
    read: OnceCell<()>,
    /// Held while it is written down, so that the last word is the last one on disk too.
    writing: tokio::sync::Mutex<()>,
}

/// A program that could be asked, and how to start it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) agent: Agent,
    pub(crate) identity: Identity,
    program: PathBuf,
    search: String,
}

impl Candidate {
    /// The program of this name, if there is one. Blocks.
    pub(crate) fn find(agent: Agent, name: &str, search: &str, cwd: &Path) -> Option<Self> {
        let program = program::find(name, search, cwd)?;
        let identity = program::identify(&agent.name, &program).ok()?;
        Some(Self { agent, identity, program, search: search.to_owned() })
    }

    /// The program whose login a pane depends on: its own, or of a shell that of the first agent
    /// that may be typed in it. Blocks.
    pub(crate) fn of_pane(launch: &model::LaunchRecord, own: &Agent) -> Option<Self> {
        let (search, cwd) = (launch.env.get("PATH")?, Path::new(&launch.cwd));
        if own.variables.is_empty() {
            let typed = Agent::everywhere().into_iter().next()?;
            let name = typed.command.first()?.clone();
            return Self::find(typed, &name, search, cwd);
        }
        Self::find(own.clone(), launch.asked().first()?, search, cwd)
    }
}

impl Default for Probes {
    fn default() -> Self {
        let (known, read, writing) =
            (Mutex::default(), OnceCell::new(), tokio::sync::Mutex::new(()));
        Self { patience: PATIENCE, known, read, writing }
    }
}

impl Probes {
    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, Asked>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place for what is known of a program; one per program, so it is asked by one at a time.
    fn place(&self, identity: &Identity) -> Asked {
        Arc::clone(self.lock().entry(identity.clone()).or_default())
    }

    /// What is worth remembering: a release that did not say anything may do so another time, and
    /// of two releases in one place only the one that is there counts.
    fn settled(&self, newest: &Identity) -> Vec<Program> {
        let is_old = |identity: &Identity| {
            identity.agent == newest.agent && identity.path == newest.path && identity != newest
        };
        let known = self.lock();
        let all = known.values().filter_map(|asked| asked.get());
        let mut settled: Vec<Program> = all
            .filter(|program| !is_old(&program.identity))
            .filter(|program| !matches!(program.verdict, Some(Verdict::Unclear { .. })))
            .cloned()
            .collect();
        settled.sort_by(|a, b| a.identity.path.cmp(&b.identity.path));
        settled
    }
}

impl Supervisor {
    /// Finds out, in a task of its own, whether the program in a pane takes the shared login.
    pub(crate) fn probe(self: &Arc<Self>, pane: &Arc<Pane>) {
        let (this, pane) = (Arc::clone(self), Arc::clone(pane));
        self.tasks.spawn(async move {
            let Some(candidate) = this.candidate(&pane).await else { return };
            let is_its_own = pane.launch().is_some_and(|own| own.agent == candidate.agent.name);
            if is_its_own && candidate.agent.logins.store.is_some() {
                this.ask_program(&candidate).await;
            }
        });
    }

    /// The program whose login a pane depends on.
    pub(crate) async fn candidate(&self, pane: &Pane) -> Option<Candidate> {
        let launch = pane.launch()?;
        let config = self.config().await.ok();
        let agents = config.map(|config| config.agents.clone()).unwrap_or_default();
        let agent = Agent::named(&launch.agent, &agents).ok()?;
        run_blocking(move || Candidate::of_pane(&launch, &agent)).await
    }

    /// What is known of a program already.
    pub(crate) async fn known_program(&self, identity: &Identity) -> Option<Program> {
        self.read_probes().await;
        self.probes.lock().get(identity).and_then(|asked| asked.get().cloned())
    }

    /// What is known of a program, which is asked if nothing is; none if it cannot be asked now.
    pub(crate) async fn ask_program(&self, candidate: &Candidate) -> Option<Program> {
        self.read_probes().await;
        let asked = self.probes.place(&candidate.identity);
        if let Some(known) = asked.get() {
            return Some(known.clone());
        }
        let found = asked.get_or_try_init(|| self.question(candidate)).await;
        match found {
            Ok(found) => {
                let found = found.clone();
                self.remember(&candidate.identity).await;
                Some(found)
            }
            Err(error) => {
                warn!(program = %candidate.program.display(), %error, "cannot be asked");
                None
            }
        }
    }

    /// Asks a program in a room of its own.
    async fn question(&self, candidate: &Candidate) -> io::Result<Program> {
        let Candidate { agent, identity, program, search } = candidate;
        let (run, furnished) = (self.root.run(), agent.clone());
        let room = run_blocking(move || Room::new(&run, &furnished)).await?;
        let environment = room.environment(agent, search);
        let ask = |arguments: &'static [&'static str]| {
            self.hear(program, arguments, &environment, room.path())
        };
        let version = match ask(&["--version"]).await? {
            Heard::Said { said, .. } => version_in(&String::from_utf8_lossy(&said)),
            Heard::Nothing(_) => None,
        };
        let verdict = match agent.logins.store.map(|store| store.probe) {
            Some(probe) => Some(match ask(probe.arguments).await? {
                Heard::Said { code, said } => (probe.verdict)(code, &said),
                Heard::Nothing(why) => Verdict::unclear(why),
            }),
            None => None,
        };
        run_blocking(move || drop(room)).await;
        let found = Program { identity: identity.clone(), version, verdict };
        info!(program = %program.display(), version = found.version, verdict = ?found.verdict);
        Ok(found)
    }

    /// Starts a program and hears what it says, until it ends, time is up or the daemon stops.
    ///
    /// # Errors
    ///
    /// The system's, and that the daemon stops; nothing was found out then.
    async fn hear(
        &self,
        program: &Path,
        arguments: &[&str],
        environment: &[(String, String)],
        cwd: &Path,
    ) -> io::Result<Heard> {
        let patience = self.probes.patience;
        let mut running = match Running::start(program, arguments, environment, cwd) {
            Ok(running) => running,
            Err(error) => return Ok(Heard::Nothing(format!("it does not start: {error}"))),
        };
        let heard = tokio::select! {
            heard = running.said() => Some(heard),
            () = tokio::time::sleep(patience) => None,
            () = self.stopping.cancelled() => Some(Err(io::ErrorKind::Interrupted.into())),
        };
        let status = run_blocking(move || running.end()).await?;
        Ok(match heard {
            Some(said) => Heard::Said { code: status.code(), said: said? },
            None => Heard::Nothing(format!("it did not end within {patience:?}")),
        })
    }

    async fn read_probes(&self) {
        let read = || async {
            let root = self.root.clone();
            let remembered = run_blocking(move || {
                Room::clear(&root.run());
                read_remembered(&root.path().join(REMEMBERED))
            });
            let mut known = HashMap::new();
            for program in remembered.await {
                let asked = Asked::new(OnceCell::new_with(Some(program.clone())));
                known.insert(program.identity, asked);
            }
            self.probes.lock().extend(known);
        };
        self.probes.read.get_or_init(read).await;
    }

    async fn remember(&self, newest: &Identity) {
        let _writing = self.probes.writing.lock().await;
        let settled = self.probes.settled(newest);
        let path = self.root.path().join(REMEMBERED);
        let written = run_blocking(move || match record::read::<Vec<Program>>(&path) {
            // What a newer release found out is not ours to replace.
            Err(RecordError::TooNew { .. }) => Ok(()),
            Ok(same) if same == settled => Ok(()),
            Ok(_) | Err(_) => record::write(&path, &settled, Survive::Kill),
        });
        if let Err(error) = written.await {
            warn!(%error, "what was found out is not remembered");
        }
    }
}

/// What earlier daemons found out. What cannot be read is found out again.
fn read_remembered(path: &Path) -> Vec<Program> {
    match record::read(path) {
        Ok(programs) => programs,
        Err(RecordError::Missing(_)) => Vec::new(),
        Err(error) => {
            warn!(%error, "programs are asked again");
            if let (RecordError::Damaged { .. }, Some(dir)) = (&error, path.parent())
                && let Err(error) = file::set_aside(path, dir, &format!("{REMEMBERED}.damaged"))
            {
                warn!(%error, "cannot be set aside");
            }
            Vec::new()
        }
    }
}

/// What came of asking a program.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Said { code: Option<i32>, said: Vec<u8> },
    Nothing(String),
}

/// A program that was started, at the head of a process group of its own.
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
                // It may have ended by itself, which is as good.
                let _ended = child.kill();
                let _reaped = child.wait();
                Err(error.into())
            }
        }
    }

    /// What it says until it has ended and nobody else can say anything in its place.
    async fn said(&mut self) -> io::Result<Vec<u8>> {
        let output = self.child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut said = Vec::new();
        let pipe = pipe::Receiver::from_owned_fd(output.into())?;
        pipe.take(SAID_MAX).read_to_end(&mut said).await?;
        process_ended(self.pidfd.as_fd()).await?;
        Ok(said)
    }

    /// Ends it and its whole group, and leaves no zombie. Blocks.
    fn end(mut self) -> io::Result<ExitStatus> {
        // It was not waited for, so the number is still its own, and its group's.
        let _ended = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.child.wait()
    }
}

#[cfg(test)]
mod tests;
