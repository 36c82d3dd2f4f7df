//! Conversion of user-supplied paths to lock keys.
//!
//! Symbolic links and `..` are resolved in the existing part of the path; the rest is used as
//! written. A lock is on the resolved name: renaming a directory does not move the locks below it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use model::lock::{Key, LockPath, LockScope};

/// The longest path that the kernel accepts.
const MAX_LENGTH: usize = 4096;

/// Maximum number of symbolic links in a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// A path that cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum UnusablePath {
    /// The path is relative.
    #[error("`{0}` is not an absolute path")]
    Relative(String),
    /// The path is too long for the kernel.
    #[error("the path `{start}…` has {length} bytes; the limit is {MAX_LENGTH}")]
    TooLong {
        /// The first characters.
        start: String,
        /// Length in bytes.
        length: usize,
    },
    /// The path contains a control character and cannot be listed on one line.
    #[error("the path {path:?} contains the control character {found:?}")]
    Control {
        /// The path.
        path: String,
        /// The first control character.
        found: char,
    },
    /// A component of the path or of a link target is not UTF-8.
    #[error("`{}` is not UTF-8", .0.display())]
    NotText(PathBuf),
    /// The symbolic links form a loop.
    #[error("`{0}` contains more than {MAX_LINKS} symbolic links")]
    LinkLoop(String),
    /// A component cannot be accessed.
    #[error("cannot access `{}`: {source}", path.display())]
    Io {
        /// The component.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// A copy of a repository whose files have the same lock keys as the original.
#[derive(Clone, Debug)]
pub struct RepositoryCopy {
    /// The copy, as a canonical path.
    pub path: PathBuf,
    /// The common git directory of the original repository.
    pub repository: String,
}

/// Returns the keys under which `path` is locked.
///
/// # Errors
///
/// [`UnusablePath`].
pub fn lock_path(
    path: &str,
    scope: LockScope,
    tree: bool,
    copies: &[RepositoryCopy],
) -> Result<LockPath, UnusablePath> {
    let real = resolve(path)?;
    let shown = text(&real)?;
    let mut keys = vec![Key { space: String::new(), path: shown.clone() }];
    if scope == LockScope::Repository
        && let Some((space, root)) = repository_of(&real, copies)
    {
        let within = real.strip_prefix(&root).unwrap_or(Path::new(""));
        keys.push(Key { space: text(&space)?, path: text(within)? });
    }
    Ok(LockPath { shown, keys, tree })
}

/// Resolves symbolic links and `..` in a path.
///
/// # Errors
///
/// [`UnusablePath`].
pub fn resolve(path: &str) -> Result<PathBuf, UnusablePath> {
    if path.len() >= MAX_LENGTH {
        let start = path.chars().take(40).collect();
        return Err(UnusablePath::TooLong { start, length: path.len() });
    }
    if let Some(found) = path.chars().find(|c| c.is_control()) {
        return Err(UnusablePath::Control { path: path.to_owned(), found });
    }
    if !path.starts_with('/') {
        return Err(UnusablePath::Relative(path.to_owned()));
    }
    let mut real = PathBuf::from("/");
    let mut exists = true;
    let mut links = 0;
    let mut rest: VecDeque<OsString> = parts(Path::new(path)).collect();
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            real.pop();
            // The parent may exist again.
            exists = true;
            continue;
        }
        real.push(&part);
        let Some(target) = (if exists { link(&real, &mut exists)? } else { None }) else {
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return Err(UnusablePath::LinkLoop(path.to_owned()));
        }
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(part);
        }
    }
    Ok(real)
}

/// Returns the target of the link at `path`, if it is one.
fn link(path: &Path, exists: &mut bool) -> Result<Option<PathBuf>, UnusablePath> {
    let fail = |source| UnusablePath::Io { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => fs::read_link(path).map(Some).map_err(fail),
        Ok(_) => Ok(None),
        // A file has no entries either.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            *exists = false;
            Ok(None)
        }
        Err(error) => Err(fail(error)),
    }
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn text(path: &Path) -> Result<String, UnusablePath> {
    let text = path.to_str().ok_or_else(|| UnusablePath::NotText(path.to_owned()))?;
    if let Some(found) = text.chars().find(|c| c.is_control()) {
        return Err(UnusablePath::Control { path: text.to_owned(), found });
    }
    Ok(text.to_owned())
}

