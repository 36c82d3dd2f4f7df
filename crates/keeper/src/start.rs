//! How a keeper comes to be.
//!
//! The daemon starts it with the pane's directory, already locked, as standard input; a pipe for
//! one line of news as standard output; and the pane's `keeper.err` as standard error. It moves
//! into that directory, so that everything it touches has a short relative name, and leaves the
//! daemon's session. From the line of news on, the daemon is not needed any more.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use host::file::Survive;
use host::household::Household;
use host::log::LogWriter;
use host::mounts::Closing;
use host::{clock, hooks, process, record, socket};
use model::LaunchRecord;
use protocol::greeting::SPOKEN;
use protocol::pane::{KeeperRecord, SOCKET};
use rustix::fs::{Mode, OFlags};
use rustix::stdio::{dup2_stdin, dup2_stdout, stdin, stdout};
use serde_json::json;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

use crate::limits::Warden;
use crate::pane::{Pane, Signals, complain};
use crate::pty::{Confinement, Pty};
use crate::tree::Tree;

/// Keeps one pane until it has ended. Started by the daemon and by nobody else.
///
/// `household` are those that do not go with the pane even if they descend from it.
#[must_use]
pub fn run(household: Household) -> ExitCode {
    let (lock, mut news) = match take_over() {
        Ok(taken) => taken,
        Err(error) => {
            complain(&format!("this is not how a keeper is started: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let (pane, line) = match start(household) {
        Ok((pane, record)) => (Some(pane), json!({ "ready": record })),
        Err(message) => (None, json!({ "failed": { "message": message } })),
    };
    // If the daemon is gone by now, the next one finds us by our record.
    // In one piece, or the daemon would be woken for every bracket of it.
    let _unread = news.write_all(format!("{line}\n").as_bytes());
    drop(news);
    let Some(pane) = pane else { return ExitCode::FAILURE };
    pane.run();
    // Held to the last moment: who finds it free knows that everything was written.
    drop(lock);
    ExitCode::SUCCESS
}

/// Takes directory and pipe from the standard descriptors and leaves the daemon's session.
fn take_over() -> io::Result<(OwnedFd, File)> {
    let lock = stdin().try_clone_to_owned()?;
    let news = File::from(stdout().as_fd().try_clone_to_owned()?);
    rustix::process::fchdir(&lock)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    // A keeper that leads a session already was started by hand, which is fine.
    let _leader = rustix::process::setsid();
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    Ok((lock, news))
}

fn start(household: Household) -> Result<(Pane, KeeperRecord), String> {
    let launch: LaunchRecord =
        record::read(Path::new("pane.json")).map_err(|error| error.to_string())?;
    hooks::point("keeper.entered");
    let signals = signals().map_err(|error| format!("cannot listen to signals: {error}"))?;
    let mut log = LogWriter::open(Path::new("log")).map_err(|error| error.to_string())?;
    log.note_size(launch.size);
    let listener = socket::listen_in(Path::new("."), SOCKET).map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    // What a former keeper of this pane left is not about us.
    for stale in ["exit.json", "keeper.json"] {
        let _missing = fs::remove_file(stale);
    }
    let pty = Pty::open(launch.size).map_err(|error| format!("cannot open a terminal: {error}"))?;
    if !Path::new(&launch.cwd).is_dir() {
        return Err(format!("the working directory `{}` does not exist", launch.cwd));
    }
    let warden = Warden::new(&launch, household.clone());
    let mut warden = warden.map_err(|error| format!("cannot look after its limits: {error}"))?;
    let closing = launch.shared().and_then(|dir| Closing::of(Path::new(dir)));
    let confinement = Confinement { closing, ..warden.confinement() };
    let child = pty.start(&launch, confinement).map_err(|error| {
        warden.leave();
        format!("cannot start `{}`: {}", launch.argv[0], reason(&error))
    })?;
    warden.started(child.id());
    hooks::point("keeper.started");
    let identify = |pid| process::identify(pid).map_err(|error| error.to_string());
    let keeper = KeeperRecord {
        protocol: SPOKEN,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        keeper: identify(std::process::id())?,
        child: identify(child.id())?,
        started: clock::now(),
    };
    // Survives every kill; after a power loss there is no keeper to find.
    record::write(Path::new("keeper.json"), &keeper, Survive::Kill)
        .map_err(|error| error.to_string())?;
    hooks::point("keeper.recorded");
    let tree = Tree::new(child.id(), household);
    let policy = launch.limits.policy;
    Ok((Pane::new(pty, log, launch.size, tree, listener, signals, (warden, policy)), keeper))
}

/// The system's word on a program that cannot be started, in ours.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => "there is no such program".to_owned(),
        Some(libc::EACCES) => "it may not be executed".to_owned(),
        _ => error.to_string(),
    }
}

fn signals() -> io::Result<Signals> {
    let told_of = |signal| -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        pipe::register(signal, theirs)?;
        Ok(ours)
    };
    // A handler rather than "ignore", which the pane's programs would inherit.
    for unwanted in [SIGHUP, SIGINT] {
        flag::register(unwanted, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(Signals { child: told_of(SIGCHLD)?, terminate: told_of(SIGTERM)? })
}
