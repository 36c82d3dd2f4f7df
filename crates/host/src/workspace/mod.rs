//! The working tree of a pane: created, inspected and removed (R16, B8).
//!
//! The plan is recorded in the pane's directory (`workspace.json`) before anything is created, so
//! that a partially created or removed tree can be cleaned up. Each step of the removal is idempotent.

mod build_output;
mod carry;
mod changes;
mod contents;
mod include;
mod late_write;
mod lfs;
mod make;
mod relink;
mod repository;
mod unsaved;
mod work;
mod work_dir;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::{Workspace, WorkspaceKind};
use serde::{Deserialize, Serialize};

pub use carry::obstacle_to_carrying;
pub use changes::TreeChanges;
pub use late_write::{FILE_TIME_RESOLUTION, find_late_write};
pub use make::make;
pub use unsaved::Work;
pub use work::{PaneRemoval, SessionRemoval, find, find_in_session};
pub use work_dir::{ASIDE_SUFFIX, WorkDir, all_work_dirs, move_back, remove_empty_dirs};

use crate::copy::Manifest;
use crate::file::{Durability, FileError};
use crate::git::{Git, GitError, RepositoryLock, Trust};
use crate::record::{self, RecordError};
use crate::{git, hooks, program};

/// The workspace record in a pane's directory.
pub const RECORD: &str = "workspace.json";

/// The working tree in a pane's directory, or a link to it.
pub const WORKSPACE: &str = "workspace";

/// The manifest of the copied files.
const MANIFEST: &str = "workspace.files";

/// Locked while the tree is being filled.
const LOCK: &str = "workspace.lock";

/// The record of a working tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRecord {
    /// Kind and location.
    pub workspace: Workspace,
    /// Search path for git.
    pub search: String,
    /// Home directory with the user's git settings.
    pub home: Option<String>,
    /// Whether the user discarded the contents.
    #[serde(default)]
    pub discarded: bool,
    /// The commit at which the user discarded the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_tip: Option<String>,
}

/// A working tree to create.
#[derive(Debug)]
pub struct WorkspacePlan<'a> {
    /// The workspace; a git workspace has a branch.
    pub workspace: &'a Workspace,
    /// The directory of the pane.
    pub pane_dir: &'a Path,
    /// The state root.
    pub state_root: &'a Path,
    /// The directory of the lock files.
    pub locks: &'a Path,
    /// Search path for git.
    pub search: &'a str,
    /// The user's home directory.
    pub home: Option<&'a str>,
    /// Maximum number of bytes of copied files.
    pub limit: u64,
    /// Whether the user's uncommitted changes are copied into a worktree or clone.
    pub carry: bool,
}

/// Failure to create, inspect or remove a working tree.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Error of the operating system.
    #[error(transparent)]
    File(#[from] FileError),
    /// Error of git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A record is not readable.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The list of files to copy is invalid or exceeds the limit.
    #[error("`{}`: {why}", file.display())]
    Include {
        /// The list.
        file: PathBuf,
        /// Description of the problem.
        why: String,
    },
    /// The uncommitted changes of the user cannot be copied.
    #[error("cannot carry the uncommitted changes of `{}`: {why}", dir.display())]
    Carry {
        /// The user's work tree.
        dir: PathBuf,
        /// Description of the problem.
        why: String,
    },
}

impl WorkspaceError {
    /// Returns whether the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::File(error) => error.is_full(),
            // Git does not say why it cannot write a file during checkout.
            Self::Git(GitError::Failed { why, .. }) => {
                ["No space left on device", "unable to write file"]
                    .iter()
                    .any(|no| why.contains(no))
            }
            Self::Git(_) | Self::Record(_) | Self::Include { .. } | Self::Carry { .. } => false,
        }
    }
}

