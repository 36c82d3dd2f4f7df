//! Runs git in a controlled environment.
//!
//! The caller's `GIT_*` variables are not passed on, git never prompts, and neither repository hooks
//! nor maintenance run. Where an agent could have written the configuration, git runs no program at
//! all ([`Trust`]). Commands that change data shared by all work trees hold the lock of the
//! repository. Git inherits the lock as its standard input, so a git process that outlives the
//! daemon keeps the lock until it is done.

mod inert;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::file::{FileError, make_dir};
use crate::program;

/// Timeout of one git command. Checking out a large tree on a slow disk takes minutes.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Interval between two attempts to take the lock of a repository.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum number of characters of an error message of git that are passed on.
const MAX_MESSAGE: usize = 2000;

/// Options of every command.
const OPTIONS: [&str; 14] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "advice.detachedHead=false",
    "-c",
    "core.quotePath=false",
];

/// The author of the configuration that git reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The user: filters run, as they do for the user's own commands. Only for reading the
    /// repository in which the user requests a pane, and for checking out a new tree from it.
    User,
    /// An agent, which can have written the tree and its configuration: git runs no program. Files
    /// that a filter would convert are compared as they are.
    Agent,
}

/// The git program and settings of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Git {
    search: String,
    home: Option<String>,
    trust: Trust,
}

/// Failure of a git command.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git is not installed.
    #[error("git not found in PATH")]
    Missing,
    /// The process could not be started or awaited.
    #[error("cannot run git: {0}")]
    System(#[from] io::Error),
    /// The lock of the repository could not be taken.
    #[error(transparent)]
    File(#[from] FileError),
    /// Git exited with an error.
    #[error("git {what} failed: {why}")]
    Failed {
        /// The subcommand.
        what: String,
        /// The error message of git.
        why: String,
    },
    /// The command, or the wait for the lock, took too long.
    #[error("git {0} timed out")]
    TimedOut(String),
}

/// Exclusive lock on the data that all work trees of a repository share.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct RepositoryLock(File);

impl RepositoryLock {
    /// Waits for the lock of the repository with this common directory; lock files are in `locks`.
    ///
    /// # Errors
    ///
    /// [`GitError`], also if the lock is not released in time.
    pub fn take(locks: &Path, repository: &Path) -> Result<Self, GitError> {
        make_dir(locks)?;
        let real = fs::canonicalize(repository).unwrap_or_else(|_| repository.to_owned());
        let name = blake3::hash(real.as_os_str().as_bytes()).to_hex();
        Self::on_file(&locks.join(format!("git-{}.lock", &name[..24])))
    }

    /// Waits for the lock on a file, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// [`GitError`], also if the lock is not released in time.
    pub fn on_file(path: &Path) -> Result<Self, GitError> {
        let opened =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
        let file = opened.map_err(FileError::when("open", path))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if start.elapsed() < TIMEOUT => {
                    thread::sleep(RETRY_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(GitError::TimedOut("waiting for another pane".to_owned()));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(FileError::when("lock", path)(error).into());
                }
            }
        }
    }
}

impl Git {
    /// Creates a handle for the git on this search path, with the settings in this home directory.
    #[must_use]
    pub fn new(search: &str, home: Option<&str>, trust: Trust) -> Self {
        Self { search: search.to_owned(), home: home.map(str::to_owned), trust }
    }

    /// Runs git in `dir` and returns its standard output.
    ///
    /// # Errors
    ///
    /// [`GitError`], also for an exit status other than 0.
    pub fn run<A: AsRef<OsStr>>(&self, dir: &Path, args: &[A]) -> Result<Vec<u8>, GitError> {
        self.run_with_lock(dir, args, None)
    }

