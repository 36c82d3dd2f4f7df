//! A hermetic home for one test.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use model::ProcessIdentity;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::hooks::{self, Hooks};
use crate::invocation::Invocation;
use crate::process;
use crate::wait::{DEADLINE, try_wait_for, wait_until};

/// Time for the processes to exit after the last command.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The working directory of commands, beside the home.
const WORK: &str = "work";

/// Timeout of each command that ends the processes of a dropped home.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// A private home directory and state root, with the binary to use in them.
///
/// # Invariant
///
/// The path of its directory occurs in the environment of every process started through it, and in
/// no other. Its processes are found, and killed on drop, by that path alone.
#[derive(Debug)]
pub struct Home {
    ccmux: PathBuf,
    dir: TempDir,
    state_root: PathBuf,
    env: BTreeMap<OsString, OsString>,
}

impl Home {
    /// Creates a home for the binary at `ccmux`, usually `env!("CARGO_BIN_EXE_ccmux")`.
    ///
    /// # Panics
    ///
    /// When the directories cannot be created.
    #[must_use]
    pub fn new(ccmux: impl Into<PathBuf>) -> Self {
        // Not in `TMPDIR`, which may be too long for socket paths.
        let dir = tempfile::Builder::new().prefix("cx-").tempdir_in("/tmp").expect("a directory");
        let home = dir.path().join("home");
        fs::create_dir(&home).expect("the home can be created");
        fs::create_dir(dir.path().join(WORK)).expect("the working directory can be created");
        let state_root = home.join(".ccmux");
        let env = [
            ("HOME", home.as_os_str()),
            ("CCMUX_HOME", state_root.as_os_str()),
            ("PATH", &search_path()),
            ("TERM", OsStr::new("xterm-256color")),
            ("LANG", OsStr::new("C.UTF-8")),
            ("SHELL", OsStr::new("/bin/sh")),
        ];
        let env = env.map(|(name, value)| (name.into(), value.to_owned())).into_iter().collect();
        Self { ccmux: ccmux.into(), dir, state_root, env }
    }

    /// Moves the state root to `root`.
    #[must_use]
    pub fn with_state_root(mut self, root: &Path) -> Self {
        root.clone_into(&mut self.state_root);
        self.set_env("CCMUX_HOME", root);
        self
    }

    /// Sets a variable for later processes.
    pub fn set_env(&mut self, name: impl Into<OsString>, value: impl AsRef<OsStr>) {
        self.env.insert(name.into(), value.as_ref().to_owned());
    }

    /// Enables test hooks in later processes.
    pub fn hooks(&mut self) -> Hooks {
        let hooks = Hooks::new(&self.dir.path().join("hooks"));
        self.set_env(hooks::VARIABLE, hooks.dir());
        hooks
    }

