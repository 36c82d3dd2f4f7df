//! One run of a program in the surroundings of a [`Home`](crate::Home).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use model::Size;
use serde_json::Value;

use crate::screen::Screen;
use crate::wait::{DEADLINE, try_wait_for};

/// How long one command may take before a test gives it up. Stopping panes whose programs are deaf
/// takes a grace period each, so this is longer than [`DEADLINE`].
const PATIENCE: Duration = Duration::from_secs(60);

/// A program, its arguments and everything it will see: nothing is inherited from the test.
#[derive(Clone, Debug)]
#[must_use = "an invocation does nothing until it is run"]
pub struct Invocation {
    argv: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    dir: PathBuf,
    stdin: Vec<u8>,
    patience: Duration,
}

/// What a program left behind.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Invocation {
    /// A program with these arguments, in the given environment and directory.
    pub fn new(
        argv: impl IntoIterator<Item = impl Into<OsString>>,
        env: BTreeMap<OsString, OsString>,
        dir: &Path,
    ) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { argv, env, dir: dir.to_owned(), stdin: Vec::new(), patience: PATIENCE }
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.argv.push(arg.into());
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Takes a variable out of its environment.
    pub fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.remove(name.as_ref());
        self
    }

    /// Runs it in `dir`.
    pub fn dir(mut self, dir: &Path) -> Self {
        dir.clone_into(&mut self.dir);
        self
    }

    /// What it reads; nothing if not said.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// How long it may take.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    ///
    /// When it cannot be started, takes too long, or leaves something behind that keeps its output
    /// open.
    #[track_caller]
    pub fn run(&self) -> Finished {
        let mut child = self.spawn();
        let stdout = drain(child.stdout.take().expect("it is a pipe"));
        let stderr = drain(child.stderr.take().expect("it is a pipe"));
        let mut stdin = child.stdin.take().expect("it is a pipe");
        // Who does not read what he is given may have good reasons; the outcome is what counts.
        let _unread = stdin.write_all(&self.stdin);
        drop(stdin);

        let out = stdout.recv_timeout(self.patience);
        let status = try_wait_for(if out.is_ok() { DEADLINE } else { Duration::ZERO }, || {
            child.try_wait().expect("a child can be waited for")
        });
        let Some(status) = status else {
            // It may end at this very moment; it is reaped either way.
            let _dead = child.kill();
            let _reaped = child.wait();
            panic!("{self} did not end within {:?}", self.patience);
        };
        let err = stderr.recv_timeout(self.patience.min(DEADLINE));
        let (Ok(stdout), Ok(stderr)) = (out, err) else {
            panic!("{self} ended with {status}, but something it started keeps its output open");
        };
        Finished { status, stdout: text(stdout), stderr: text(stderr) }
    }

    /// Runs it and returns what it printed.
    ///
    /// # Panics
    ///
    /// When it fails; the message shows what it said.
    #[track_caller]
    pub fn ok(&self) -> String {
        let finished = self.run();
        assert!(finished.status.success(), "{self} failed: {finished:#?}");
        finished.stdout
    }

    /// Runs it and returns the JSON that it printed.
    ///
    /// # Panics
    ///
    /// When it fails or prints something else.
    #[track_caller]
    pub fn json(&self) -> Value {
        let printed = self.ok();
        match serde_json::from_str(&printed) {
            Ok(value) => value,
            Err(error) => panic!("{self} printed no JSON ({error}): {printed}"),
        }
    }

    /// Runs it, expects it to fail with exactly this exit code, and returns what it complained.
    ///
    /// # Panics
    ///
    /// When it ends in another way.
    #[track_caller]
    pub fn fails_with(&self, code: i32) -> String {
        let finished = self.run();
        assert_eq!(finished.status.code(), Some(code), "{self} ended otherwise: {finished:#?}");
        finished.stderr
    }

    /// Starts it with pipes on all sides and leaves the rest to the caller.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn spawn(&self) -> Child {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("cannot start {self}: {error}"),
        }
    }

    /// Runs it in a terminal window of this size.
    #[must_use]
    pub fn screen(&self, size: Size) -> Screen {
        Screen::start(self, size)
    }

    /// The same as a plain command, for callers that need something special.
    #[must_use]
    pub fn command(&self) -> Command {
        let (program, args) = self.argv.split_first().expect("an invocation names a program");
        let mut command = Command::new(program);
        command.args(args);
        self.apply_surroundings(&mut command);
        command
    }

    pub(crate) fn argv(&self) -> &[OsString] {
        &self.argv
    }

    pub(crate) fn apply_surroundings(&self, command: &mut Command) {
        command.env_clear().envs(&self.env).current_dir(&self.dir);
    }
}

impl std::fmt::Display for Invocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<_> = self.argv.iter().map(|word| word.to_string_lossy()).collect();
        write!(f, "`{}`", words.join(" "))
    }
}

/// Reads to the end on a thread, so that neither side of a pipe can hold up the other.
fn drain(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (done, all) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A pipe does not fail; if it did, what was read so far is what there is.
        let _complete = pipe.read_to_end(&mut bytes);
        // Nobody waits any more: the run was given up.
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
    fn output_input_and_exit_code_are_those_of_the_program() {
        let finished = shell("cat; echo oops >&2; exit 7").stdin("hello").run();

        assert_eq!(finished.stdout, "hello");
        assert_eq!(finished.stderr, "oops\n");
        assert_eq!(finished.status.code(), Some(7));
        assert_eq!(shell("echo why >&2; exit 3").fails_with(3), "why\n");
        assert_eq!(shell("echo '{\"a\": 1}'").json()["a"], 1);
    }

    #[test]
    fn nothing_of_the_tests_own_environment_is_inherited() {
        let printed = shell("/usr/bin/env").env("ONLY", "this").ok();

        let names: Vec<_> = printed.lines().filter_map(|line| line.split('=').next()).collect();
        // The shell adds what it knows of itself.
        assert!(
            names.iter().all(|name| ["ONLY", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)),
            "{names:?}"
        );
        assert!(names.contains(&"ONLY"));
    }

    #[test]
    #[should_panic(expected = "did not end within")]
    fn a_program_that_hangs_is_given_up() {
        shell("exec sleep 1000").patience(Duration::from_millis(20)).run();
    }

    #[test]
    #[should_panic(expected = "keeps its output open")]
    fn a_child_that_keeps_the_output_open_is_noticed() {
        // What lingers is gone soon after the test, whatever comes of it.
        shell("sleep 3 & exit 0").patience(Duration::from_millis(50)).run();
    }
}
