//! Copies the user's uncommitted changes into a new work tree: staged, unstaged and untracked files,
//! but not ignored ones. The user's tree and index are only read.
//!
//! Files are copied as they are. Staged entries are added to the index of the new tree by their
//! object ids, which it shares with the user's repository or has cloned.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::include::{make_parents, names};
use super::{WorkspaceError, WorkspaceRecord, git_dir};
use crate::copy;
use crate::file::FileError;
use crate::git::{Git, GitError, RepositoryLock};

/// Maximum number of index entries in one command line.
const CHUNK: usize = 200;

/// The object id of a missing entry begins with these digits.
const NO_OBJECT: &str = "00000000";

/// Files in a git directory that show an unfinished operation, in which `HEAD` and index do not mean
/// what they usually do.
const UNFINISHED: [(&str, &str); 5] = [
    ("MERGE_HEAD", "a merge is unfinished"),
    ("rebase-merge", "a rebase is unfinished"),
    ("rebase-apply", "a rebase is unfinished"),
    ("CHERRY_PICK_HEAD", "a cherry-pick is unfinished"),
    ("REVERT_HEAD", "a revert is unfinished"),
];

/// An entry of the index that differs from the commit.
struct StagedEntry {
    mode: String,
    object: String,
    name: PathBuf,
}

/// Returns why the uncommitted changes of a work tree cannot be carried; `None` if they can.
///
/// # Errors
///
/// [`GitError`].
pub fn obstacle_to_carrying(git: &Git, tree: &Path) -> Result<Option<String>, GitError> {
    let unfinished = git_dir(tree).and_then(|dir| {
        UNFINISHED.iter().find(|(file, _)| dir.join(file).symlink_metadata().is_ok())
    });
    if let Some((_, why)) = unfinished {
        return Ok(Some((*why).to_owned()));
    }
    let conflicts = git.run(tree, &["ls-files", "--unmerged", "-z"])?;
    Ok((!conflicts.is_empty()).then(|| "files have conflicts".to_owned()))
}

/// Copies the changes into the tree on record, which has the files of its base commit.
pub(super) fn carry(
    record: &WorkspaceRecord,
    limit: u64,
    lock: &RepositoryLock,
) -> Result<(), WorkspaceError> {
    let (from, to) = (Path::new(&record.workspace.source), record.path());
    let git = record.git();
    let refused = |why: String| WorkspaceError::Carry { dir: from.to_owned(), why };
    if let Some(why) = obstacle_to_carrying(&git, from)? {
        return Err(refused(why));
    }
    let base = record.workspace.base.as_deref().unwrap_or("HEAD");
    let staged = staged(&git, from, base)?;
    let unstaged = names(&git.run(from, &["diff-files", "--name-only", "-z"])?);
    let words = ["ls-files", "-z", "--others", "--exclude-standard"];
    let untracked = names(&git.run(from, &words)?);
    let changed: BTreeSet<&PathBuf> =
        staged.iter().map(|entry| &entry.name).chain(&unstaged).chain(&untracked).collect();
    // A file can have become a directory and the other way round.
    for name in &changed {
        remove(from, to, name)?;
    }
    let mut left = limit;
    for name in &changed {
        let path = from.join(name);
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        // Submodules and embedded repositories have their own changes, which stay.
        if found.is_dir() {
            continue;
        }
        left = left
            .checked_sub(found.len())
            .ok_or_else(|| refused(format!("the files have more than {} MiB", limit >> 20)))?;
        if make_parents(to, name)? {
            copy::file(&path, &found, &to.join(name))?;
        }
    }
    stage(&git, to, &staged, lock)
}

/// Returns the entries of the index that differ from the commit `base`.
fn staged(git: &Git, tree: &Path, base: &str) -> Result<Vec<StagedEntry>, WorkspaceError> {
    let words = ["diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z", base];
    let output = git.run(tree, &words)?;
    let mut parts = output.split(|&byte| byte == 0);
    let mut staged = Vec::new();
    // Each entry is `:MODE MODE OBJECT OBJECT STATUS`, and then its name.
    while let (Some(entry), Some(name)) = (parts.next(), parts.next()) {
        let entry = String::from_utf8_lossy(entry).into_owned();
        let mut words = entry.split(' ').skip(1);
        let (Some(mode), Some(object)) = (words.next(), words.nth(1)) else { continue };
        let name = PathBuf::from(OsStr::from_bytes(name));
        staged.push(StagedEntry { mode: mode.to_owned(), object: object.to_owned(), name });
    }
    Ok(staged)
}

/// Adds staged entries to the index of the new tree, and removes deleted ones.
fn stage(
    git: &Git,
    tree: &Path,
    staged: &[StagedEntry],
    lock: &RepositoryLock,
) -> Result<(), WorkspaceError> {
    for chunk in staged.chunks(CHUNK) {
        let mut words: Vec<OsString> =
            ["update-index", "--add", "--replace"].map(Into::into).into();
        for StagedEntry { mode, object, name } in chunk {
            if object.starts_with(NO_OBJECT) {
                words.extend(["--force-remove".into(), name.into()]);
            } else {
                let mut entry = OsString::from(format!("{mode},{object},"));
                entry.push(name);
                words.extend(["--cacheinfo".into(), entry]);
            }
        }
        git.run_with_lock(tree, &words, Some(lock))?;
    }
    Ok(())
}

/// Removes a file from the tree `to`, and the directories above it that `from` does not have.
fn remove(from: &Path, to: &Path, name: &Path) -> Result<(), FileError> {
    let path = to.join(name);
    match fs::symlink_metadata(&path) {
        Ok(found) if !found.is_dir() => {
            fs::remove_file(&path).map_err(FileError::when("replace", &path))?;
        }
        Ok(_) => {}
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(());
        }
        Err(error) => return Err(FileError::when("access", &path)(error)),
    }
    for dir in name.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
        if from.join(dir).is_dir() || fs::remove_dir(to.join(dir)).is_err() {
            break;
        }
    }
    Ok(())
}
