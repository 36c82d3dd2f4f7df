//! Making the tree that a pane works in.

use std::path::Path;

use model::{Workspace, WorkspaceKind, workspace};

use super::{LOCK, MANIFEST, Made, Wanted, WorkspaceError, include};
use crate::file::Survive;
use crate::git::Turn;
use crate::{copy, hooks, record};

/// Makes the tree, and says what became of it: the branch is known only then.
///
/// # Errors
///
/// [`WorkspaceError`]; what is there of it is on record, and taken away by who takes away the pane.
pub fn make(wanted: Wanted<'_>) -> Result<Workspace, WorkspaceError> {
    let (pane_dir, locks, limit) = (wanted.pane_dir, wanted.locks, wanted.limit);
    let names = wanted.names;
    let mut made = Made {
        workspace: wanted.workspace,
        search: wanted.search.to_owned(),
        home: wanted.home.map(str::to_owned),
        discarded: false,
    };
    match made.workspace.kind {
        WorkspaceKind::Shared => return Ok(made.workspace),
        WorkspaceKind::Auto | WorkspaceKind::Empty => made.write(pane_dir, Survive::Kill)?,
        WorkspaceKind::Copy => copied(&made, pane_dir)?,
        WorkspaceKind::Worktree | WorkspaceKind::Clone => {
            let Some(repository) = made.workspace.repository.clone() else {
                return Ok(made.workspace);
            };
            // A git that outlives us goes on filling the tree. Nobody else who fills one does.
            let filling = Turn::of_file(&pane_dir.join(LOCK))?;
            let turn = Turn::take(locks, Path::new(&repository))?;
            hooks::point("workspace.locked");
            let taken = made.git().branches(Path::new(&repository))?;
            made.workspace.branch = Some(workspace::branch(names.0, names.1, &taken));
            // Before the repository is touched: what is in there would otherwise stay for ever.
            made.write(pane_dir, Survive::PowerLoss)?;
            hooks::point("workspace.planned");
            if made.workspace.kind == WorkspaceKind::Worktree {
                listed(&made, Path::new(&repository), &turn)?;
            } else {
                cloned(&made, &turn)?;
            }
            drop(turn);
            hooks::point("workspace.listed");
            checked_out(&made, &filling)?;
            let manifest = include::carry_over(&made, limit)?;
            record::write(&pane_dir.join(MANIFEST), &manifest, Survive::Kill)?;
        }
    }
    hooks::point("workspace.made");
    Ok(made.workspace)
}

fn copied(made: &Made, pane_dir: &Path) -> Result<(), WorkspaceError> {
    made.write(pane_dir, Survive::Kill)?;
    let (from, to) = (Path::new(&made.workspace.source), made.path());
    // The root itself stays for its owner alone, like everything that is a pane's.
    let manifest = copy::tree(from, to)?;
    record::write(&pane_dir.join(MANIFEST), &manifest, Survive::Kill)?;
    Ok(())
}

/// Enters the tree and its branch in the repository, without a file in it: that takes long in a
/// large one, and needs nothing that is shared.
fn listed(made: &Made, repository: &Path, turn: &Turn) -> Result<(), WorkspaceError> {
    let Workspace { path, branch, base, .. } = &made.workspace;
    let (branch, base) = (branch.as_deref().unwrap_or_default(), base.as_deref());
    let words = ["worktree", "add", "--quiet", "--no-track", "--no-checkout", "-b", branch, path];
    let words: Vec<&str> = words.into_iter().chain(base).collect();
    made.git().run_holding(repository, &words, Some(turn))?;
    Ok(())
}

fn cloned(made: &Made, turn: &Turn) -> Result<(), WorkspaceError> {
    let Workspace { path, source, branch, base, .. } = &made.workspace;
    let (branch, base) = (branch.as_deref().unwrap_or_default(), base.as_deref());
    let git = made.git();
    let words = ["clone", "--quiet", "--local", "--no-checkout", "--", source, path];
    git.run_holding(Path::new(source), &words, Some(turn))?;
    // Nothing is checked out yet, so only the branch changes.
    let words = ["update-ref", "--no-deref", "-m", "ccmux: begun", &format!("refs/heads/{branch}")];
    let words: Vec<&str> = words.into_iter().chain(base).collect();
    git.run(Path::new(path), &words)?;
    git.run(Path::new(path), &["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")])?;
    Ok(())
}

fn checked_out(made: &Made, filling: &Turn) -> Result<(), WorkspaceError> {
    made.git().run_holding(made.path(), &["reset", "--quiet", "--hard"], Some(filling))?;
    Ok(())
}
