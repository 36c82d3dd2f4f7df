//! What would be lost if a tree were taken away (B8).
//!
//! Whatever cannot be examined counts as work: a mistake in here may keep too much, never too
//! little.

use std::fs;
use std::path::Path;

use model::WorkspaceKind;

use super::{Made, WorkspaceError};
use crate::copy::{self, Change, Manifest};
use crate::git::{GitError, Turn};
use crate::process;

/// How often it is tried again to look at branches of which one was deleted meanwhile.
const TRIES: usize = 3;

/// How many of a kind are named.
const NAMED: usize = 5;

/// What would be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// In words, one line each.
    pub lines: Vec<String>,
    /// Everything that makes it this work and no other.
    marks: Vec<u8>,
}

impl Work {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// A word for exactly this work.
    #[must_use]
    pub fn token(&self) -> String {
        blake3::hash(&self.marks).to_hex()[..12].to_owned()
    }

    fn add(&mut self, line: String, marks: impl AsRef<[u8]>) {
        self.marks.extend(line.as_bytes());
        self.marks.push(0);
        self.marks.extend(marks.as_ref());
        self.marks.push(0);
        self.lines.push(line);
    }

    fn changes(&mut self, what: &str, changes: &[(String, Change)]) {
        if changes.is_empty() {
            return;
        }
        let names: Vec<&str> = changes.iter().map(|(name, _)| name.as_str()).collect();
        self.add(format!("{what}: {}", some(&names)), format!("{changes:?}"));
    }
}

/// `3 files: a, b, c`, or the first few of many.
fn some(names: &[&str]) -> String {
    let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0..=NAMED => shown,
        more => format!("{shown} and {} more", more - NAMED),
    }
}

/// What would be lost if the tree of a pane, and what it put into `output/`, were taken away. Whoever
/// asks has ended the pane's processes.
#[must_use]
pub fn find(pane_dir: &Path, output: &Path, locks: &Path) -> Work {
    let mut work = Work::default();
    match copy::changes(output, &Manifest::new()) {
        Ok(files) => work.changes("files in output/", &files),
        Err(_) if !output.exists() => {}
        Err(error) => work.add(format!("output/ cannot be examined: {error}"), ""),
    }
    match Made::read(pane_dir) {
        Ok(None) => {}
        Ok(Some(made)) => {
            if let Err(error) = examine(&made, pane_dir, locks, &mut work) {
                work.add(format!("the workspace cannot be examined: {error}"), "");
            }
        }
        Err(error) => work.add(format!("the workspace cannot be examined: {error}"), ""),
    }
    work
}

fn examine(
    made: &Made,
    pane_dir: &Path,
    locks: &Path,
    work: &mut Work,
) -> Result<(), WorkspaceError> {
    let tree = made.path();
    if tree.is_dir() {
        for (process, name) in process::working_in(tree) {
            let line = format!("process {} ({name}) works in it", process.pid);
            work.add(line, process.start.to_string());
        }
    }
    match made.workspace.kind {
        WorkspaceKind::Auto | WorkspaceKind::Shared => Ok(()),
        WorkspaceKind::Empty | WorkspaceKind::Copy => {
            let manifest = Made::manifest(pane_dir)?.unwrap_or_default();
            if tree.is_dir() {
                work.changes("files changed in the workspace", &copy::changes(tree, &manifest)?);
            }
            Ok(())
        }
        WorkspaceKind::Worktree | WorkspaceKind::Clone => examine_git(made, pane_dir, locks, work),
    }
}

fn examine_git(
    made: &Made,
    pane_dir: &Path,
    locks: &Path,
    work: &mut Work,
) -> Result<(), WorkspaceError> {
    let tree = made.path();
    // An agent that removed its own tree has nothing in it to be lost.
    if tree.is_dir() {
        uncommitted(made, work)?;
        unfinished(tree, work);
        let carried = Made::manifest(pane_dir)?.unwrap_or_default();
        // To look for them takes a walk through everything.
        let all = if carried.is_empty() { Vec::new() } else { copy::changes(tree, &carried)? };
        let is_work = |(name, change): &(String, Change)| {
            carried.contains_key(name) && !matches!(change, Change::Removed)
        };
        let changed: Vec<_> = all.into_iter().filter(is_work).collect();
        work.changes("files changed that were carried over", &changed);
    }
    let at = if tree.is_dir() { Some(tree) } else { made.repository() };
    let Some(at) = at else { return Ok(()) };
    // A branch that is deleted meanwhile, with another pane, would be one that git cannot read.
    let turn = made.repository().map(|repository| Turn::take(locks, repository)).transpose()?;
    let commits = own_commits(made, at)?;
    drop(turn);
    if let (Some(branch), false) = (&made.workspace.branch, commits.is_empty()) {
        let count = if commits.len() == 1 { "commit" } else { "commits" };
        let line = format!("{} {count} that only {branch} has", commits.len());
        work.add(line, commits.join("\n"));
    }
    let stashes = stashes(made, at)?;
    if !stashes.is_empty() {
        let names: Vec<&str> = stashes.iter().map(|(_, what)| what.as_str()).collect();
        work.add(format!("stashed: {}", some(&names)), format!("{stashes:?}"));
    }
    Ok(())
}

