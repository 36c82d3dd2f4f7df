//! Starting the daemon in the background.
//!
//! The new process gets an environment made for it, nothing on standard input and error, and a
//! pipe as its standard output, on which it says one line: `ready`, or why it cannot be
//! ([`ErrorBody`] as JSON). It leaves our session by itself (`daemon run --detached`).

use std::io::{self, PipeReader, Read as _};
use std::process::{Command, Stdio};
use std::time::Instant;

use protocol::{ErrorBody, ErrorCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::context::Context;

/// What the daemon says when it can be talked to.
pub(crate) const READY: &str = "ready";

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// Ours is ready.
    Ready,
    /// Another one holds the state root, and may be about to be ready, or to leave. This is what
    /// ours said of it.
    AlreadyRunning(ErrorBody),
}

/// Starts a daemon and waits until it is ready.
///
/// # Errors
///
/// Why it cannot run, as "unreachable": that is what it is to the verb that needs it.
pub(crate) fn start(context: &Context, deadline: Instant) -> Result<Started, ErrorBody> {
    let failed = |why: String| cannot_start(&why).hint("`ccmux daemon run` shows what it says");
    let (ready, theirs) = io::pipe().map_err(|error| failed(error.to_string()))?;
    let exe = context.exe()?;
    let mut command = Command::new(&exe);
    command
        .args(["daemon", "run", "--detached"])
        .env_clear()
        .envs(context.env.for_daemon(&context.home))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(theirs)
        .stderr(Stdio::null());
    let mut child = command
        .spawn()
        .map_err(|error| failed(format!("cannot execute `{}`: {error}", exe.display())))?;
    // The pipe ends with the child only when no other end is left with us.
    drop(command);
    // A client may live for days and its daemon die before it: somebody has to take note.
    std::thread::spawn(move || child.wait());
    let line = first_line(ready, deadline).map_err(|error| failed(error.to_string()))?;
    verdict(&line)
}

/// What the first line of a new daemon means.
fn verdict(line: &str) -> Result<Started, ErrorBody> {
    if line == READY {
        return Ok(Started::Ready);
    }
    match serde_json::from_str::<ErrorBody>(line) {
        Ok(body) => {
            let is_conflict = body.code == ErrorCode::Conflict;
            let body = ErrorBody { hint: body.hint, ..cannot_start(&body.message) };
            if is_conflict { Ok(Started::AlreadyRunning(body)) } else { Err(body) }
        }
        Err(_) => Err(cannot_start("it ended before it was ready")
            .hint("`ccmux daemon run` shows what it says")),
    }
}

fn cannot_start(why: &str) -> ErrorBody {
    ErrorBody::new(ErrorCode::Unreachable, format!("cannot start the daemon: {why}"))
}

/// What is written up to the first line feed or the end, without the line feed.
fn first_line(mut from: PipeReader, deadline: Instant) -> io::Result<String> {
    /// More than any error message; a child that writes on and on is not ours.
    const LONGEST: usize = 64 << 10;
    let mut line = Vec::new();
    let mut piece = [0; 4096];
    while !line.contains(&b'\n') && line.len() < LONGEST {
        wait_readable(&from, deadline)?;
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => line.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    line.truncate(line.iter().position(|&byte| byte == b'\n').unwrap_or(line.len()));
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn wait_readable(from: &PipeReader, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(from, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it was not ready in time"));
            }
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_line_of_a_daemon_decides() {
        let refused =
            |code| serde_json::to_string(&ErrorBody::new(code, "why").hint("do")).unwrap();

        assert_eq!(verdict("ready"), Ok(Started::Ready));
        let running = verdict(&refused(ErrorCode::Conflict));
        assert!(matches!(running, Ok(Started::AlreadyRunning(_))), "{running:?}");
        let error = verdict(&refused(ErrorCode::Failed)).unwrap_err();
        assert_eq!((error.code, error.hint.as_deref()), (ErrorCode::Unreachable, Some("do")));
        assert_eq!(error.message, "cannot start the daemon: why");
        assert!(verdict("").unwrap_err().message.ends_with("ended before it was ready"));
    }

    #[test]
    fn a_line_is_read_however_it_arrives_and_no_longer_than_the_deadline() {
        let soon = || Instant::now() + Duration::from_secs(60);

        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"ready\nand more").unwrap();
        assert_eq!(first_line(reader, soon()).unwrap(), "ready");

        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        assert_eq!(first_line(reader, soon()).unwrap(), "");

        let (reader, _silent) = io::pipe().unwrap();
        let late = first_line(reader, Instant::now()).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }
}
