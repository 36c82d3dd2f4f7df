//! Running git, in surroundings of our own.
//!
//! Nothing of the caller's `GIT_*` variables reaches it, it asks nobody anything, and neither hooks
//! nor housekeeping of the repository run because of us. What changes something that all work trees
//! of a repository share is done under the lock of that repository; git holds the lock, too, as its
//! standard input, so that one that outlives us keeps others away until it is done.

use std::ffi::OsStr;
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

/// How long git may take for one thing. A large tree on a slow disk takes minutes; what takes longer
/// waits for something that does not come.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often it is looked whether the lock of a repository is free.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The most that is passed on of what git complained.
const COMPLAINT: usize = 2000;

/// What is the same for all of our commands.
const SETTINGS: [&str; 14] = [
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

/// The git of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Git {
    search: String,
    home: Option<String>,
}

/// Why git did not do something.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is none.
    #[error("git is not on the PATH")]
    Missing,
    /// The system refused something.
    #[error("git does not run: {0}")]
    System(#[from] io::Error),
    /// The lock of the repository.
    #[error(transparent)]
    File(#[from] FileError),
    /// It said no.
    #[error("git {what} failed: {why}")]
    Failed {
        /// The verb.
        what: String,
        /// What it said.
        why: String,
    },
    /// It did not end, or others did not.
    #[error("git {0} took too long")]
    TimedOut(String),
}

/// The right to change what all work trees of a repository share, until dropped.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Turn(File);

impl Turn {
    /// Waits for the lock of the repository with this common directory; `locks` holds the files.
    ///
    /// # Errors
    ///
    /// [`GitError`], also if others have it for too long.
    pub fn take(locks: &Path, repository: &Path) -> Result<Self, GitError> {
        make_dir(locks)?;
        let real = fs::canonicalize(repository).unwrap_or_else(|_| repository.to_owned());
        let name = blake3::hash(real.as_os_str().as_bytes()).to_hex();
        Self::of_file(&locks.join(format!("git-{}.lock", &name[..24])))
    }

    /// Waits for the lock on a file, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`GitError`], also if others have it for too long.
    pub fn of_file(path: &Path) -> Result<Self, GitError> {
        let opened =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
        let file = opened.map_err(FileError::when("open", path))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                    thread::sleep(LOOK_AGAIN);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(GitError::TimedOut("in another pane".to_owned()));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(FileError::when("lock", path)(error).into());
                }
            }
        }
    }
}

impl Git {
    /// The git on this search path, with the settings of the user with this home.
    #[must_use]
    pub fn new(search: &str, home: Option<&str>) -> Self {
        Self { search: search.to_owned(), home: home.map(str::to_owned) }
    }

    /// Runs git in `dir` to its end and gives what it printed.
    ///
    /// # Errors
    ///
    /// [`GitError`], also if it failed.
    pub fn run<A: AsRef<OsStr>>(&self, dir: &Path, args: &[A]) -> Result<Vec<u8>, GitError> {
        self.run_holding(dir, args, None)
    }

    /// The same; git holds the lock, too.
    ///
    /// # Errors
    ///
    /// [`GitError`], also if it failed.
    pub fn run_holding<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: &[A],
        turn: Option<&Turn>,
    ) -> Result<Vec<u8>, GitError> {
        let what = || {
            let words = args.iter().map(|word| word.as_ref().to_string_lossy());
            words.take_while(|word| !word.starts_with('-')).collect::<Vec<_>>().join(" ")
        };
        let stdin = match turn {
            Some(Turn(file)) => Stdio::from(file.try_clone()?),
            None => Stdio::null(),
        };
        let (status, said, complained) = self.end_of(dir, args, stdin, what)?;
        if status.success() {
            return Ok(said);
        }
        let complaint = String::from_utf8_lossy(&complained);
        let complaint: String = complaint.trim().chars().take(COMPLAINT).collect();
        let why = if complaint.is_empty() { status.to_string() } else { complaint };
        Err(GitError::Failed { what: what(), why })
    }

    /// What git prints, as a line of text.
    ///
    /// # Errors
    ///
    /// [`GitError`], also if it failed.
    pub fn line<A: AsRef<OsStr>>(&self, dir: &Path, args: &[A]) -> Result<String, GitError> {
        let said = self.run(dir, args)?;
        Ok(String::from_utf8_lossy(&said).trim_end_matches('\n').to_owned())
    }

    fn end_of<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: &[A],
        stdin: Stdio,
        what: impl Fn() -> String,
    ) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), GitError> {
        let mut command = Command::new("git");
        command.args(SETTINGS).args(args).env_clear().env("PATH", &self.search);
        command.envs(self.home.as_ref().map(|home| ("HOME", home)));
        command.envs([("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_OPTIONAL_LOCKS", "0")]);
        command.envs([("GIT_ASKPASS", "true"), ("SSH_ASKPASS", "true"), ("GIT_PAGER", "cat")]);
        command.current_dir(dir).process_group(0);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            let missing = error.kind() == io::ErrorKind::NotFound && dir.is_dir();
            if missing { GitError::Missing } else { GitError::System(error) }
        })?;
        let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
        let status = end_within(&mut child, PATIENCE);
        let read = |thread: thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
        let (said, complained) = (read(out), read(err));
        let status = status?.ok_or_else(|| GitError::TimedOut(what()))?;
        Ok((status, said, complained))
    }
}

