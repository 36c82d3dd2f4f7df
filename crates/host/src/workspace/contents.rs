//! The contents of a tree that is about to be removed: its files, its repositories, and the
//! directories that cannot be read.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// What a walk through a tree found. Paths are absolute.
#[derive(Debug, Default)]
pub(super) struct TreeContents {
    /// Entries that are not directories; those in work trees and repositories only if requested.
    pub(super) files: Vec<PathBuf>,
    /// Repositories, including those of submodules and bare ones.
    pub(super) repositories: Vec<FoundRepository>,
    /// Directories that cannot be read, with the reason.
    pub(super) unreadable: Vec<(PathBuf, io::Error)>,
}

/// A repository in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundRepository {
    /// Its git directory; `None` if `.git` does not lead to one.
    pub(super) git_dir: Option<PathBuf>,
    /// Its work tree; `None` for a bare repository and for a submodule that is not checked out.
    pub(super) tree: Option<PathBuf>,
}

/// Where a directory lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Repository,
}

impl TreeContents {
    /// Walks through a tree. Symbolic links are not followed.
    pub(super) fn of(top: &Path, all_files: bool) -> Self {
        let mut found = Self::default();
        found.walk(top, all_files);
        found
    }

    /// Adds the contents of another tree.
    pub(super) fn walk(&mut self, top: &Path, all_files: bool) {
        let mut dirs = vec![(top.to_owned(), Inside::Nothing)];
        while let Some((dir, mut inside)) = dirs.pop() {
            let entries = match fs::read_dir(&dir).and_then(Iterator::collect::<io::Result<Vec<_>>>)
            {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.unreadable.push((dir, error));
                    continue;
                }
            };
            if entries.iter().any(|entry| entry.file_name() == ".git") {
                self.add(FoundRepository { git_dir: git_dir(&dir), tree: Some(dir.clone()) });
                inside = Inside::Repository;
            }
            let is_git_dir = is_git_dir(&dir);
            if is_git_dir {
                self.add(FoundRepository { git_dir: Some(dir.clone()), tree: None });
                inside = Inside::Repository;
            }
            for entry in entries {
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_dir && !(is_git_dir && entry.file_name() == "objects") {
                    dirs.push((entry.path(), inside));
                } else if is_dir && all_files {
                    dirs.push((entry.path(), Inside::Repository));
                } else if !is_dir && (all_files || inside == Inside::Nothing) {
                    self.files.push(entry.path());
                }
            }
        }
    }

    /// Adds a repository. One with a work tree replaces the same one without.
    fn add(&mut self, found: FoundRepository) {
        let same = |other: &&mut FoundRepository| {
            other.git_dir.is_some() && other.git_dir == found.git_dir
        };
        match self.repositories.iter_mut().find(same) {
            Some(other) if other.tree.is_none() => *other = found,
            Some(_) if found.tree.is_none() => {}
            _ => self.repositories.push(found),
        }
    }
}

/// Returns whether a directory is the git directory of a repository or of a linked work tree.
fn is_git_dir(dir: &Path) -> bool {
    let has = |name: &str| dir.join(name).symlink_metadata().is_ok();
    has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

/// Returns the git directory to which `.git` in a work tree leads.
pub(super) fn git_dir(tree: &Path) -> Option<PathBuf> {
    let git = super::git_dir(tree)?;
    let git = fs::canonicalize(git).ok()?;
    is_git_dir(&git).then_some(git)
}

/// Adds the content of a file, link or directory tree to a hash. An entry that cannot be read is
/// identified by its attributes. The hash does not depend on the place of the tree.
pub(super) fn hash_into(hash: &mut blake3::Hasher, top: &Path) {
    let mut paths = vec![top.to_owned()];
    while let Some(path) = paths.pop() {
        let name = path.strip_prefix(top).unwrap_or(&path).as_os_str().as_bytes();
        hash.update(&name.len().to_le_bytes()).update(name);
        let Ok(found) = fs::symlink_metadata(&path) else {
            hash.update(b"missing");
            continue;
        };
        hash.update(&found.mode().to_le_bytes());
        let read = if found.is_dir() {
            fs::read_dir(&path).and_then(|entries| {
                let entries = entries.map(|entry| entry.map(|entry| entry.path()));
                let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
                entries.sort_by(|a, b| b.cmp(a));
                paths.append(&mut entries);
                Ok(())
            })
        } else if found.is_symlink() {
            fs::read_link(&path).map(|leads| {
                hash.update(leads.as_os_str().as_bytes());
            })
        } else if found.is_file() {
            hash.update(&found.len().to_le_bytes());
            open(&path).and_then(|file| hash.update_reader(file).map(|_| ()))
        } else {
            Err(io::ErrorKind::Unsupported.into())
        };
        if read.is_err() {
            hash.update(format!("unreadable {:?}", attributes(&found)).as_bytes());
        }
    }
}

fn attributes(found: &Metadata) -> impl std::fmt::Debug {
    let modified = (found.mtime(), found.mtime_nsec());
    (found.ino(), found.size(), modified, (found.ctime(), found.ctime_nsec()))
}

/// Opens a regular file. Does not follow links and does not wait for the writer of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).unwrap_or_default();
    File::options().read(true).custom_flags(flags).open(path)
}

/// Returns whether two files have the same type and content.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let (Ok(a), Ok(b)) = (fs::symlink_metadata(one), fs::symlink_metadata(other)) else {
        return false;
    };
    if a.is_symlink() && b.is_symlink() {
        return matches!((fs::read_link(one), fs::read_link(other)), (Ok(a), Ok(b)) if a == b);
    }
    if !a.is_file() || !b.is_file() || a.len() != b.len() {
        return false;
    }
    let hash = |path: &Path| {
        let mut hash = blake3::Hasher::new();
        hash.update_reader(open(path)?).map(|hash| hash.finalize())
    };
    matches!((hash(one), hash(other)), (Ok(a), Ok(b)) if a == b)
}
