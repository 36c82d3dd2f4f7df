//! A machine of its own for one test.

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

/// How long the processes may take to be gone after the last of them was told to.
const LEAVING: Duration = Duration::from_secs(5);

/// The directory, beside the home, in which commands are run.
const WORK: &str = "work";

/// How long each command may take with which a home that is dropped ends its processes.
const FAREWELL: Duration = Duration::from_secs(20);

/// A private home directory and state root, and the binary to be used in them.
///
/// # Invariant
///
/// The path of its directory occurs in the environment of every process started through it, and
/// nowhere else. By that mark, and by nothing else, its processes are found and, when it is
/// dropped, ended.
#[derive(Debug)]
pub struct Home {
    ccmux: PathBuf,
    dir: TempDir,
    state_root: PathBuf,
    env: BTreeMap<OsString, OsString>,
}

impl Home {
    /// A fresh home for the binary at `ccmux`, usually `env!("CARGO_BIN_EXE_ccmux")`.
    ///
    /// # Panics
    ///
    /// When the directories cannot be made.
    #[must_use]
    pub fn new(ccmux: impl Into<PathBuf>) -> Self {
        // Not where `TMPDIR` points: socket paths must fit, and some such directories are long.
        let dir = tempfile::Builder::new().prefix("cx-").tempdir_in("/tmp").expect("a directory");
        let home = dir.path().join("home");
        fs::create_dir(&home).expect("a home in it");
        fs::create_dir(dir.path().join(WORK)).expect("and a place to work in");
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

    /// Keeps the state in `root` instead, for a test about strange places.
    #[must_use]
    pub fn with_state_root(mut self, root: &Path) -> Self {
        root.clone_into(&mut self.state_root);
        self.set_env("CCMUX_HOME", root);
        self
    }

    /// Sets a variable for everything that is started from now on.
    pub fn set_env(&mut self, name: impl Into<OsString>, value: impl AsRef<OsStr>) {
        self.env.insert(name.into(), value.as_ref().to_owned());
    }

    /// Makes everything that is started from now on pass the test hooks.
    pub fn hooks(&mut self) -> Hooks {
        let hooks = Hooks::new(&self.dir.path().join("hooks"));
        self.set_env(hooks::VARIABLE, hooks.dir());
        hooks
    }

    /// The directory that holds everything else, for files of the test itself.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where everything is run that is not run elsewhere: a plain directory that is no home.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.dir.path().join(WORK)
    }

    /// What `CCMUX_HOME` says.
    #[must_use]
    pub fn state_root(&self) -> &Path {
        &self.state_root
    }

    /// `ccmux` with these arguments, to be run.
    pub fn ccmux<A: AsRef<OsStr>>(&self, args: &[A]) -> Invocation {
        self.program(&self.ccmux, args)
    }

    /// Another program in the same surroundings.
    pub fn program<A: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, args: &[A]) -> Invocation {
        let words = [program.as_ref()].into_iter().chain(args.iter().map(AsRef::as_ref));
        Invocation::new(words, self.env.clone(), &self.work())
    }

    /// The scripted agent, which cargo puts beside the binary.
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

    /// Puts the scripted agent on the `PATH` under the name of a real one, for everything that is
    /// started from now on.
    ///
    /// # Panics
    ///
    /// When it was not built, or is there under that name.
    #[track_caller]
    pub fn play(&mut self, agent: &str) {
        let bin = self.dir.path().join("bin");
        fs::create_dir_all(&bin).expect("a directory for programs");
        std::os::unix::fs::symlink(self.fake_agent(), bin.join(agent)).expect("a link in it");
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

    /// The running daemon.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn daemon(&self) -> ProcessIdentity {
        let pid = self.daemon_pid();
        process::identity(pid).unwrap_or_else(|| panic!("the daemon {pid} is gone already"))
    }

    /// The number of the running daemon, by its own word.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn daemon_pid(&self) -> u32 {
        let status = self.ccmux(&["daemon", "status", "--json"]).json();
        let pid = status["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        pid.unwrap_or_else(|| panic!("the status names no process: {status}"))
    }

    /// Kills the daemon with -9 and waits until it is gone.
    ///
    /// # Panics
    ///
    /// When there is none, or it does not die.
    #[track_caller]
    pub fn kill_daemon(&self) {
        process::kill_and_wait(&self.daemon(), DEADLINE);
    }

    /// The processes started through this home that still run.
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

    /// Waits until nothing that was started through this home is left, zombies included.
    ///
    /// # Panics
    ///
    /// When something is still there after `deadline`; the message says what.
    #[track_caller]
    pub fn no_processes_left_within(&self, deadline: Duration) {
        if try_wait_for(deadline, || self.remains().is_empty().then_some(())).is_none() {
            panic!("processes are left after {deadline:?}: {:#?}", self.remains());
        }
    }

    /// Waits until nothing that was started through this home is left, zombies included.
    ///
    /// # Panics
    ///
    /// When something is still there after [`DEADLINE`]; the message says what.
    #[track_caller]
    pub fn no_processes_left(&self) {
        self.no_processes_left_within(DEADLINE);
    }

    /// Zombies whose parent was started through this home.
    ///
    /// A zombie has no environment any more, so it is known by its parent.
    #[must_use]
    pub fn zombies(&self) -> Vec<process::Stat> {
        let ours = self.processes();
        process::all().into_iter().filter(|p| p.is_zombie() && ours.contains(&p.parent)).collect()
    }

    /// What is left, as a reader of a failure wants to see it.
    fn remains(&self) -> Vec<String> {
        let command = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid}: {}", String::from_utf8_lossy(&words).replace('\0', " "))
        };
        let zombie = |p: process::Stat| format!("{}: zombie of {} ({})", p.pid, p.parent, p.name);
        let alive: Vec<_> = self.processes().iter().map(command).collect();
        alive.into_iter().chain(self.zombies().into_iter().map(zombie)).collect()
    }

    /// Closes every pane and stops the daemon, as a user would.
    fn say_farewell(&self) {
        let listed = self.ccmux(&["ls", "--json"]).patience(FAREWELL).run();
        if !listed.status.success() {
            return;
        }
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        let panes = pane_ids(&listed);
        if !panes.is_empty() {
            let close: Vec<&str> = ["close"].into_iter().chain(panes).collect();
            self.ccmux(&close).patience(FAREWELL).run();
        }
        self.ccmux(&["daemon", "stop"]).patience(FAREWELL).run();
        wait_until("everything has left", LEAVING, || self.processes().is_empty());
    }

    /// Kills every process of this home with -9. In rounds, because what is killed may just be
    /// starting something.
    pub fn kill_everything(&self) {
        let nothing_left = || {
            for process in self.processes().into_iter().filter_map(process::identity) {
                process::signal(&process, Signal::KILL);
            }
            self.processes().is_empty().then_some(())
        };
        // Whatever survives -9 for this long is beyond us, and the test is over.
        let _all_gone = try_wait_for(DEADLINE, nothing_left);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.processes().is_empty() {
            return;
        }
        // After a failure, and whenever the polite way fails, only a clean machine matters; and a
        // panic while dropping would hide the failure itself.
        if !thread::panicking() {
            let polite = std::panic::AssertUnwindSafe(|| self.say_farewell());
            let _impolite = std::panic::catch_unwind(polite);
        }
        self.kill_everything();
    }
}

/// The ids of all panes in the answer of `ccmux ls --json`.
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
