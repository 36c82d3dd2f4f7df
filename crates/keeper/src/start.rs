//! Startup of a keeper.
//!
//! The daemon starts the keeper with the pane's directory, already locked, as standard input, a pipe
//! for one line of status as standard output, and `keeper.err` as standard error. The keeper changes
//! to that directory, so that its file names are short and relative, and leaves the daemon's session.
//! After the status line it does not depend on the daemon.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use host::file::Durability;
use host::log::LogWriter;
use host::mounts::ReadOnlyMount;
use host::own_processes::OwnProcesses;
use host::{clock, hooks, process, record, socket};
use model::LaunchRecord;
use protocol::greeting::SUPPORTED;
use protocol::pane::{KeeperRecord, SOCKET};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::stdio::{dup2_stdin, dup2_stdout, stdin, stdout};
use serde_json::json;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

use crate::event_log;
use crate::limits::LimitMonitor;
use crate::pane::{Pane, PaneParts, Signals};
use crate::process_tree::ProcessTree;
use crate::pty::{Confinement, Pty};

/// Runs the keeper of one pane until the pane has ended. Called only in a process started by the
/// daemon.
///
/// `own_processes` identifies processes of ccmux, which do not belong to the pane even if they
/// descend from it.
#[must_use]
pub fn run(own_processes: OwnProcesses) -> ExitCode {
    let (lock, mut status) = match take_descriptors() {
        Ok(taken) => taken,
        Err(error) => {
            event_log::report("keeper descriptors not usable", &[("error", &error)]);
            return ExitCode::FAILURE;
        }
    };
    let (pane, line) = match start(own_processes) {
        Ok((pane, record)) => (Some(pane), json!({ "ready": record })),
        Err(message) => (None, json!({ "failed": { "message": message } })),
    };
    // If the daemon has exited, the next one finds this keeper by its record. A single write, so
    // that the daemon is woken once.
    let _daemon_gone = status.write_all(format!("{line}\n").as_bytes());
    drop(status);
    let Some(pane) = pane else { return ExitCode::FAILURE };
    pane.run();
    // Released last: a free lock implies that all records are written.
    drop(lock);
    ExitCode::SUCCESS
}

/// Takes the directory and the pipe from the standard descriptors and leaves the daemon's session.
fn take_descriptors() -> io::Result<(OwnedFd, File)> {
    let lock = stdin().try_clone_to_owned()?;
    let status = File::from(stdout().as_fd().try_clone_to_owned()?);
    rustix::process::fchdir(&lock)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    // Fails if the keeper was started by hand and already leads a session.
    let _already_leader = rustix::process::setsid();
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    Ok((lock, status))
}

fn start(own_processes: OwnProcesses) -> Result<(Pane, KeeperRecord), String> {
    let launch: LaunchRecord =
        record::read(Path::new("pane.json")).map_err(|error| error.to_string())?;
    hooks::point("keeper.entered");
    let signals = signals().map_err(|error| format!("cannot register signal handlers: {error}"))?;
    let mut log = LogWriter::open(Path::new("log")).map_err(|error| error.to_string())?;
    log.note_size(launch.size);
    let listener = socket::listen_in(Path::new("."), SOCKET).map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    // Records of a previous keeper of this pane.
    for stale in ["exit.json", "keeper.json"] {
        let _missing = fs::remove_file(stale);
    }
    let pty =
        Pty::open(launch.size).map_err(|error| format!("cannot open a pseudoterminal: {error}"))?;
    if !Path::new(&launch.cwd).is_dir() {
        return Err(format!("the working directory `{}` does not exist", launch.cwd));
    }
    let mut limits = LimitMonitor::new(&launch, own_processes.clone())
        .map_err(|error| format!("cannot set up resource limits: {error}"))?;
    let read_only = launch.shared().and_then(|dir| ReadOnlyMount::prepare(Path::new(dir)));
    let confinement = Confinement { read_only, ..limits.confinement() };
    let child = pty.start(&launch, confinement).map_err(|error| {
        limits.remove_groups();
        start_failure(&launch.argv[0], &error)
    })?;
    limits.started(child.id());
    hooks::point("keeper.started");
    let identify = |pid| process::identify(pid).map_err(|error| error.to_string());
    let keeper = KeeperRecord {
        protocol: SUPPORTED,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        keeper: identify(std::process::id())?,
        child: identify(child.id())?,
        started: clock::now(),
    };
    // Need not survive a power loss, after which the keeper no longer exists.
    record::write(Path::new("keeper.json"), &keeper, Durability::ProcessCrash)
        .map_err(|error| error.to_string())?;
    hooks::point("keeper.recorded");
    let processes = ProcessTree::new(child.id(), own_processes);
    let parts = PaneParts { pty, log, size: launch.size, processes, listener, signals, limits };
    Ok((Pane::new(parts), keeper))
}

/// Returns the error message for a program that cannot be started.
fn start_failure(program: &str, error: &io::Error) -> String {
    let reason = match Errno::from_io_error(error) {
        Some(Errno::NOENT) if program.contains('/') => "program not found".to_owned(),
        Some(Errno::NOENT) => "program not found in PATH".to_owned(),
        Some(Errno::ACCESS) => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    format!("cannot start `{program}`: {reason}")
}

fn signals() -> io::Result<Signals> {
    let pipe_for = |signal| -> io::Result<UnixStream> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        pipe::register(signal, writer)?;
        Ok(reader)
    };
    // A handler instead of SIG_IGN, which the pane's programs would inherit.
    for ignored in [SIGHUP, SIGINT] {
        flag::register(ignored, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(Signals { child: pipe_for(SIGCHLD)?, terminate: pipe_for(SIGTERM)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_failure_names_program_and_reason() {
        let cases = [
            ("claude", Errno::NOENT, "cannot start `claude`: program not found in PATH"),
            ("./agent", Errno::NOENT, "cannot start `./agent`: program not found"),
            ("/etc/passwd", Errno::ACCESS, "cannot start `/etc/passwd`: permission denied"),
        ];
        for (program, errno, expected) in cases {
            assert_eq!(start_failure(program, &io::Error::from(errno)), expected);
        }
        let other = start_failure("sh", &io::Error::from(Errno::NOMEM));
        assert!(other.starts_with("cannot start `sh`: ") && other.len() > 20, "{other}");
    }
}
