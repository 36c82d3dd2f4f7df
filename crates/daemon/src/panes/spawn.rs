//! Start of keeper processes.
//!
//! A keeper gets the locked directory of its pane as standard input. It writes one line to standard
//! output: that it is ready, or why it failed. Its environment contains only the state root; the
//! environment of the pane's program is in the launch record.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use host::file::{FileError, open_append};
use host::lock::Lock;
use host::{hooks, own_processes};
use protocol::pane::KeeperRecord;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use super::pane::Keeper;
use crate::runtime::run_blocking;

/// Timeout for a keeper to start its program.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of the startup report, in bytes.
const REPORT_MAX: u64 = 64 << 10;

/// Maximum number of bytes of a keeper's error output that are quoted in an error.
const STDERR_MAX: u64 = 600;

/// File with the error output of a keeper.
const STDERR_FILE: &str = "keeper.err";

/// A keeper process that has not reported yet whether it is ready.
#[derive(Debug)]
pub(crate) struct StartingKeeper {
    child: Child,
    pidfd: OwnedFd,
    dir: PathBuf,
}

/// The one line that a keeper writes to standard output.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StartupReport {
    Ready(Box<KeeperRecord>),
    Failed { message: String },
}

/// Starts a keeper for the pane in `dir`, which is locked by `lock`.
///
/// # Errors
///
/// [`FileError`]; no process is left behind.
pub(crate) fn start(
    exe: &Path,
    home: &Path,
    dir: &Path,
    lock: &Lock,
) -> Result<StartingKeeper, FileError> {
    let fail = || FileError::when("start", exe);
    let mut command = Command::new(exe);
    command.arg("keeper").env_clear().env(own_processes::VARIABLE, home).current_dir("/");
    if let Some(hooks) = hooks::dir() {
        command.env(hooks::VARIABLE, hooks);
    }
    command
        .stdin(lock.share().map_err(fail())?)
        .stdout(Stdio::piped())
        .stderr(open_append(&dir.join(STDERR_FILE))?);
    let mut child = command.spawn().map_err(fail())?;
    // The child was not waited for, so its process id cannot have been reused.
    let pid = Pid::from_child(&child);
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok(StartingKeeper { child, pidfd, dir: dir.to_owned() }),
        Err(error) => {
            kill(&mut child);
            Err(fail()(error.into()))
        }
    }
}

impl StartingKeeper {
    /// Returns the pid of the keeper.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the keeper's report.
    ///
    /// # Errors
    ///
    /// The reason why it is not ready, as text for users; the keeper is killed.
    pub(crate) async fn ready(mut self) -> Result<Keeper, String> {
        let stdout = self.child.stdout.take().expect("standard output is piped");
        let report = tokio::time::timeout(START_TIMEOUT, read_report(stdout.into())).await;
        let why = match report {
            Ok(Ok(StartupReport::Ready(record))) => {
                if record.keeper.pid == self.child.id() {
                    return Ok(Keeper { record: *record, pidfd: self.pidfd });
                }
                format!("the keeper reported a wrong process id {}", record.keeper.pid)
            }
            Ok(Ok(StartupReport::Failed { message })) => message,
            Ok(Err(error)) => format!("the keeper did not start: {error}{}", self.stderr()),
            Err(_) => format!("the keeper did not start within {START_TIMEOUT:?}{}", self.stderr()),
        };
        let mut child = self.child;
        run_blocking(move || kill(&mut child)).await;
        Err(why)
    }

    /// Returns the beginning of the keeper's error output, in parentheses.
    fn stderr(&self) -> String {
        let mut text = Vec::new();
        let read = fs::File::open(self.dir.join(STDERR_FILE))
            .and_then(|file| file.take(STDERR_MAX).read_to_end(&mut text));
        match (read, String::from_utf8_lossy(&text).trim()) {
            (Err(_), _) | (_, "") => String::new(),
            (Ok(_), text) => format!(" ({text})"),
        }
    }
}

/// Kills a keeper that is not ready, and reaps it.
fn kill(child: &mut Child) {
    // It may have exited by itself.
    let _killed = child.kill();
    let _reaped = child.wait();
}

async fn read_report(stdout: OwnedFd) -> io::Result<StartupReport> {
    let mut line = Vec::new();
    let mut pipe = pipe::Receiver::from_owned_fd(stdout)?.take(REPORT_MAX);
    while !line.contains(&b'\n') {
        if pipe.read_buf(&mut line).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it exited without a report"));
        }
    }
    Ok(serde_json::from_slice(line.trim_ascii_end())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use host::file::{Durability, write_atomic};
    use host::lock;

    use super::*;

    /// Starts a shell script as the keeper.
    async fn start_script(script: &str) -> Result<Keeper, String> {
        let dir = tempfile::tempdir().unwrap();
        let exe = dir.path().join("fake");
        write_atomic(&exe, format!("#!/bin/sh\n{script}\n").as_bytes(), Durability::ProcessCrash)
            .unwrap();
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
    async fn ready_keeper_is_returned_with_its_record() {
        let report = record("'$$'");

        let keeper =
            start_script(&format!("printf '%s\\n' '{report}'; exec sleep 0")).await.unwrap();

        keeper.ended().await.unwrap();
        assert!(!keeper.is_alive());
    }

    #[tokio::test]
    async fn keeper_that_is_not_ready_returns_reason() {
        let cases = [
            (r#"echo '{"failed":{"message":"no such program"}}'"#, "no such program"),
            ("echo out of memory >&2", "it exited without a report (out of memory)"),
            ("echo garbage", "did not start"),
            (&format!("echo '{}'", record("1")), "wrong process id 1"),
        ];
        for (script, why) in cases {
            let said = start_script(script).await.unwrap_err();
            assert!(said.contains(why), "{script}: {said}");
        }
    }
}