/// Returns the repository of a path and the root of its work tree.
fn repository_of(real: &Path, copies: &[RepositoryCopy]) -> Option<(PathBuf, PathBuf)> {
    if let Some(copy) = copies.iter().find(|copy| real.starts_with(&copy.path)) {
        return Some((PathBuf::from(&copy.repository), copy.path.clone()));
    }
    let root = real.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok())?;
    Some((common_dir(&root.join(".git"))?, root.to_owned()))
}

/// Returns the common git directory of a work tree. In a linked work tree `.git` is a file that names
/// a directory with a `commondir` file.
fn common_dir(git: &Path) -> Option<PathBuf> {
    if git.is_dir() {
        return fs::canonicalize(git).ok();
    }
    let named = fs::read_to_string(git).ok()?;
    let own = git.parent()?.join(named.strip_prefix("gitdir:")?.trim());
    match fs::read_to_string(own.join("commondir")) {
        Ok(common) => fs::canonicalize(own.join(common.trim())).ok(),
        Err(_) => fs::canonicalize(own).ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::file::{Durability, write_atomic};

    fn base() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        (dir, real)
    }

    #[test]
    fn resolve_returns_same_path_for_every_alias() {
        let (_dir, base) = base();
        fs::create_dir_all(base.join("real/deep")).unwrap();
        symlink(base.join("real"), base.join("link")).unwrap();
        symlink("../real/deep", base.join("real/relative")).unwrap();
        symlink("not-yet", base.join("dangling")).unwrap();
        symlink("circle", base.join("circle")).unwrap();

        let resolved = |tail: &str| resolve(&format!("{}/{tail}", base.display()));
        let cases = [
            ("real/a", "real/a"),
            ("link/a", "real/a"),
            ("real/./deep//../a", "real/a"),
            ("real/relative/a", "real/deep/a"),
            ("link/relative/../a", "real/a"),
            ("dangling", "not-yet"),
            ("missing/x/../y", "missing/y"),
            ("missing/../link/a", "real/a"),
        ];
        for (written, meant) in cases {
            assert_eq!(resolved(written).unwrap(), base.join(meant), "{written}");
        }
        assert!(matches!(resolved("circle/x"), Err(UnusablePath::LinkLoop(_))));
    }

    #[test]
    fn lock_path_rejects_unusable_paths() {
        let (_dir, base) = base();
        let strange = PathBuf::from(std::ffi::OsString::from_vec(vec![b'x', 0xff]));
        symlink(&strange, base.join("strange")).unwrap();
        let strange = format!("{}/strange", base.display());
        let lock = |path: &str| lock_path(path, LockScope::Worktree, false, &[]);

        assert!(matches!(lock("a/b"), Err(UnusablePath::Relative(_))));
        assert!(matches!(lock(""), Err(UnusablePath::Relative(_))));
        assert!(matches!(lock("/a\nb"), Err(UnusablePath::Control { found: '\n', .. })));
        assert!(matches!(lock("/a\0b"), Err(UnusablePath::Control { found: '\0', .. })));
        assert!(matches!(lock(&strange), Err(UnusablePath::NotText(_))));
        let long = format!("/{}", "x/".repeat(5000));
        assert!(matches!(lock(&long), Err(UnusablePath::TooLong { length: 10_001, .. })));
    }

    #[test]
    fn lock_path_work_trees_and_copies_of_repository_share_keys() {
        let (_dir, base) = base();
        let (main, tree, copy) = (base.join("main"), base.join("tree"), base.join("copy"));
        fs::create_dir_all(main.join(".git/worktrees/tree")).unwrap();
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir_all(copy.join(".git")).unwrap();
        let write = |path: PathBuf, text: &str| {
            write_atomic(&path, text.as_bytes(), Durability::ProcessCrash).unwrap();
        };
        let gitdir = format!("gitdir: {}\n", main.join(".git/worktrees/tree").display());
        write(tree.join(".git"), &gitdir);
        write(main.join(".git/worktrees/tree/commondir"), "../..\n");
        let repository = main.join(".git").to_str().unwrap().to_owned();
        let copies = [RepositoryCopy { path: copy.clone(), repository }];

        let lock = |root: &Path, scope| {
            let path = root.join("src/a.rs");
            lock_path(path.to_str().unwrap(), scope, false, &copies).unwrap()
        };
        let repository = LockScope::Repository;
        assert!(lock(&main, repository).meets(&lock(&tree, repository)));
        assert!(lock(&main, repository).meets(&lock(&copy, repository)));
        assert!(lock(&tree, repository).meets(&lock(&tree, LockScope::Worktree)));
        assert!(!lock(&main, LockScope::Worktree).meets(&lock(&tree, LockScope::Worktree)));
    }
}