fn uncommitted(made: &Made, work: &mut Work) -> Result<(), WorkspaceError> {
    let tree = made.path();
    let words = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"];
    let said = made.git().run(tree, &words)?;
    let entries: Vec<&[u8]> =
        said.split(|&byte| byte == 0).filter(|entry| entry.len() > 3).collect();
    if entries.is_empty() {
        return Ok(());
    }
    let names: Vec<String> =
        entries.iter().map(|entry| String::from_utf8_lossy(&entry[3..]).into_owned()).collect();
    // A file that is changed again is other work, though git calls it the same.
    let mut marks = said.clone();
    for name in &names {
        let found = fs::symlink_metadata(tree.join(name));
        let stamp = found.ok().map(|found| (found.len(), found.modified().ok()));
        marks.extend(format!("{stamp:?}").as_bytes());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    work.add(format!("not committed: {}", some(&names)), marks);
    Ok(())
}

/// What git is in the middle of.
fn unfinished(tree: &Path, work: &mut Work) {
    const STATES: [(&str, &str); 6] = [
        ("MERGE_HEAD", "a merge"),
        ("rebase-merge", "a rebase"),
        ("rebase-apply", "a rebase"),
        ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ("REVERT_HEAD", "a revert"),
        ("BISECT_LOG", "a bisection"),
    ];
    let Some(dir) = super::git_dir(tree) else { return };
    for (file, what) in STATES {
        if dir.join(file).exists() {
            work.add(format!("{what} is not finished"), "");
        }
    }
}

/// The commits that would be reachable no more: of its branch and of what is checked out, without
/// those that a remote, another branch, a tag or the beginning of the branch leads to.
pub(super) fn own_commits(made: &Made, at: &Path) -> Result<Vec<String>, WorkspaceError> {
    let git = made.git();
    let branch = made.workspace.branch.clone().unwrap_or_default();
    let is_clone = made.workspace.kind == WorkspaceKind::Clone;
    let mut words: Vec<String> = vec!["rev-list".to_owned()];
    if is_clone {
        // All of its branches are in it alone.
        words.extend(["HEAD", "--branches", "--tags", "--not", "--remotes"].map(str::to_owned));
    } else {
        let branches = git.branches(at)?;
        words.extend(branches.contains(&branch).then(|| format!("refs/heads/{branch}")));
        words.extend((at == made.path()).then(|| "HEAD".to_owned()));
        if words.len() == 1 {
            return Ok(Vec::new());
        }
        words.push("--not".to_owned());
        words.push(format!("--exclude={branch}"));
        words.extend(["--branches", "--tags", "--remotes"].map(str::to_owned));
    }
    words.extend(made.workspace.base.clone());
    let mut again = TRIES;
    let said = loop {
        match git.run(at, &words) {
            // Somebody else's git deletes branches without our lock.
            Err(GitError::Failed { .. }) if again > 0 => again -= 1,
            said => break said?,
        }
    };
    Ok(String::from_utf8_lossy(&said).lines().map(str::to_owned).collect())
}

/// What was stashed in the tree, with the words that git has for it. All work trees of a repository
/// share their stashes, and each says which branch it was made on.
fn stashes(made: &Made, at: &Path) -> Result<Vec<(String, String)>, WorkspaceError> {
    let said = made.git().run(at, &["stash", "list", "--format=%H %gs"])?;
    let branch = made.workspace.branch.as_deref().unwrap_or_default();
    let (wip, named) = (format!("WIP on {branch}: "), format!("On {branch}: "));
    let is_clone = made.workspace.kind == WorkspaceKind::Clone;
    let said = String::from_utf8_lossy(&said);
    let of_it = said
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, what)| is_clone || what.starts_with(&wip) || what.starts_with(&named));
    Ok(of_it.map(|(id, what)| (id.to_owned(), what.to_owned())).collect())
}
