//! Reconnects a git work tree with its repository after its state root was moved or copied.
//!
//! A work tree and its entry in the repository refer to each other by absolute paths. After a move
//! the entry is corrected. A copy of a work tree whose original still exists gets its own entry and
//! branch: with a shared entry, a commit in the copy would change the original.

use std::fs;
use std::path::{Path, PathBuf};

use model::WorkspaceKind;

use super::{WorkspaceError, WorkspaceRecord, git_dir, has_entry};
use crate::file::{Durability, FileError};
use crate::git::RepositoryLock;

/// The place where the entry of a copy is created; its directory is removed again.
const SCRATCH: &str = "workspace.copy";

impl WorkspaceRecord {
    /// Reconnects the work tree that was at `former` with its repository. The record contains the
    /// new path already; its branch changes if the work tree is a copy, and it is then written.
    /// Idempotent.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError`]; the work tree may then share its entry with the original.
    pub fn relink(
        &mut self,
        pane_dir: &Path,
        former: &Path,
        locks: &Path,
    ) -> Result<(), WorkspaceError> {
        let tree = PathBuf::from(&self.workspace.path);
        let Some(repository) = self.repository().map(Path::to_owned) else { return Ok(()) };
        let is_tree = tree.join(".git").symlink_metadata().is_ok();
        if self.workspace.kind != WorkspaceKind::Worktree || !is_tree {
            return Ok(());
        }
        let lock = RepositoryLock::take(locks, &repository)?;
        if has_entry(&repository, &tree) {
            return Ok(());
        }
        if let Some(entry) = shared_entry(&tree, former) {
            self.add_own_entry(pane_dir, &repository, &entry, &lock)?;
        }
        let words = ["worktree", "repair", &self.workspace.path];
        self.git().run_with_lock(&repository, &words, Some(&lock))?;
        Ok(())
    }

    /// Gives a copied work tree an entry and a branch at the commit of the original.
    fn add_own_entry(
        &mut self,
        pane_dir: &Path,
        repository: &Path,
        original: &Path,
        lock: &RepositoryLock,
    ) -> Result<(), WorkspaceError> {
        let git = self.git();
        let tree = PathBuf::from(&self.workspace.path);
        let head = git.run(&tree, &["rev-parse", "--verify", "HEAD"])?;
        let head = String::from_utf8_lossy(&head).trim().to_owned();
        let taken = git.branches(repository)?;
        let base = self.workspace.branch.as_deref().unwrap_or("ccmux");
        let branch = (1..)
            .map(|number| format!("{base}-copy{number}"))
            .find(|name| !taken.contains(name))
            .expect("finitely many names are taken");
        let scratch = pane_dir.join(SCRATCH);
        if scratch.exists() {
            // Left by an interrupted attempt; it holds nothing but a `.git` file.
            fs::remove_dir_all(&scratch).map_err(FileError::when("remove", &scratch))?;
        }
        let place = scratch.to_string_lossy();
        let words = ["worktree", "add", "--quiet", "--no-checkout", "-b", &branch, &place, &head];
        git.run_with_lock(repository, &words, Some(lock))?;
        if let Some(entry) = git_dir(&scratch) {
            let index = original.join("index");
            if index.exists() {
                fs::copy(&index, entry.join("index")).map_err(FileError::when("copy", &index))?;
            }
        }
        self.workspace.branch = Some(branch);
        self.write(pane_dir, Durability::PowerLoss)?;
        let link = scratch.join(".git");
        fs::rename(&link, tree.join(".git")).map_err(FileError::when("move", &link))?;
        fs::remove_dir(&scratch).map_err(FileError::when("remove", &scratch))?;
        Ok(())
    }

    /// Replaces the path of the state root in the record. Returns whether it occurred.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError`] if the changed record is not valid.
    pub fn rebase(&mut self, from: &str, to: &str) -> Result<bool, WorkspaceError> {
        let rebased = crate::record::rebased(self, from, to)
            .map_err(FileError::when("rebase", Path::new(to)))?;
        let changed = rebased != *self;
        *self = rebased;
        Ok(changed)
    }

    /// Writes the record.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn save(&self, pane_dir: &Path) -> Result<(), FileError> {
        self.write(pane_dir, Durability::PowerLoss)
    }
}

/// Returns the entry that a work tree shares with the work tree at `former`.
fn shared_entry(tree: &Path, former: &Path) -> Option<PathBuf> {
    let entry = |tree: &Path| fs::canonicalize(git_dir(tree)?).ok();
    let (ours, theirs) = (entry(tree)?, entry(former)?);
    (ours == theirs && !crate::root_identity::same_dir(tree, former)).then_some(ours)
}