/// How a child ended that is at the head of a process group of its own; none if it had to be killed
/// with its group because it took too long.
///
/// # Errors
///
/// The system's; it is gone then, too.
pub(crate) fn end_within(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let group = Pid::from_child(child);
    let ended = pidfd_open(group, PidfdFlags::empty()).map_err(io::Error::from);
    let ended = ended.and_then(|held| wait(&held, patience));
    if !matches!(ended, Ok(true)) {
        // It was not waited for, so the number is still its own, and its group's.
        let _ended = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait()?;
    Ok(ended?.then_some(status))
}

/// Whether the process ended in time.
fn wait(pidfd: &impl std::os::fd::AsFd, patience: Duration) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads to the end on a thread, so that neither side of a pipe can hold up the other.
fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A pipe does not fail; if it did, what was read so far is what there is.
            let _complete = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// A repository and where in it a directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The root of the work tree.
    pub top: PathBuf,
    /// What all its work trees share.
    pub common: PathBuf,
    /// Where below the root the directory is; empty for the root itself.
    pub prefix: PathBuf,
    /// The commit that is checked out; none if there is none yet.
    pub head: Option<String>,
}

/// Whether a directory looks like a part of a work tree; git is not asked.
#[must_use]
pub fn is_in_work_tree(dir: &Path) -> bool {
    let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    real.ancestors().any(|dir| dir.join(".git").symlink_metadata().is_ok())
}

impl Git {
    /// The repository that a directory is in.
    ///
    /// # Errors
    ///
    /// [`GitError`], also if it is in none.
    pub fn repository(&self, dir: &Path) -> Result<Repository, GitError> {
        let ask = ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"];
        let said = self.run(dir, &ask)?;
        let mut lines = said.split(|&byte| byte == b'\n');
        let mut path = || PathBuf::from(OsStr::from_bytes(lines.next().unwrap_or_default()));
        let (top, common) = (path(), path());
        let prefix = self.run(dir, &["rev-parse", "--show-prefix"])?;
        let prefix = prefix.strip_suffix(b"\n").unwrap_or(&prefix);
        let prefix = PathBuf::from(OsStr::from_bytes(prefix));
        let head = self.line(dir, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
        let head = match head {
            Ok(head) => Some(head),
            // It says nothing where there is no commit yet.
            Err(GitError::Failed { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Repository { top, common, prefix, head })
    }

    /// Every branch.
    ///
    /// # Errors
    ///
    /// [`GitError`].
    pub fn branches(&self, dir: &Path) -> Result<Vec<String>, GitError> {
        let said =
            self.run(dir, &["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"])?;
        Ok(String::from_utf8_lossy(&said).lines().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git() -> Git {
        Git::new("/usr/local/bin:/usr/bin:/bin", None)
    }

    #[test]
    fn a_repository_is_found_from_below_and_knows_whether_it_has_a_commit() {
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
    fn a_lock_is_held_by_whoever_was_given_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lock");
        let turn = Turn::of_file(&file).unwrap();
        let held = turn.0.try_clone().unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(held).spawn().unwrap();

        drop(turn);

        let again = OpenOptions::new().write(true).open(&file).unwrap();
        assert!(matches!(again.try_lock(), Err(TryLockError::WouldBlock)));
        drop(child.stdin.take());
        child.wait().unwrap();
        again.try_lock().unwrap();
    }

    #[test]
    fn what_git_says_is_passed_on() {
        let dir = tempfile::tempdir().unwrap();

        let error = git().run(dir.path(), &["rev-parse", "--show-toplevel"]).unwrap_err();
        let missing = Git::new("/nonexistent", None).run(dir.path(), &["status"]).unwrap_err();

        assert!(error.to_string().contains("not a git repository"), "{error}");
        assert!(matches!(missing, GitError::Missing), "{missing}");
    }
}