    /// Returns the directory that contains everything else, for files of the test.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the default working directory: an ordinary directory outside of the home.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.dir.path().join(WORK)
    }

    /// Returns the state root (`CCMUX_HOME`).
    #[must_use]
    pub fn state_root(&self) -> &Path {
        &self.state_root
    }

    /// Returns an invocation of `ccmux`.
    pub fn ccmux<A: AsRef<OsStr>>(&self, args: &[A]) -> Invocation {
        self.program(&self.ccmux, args)
    }

    /// Returns an invocation of another program in the same environment.
    pub fn program<A: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, args: &[A]) -> Invocation {
        let words = [program.as_ref()].into_iter().chain(args.iter().map(AsRef::as_ref));
        Invocation::new(words, self.env.clone(), &self.work())
    }

    /// Returns the scripted agent, which is built beside the binary.
    ///
    /// # Panics
    ///
    /// When it was not built.
    #[must_use]
    #[track_caller]
    pub fn fake_agent(&self) -> PathBuf {
        let agent = self.ccmux.with_file_name("fake-agent");
        assert!(agent.exists(), "build it first: cargo build -p ccmux-testkit --bins");
        agent
    }

    /// Puts the scripted agent into the `PATH` of later processes under the name of a real agent.
    ///
    /// # Panics
    ///
    /// When it was not built, or this name is taken.
    #[track_caller]
    pub fn install_fake_agent(&mut self, agent: &str) {
        let bin = self.dir.path().join("bin");
        fs::create_dir_all(&bin).expect("the directory can be created");
        std::os::unix::fs::symlink(self.fake_agent(), bin.join(agent))
            .expect("the link can be created");
        self.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    }

    /// Starts the daemon and waits until it answers.
    ///
    /// # Panics
    ///
    /// When it does not start.
    #[track_caller]
    pub fn start_daemon(&self) -> ProcessIdentity {
        self.ccmux(&["daemon", "start"]).ok();
        self.daemon()
    }

    /// Returns the running daemon.
    ///
    /// # Panics
    ///
    /// When no daemon runs.
    #[must_use]
    #[track_caller]
    pub fn daemon(&self) -> ProcessIdentity {
        let pid = self.daemon_pid();
        process::identity(pid).unwrap_or_else(|| panic!("the daemon {pid} is gone already"))
    }

    /// Returns the pid that the daemon reports.
    ///
    /// # Panics
    ///
    /// When no daemon runs.
    #[must_use]
    #[track_caller]
    pub fn daemon_pid(&self) -> u32 {
        let status = self.ccmux(&["daemon", "status", "--json"]).json();
        let pid = status["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        pid.unwrap_or_else(|| panic!("the status names no process: {status}"))
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    ///
    /// # Panics
    ///
    /// When no daemon runs, or it does not die.
    #[track_caller]
    pub fn kill_daemon(&self) {
        process::kill_and_wait(&self.daemon(), DEADLINE);
    }

    /// Returns the running processes that were started through this home.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mut found = process::with_environment(self.dir.path());
        if !self.state_root.starts_with(self.dir.path()) {
            found.extend(process::with_environment(&self.state_root));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Waits until no process started through this home is left, zombies included.
    ///
    /// # Panics
    ///
    /// When one is left after `deadline`; the message lists them.
    #[track_caller]
    pub fn no_processes_left_within(&self, deadline: Duration) {
        if try_wait_for(deadline, || self.describe_remaining().is_empty().then_some(())).is_none() {
            panic!("processes are left after {deadline:?}: {:#?}", self.describe_remaining());
        }
    }

    /// Waits until no process started through this home is left, zombies included.
    ///
    /// # Panics
    ///
    /// When one is left after [`DEADLINE`]; the message lists them.
    #[track_caller]
    pub fn no_processes_left(&self) {
        self.no_processes_left_within(DEADLINE);
    }

    /// Returns zombies whose parent was started through this home.
    ///
    /// A zombie has no environment, so it is found by its parent.
    #[must_use]
    pub fn zombies(&self) -> Vec<process::Stat> {
        let ours = self.processes();
        process::all().into_iter().filter(|p| p.is_zombie() && ours.contains(&p.parent)).collect()
    }

    /// Lists the remaining processes for a failure message.
    fn describe_remaining(&self) -> Vec<String> {
        let command = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid}: {}", String::from_utf8_lossy(&words).replace('\0', " "))
        };
        let zombie = |p: process::Stat| format!("{}: zombie of {} ({})", p.pid, p.parent, p.name);
        let alive: Vec<_> = self.processes().iter().map(command).collect();
        alive.into_iter().chain(self.zombies().into_iter().map(zombie)).collect()
    }

    /// Closes all panes and stops the daemon.
    fn shut_down(&self) {
        let listed = self.ccmux(&["ls", "--json"]).timeout(SHUTDOWN_TIMEOUT).run();
        if !listed.status.success() {
            return;
        }
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        let panes = pane_ids(&listed);
        if !panes.is_empty() {
            let close: Vec<&str> = ["close"].into_iter().chain(panes).collect();
            self.ccmux(&close).timeout(SHUTDOWN_TIMEOUT).run();
        }
        self.ccmux(&["daemon", "stop"]).timeout(SHUTDOWN_TIMEOUT).run();
        wait_until("all processes have exited", EXIT_TIMEOUT, || self.processes().is_empty());
    }

    /// Kills every process of this home with SIGKILL, repeatedly, because a process may be starting
    /// another.
    pub fn kill_everything(&self) {
        let nothing_left = || {
            for process in self.processes().into_iter().filter_map(process::identity) {
                process::signal(&process, Signal::KILL);
            }
            self.processes().is_empty().then_some(())
        };
        // A process that survives SIGKILL for this long cannot be helped, and the test is over.
        let _all_gone = try_wait_for(DEADLINE, nothing_left);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.processes().is_empty() {
            return;
        }
        // After a failure, or if the shutdown fails, the processes are killed; a panic while
        // dropping would hide the failure.
        if !thread::panicking() {
            let polite = std::panic::AssertUnwindSafe(|| self.shut_down());
            let _impolite = std::panic::catch_unwind(polite);
        }
        self.kill_everything();
    }
}

/// Returns the ids of all panes in the output of `ccmux ls --json`.
#[must_use]
pub fn pane_ids(listed: &Value) -> Vec<&str> {
    let sessions = listed["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
    sessions
        .iter()
        .flat_map(|session| session["panes"].as_array().map(Vec::as_slice).unwrap_or_default())
        .filter_map(|pane| pane["id"].as_str())
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "the tools that tests run are where PATH says")]
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}
