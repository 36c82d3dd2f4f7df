//! The programs to compare, with the operations that the measures need.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result, bail, ensure};
use model::ProcessIdentity;
use rustix::process::Signal;
use serde_json::Value;
use testkit::{Home, Http, Invocation, process};

use crate::client::Client;
use crate::driver::{self, Served};
use crate::payload::{COLS, ROWS};
use crate::script::TIMEOUT;

/// The name of a contender in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Ccmux,
    Tmux,
    Bare,
}

/// A program that runs others in terminals.
pub(crate) trait Contender {
    fn kind(&self) -> Kind;

    /// Starts a fresh server. `history`: lines of scrollback per pane (default: the contender's).
    fn start(&mut self, history: Option<u32>) -> Result<()>;

    /// Puts the files of later servers, and the working directory of their panes, below `dir`.
    fn set_dir(&mut self, _dir: &Path) {}

    /// Runs a program in a new detached pane, and returns the pane's name.
    fn open(&mut self, argv: &[String]) -> Result<String>;

    /// Whether panes can have limits.
    fn has_limits(&self) -> bool {
        false
    }

    /// Runs a program in a new pane with limits.
    fn open_limited(&mut self, limits: &str, argv: &[String]) -> Result<String> {
        bail!("no limits: {limits} for {argv:?}")
    }

    /// Closes a pane at once.
    fn close(&mut self, pane: &str) -> Result<()> {
        bail!("{pane} cannot be closed")
    }

    /// Returns a terminal attached to the pane.
    fn attach(&self, pane: &str) -> Result<Client>;

    /// Runs a program in a new pane, and returns a terminal attached to it.
    fn open_attached(&mut self, argv: &[String]) -> Result<Client> {
        let pane = self.open(argv)?;
        self.attach(&pane)
    }

    /// Returns the command that creates a detached pane; `None` if there is none.
    fn create_command(&self) -> Option<Command>;

    /// Returns the command that creates a pane without isolation; `None` if there is no difference.
    fn create_unisolated_command(&self) -> Option<Command> {
        None
    }

    /// Starts an HTTP server: ccmux's own API; for tmux, a server like those of tools that drive
    /// it.
    fn serve(&self) -> Result<Option<Served>> {
        Ok(None)
    }

    /// Returns the processes between programs and terminals.
    fn servers(&self) -> Result<Vec<u32>>;

    /// Closes all panes and stops the server.
    fn stop(&mut self) -> Result<()>;
}

/// Returns the CPU time of these processes, in clock ticks.
pub(crate) fn cpu_ticks(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|&pid| process::stat(pid)).map(|stat| stat.cpu_ticks).sum()
}

/// Returns the memory of these processes in bytes, shared pages counted once.
pub(crate) fn memory(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|&pid| process::proportional_set_size(pid)).sum()
}

/// `sleep` for longer than the benchmark takes.
/// The current directory of the contenders, in a directory set by [`Contender::set_dir`]. It does
/// not contain the state root, which a workspace could not copy.
pub(crate) const WORK: &str = "work";

const SLEEP: [&str; 2] = ["sleep", "1000000"];

fn run(invocation: &Invocation) -> Result<String> {
    let finished = invocation.try_run().map_err(anyhow::Error::msg)?;
    ensure!(finished.status.success(), "{invocation} failed: {}", finished.stderr);
    Ok(finished.stdout)
}

/// ccmux with a fresh state root for each start.
pub(crate) struct Ccmux {
    home: Arc<Home>,
    binary: PathBuf,
    dir: PathBuf,
    root: PathBuf,
    starts: u32,
}

impl Ccmux {
    pub(crate) fn new(home: &Arc<Home>, binary: PathBuf) -> Self {
        let dir = home.dir().to_owned();
        Self { home: Arc::clone(home), binary, root: dir.join("c0"), dir, starts: 0 }
    }

    fn invocation(&self, args: &[&str]) -> Invocation {
        let program = self.home.program(&self.binary, args).env("CCMUX_HOME", &self.root);
        if self.dir == self.home.dir() { program } else { program.dir(&self.dir.join(WORK)) }
    }

    fn open_with(&self, options: &[&str], argv: &[String]) -> Result<String> {
        let size = format!("{COLS}x{ROWS}");
        let mut words = vec!["new", "-d", "--json", "--size", &size];
        words.extend(options);
        words.push("--");
        words.extend(argv.iter().map(String::as_str));
        let made = self.json(&words)?;
        let id = made["pane"]["id"].as_str();
        id.map(str::to_owned).with_context(|| format!("`new` names no pane: {made}"))
    }

