//! Creation of the working tree of a pane.

use std::path::Path;

use model::{Workspace, WorkspaceKind};

use super::{
    LOCK, MANIFEST, WorkDir, WorkspaceError, WorkspacePlan, WorkspaceRecord, carry, include,
};
use crate::file::Durability;
use crate::git::{Git, RepositoryLock};
use crate::{copy, hooks, record};

/// Creates the working tree.
///
/// # Errors
///
/// [`WorkspaceError`]; a partial tree is on record and removed together with the pane.
pub fn make(plan: &WorkspacePlan<'_>) -> Result<(), WorkspaceError> {
    let (pane_dir, locks, limit) = (plan.pane_dir, plan.locks, plan.limit);
    let record = WorkspaceRecord {
        workspace: plan.workspace.clone(),
        search: plan.search.to_owned(),
        home: plan.home.map(str::to_owned),
        discarded: false,
        discarded_tip: None,
    };
    if record.workspace.kind == WorkspaceKind::Shared {
        return Ok(());
    }
    if let Some(dir) = WorkDir::of_tree(plan.state_root, pane_dir, record.path()) {
        // Before the record, which claims the directory: an existing one is not the pane's.
        dir.create(pane_dir)?;
    }
    match record.workspace.kind {
        WorkspaceKind::Shared => {}
        WorkspaceKind::Auto | WorkspaceKind::Empty => {
            record.write(pane_dir, Durability::ProcessCrash)?;
        }
        WorkspaceKind::Copy => copy_source(&record, pane_dir)?,
        WorkspaceKind::Worktree | WorkspaceKind::Clone => {
            let Some(repository) = &plan.workspace.repository else { return Ok(()) };
            // A git process that outlives the daemon continues to fill the tree and holds this lock.
            let fill_lock = RepositoryLock::on_file(&pane_dir.join(LOCK))?;
            let lock = RepositoryLock::take(locks, Path::new(repository))?;
            hooks::point("workspace.locked");
            // Recorded before the repository changes: otherwise an entry could be left behind.
            record.write(pane_dir, Durability::PowerLoss)?;
            hooks::point("workspace.planned");
            let git = record.git_for_creation(locks);
            if record.workspace.kind == WorkspaceKind::Worktree {
                add_worktree(&git, &record, Path::new(repository), &lock)?;
            } else {
                clone_source(&git, &record, &lock)?;
            }
            drop(lock);
            hooks::point("workspace.listed");
            let words = ["reset", "--quiet", "--hard"];
            git.run_with_lock(record.path(), &words, Some(&fill_lock))?;
            if plan.carry {
                carry::carry(&record, limit, &fill_lock)?;
            }
            let manifest = include::copy_listed(&record, limit)?;
            record::write(&pane_dir.join(MANIFEST), &manifest, Durability::ProcessCrash)?;
        }
    }
    hooks::point("workspace.made");
    Ok(())
}

fn copy_source(record: &WorkspaceRecord, pane_dir: &Path) -> Result<(), WorkspaceError> {
    record.write(pane_dir, Durability::ProcessCrash)?;
    let (from, to) = (Path::new(&record.workspace.source), record.path());
    // The root itself stays private, like all directories of a pane.
    let manifest = copy::tree(from, to)?;
    record::write(&pane_dir.join(MANIFEST), &manifest, Durability::ProcessCrash)?;
    Ok(())
}

/// Adds the tree and its branch to the repository, without checking out files, which takes long in a
/// large repository and does not need the lock.
fn add_worktree(
    git: &Git,
    record: &WorkspaceRecord,
    repository: &Path,
    lock: &RepositoryLock,
) -> Result<(), WorkspaceError> {
    let Workspace { path, branch, base, .. } = &record.workspace;
    let (branch, base) = (branch.as_deref().unwrap_or_default(), base.as_deref());
    let words = ["worktree", "add", "--quiet", "--no-track", "--no-checkout", "-b", branch, path];
    let words: Vec<&str> = words.into_iter().chain(base).collect();
    git.run_with_lock(repository, &words, Some(lock))?;
    Ok(())
}

fn clone_source(
    git: &Git,
    record: &WorkspaceRecord,
    lock: &RepositoryLock,
) -> Result<(), WorkspaceError> {
    let Workspace { path, source, branch, base, .. } = &record.workspace;
    let (branch, base) = (branch.as_deref().unwrap_or_default(), base.as_deref());
    let words = ["clone", "--quiet", "--local", "--no-checkout", "--", source, path];
    git.run_with_lock(Path::new(source), &words, Some(lock))?;
    // Nothing is checked out yet, so only the branch changes.
    let words =
        ["update-ref", "--no-deref", "-m", "ccmux: created", &format!("refs/heads/{branch}")];
    let words: Vec<&str> = words.into_iter().chain(base).collect();
    git.run(Path::new(path), &words)?;
    git.run(Path::new(path), &["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")])?;
    Ok(())
}