    /// Runs git like [`Git::run`]; the process holds the lock until it ends.
    ///
    /// # Errors
    ///
    /// [`GitError`], also for an exit status other than 0.
    pub fn run_with_lock<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: &[A],
        lock: Option<&RepositoryLock>,
    ) -> Result<Vec<u8>, GitError> {
        let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
        let (options, command) = split_options(&args);
        let settings = match self.trust {
            Trust::User => Vec::new(),
            Trust::Agent => self.inert_settings(dir, options)?,
        };
        let what = || {
            let words = command.iter().map(|word| word.to_string_lossy());
            words.take_while(|word| !word.starts_with('-')).collect::<Vec<_>>().join(" ")
        };
        let stdin = match lock {
            Some(RepositoryLock(file)) => Stdio::from(file.try_clone()?),
            None => Stdio::null(),
        };
        self.checked_output(dir, &args, stdin, &settings, what)
    }

    /// Returns the variables with which git runs no program in `dir`. `options` choose the repository.
    fn inert_settings(
        &self,
        dir: &Path,
        options: &[&OsStr],
    ) -> Result<Vec<(OsString, OsString)>, GitError> {
        let mut settings = inert::bounds(dir);
        settings.extend(inert::VARIABLES.map(|(name, value)| (name.into(), value.into())));
        let what = || inert::LIST[0].to_owned();
        let list: Vec<&OsStr> =
            options.iter().copied().chain(inert::LIST.map(OsStr::new)).collect();
        let listed = self.checked_output(dir, &list, Stdio::null(), &settings, what)?;
        settings.extend(inert::overrides(&listed));
        Ok(settings)
    }

    fn checked_output<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: &[A],
        stdin: Stdio,
        settings: &[(OsString, OsString)],
        what: impl Fn() -> String,
    ) -> Result<Vec<u8>, GitError> {
        let (status, output, stderr) = self.output_of(dir, args, stdin, settings, &what)?;
        if status.success() {
            return Ok(output);
        }
        let message = String::from_utf8_lossy(&stderr);
        let message: String = message.trim().chars().take(MAX_MESSAGE).collect();
        let why = if message.is_empty() { status.to_string() } else { message };
        Err(GitError::Failed { what: what(), why })
    }

    /// Runs git and returns its output as a line of text.
    ///
    /// # Errors
    ///
    /// [`GitError`], also for an exit status other than 0.
    pub fn line<A: AsRef<OsStr>>(&self, dir: &Path, args: &[A]) -> Result<String, GitError> {
        let output = self.run(dir, args)?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }

    fn output_of<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: &[A],
        stdin: Stdio,
        settings: &[(OsString, OsString)],
        what: impl Fn() -> String,
    ) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), GitError> {
        let search = self.search_outside(dir);
        let program = program::find("git", &search, Path::new("/")).ok_or(GitError::Missing)?;
        let mut command = Command::new(program);
        command.args(OPTIONS).args(args).env_clear().env("PATH", &search);
        command.envs(self.home.as_ref().map(|home| ("HOME", home)));
        command.envs([("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_OPTIONAL_LOCKS", "0")]);
        command.envs([("GIT_ASKPASS", "true"), ("SSH_ASKPASS", "true"), ("GIT_PAGER", "cat")]);
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        command.current_dir(dir).process_group(0);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
        let status = wait_timeout(&mut child, TIMEOUT);
        let read = |thread: thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
        let (output, stderr) = (read(out), read(err));
        let status = status?.ok_or_else(|| GitError::TimedOut(what()))?;
        Ok((status, output, stderr))
    }

    /// Returns the search path without relative directories and directories in the tree: git itself
    /// must not be a program of the agent either.
    fn search_outside(&self, dir: &Path) -> String {
        let is_outside = |place: &&str| {
            let place = Path::new(place);
            let real = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
            place.is_absolute() && !place.starts_with(dir) && !real.starts_with(dir)
        };
        self.search.split(':').filter(is_outside).collect::<Vec<_>>().join(":")
    }
}

