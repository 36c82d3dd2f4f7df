//! Starting a keeper: the only place that starts a process.
//!
//! The keeper gets the locked directory of its pane as standard input and says one line on its
//! standard output: that it is ready, or why it failed. Its environment is the state root and
//! nothing else: what the pane's program sees is in the launch record.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use host::file::{FileError, open_append};
use host::lock::Lock;
use host::{hooks, household};
use protocol::pane::KeeperRecord;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use crate::pane::Keeper;

/// How long a keeper may take to start its program.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest first line.
const LINE_MAX: u64 = 64 << 10;

/// How much of what a keeper complained about is passed on.
const COMPLAINT_MAX: u64 = 600;

/// Where a keeper complains.
const COMPLAINTS: &str = "keeper.err";

/// A keeper that was started and has not yet spoken.
#[derive(Debug)]
pub(crate) struct Starting {
    child: Child,
    pidfd: OwnedFd,
    dir: PathBuf,
}

/// The one line that a keeper says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FirstWord {
    Ready(Box<KeeperRecord>),
    Failed { message: String },
}

/// Starts a keeper for the pane in `dir`, which is locked by `lock`.
///
/// # Errors
///
/// [`FileError`]; no process is left then.
pub(crate) fn start(
    exe: &Path,
    home: &Path,
    dir: &Path,
    lock: &Lock,
) -> Result<Starting, FileError> {
    let fail = || FileError::when("start", exe);
    let mut command = Command::new(exe);
    command.arg("keeper").env_clear().env(household::VARIABLE, home).current_dir("/");
    if let Some(hooks) = hooks::dir() {
        command.env(hooks::VARIABLE, hooks);
    }
    command
        .stdin(lock.share().map_err(fail())?)
        .stdout(Stdio::piped())
        .stderr(open_append(&dir.join(COMPLAINTS))?);
    let mut child = command.spawn().map_err(fail())?;
    // It is our child and was not waited for, so the number is still its own.
    let pid = Pid::from_child(&child);
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok(Starting { child, pidfd, dir: dir.to_owned() }),
        Err(error) => {
            end(&mut child);
            Err(fail()(error.into()))
        }
    }
}

impl Starting {
    /// Waits for the keeper's one line.
    ///
    /// # Errors
    ///
    /// Why it is not ready, for people; no keeper is left then.
    pub(crate) async fn ready(mut self) -> Result<Keeper, String> {
        let said = self.child.stdout.take().expect("its output was asked for");
        let heard = tokio::time::timeout(PATIENCE, first_word(said.into())).await;
        let why = match heard {
            Ok(Ok(FirstWord::Ready(record))) => {
                if record.keeper.pid == self.child.id() {
                    return Ok(Keeper { record: *record, pidfd: self.pidfd });
                }
                format!("the keeper calls itself process {}", record.keeper.pid)
            }
            Ok(Ok(FirstWord::Failed { message })) => message,
            Ok(Err(error)) => format!("the keeper did not start: {error}{}", self.complaint()),
            Err(_) => format!("the keeper did not start within {PATIENCE:?}{}", self.complaint()),
        };
        let mut child = self.child;
        crate::supervisor::run_blocking(move || end(&mut child)).await;
        Err(why)
    }

    fn complaint(&self) -> String {
        let mut text = Vec::new();
        let read = fs::File::open(self.dir.join(COMPLAINTS))
            .and_then(|file| file.take(COMPLAINT_MAX).read_to_end(&mut text));
        match (read, String::from_utf8_lossy(&text).trim()) {
            (Err(_), _) | (_, "") => String::new(),
            (Ok(_), text) => format!(" ({text})"),
        }
    }
}

/// Ends a keeper of which nobody knows, and leaves no zombie.
fn end(child: &mut Child) {
    // It may have ended by itself, which is as good.
    let _ended = child.kill();
    let _reaped = child.wait();
}

async fn first_word(said: OwnedFd) -> io::Result<FirstWord> {
    let mut line = Vec::new();
    let mut pipe = pipe::Receiver::from_owned_fd(said)?.take(LINE_MAX);
    while !line.contains(&b'\n') {
        if pipe.read_buf(&mut line).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it left without a word"));
        }
    }
    Ok(serde_json::from_slice(line.trim_ascii_end())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use host::file::{Survive, write_atomic};
    use host::lock;

    use super::*;

    /// A keeper that is a shell script.
    async fn started_as(script: &str) -> Result<Keeper, String> {
        let dir = tempfile::tempdir().unwrap();
        let exe = dir.path().join("fake");
        write_atomic(&exe, format!("#!/bin/sh\n{script}\n").as_bytes(), Survive::Kill).unwrap();
        fs::set_permissions(&exe, fs::Permissions::from_mode(0o700)).unwrap();
        let lock = lock::take_dir(dir.path()).unwrap().unwrap();
        start(&exe, Path::new("/home"), dir.path(), &lock).unwrap().ready().await
    }

    fn record(pid: &str) -> String {
        let identity = format!(r#"{{"pid":{pid},"start":1,"boot":"b"}}"#);
        format!(
            r#"{{"ready":{{"protocol":{{"min":1,"max":1}},"version":"1","keeper":{identity},"child":{identity},"started":0}}}}"#
        )
    }

    #[tokio::test]
    async fn a_keeper_that_is_ready_is_known_by_its_record() {
        let said = record("'$$'");

        let keeper = started_as(&format!("printf '%s\\n' '{said}'; exec sleep 0")).await.unwrap();

        keeper.ended().await.unwrap();
        assert!(!keeper.is_alive());
    }

    #[tokio::test]
    async fn a_keeper_that_is_not_ready_says_why() {
        let cases = [
            (r#"echo '{"failed":{"message":"no such program"}}'"#, "no such program"),
            ("echo out of memory >&2", "it left without a word (out of memory)"),
            ("echo garbage", "did not start"),
            (&format!("echo '{}'", record("1")), "calls itself process 1"),
        ];
        for (script, why) in cases {
            let said = started_as(script).await.unwrap_err();
            assert!(said.contains(why), "{script}: {said}");
        }
    }
}