    fn json(&self, args: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&run(&self.invocation(args))?)?)
    }
}

impl Contender for Ccmux {
    fn kind(&self) -> Kind {
        Kind::Ccmux
    }

    fn start(&mut self, _history: Option<u32>) -> Result<()> {
        self.starts += 1;
        self.root = self.dir.join(format!("c{}", self.starts));
        run(&self.invocation(&["daemon", "start"]))?;
        Ok(())
    }

    fn set_dir(&mut self, dir: &Path) {
        dir.clone_into(&mut self.dir);
    }

    fn open(&mut self, argv: &[String]) -> Result<String> {
        self.open_with(&[], argv)
    }

    fn has_limits(&self) -> bool {
        true
    }

    fn open_limited(&mut self, limits: &str, argv: &[String]) -> Result<String> {
        self.open_with(&["--limit", limits], argv)
    }

    fn close(&mut self, pane: &str) -> Result<()> {
        run(&self.invocation(&["close", pane, "--grace", "0"])).map(drop)
    }

    fn attach(&self, pane: &str) -> Result<Client> {
        Client::start(self.invocation(&["attach", pane]).command())
    }

    fn create_command(&self) -> Option<Command> {
        let size = format!("{COLS}x{ROWS}");
        let words = ["new", "-d", "--size", &size, "--", SLEEP[0], SLEEP[1]];
        Some(self.invocation(&words).command())
    }

    fn create_unisolated_command(&self) -> Option<Command> {
        let size = format!("{COLS}x{ROWS}");
        let none = ["new", "-d", "--isolation", "none", "--size", &size, "--", SLEEP[0], SLEEP[1]];
        Some(self.invocation(&none).command())
    }

    fn serve(&self) -> Result<Option<Served>> {
        // No rate limit during the measure.
        let config = self.root.join("config");
        fs::create_dir_all(&config)?;
        File::create(config.join("ccmux.toml"))?.write_all(b"[http]\nrate = 1000000\n")?;
        let served = self.json(&["serve", "--listen", "127.0.0.1:0", "--detach", "--json"])?;
        let url = served["url"].as_str().with_context(|| format!("no url in {served}"))?;
        let token = run(&self.invocation(&["token"]))?;
        Ok(Some(Served::Ccmux {
            http: Http::new(url, Some(token.trim())),
            root: self.root.clone(),
        }))
    }

    fn servers(&self) -> Result<Vec<u32>> {
        let status = self.json(&["daemon", "status", "--json"])?;
        let mut pids = vec![pid_in(&status["pid"])?];
        for session in entries(&self.root.join("sessions")) {
            for pane in entries(&session.join("panes")) {
                let record = fs::read_to_string(pane.join("keeper.json"))?;
                let record: Value = serde_json::from_str(&record)?;
                pids.push(pid_in(&record["record"]["keeper"]["pid"])?);
            }
        }
        Ok(pids)
    }

    fn stop(&mut self) -> Result<()> {
        let listed = self.json(&["ls", "--json"])?;
        let panes = testkit::home::pane_ids(&listed);
        if !panes.is_empty() {
            let words: Vec<&str> = ["close"].into_iter().chain(panes).collect();
            run(&self.invocation(&words))?;
        }
        run(&self.invocation(&["daemon", "stop"]))?;
        // The files are kept until the end: a file system that has just removed many files creates
        // new ones several times more slowly, which would distort the next measure.
        Ok(())
    }
}

/// tmux on its own socket without configuration.
pub(crate) struct Tmux {
    home: Arc<Home>,
    dir: PathBuf,
    panes: u32,
}

impl Tmux {
    pub(crate) fn new(home: &Arc<Home>) -> Self {
        Self { home: Arc::clone(home), dir: home.dir().to_owned(), panes: 0 }
    }

    fn invocation(&self, args: &[&str]) -> Invocation {
        let words = ["-L", "bench", "-f", "/dev/null"].iter().chain(args);
        let words: Vec<&str> = words.copied().collect();
        let program = self.home.program("tmux", &words).env("TMUX_TMPDIR", &self.dir);
        if self.dir == self.home.dir() { program } else { program.dir(&self.dir.join(WORK)) }
    }

