//! The tree that a pane works in: made for it, examined, and taken away again (R16, B8).
//!
//! What is to be made is on record in the pane's directory (`workspace.json`) before anything of it
//! is there, so that whoever finds the pane half made, or half gone, knows what to look for. Each
//! step of taking it away may be done twice.

mod include;
mod make;
mod work;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::{Name, Workspace, WorkspaceKind};
use serde::{Deserialize, Serialize};

pub use make::make;
pub use work::{Work, find};

use crate::copy::Manifest;
use crate::file::{FileError, Survive};
use crate::git::{Git, GitError, Turn};
use crate::record::{self, RecordError};
use crate::{git, hooks};

/// The record in a pane's directory of the tree that was made for it.
pub const RECORD: &str = "workspace.json";

/// What was copied into it.
const MANIFEST: &str = "workspace.files";

/// Held while a tree is filled, by whoever fills it.
const LOCK: &str = "workspace.lock";

/// A tree that is made for a pane, as it is on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// What and where.
    pub workspace: Workspace,
    /// Where git is found.
    pub search: String,
    /// Where the user's settings of git are.
    pub home: Option<String>,
    /// The user wants what is in it gone.
    #[serde(default)]
    pub discarded: bool,
}

/// What is to be made.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The tree; its branch is not known yet.
    pub workspace: Workspace,
    /// The pane's directory.
    pub pane_dir: &'a Path,
    /// Where the locks are.
    pub locks: &'a Path,
    /// The names that its branch is made of: of the session and of the pane.
    pub names: (&'a Name, &'a Name),
    /// Where git is found.
    pub search: &'a str,
    /// The user's home.
    pub home: Option<&'a str>,
    /// The most bytes of files that are carried over.
    pub limit: u64,
}

/// Why a tree could not be made, examined or taken away.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The system refused something.
    #[error(transparent)]
    File(#[from] FileError),
    /// Git did.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A record is not readable.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The list of files to carry over leads elsewhere, or asks for too much.
    #[error("`{}`: {why}", file.display())]
    Include {
        /// The list.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl WorkspaceError {
    /// Whether there is no room left to write to.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::File(error) => error.is_full(),
            // Of a file that it cannot write while it fills a tree it does not say why.
            Self::Git(GitError::Failed { why, .. }) => {
                ["No space left on device", "unable to write file"]
                    .iter()
                    .any(|no| why.contains(no))
            }
            Self::Git(_) | Self::Record(_) | Self::Include { .. } => false,
        }
    }
}

impl Made {
    /// What is on record in a pane's directory, if something was made.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if it cannot be read.
    pub fn read(pane_dir: &Path) -> Result<Option<Self>, RecordError> {
        match record::read(&pane_dir.join(RECORD)) {
            Ok(made) => Ok(Some(made)),
            Err(RecordError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts on record that what is in it is to go.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn discard(mut self, pane_dir: &Path) -> Result<(), FileError> {
        self.discarded = true;
        self.write(pane_dir, Survive::PowerLoss)
    }

    fn write(&self, pane_dir: &Path, survive: Survive) -> Result<(), FileError> {
        record::write(&pane_dir.join(RECORD), self, survive)
    }

    fn git(&self) -> Git {
        Git::new(&self.search, self.home.as_deref())
    }

    fn path(&self) -> &Path {
        Path::new(&self.workspace.path)
    }

    /// The repository's common directory, as long as it is there.
    fn repository(&self) -> Option<&Path> {
        self.workspace.repository.as_deref().map(Path::new).filter(|dir| dir.is_dir())
    }

    /// Takes away what git knows of a tree whose directory is gone already: its entry, and its
    /// branch unless somebody else's work would go with that. May be done twice.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError`]; something is left in the repository then.
    pub fn forget(&self, locks: &Path) -> Result<(), WorkspaceError> {
        let Some(repository) = self.repository() else { return Ok(()) };
        if self.workspace.kind != WorkspaceKind::Worktree {
            return Ok(());
        }
        // Git would remove the tree along with its entry.
        if self.path().join(".git").symlink_metadata().is_ok() {
            let error = io::Error::other("it is still there");
            return Err(FileError::when("forget", self.path())(error).into());
        }
        let turn = Turn::take(locks, repository)?;
        let git = self.git();
        if has_entry(repository, self.path()) {
            let words = ["worktree", "remove", "--force", "--force", &self.workspace.path];
            git.run_holding(repository, &words, Some(&turn))?;
        }
        hooks::point("workspace.unlisted");
        let Some(branch) = &self.workspace.branch else { return Ok(()) };
        let is_there = git.branches(repository)?.contains(branch);
        if is_there && (self.discarded || work::own_commits(self, repository)?.is_empty()) {
            git.run_holding(repository, &["branch", "-D", "--quiet", branch], Some(&turn))?;
        }
        Ok(())
    }

    /// Waits until nobody makes the tree any more: a git that outlived its daemon may.
    ///
    /// # Errors
    ///
    /// [`GitError`].
    pub fn wait_until_made(&self, pane_dir: &Path, locks: &Path) -> Result<(), GitError> {
        if let Some(repository) = self.repository() {
            drop(Turn::take(locks, repository)?);
        }
        Turn::of_file(&pane_dir.join(LOCK)).map(drop)
    }

    /// Removes the lock that a killed git left on the index of the tree; whether there was one. Only
    /// for who knows that no process of the pane is left.
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

/// The records of the tree of a pane, there or not. Who promises that there is such a pane makes them survive the
/// death of the machine first: [`make`] does so only where something outside of the pane follows.
#[must_use]
pub fn records(pane_dir: &Path) -> [PathBuf; 2] {
    [RECORD, MANIFEST].map(|name| pane_dir.join(name))
}

/// Where git keeps what belongs to this work tree alone.
fn git_dir(tree: &Path) -> Option<PathBuf> {
    let git = tree.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = fs::read_to_string(&git).ok()?;
    Some(tree.join(text.strip_prefix("gitdir:")?.trim()))
}

/// Whether a repository has an entry for the work tree at `path`.
fn has_entry(repository: &Path, path: &Path) -> bool {
    let wanted = path.join(".git");
    let entries = fs::read_dir(repository.join("worktrees")).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let text = fs::read_to_string(entry.path().join("gitdir")).unwrap_or_default();
        Path::new(text.trim_end_matches('\n')) == wanted
    })
}

/// What is known of a directory in which a pane is asked for.
#[derive(Debug)]
pub enum Found {
    /// It is in no repository.
    Plain,
    /// It looks as if it were in a repository, and there is no git to ask.
    WithoutGit,
    /// It is in a repository without a commit.
    WithoutCommit(git::Repository),
    /// It is in a repository.
    Repository(git::Repository),
    /// It is in one that git cannot use.
    Unusable(GitError),
}

/// Looks where a directory is.
#[must_use]
pub fn look(dir: &Path, search: &str, home: Option<&str>) -> Found {
    if !git::is_in_work_tree(dir) {
        return Found::Plain;
    }
    match Git::new(search, home).repository(dir) {
        Ok(found) if found.head.is_none() => Found::WithoutCommit(found),
        Ok(found) => Found::Repository(found),
        Err(GitError::Missing) => Found::WithoutGit,
        Err(error) => Found::Unusable(error),
    }
}