impl WorkspaceRecord {
    /// Reads the record in a pane's directory; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if it cannot be read.
    pub fn read(pane_dir: &Path) -> Result<Option<Self>, RecordError> {
        match record::read(&pane_dir.join(RECORD)) {
            Ok(record) => Ok(Some(record)),
            Err(RecordError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Records that the contents are to be discarded.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn discard(mut self, pane_dir: &Path) -> Result<(), FileError> {
        self.discarded = true;
        self.discarded_tip = self.repository().and_then(|repository| self.tip(repository));
        self.write(pane_dir, Durability::PowerLoss)
    }

    /// Returns whether the user discarded the branch as it is now.
    fn is_discarded(&self, repository: &Path) -> bool {
        self.discarded
            && (self.discarded_tip.is_none() || self.discarded_tip == self.tip(repository))
    }

    /// Returns the commit of the branch.
    fn tip(&self, repository: &Path) -> Option<String> {
        let branch = self.workspace.branch.as_deref()?;
        let name = format!("refs/heads/{branch}");
        self.git().line(repository, &["rev-parse", "--verify", "--quiet", &name]).ok()
    }

    /// Returns the commits that only the branch has.
    fn own_commits(&self) -> Result<Vec<String>, WorkspaceError> {
        let Some(repository) = self.repository() else { return Ok(Vec::new()) };
        let branch = self.workspace.branch.as_deref().unwrap_or_default();
        let source = Some(Path::new(&self.workspace.source)).filter(|source| source.is_dir());
        Ok(repository::branch_commits(&self.git(), repository, branch, &[], source)?)
    }

    fn write(&self, pane_dir: &Path, survive: Durability) -> Result<(), FileError> {
        record::write(&pane_dir.join(RECORD), self, survive)
    }

    /// Returns git for the tree and its repository after an agent could write to them.
    fn git(&self) -> Git {
        Git::new(&self.search, self.home.as_deref(), Trust::Agent)
    }

    /// Returns git for creating the tree. `locks` is in the state root: a source in it is the tree of
    /// another pane.
    fn git_for_creation(&self, locks: &Path) -> Git {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let root = locks.parent().map(real);
        let source = real(Path::new(&self.workspace.source));
        let is_of_pane = root.is_some_and(|root| source.starts_with(root));
        let trust = if is_of_pane { Trust::Agent } else { Trust::User };
        Git::new(&self.search, self.home.as_deref(), trust)
    }

    fn path(&self) -> &Path {
        Path::new(&self.workspace.path)
    }

    /// Returns the common directory of the repository, if it exists.
    fn repository(&self) -> Option<&Path> {
        self.workspace.repository.as_deref().map(Path::new).filter(|dir| dir.is_dir())
    }

    /// Removes the work tree entry and the branch from the repository after the directory was
    /// removed. The branch is kept if it has unmerged commits. Idempotent.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError`]; the removal may be partial.
    pub fn forget(&self, locks: &Path) -> Result<(), WorkspaceError> {
        let Some(repository) = self.repository() else { return Ok(()) };
        if self.workspace.kind != WorkspaceKind::Worktree {
            return Ok(());
        }
        // Git would remove the directory along with the entry.
        if self.path().join(".git").symlink_metadata().is_ok() {
            let error = io::Error::other("the directory still exists");
            return Err(FileError::when("forget", self.path())(error).into());
        }
        let lock = RepositoryLock::take(locks, repository)?;
        let git = self.git();
        if has_entry(repository, self.path()) {
            let words = ["worktree", "remove", "--force", "--force", &self.workspace.path];
            git.run_with_lock(repository, &words, Some(&lock))?;
        }
        hooks::point("workspace.unlisted");
        let Some(branch) = &self.workspace.branch else { return Ok(()) };
        let is_there = git.branches(repository)?.contains(branch);
        if is_there && (self.is_discarded(repository) || self.own_commits()?.is_empty()) {
            git.run_with_lock(repository, &["branch", "-D", "--quiet", branch], Some(&lock))?;
        }
        Ok(())
    }

    /// Waits until the tree is complete: a git process may outlive the daemon that started it.
    ///
    /// # Errors
    ///
    /// [`GitError`].
    pub fn wait_until_made(&self, pane_dir: &Path, locks: &Path) -> Result<(), GitError> {
        if let Some(repository) = self.repository() {
            drop(RepositoryLock::take(locks, repository)?);
        }
        RepositoryLock::on_file(&pane_dir.join(LOCK)).map(drop)
    }

    /// Removes the index lock that a killed git process left. Returns whether there was one. The
    /// caller guarantees that no process of the pane is left.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn remove_stale_lock(&self) -> Result<bool, FileError> {
        let Some(dir) = git_dir(self.path()) else { return Ok(false) };
        let lock = dir.join("index.lock");
        match fs::remove_file(&lock) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(FileError::when("remove", &lock)(error)),
        }
    }

    fn manifest(pane_dir: &Path) -> Result<Option<Manifest>, RecordError> {
        match record::read(&pane_dir.join(MANIFEST)) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(RecordError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the paths of a pane's workspace records, which may not exist. Sync them before the pane
/// is announced: [`make`] syncs them only if it changes something outside of the pane.
#[must_use]
pub fn records(pane_dir: &Path) -> [PathBuf; 2] {
    [RECORD, MANIFEST].map(|name| pane_dir.join(name))
}

/// Returns the git directory of a work tree.
fn git_dir(tree: &Path) -> Option<PathBuf> {
    let git = tree.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = fs::read_to_string(&git).ok()?;
    Some(tree.join(text.strip_prefix("gitdir:")?.trim()))
}

/// Returns whether a repository has an entry for the work tree at `path`.
fn has_entry(repository: &Path, path: &Path) -> bool {
    let plan = path.join(".git");
    let entries = fs::read_dir(repository.join("worktrees")).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let text = fs::read_to_string(entry.path().join("gitdir")).unwrap_or_default();
        Path::new(text.trim_end_matches('\n')) == plan
    })
}

/// The repository of the directory in which a pane is requested.
#[derive(Debug)]
pub enum RepositoryStatus {
    /// The directory is not in a repository.
    None,
    /// The directory looks like a part of a repository, but git is not installed.
    GitMissing,
    /// The repository has no commit.
    NoCommit(git::Repository),
    /// The repository has commits.
    Usable(git::Repository),
    /// Git cannot use the repository.
    Unusable(GitError),
}

/// Finds the repository of a directory. Runs one git process, and none outside of repositories.
#[must_use]
pub fn repository_status(dir: &Path, search: &str, home: Option<&str>) -> RepositoryStatus {
    if !git::is_in_work_tree(dir) {
        return RepositoryStatus::None;
    }
    match Git::new(search, home, Trust::User).repository(dir) {
        Ok(found) if found.head.is_none() => RepositoryStatus::NoCommit(found),
        Ok(found) => RepositoryStatus::Usable(found),
        Err(GitError::Missing) => RepositoryStatus::GitMissing,
        Err(error) => RepositoryStatus::Unusable(error),
    }
}

/// Finds the repository of a directory as far as a workspace of the requested kind depends on it:
/// for kinds that do not use git the answer is [`RepositoryStatus::None`], without running it.
#[must_use]
pub fn repository_for(
    requested: WorkspaceKind,
    dir: &Path,
    search: &str,
    home: Option<&str>,
) -> RepositoryStatus {
    match requested {
        WorkspaceKind::Auto | WorkspaceKind::Worktree | WorkspaceKind::Clone => {
            repository_status(dir, search, home)
        }
        WorkspaceKind::Copy | WorkspaceKind::Shared | WorkspaceKind::Empty => {
            RepositoryStatus::None
        }
    }
}

/// Returns whether a directory is in a repository but git is not on the search path. Runs no
/// process.
#[must_use]
pub fn is_git_missing(dir: &Path, search: &str) -> bool {
    git::is_in_work_tree(dir) && program::find("git", search, dir).is_none()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

    /// A repository with one commit, and a search path whose git counts its runs in a file.
    fn repository(base: &Path) -> (PathBuf, String, PathBuf) {
        let (dir, bin, runs) = (base.join("project"), base.join("bin"), base.join("runs"));
        fs::create_dir_all(dir.join("deep")).unwrap();
        fs::create_dir(&bin).unwrap();
        let git = Git::new(PATH, None, Trust::User);
        git.run(&dir, &["init", "--quiet"]).unwrap();
        let user = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let commit = ["commit", "--quiet", "--allow-empty", "-m", "one"];
        git.run(&dir, &[&user[..], &commit[..]].concat()).unwrap();
        let script =
            format!("#!/bin/sh\necho run >> '{}'\nPATH={PATH} exec git \"$@\"\n", runs.display());
        let path = bin.join("git");
        crate::file::write_atomic(&path, script.as_bytes(), Durability::ProcessCrash).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        (dir.join("deep"), bin.to_str().unwrap().to_owned(), runs)
    }

    #[test]
    fn repository_for_runs_git_once_and_only_for_git_workspaces() {
        let base = tempfile::tempdir().unwrap();
        let (dir, search, runs) = repository(base.path());
        let count = || fs::read_to_string(&runs).unwrap_or_default().lines().count();

        for kind in [WorkspaceKind::Empty, WorkspaceKind::Copy, WorkspaceKind::Shared] {
            let found = repository_for(kind, &dir, &search, None);
            assert!(matches!(found, RepositoryStatus::None), "{found:?}");
        }
        assert_eq!(count(), 0);

        let found = repository_for(WorkspaceKind::Auto, &dir, &search, None);
        assert!(matches!(found, RepositoryStatus::Usable(_)), "{found:?}");
        assert_eq!(count(), 1);
    }

    #[test]
    fn is_git_missing_in_repository_without_git_only() {
        let base = tempfile::tempdir().unwrap();
        let (dir, search, runs) = repository(base.path());

        assert!(is_git_missing(&dir, "/nonexistent"));
        assert!(!is_git_missing(&dir, &search));
        assert!(!is_git_missing(base.path(), "/nonexistent"));
        assert!(!runs.exists());
    }
}