    fn tmux(&self, args: &[&str]) -> Result<String> {
        run(&self.invocation(args))
    }
}

impl Contender for Tmux {
    fn kind(&self) -> Kind {
        Kind::Tmux
    }

    fn start(&mut self, history: Option<u32>) -> Result<()> {
        self.panes = 0;
        // A server exits without a session.
        self.tmux(&[
            "new-session",
            "-d",
            "-x",
            "200",
            "-y",
            "50",
            "-s",
            "hold",
            SLEEP[0],
            SLEEP[1],
        ])?;
        // Without the status line its panes have the size of the terminal, as everywhere else.
        self.tmux(&["set", "-g", "status", "off"])?;
        if let Some(lines) = history {
            self.tmux(&["set", "-g", "history-limit", &lines.to_string()])?;
        }
        Ok(())
    }

    fn open(&mut self, argv: &[String]) -> Result<String> {
        self.panes += 1;
        let name = format!("p{}", self.panes);
        let mut words = vec!["new-session", "-d", "-x", "200", "-y", "50", "-s", &name];
        words.extend(argv.iter().map(String::as_str));
        self.tmux(&words)?;
        Ok(name)
    }

    fn set_dir(&mut self, dir: &Path) {
        dir.clone_into(&mut self.dir);
    }

    fn attach(&self, pane: &str) -> Result<Client> {
        Client::start(self.invocation(&["attach-session", "-t", pane]).command())
    }

    fn create_command(&self) -> Option<Command> {
        let words = ["new-session", "-d", "-x", "200", "-y", "50", SLEEP[0], SLEEP[1]];
        Some(self.invocation(&words).command())
    }

    fn serve(&self) -> Result<Option<Served>> {
        Ok(Some(driver::drive(self.invocation(&[]))?))
    }

    fn servers(&self) -> Result<Vec<u32>> {
        let pid = self.tmux(&["display-message", "-p", "#{pid}"])?;
        Ok(vec![pid.trim().parse()?])
    }

    fn stop(&mut self) -> Result<()> {
        let server = self.servers()?.into_iter().filter_map(process::identity).next();
        self.tmux(&["kill-server"])?;
        if let Some(server) = server {
            testkit::wait_until("the tmux server is gone", testkit::DEADLINE, || {
                !process::is_alive(&server)
            });
        }
        Ok(())
    }
}

/// No multiplexer: the program's terminal is that of the benchmark.
pub(crate) struct Bare {
    home: Arc<Home>,
    detached: Vec<(ProcessIdentity, JoinHandle<()>)>,
}

impl Bare {
    pub(crate) fn new(home: &Arc<Home>) -> Self {
        Self { home: Arc::clone(home), detached: Vec::new() }
    }

    fn client(&self, argv: &[String]) -> Result<Client> {
        let (program, args) = argv.split_first().context("no program")?;
        Client::start(self.home.program(program, args).command())
    }
}

impl Contender for Bare {
    fn kind(&self) -> Kind {
        Kind::Bare
    }

    fn start(&mut self, _history: Option<u32>) -> Result<()> {
        Ok(())
    }

    fn open(&mut self, argv: &[String]) -> Result<String> {
        let mut client = self.client(argv)?;
        let program = process::identity(client.pid()).context("it has ended already")?;
        // If the query never arrives, the measure times out and reports it.
        let drain = move || drop((client.answer_one_query(), client.drain(TIMEOUT)));
        self.detached.push((program, thread::spawn(drain)));
        Ok(String::new())
    }

    fn attach(&self, _pane: &str) -> Result<Client> {
        bail!("a bare terminal has nothing to attach to")
    }

    fn open_attached(&mut self, argv: &[String]) -> Result<Client> {
        self.client(argv)
    }

    fn create_command(&self) -> Option<Command> {
        None
    }

    fn servers(&self) -> Result<Vec<u32>> {
        Ok(Vec::new())
    }

    fn stop(&mut self) -> Result<()> {
        for (program, drain) in self.detached.drain(..) {
            process::signal(&program, Signal::KILL);
            if drain.join().is_err() {
                bail!("the reader of a bare terminal panicked");
            }
        }
        Ok(())
    }
}

fn pid_in(value: &Value) -> Result<u32> {
    let pid = value.as_u64().and_then(|pid| u32::try_from(pid).ok());
    pid.with_context(|| format!("{value} is no process"))
}

/// Returns the directories in `dir`; none if it does not exist.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
