//! Who is measured, behind the few things that every measure needs.

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
use crate::script::PATIENCE;

/// The name of a contender, as it stands in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Ccmux,
    Tmux,
    Bare,
}

/// Something that runs programs in terminals.
pub(crate) trait Contender {
    fn kind(&self) -> Kind;

    /// Starts a fresh server. `history`: how many lines a pane has to keep, if not the default.
    fn start(&mut self, history: Option<u32>) -> Result<()>;

    /// Runs a program in a new pane that nobody looks at, and returns the pane's name.
    fn open(&mut self, argv: &[String]) -> Result<String>;

    /// Whether a pane can be kept within limits.
    fn has_limits(&self) -> bool {
        false
    }

    /// Runs a program in a new pane that may take only so much.
    fn open_limited(&mut self, limits: &str, argv: &[String]) -> Result<String> {
        bail!("no limits: {limits} for {argv:?}")
    }

    /// Ends a pane at once.
    fn close(&mut self, pane: &str) -> Result<()> {
        bail!("{pane} cannot be closed")
    }

    /// A terminal that looks at the pane.
    fn attach(&self, pane: &str) -> Result<Client>;

    /// Runs a program in a new pane and a terminal that looks at it.
    fn open_attached(&mut self, argv: &[String]) -> Result<Client> {
        let pane = self.open(argv)?;
        self.attach(&pane)
    }

    /// The one command that makes a detached pane; none if there is no such thing.
    fn create_command(&self) -> Option<Command>;

    /// The same for a pane that is not kept apart from others; none if there is no difference.
    fn create_unisolated_command(&self) -> Option<Command> {
        None
    }

    /// Serves HTTP: ccmux' own API, and for tmux what tools that drive it have. None serves nothing.
    fn serve(&self) -> Result<Option<Served>> {
        Ok(None)
    }

    /// The processes between the programs and the terminals; empty if there are none.
    fn servers(&self) -> Result<Vec<u32>>;

    /// Ends all panes and the server.
    fn stop(&mut self) -> Result<()>;
}

/// The processor time of these processes so far, in clock ticks.
pub(crate) fn cpu_ticks(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|&pid| process::stat(pid)).map(|stat| stat.cpu_ticks).sum()
}

/// The memory of these processes, in bytes, shared pages counted once.
pub(crate) fn memory(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|&pid| process::proportional_set_size(pid)).sum()
}

/// `sleep`, for longer than anything here takes.
const SLEEP: [&str; 2] = ["sleep", "1000000"];

fn run(invocation: &Invocation) -> Result<String> {
    let finished = invocation.try_run().map_err(anyhow::Error::msg)?;
    ensure!(finished.status.success(), "{invocation} failed: {}", finished.stderr);
    Ok(finished.stdout)
}

/// ccmux, a fresh state root for each start.
pub(crate) struct Ccmux {
    home: Arc<Home>,
    binary: PathBuf,
    root: PathBuf,
    starts: u32,
}

impl Ccmux {
    pub(crate) fn new(home: &Arc<Home>, binary: PathBuf) -> Self {
        Self { home: Arc::clone(home), binary, root: home.dir().join("c0"), starts: 0 }
    }

    fn invocation(&self, args: &[&str]) -> Invocation {
        self.home.program(&self.binary, args).env("CCMUX_HOME", &self.root)
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
        self.root = self.home.dir().join(format!("c{}", self.starts));
        run(&self.invocation(&["daemon", "start"]))?;
        Ok(())
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
        // Nobody is to be told to slow down.
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
        // The files stay until the bench is done: a file system that has just lost many of them
        // takes several times as long to make new ones, which would be measured with the next.
        Ok(())
    }
}

/// tmux on a socket of its own, with no configuration.
pub(crate) struct Tmux {
    home: Arc<Home>,
    panes: u32,
}

impl Tmux {
    pub(crate) fn new(home: &Arc<Home>) -> Self {
        Self { home: Arc::clone(home), panes: 0 }
    }

    fn invocation(&self, args: &[&str]) -> Invocation {
        let words = ["-L", "bench", "-f", "/dev/null"].iter().chain(args);
        let words: Vec<&str> = words.copied().collect();
        self.home.program("tmux", &words).env("TMUX_TMPDIR", self.home.dir())
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
        // A server needs a session to live.
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
        // Without its status line its panes are as large as its terminals, as everybody's are.
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

/// Nothing in between: the terminal of the program is the terminal of the bench.
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
        // If the question never comes, the measure itself runs out of patience and says so.
        let drain = move || drop((client.answer_one_question(), client.drain(PATIENCE)));
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

/// The directories in `dir`; none if it does not exist.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
