//! A program run in the environment of a [`Home`](crate::Home).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::wait::{DEADLINE, try_wait_for};

/// Default timeout of a command. Longer than [`DEADLINE`], because stopping a program that ignores
/// signals takes a grace period.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A program with its arguments, environment and directory; inherits nothing from the test.
#[derive(Clone, Debug)]
#[must_use = "an invocation does nothing until it is run"]
pub struct Invocation {
    argv: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    dir: PathBuf,
    stdin: Vec<u8>,
    timeout: Duration,
}

/// The result of a program.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Invocation {
    /// Creates an invocation of a program in the given environment and directory.
    pub fn new(
        argv: impl IntoIterator<Item = impl Into<OsString>>,
        env: BTreeMap<OsString, OsString>,
        dir: &Path,
    ) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { argv, env, dir: dir.to_owned(), stdin: Vec::new(), timeout: TIMEOUT }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.argv.push(arg.into());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Removes an environment variable.
    pub fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.remove(name.as_ref());
        self
    }

    /// Sets the working directory.
    pub fn dir(mut self, dir: &Path) -> Self {
        dir.clone_into(&mut self.dir);
        self
    }

    /// Sets the standard input (default: empty).
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets the timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs it to completion.
    ///
    /// # Panics
    ///
    /// When it cannot be started, times out, or leaves a process behind that keeps its output open.
    #[track_caller]
    pub fn run(&self) -> Finished {
        self.try_run().unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// Runs it to completion.
    ///
    /// # Errors
    ///
    /// When it cannot be started, times out, or leaves a process behind that keeps its output open.
    pub fn try_run(&self) -> Result<Finished, String> {
        let mut child = self.try_spawn()?;
        let stdout = drain(child.stdout.take().expect("it is a pipe"));
        let stderr = drain(child.stderr.take().expect("it is a pipe"));
        let mut stdin = child.stdin.take().expect("it is a pipe");
        // A program need not read its input; its result counts.
        let _unread = stdin.write_all(&self.stdin);
        drop(stdin);

        let out = stdout.recv_timeout(self.timeout);
        let status = try_wait_for(if out.is_ok() { DEADLINE } else { Duration::ZERO }, || {
            child.try_wait().expect("a child can be waited for")
        });
        let Some(status) = status else {
            // It may exit at this moment; it is reaped either way.
            let _dead = child.kill();
            let _reaped = child.wait();
            return Err(format!("{self} did not end within {:?}", self.timeout));
        };
        let err = stderr.recv_timeout(self.timeout.min(DEADLINE));
        let (Ok(stdout), Ok(stderr)) = (out, err) else {
            let fault = "but something it started keeps its output open";
            return Err(format!("{self} ended with {status}, {fault}"));
        };
        Ok(Finished { status, stdout: text(stdout), stderr: text(stderr) })
    }

    /// Runs it and returns its standard output.
    ///
    /// # Panics
    ///
    /// When it fails; the message shows its output.
    #[track_caller]
    pub fn ok(&self) -> String {
        let finished = self.run();
        assert!(finished.status.success(), "{self} failed: {finished:#?}");
        finished.stdout
    }

    /// Runs it and returns the JSON that it prints.
    ///
    /// # Panics
    ///
    /// When it fails or prints no JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        let printed = self.ok();
        match serde_json::from_str(&printed) {
            Ok(value) => value,
            Err(error) => panic!("{self} printed no JSON ({error}): {printed}"),
        }
    }

    /// Runs it, asserts this exit code, and returns its standard error.
    ///
    /// # Panics
    ///
    /// When it exits with another code.
    #[track_caller]
    pub fn fails_with(&self, code: i32) -> String {
        let finished = self.run();
        assert_eq!(
            finished.status.code(),
            Some(code),
            "{self} ended with another code: {finished:#?}"
        );
        finished.stderr
    }

    /// Starts it with pipes for standard input, output and error.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn spawn(&self) -> Child {
        self.try_spawn().unwrap_or_else(|fault| panic!("{fault}"))
    }

    fn try_spawn(&self) -> Result<Child, String> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| format!("cannot start {self}: {error}"))
    }

    /// Returns it as a [`Command`].
    #[must_use]
    pub fn command(&self) -> Command {
        let (program, args) = self.argv.split_first().expect("an invocation names a program");
        let mut command = Command::new(program);
        command.args(args);
        self.apply_environment(&mut command);
        command
    }

    pub(crate) fn argv(&self) -> &[OsString] {
        &self.argv
    }

    pub(crate) fn apply_environment(&self, command: &mut Command) {
        command.env_clear().envs(&self.env).current_dir(&self.dir);
    }
}

impl std::fmt::Display for Invocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<_> = self.argv.iter().map(|word| word.to_string_lossy()).collect();
        write!(f, "`{}`", words.join(" "))
    }
}

/// Reads to the end on a thread, so that neither pipe can block the other.
fn drain(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (done, all) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // On an error the bytes read so far are the result.
        let _complete = pipe.read_to_end(&mut bytes);
        // The receiver is gone if the run timed out.
        let _unwanted = done.send(bytes);
    });
    all
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|odd| String::from_utf8_lossy(odd.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Invocation {
        Invocation::new(["/bin/sh", "-c", script], BTreeMap::new(), Path::new("/"))
    }

    #[test]
    fn run_returns_output_and_exit_code() {
        let finished = shell("cat; echo oops >&2; exit 7").stdin("hello").run();

        assert_eq!(finished.stdout, "hello");
        assert_eq!(finished.stderr, "oops\n");
        assert_eq!(finished.status.code(), Some(7));
        assert_eq!(shell("echo why >&2; exit 3").fails_with(3), "why\n");
        assert_eq!(shell("echo '{\"a\": 1}'").json()["a"], 1);
    }

    #[test]
    fn environment_of_the_test_is_not_inherited() {
        let printed = shell("/usr/bin/env").env("ONLY", "this").ok();

        let names: Vec<_> = printed.lines().filter_map(|line| line.split('=').next()).collect();
        // The shell sets some variables itself.
        assert!(
            names.iter().all(|name| ["ONLY", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)),
            "{names:?}"
        );
        assert!(names.contains(&"ONLY"));
    }

    #[test]
    #[should_panic(expected = "did not end within")]
    fn hanging_program_times_out() {
        shell("exec sleep 1000").timeout(Duration::from_millis(20)).run();
    }

    #[test]
    #[should_panic(expected = "keeps its output open")]
    fn child_keeping_output_open_is_an_error() {
        // The background process exits soon after the test.
        shell("sleep 3 & exit 0").timeout(Duration::from_millis(50)).run();
    }
}
