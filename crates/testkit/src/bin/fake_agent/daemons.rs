//! Children that detach: forked twice, in their own sessions, ignoring signals.
//!
//! The agent runs itself as the intermediate process, which runs itself once more and exits.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// First argument of the intermediate process.
pub(crate) const FORK: &str = "fork-daemon";
/// First argument of the daemon.
pub(crate) const LIVE: &str = "live-as-daemon";

/// Starts `count` daemons and returns when each has written its pid to `pids`.
pub(crate) fn start(count: usize, pids: &Path, keep_tty: bool) -> io::Result<()> {
    let me = std::env::current_exe()?;
    for _ in 0..count {
        let keep = if keep_tty { "keep" } else { "close" };
        let status = Command::new(&me).arg(FORK).arg(pids).arg(keep).status()?;
        if !status.success() {
            return Err(io::Error::other("a daemon did not start"));
        }
    }
    Ok(())
}

/// The intermediate process: starts the daemon, waits until it is ready, and exits.
pub(crate) fn fork(words: &[String]) -> ExitCode {
    let forked = || -> io::Result<()> {
        let [pids, keep] = words else { return Err(io::ErrorKind::InvalidInput.into()) };
        let terminal = || if keep == "keep" { Stdio::inherit() } else { Stdio::null() };
        rustix::process::setsid()?;
        let mut daemon = Command::new(std::env::current_exe()?)
            .args([LIVE, pids])
            .stdin(terminal())
            .stderr(terminal())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut sign_of_life = daemon.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        sign_of_life.read_exact(&mut [0])
    };
    if forked().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The daemon: ignores signals and runs until killed.
pub(crate) fn live(words: &[String]) -> ExitCode {
    let began = || -> io::Result<()> {
        let pids = words.first().ok_or(io::ErrorKind::InvalidInput)?;
        super::ignore_signals(&[SIGHUP, SIGINT, SIGTERM])?;
        rustix::process::setsid()?;
        let line = format!("{}\n", std::process::id());
        File::options().create(true).append(true).open(pids)?.write_all(line.as_bytes())?;
        io::stdout().write_all(b"!")?;
        io::stdout().flush()
    };
    if began().is_err() {
        return ExitCode::FAILURE;
    }
    super::stay_forever()
}
