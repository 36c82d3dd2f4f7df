//! Copies files that git ignores but a pane needs, such as `.env`.
//!
//! The user lists them in `.worktreeinclude`, with the syntax of `.gitignore`. Only ignored files are
//! copied: other files are either in the repository or work in progress.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::{WorkspaceError, WorkspaceRecord};
use crate::copy::{self, Manifest};
use crate::file::{FileError, make_dir};

/// The list, in the root of the repository.
const LIST: &str = ".worktreeinclude";

/// Copies the listed files from the source tree.
pub(super) fn copy_listed(
    record: &WorkspaceRecord,
    limit: u64,
) -> Result<Manifest, WorkspaceError> {
    let (from, to) = (Path::new(&record.workspace.source), record.path());
    let list = from.join(LIST);
    let mut manifest = Manifest::new();
    if !list.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return Ok(manifest);
    }
    let real = fs::canonicalize(from).map_err(FileError::when("access", from))?;
    let mut left = limit;
    for name in listed(record, from, &list)? {
        let path = from.join(&name);
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if !is_inside(&path, &real) || to.join(&name).symlink_metadata().is_ok() {
            continue;
        }
        left = left.checked_sub(found.len()).ok_or_else(|| WorkspaceError::Include {
            file: list.clone(),
            why: format!("lists more than {} MiB of files", limit >> 20),
        })?;
        if !make_parents(to, &name)? {
            continue;
        }
        if let Some(stamp) = copy::file(&path, &found, &to.join(&name))? {
            manifest.insert(copy::escaped(&name), stamp);
        }
    }
    Ok(manifest)
}

/// Returns the files that match the list and are ignored by git.
fn listed(
    record: &WorkspaceRecord,
    from: &Path,
    list: &Path,
) -> Result<Vec<PathBuf>, WorkspaceError> {
    let git = record.git();
    let mut exclude = std::ffi::OsString::from("--exclude-from=");
    exclude.push(list);
    let words = ["ls-files", "-z", "--others", "--ignored"].map(OsStr::new);
    let words: Vec<&OsStr> = words.into_iter().chain([exclude.as_os_str()]).collect();
    let matching = names(&git.run(from, &words)?);
    if matching.is_empty() {
        return Ok(matching);
    }
    let words = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"];
    let mut ignored = Vec::new();
    // In chunks: the length of a command line is limited.
    for piece in matching.chunks(500) {
        let literal: Vec<std::ffi::OsString> = piece.iter().map(|name| literal(name)).collect();
        let words: Vec<&OsStr> =
            words.map(OsStr::new).into_iter().chain(literal.iter().map(AsRef::as_ref)).collect();
        ignored.extend(names(&git.run(from, &words)?));
    }
    ignored.retain(|name| matching.contains(name) && is_plain(name));
    Ok(ignored)
}

/// Returns a pathspec that matches exactly this name.
fn literal(name: &Path) -> std::ffi::OsString {
    let mut word = std::ffi::OsString::from(":(top,literal)");
    word.push(name);
    word
}

/// Splits output of git in which each name ends with a zero byte.
pub(super) fn names(output: &[u8]) -> Vec<PathBuf> {
    let names = output.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
}

fn is_plain(name: &Path) -> bool {
    name.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Returns whether a file, and the target of a link, is in the tree.
fn is_inside(path: &Path, tree: &Path) -> bool {
    fs::canonicalize(path).is_ok_and(|real| real.starts_with(tree))
        && !fs::read_link(path).is_ok_and(|leads| leads.is_absolute())
}

/// Creates the parent directories of a file. Returns false if one of them is a link.
pub(super) fn make_parents(to: &Path, name: &Path) -> Result<bool, FileError> {
    let mut dir = to.to_owned();
    for part in name.parent().into_iter().flat_map(Path::components) {
        dir.push(part);
        if dir.is_symlink() {
            return Ok(false);
        }
        make_dir(&dir)?;
    }
    Ok(true)
}
