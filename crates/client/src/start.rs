//! Starting the daemon in the background.
//!
//! The new process gets the environment the caller specifies, null devices as standard input and
//! error, and a pipe as standard output, to which it writes one line: `ready`, or the reason it
//! cannot run ([`ErrorBody`] as JSON). It detaches from the caller's session by itself.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use protocol::{ErrorBody, ErrorCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The line a daemon writes when it accepts connections.
const READY: &str = "ready";

/// The command that starts a detached daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its complete environment.
    pub env: Vec<(OsString, OsString)>,
}

/// Why the daemon could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program could not be executed.
    #[error("cannot execute `{}`: {error}", program.display())]
    Execute {
        /// The program.
        program: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The pipe to the new process failed.
    #[error("cannot read from the daemon: {0}")]
    Pipe(io::Error),
    /// The daemon was not ready in time.
    #[error("the daemon was not ready in time")]
    TimedOut,
    /// The daemon exited without reporting a reason.
    #[error("the daemon exited before it was ready")]
    Exited,
    /// The daemon reported why it cannot run.
    #[error(transparent)]
    Reported(ErrorBody),
}

/// The result of starting a daemon.
#[derive(Debug)]
pub(crate) enum Started {
    /// The new daemon accepts connections.
    Ready,
    /// Another daemon holds the state root; it may be starting or exiting. Contains the report of
    /// the new daemon, which has exited.
    AlreadyRunning(StartError),
}

/// Starts a daemon and waits until it is ready.
///
/// # Errors
///
/// [`StartError`].
pub(crate) fn start(command: &DaemonCommand, deadline: Instant) -> Result<Started, StartError> {
    let (reader, writer) = io::pipe().map_err(StartError::Pipe)?;
    let mut process = Command::new(&command.program);
    process
        .args(&command.args)
        .env_clear()
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::null());
    let mut child = process
        .spawn()
        .map_err(|error| StartError::Execute { program: command.program.clone(), error })?;
    // Closes our copy of the writing end, so that the pipe ends when the child exits.
    drop(process);
    // A client may outlive the daemon it started: reap it.
    std::thread::spawn(move || child.wait());
    interpret(&first_line(reader, deadline)?)
}

/// Interprets the first line of a new daemon.
fn interpret(line: &str) -> Result<Started, StartError> {
    if line == READY {
        return Ok(Started::Ready);
    }
    match serde_json::from_str::<ErrorBody>(line) {
        Ok(body) if body.code == ErrorCode::Conflict => {
            Ok(Started::AlreadyRunning(StartError::Reported(body)))
        }
        Ok(body) => Err(StartError::Reported(body)),
        Err(_) => Err(StartError::Exited),
    }
}

/// Reads up to the first line feed or the end of the pipe.
fn first_line(mut from: PipeReader, deadline: Instant) -> Result<String, StartError> {
    /// Longer than any error message; protects against a program that is not a daemon.
    const LONGEST: usize = 64 << 10;
    let mut line = Vec::new();
    let mut piece = [0; 4096];
    while !line.contains(&b'\n') && line.len() < LONGEST {
        wait_readable(&from, deadline)?;
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => line.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StartError::Pipe(error)),
        }
    }
    line.truncate(line.iter().position(|&byte| byte == b'\n').unwrap_or(line.len()));
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn wait_readable(from: &PipeReader, deadline: Instant) -> Result<(), StartError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(from, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => return Err(StartError::TimedOut),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(StartError::Pipe(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn first_line_of_daemon_determines_result() {
        let report = |code| serde_json::to_string(&ErrorBody::new(code, "why").hint("do")).unwrap();

        assert!(matches!(interpret("ready"), Ok(Started::Ready)));
        let running = interpret(&report(ErrorCode::Conflict));
        assert!(matches!(running, Ok(Started::AlreadyRunning(_))), "{running:?}");
        let failed = interpret(&report(ErrorCode::Failed));
        let Err(StartError::Reported(body)) = failed else { panic!("{failed:?}") };
        assert_eq!((body.message.as_str(), body.hint.as_deref()), ("why", Some("do")));
        assert!(matches!(interpret(""), Err(StartError::Exited)));
    }

    #[test]
    fn first_line_is_read_until_line_feed_end_or_deadline() {
        let soon = || Instant::now() + Duration::from_secs(60);

        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"ready\nand more").unwrap();
        assert_eq!(first_line(reader, soon()).unwrap(), "ready");

        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        assert_eq!(first_line(reader, soon()).unwrap(), "");

        let (reader, _writer) = io::pipe().unwrap();
        let late = first_line(reader, Instant::now());
        assert!(matches!(late, Err(StartError::TimedOut)), "{late:?}");
    }
}