/// Splits the arguments of git before the subcommand.
fn split_options<'a>(args: &'a [&'a OsStr]) -> (&'a [&'a OsStr], &'a [&'a OsStr]) {
    let mut at = 0;
    while let Some(word) = args.get(at).filter(|word| word.as_bytes().starts_with(b"-")) {
        at += if *word == "-c" { 2 } else { 1 };
    }
    args.split_at(at.min(args.len()))
}

/// Waits for a child that leads a process group; kills the group and returns `None` on timeout.
///
/// # Errors
///
/// Any error of the operating system; the child has ended then, too.
pub(crate) fn wait_timeout(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let group = Pid::from_child(child);
    let ended = pidfd_open(group, PidfdFlags::empty()).map_err(io::Error::from);
    let ended = ended.and_then(|held| wait(&held, timeout));
    if !matches!(ended, Ok(true)) {
        // The child was not reaped, so its pid and process group cannot have been reused.
        let _ended = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait()?;
    Ok(ended?.then_some(status))
}

/// Returns whether the process ended in time.
fn wait(pidfd: &impl std::os::fd::AsFd, timeout: Duration) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads a pipe to its end on a thread, so that a full pipe cannot block the child.
fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Reading a pipe does not fail; if it did, the bytes read so far are used.
            let _complete = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// A repository, and the position of a directory in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The root of the work tree.
    pub top: PathBuf,
    /// The directory that all work trees share.
    pub common: PathBuf,
    /// Path of the directory relative to the root; empty for the root itself.
    pub prefix: PathBuf,
    /// The commit that is checked out; `None` in a repository without commits.
    pub head: Option<String>,
}

/// Returns whether a directory seems to be in a work tree. Does not run git.
#[must_use]
pub fn is_in_work_tree(dir: &Path) -> bool {
    let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    real.ancestors().any(|dir| dir.join(".git").symlink_metadata().is_ok())
}

impl Git {
    /// Returns the repository of a directory. Runs one git process.
    ///
    /// # Errors
    ///
    /// [`GitError`], also if the directory is not in a repository.
    pub fn repository(&self, dir: &Path) -> Result<Repository, GitError> {
        // Without a commit, `--revs-only` prints nothing for HEAD and does not fail.
        let output = self.run(
            dir,
            &[
                "rev-parse",
                "--path-format=absolute",
                "--show-toplevel",
                "--git-common-dir",
                "--show-prefix",
                "--revs-only",
                "HEAD^{commit}",
            ],
        )?;
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let mut lines = output.splitn(3, |&byte| byte == b'\n');
        let (top, common) =
            (path(lines.next().unwrap_or_default()), path(lines.next().unwrap_or_default()));
        let (prefix, head) = split_prefix_and_head(lines.next().unwrap_or_default());
        let prefix = path(prefix);
        Ok(Repository { top, common, prefix, head })
    }

    /// Returns the names of all branches.
    ///
    /// # Errors
    ///
    /// [`GitError`].
    pub fn branches(&self, dir: &Path) -> Result<Vec<String>, GitError> {
        let output =
            self.run(dir, &["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"])?;
        Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
    }

    /// Returns the changed and untracked files of a work tree and of the submodules in it, each as
    /// two letters, a space and the path.
    ///
    /// # Errors
    ///
    /// [`GitError`].
    pub fn status(&self, tree: &Path) -> Result<Vec<Vec<u8>>, GitError> {
        // Git must not examine the submodules: it would read their configuration, too.
        let words = [
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            "--ignore-submodules=dirty",
        ];
        let output = self.run(tree, &words)?;
        let entries = output.split(|&byte| byte == 0).filter(|entry| entry.len() > 3);
        let mut entries: Vec<Vec<u8>> = entries.map(<[u8]>::to_vec).collect();
        for path in self.submodules(tree)? {
            for entry in self.status(&tree.join(&path))? {
                let path = path.as_os_str().as_bytes();
                entries.push([&entry[..3], path, b"/", &entry[3..]].concat());
            }
        }
        Ok(entries)
    }

    /// Returns the paths of the submodules of a work tree that are checked out.
    fn submodules(&self, tree: &Path) -> Result<Vec<PathBuf>, GitError> {
        let output = self.run(tree, &["ls-files", "-z", "--stage"])?;
        let links = output.split(|&byte| byte == 0).filter(|line| line.starts_with(b"160000 "));
        let path = |line: &[u8]| {
            let at = line.iter().position(|&byte| byte == b'\t')?;
            Some(PathBuf::from(OsStr::from_bytes(&line[at + 1..])))
        };
        let mut paths: Vec<PathBuf> = links.filter_map(path).collect();
        let real = fs::canonicalize(tree)?;
        paths.retain(|path| {
            // A link could lead back to the tree.
            let is_inside =
                fs::canonicalize(tree.join(path)).is_ok_and(|dir| dir == real.join(path));
            is_inside && tree.join(path).join(".git").symlink_metadata().is_ok()
        });
        paths.dedup();
        Ok(paths)
    }
}

/// Splits what `rev-parse` prints for `--show-prefix` and a commit, either of which may be missing.
/// A prefix can contain line breaks and ends with a slash, so it is never taken for a commit.
fn split_prefix_and_head(output: &[u8]) -> (&[u8], Option<String>) {
    let output = output.strip_suffix(b"\n").unwrap_or(output);
    let Some(at) = output.iter().rposition(|&byte| byte == b'\n') else { return (output, None) };
    let last = &output[at + 1..];
    if last.len() >= 40 && last.iter().all(u8::is_ascii_hexdigit) {
        return (&output[..at], Some(String::from_utf8_lossy(last).into_owned()));
    }
    (output, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git() -> Git {
        Git::new("/usr/local/bin:/usr/bin:/bin", None, Trust::User)
    }

    #[test]
    fn repository_is_found_from_subdirectory_and_reports_head() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        let deep = dir.join("a b/deep");
        fs::create_dir_all(&deep).unwrap();

        assert!(git().repository(&deep).is_err() && !is_in_work_tree(&deep));
        git().run(&dir, &["init", "--quiet"]).unwrap();
        let empty = git().repository(&deep).unwrap();
        let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let commit = ["commit", "--quiet", "--allow-empty", "-m", "one"];
        git().run(&dir, &[&who[..], &commit[..]].concat()).unwrap();
        let full = git().repository(&deep).unwrap();

        assert!(is_in_work_tree(&deep));
        assert_eq!((&full.top, full.common.as_path()), (&dir, dir.join(".git").as_path()));
        assert_eq!(full.prefix, Path::new("a b/deep/"));
        assert!(empty.head.is_none() && full.head.is_some_and(|head| head.len() >= 40));
    }

    #[test]
    fn split_prefix_and_head_handles_missing_parts_and_line_breaks() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        let cases = [
            (String::new(), "", false),
            ("\n".to_owned(), "", false),
            (format!("\n{hash}\n"), "", true),
            (format!("a b/c/\n{hash}\n"), "a b/c/", true),
            ("a/\n".to_owned(), "a/", false),
            ("a\nb/\n".to_owned(), "a\nb/", false),
            (format!("a\nb/\n{hash}\n"), "a\nb/", true),
        ];
        for (output, prefix, has_head) in cases {
            let head = has_head.then(|| hash.to_owned());
            let split = split_prefix_and_head(output.as_bytes());
            assert_eq!(split, (prefix.as_bytes(), head), "{output:?}");
        }
    }

    #[test]
    fn repository_lock_is_held_by_inheriting_process() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lock");
        let lock = RepositoryLock::on_file(&file).unwrap();
        let held = lock.0.try_clone().unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(held).spawn().unwrap();

        drop(lock);

        let again = OpenOptions::new().write(true).open(&file).unwrap();
        assert!(matches!(again.try_lock(), Err(TryLockError::WouldBlock)));
        drop(child.stdin.take());
        child.wait().unwrap();
        again.try_lock().unwrap();
    }

    #[test]
    fn run_passes_on_error_message_of_git() {
        let dir = tempfile::tempdir().unwrap();

        let error = git().run(dir.path(), &["rev-parse", "--show-toplevel"]).unwrap_err();
        let missing =
            Git::new("/nonexistent", None, Trust::User).run(dir.path(), &["status"]).unwrap_err();

        assert!(error.to_string().contains("not a git repository"), "{error}");
        assert!(matches!(missing, GitError::Missing), "{missing}");
    }
}
