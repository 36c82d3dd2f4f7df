//! From a path that somebody wrote to the names under which it is locked.
//!
//! Symbolic links and `..` are followed through as much of the path as exists; what does not exist
//! yet is taken as it is written. A lock is on the name that a file has then: a directory that is
//! renamed takes its locks with it under neither name.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use model::lock::{Key, LockPath, LockScope};

/// The longest path that the system takes.
const LONGEST: usize = 4096;

/// How many symbolic links may lead from one to the next, as the kernel has it.
const LINKS: usize = 40;

/// Why a path cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum UnusablePath {
    /// It does not say where it begins.
    #[error("`{0}` is not an absolute path")]
    Relative(String),
    /// No file can have it.
    #[error("the path `{start}…` has {length} bytes, and the system takes no more than {LONGEST}")]
    Long {
        /// How it begins.
        start: String,
        /// How long it is.
        length: usize,
    },
    /// A listing could not show it as one line.
    #[error("the path {path:?} contains the control character {found:?}")]
    Control {
        /// The path.
        path: String,
        /// The first such character.
        found: char,
    },
    /// A part of it, or what a link in it leads to, is not text.
    #[error("`{}` is not UTF-8", .0.display())]
    NotText(PathBuf),
    /// Its links lead in a circle.
    #[error("`{0}` leads through more than {LINKS} symbolic links")]
    Circle(String),
    /// The system does not let us look.
    #[error("cannot look at `{}`: {source}", path.display())]
    Io {
        /// What could not be looked at.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A directory that is another one's copy: locked under the names that the original has.
#[derive(Clone, Debug)]
pub struct Twin {
    /// The copy, as an absolute path with links followed.
    pub path: PathBuf,
    /// The repository that it was made from: the directory that its work trees share.
    pub repository: String,
}

/// The names under which `path` is locked.
///
/// # Errors
///
/// [`UnusablePath`].
pub fn lock_path(
    path: &str,
    scope: LockScope,
    tree: bool,
    twins: &[Twin],
) -> Result<LockPath, UnusablePath> {
    let real = resolve(path)?;
    let shown = text(&real)?;
    let mut keys = vec![Key { space: String::new(), path: shown.clone() }];
    if scope == LockScope::Repository
        && let Some((space, root)) = repository_of(&real, twins)
    {
        let within = real.strip_prefix(&root).unwrap_or(Path::new(""));
        keys.push(Key { space: text(&space)?, path: text(within)? });
    }
    Ok(LockPath { shown, keys, tree })
}

/// The path with its links and its `..` followed.
///
/// # Errors
///
/// [`UnusablePath`].
pub fn resolve(path: &str) -> Result<PathBuf, UnusablePath> {
    if path.len() >= LONGEST {
        let start = path.chars().take(40).collect();
        return Err(UnusablePath::Long { start, length: path.len() });
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
            // What is above may exist again.
            exists = true;
            continue;
        }
        real.push(&part);
        let Some(target) = (if exists { link(&real, &mut exists)? } else { None }) else {
            continue;
        };
        links += 1;
        if links > LINKS {
            return Err(UnusablePath::Circle(path.to_owned()));
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

/// Where the link at `path` leads, if it is one.
fn link(path: &Path, exists: &mut bool) -> Result<Option<PathBuf>, UnusablePath> {
    let fail = |source| UnusablePath::Io { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => fs::read_link(path).map(Some).map_err(fail),
        Ok(_) => Ok(None),
        // Below a file there is nothing either.
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

/// The repository that a path belongs to, and the root of its work tree there.
fn repository_of(real: &Path, twins: &[Twin]) -> Option<(PathBuf, PathBuf)> {
    if let Some(twin) = twins.iter().find(|twin| real.starts_with(&twin.path)) {
        return Some((PathBuf::from(&twin.repository), twin.path.clone()));
    }
    let root = real.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok())?;
    Some((common_dir(&root.join(".git"))?, root.to_owned()))
}

/// The directory that all work trees of a repository share. In a linked one `.git` is a file that
/// names a directory, and `commondir` in that leads on.
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
    use crate::file::{Survive, write_atomic};

    fn base() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        (dir, real)
    }

    #[test]
    fn every_way_to_a_file_is_the_same_path() {
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
        assert!(matches!(resolved("circle/x"), Err(UnusablePath::Circle(_))));
    }

    #[test]
    fn paths_that_cannot_be_shown_or_exist_are_refused() {
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
        assert!(matches!(lock(&long), Err(UnusablePath::Long { length: 10_001, .. })));
    }

    #[test]
    fn work_trees_and_copies_of_one_repository_share_names() {
        let (_dir, base) = base();
        let (main, tree, copy) = (base.join("main"), base.join("tree"), base.join("copy"));
        fs::create_dir_all(main.join(".git/worktrees/tree")).unwrap();
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir_all(copy.join(".git")).unwrap();
        let write = |path: PathBuf, text: &str| {
            write_atomic(&path, text.as_bytes(), Survive::Kill).unwrap();
        };
        let gitdir = format!("gitdir: {}\n", main.join(".git/worktrees/tree").display());
        write(tree.join(".git"), &gitdir);
        write(main.join(".git/worktrees/tree/commondir"), "../..\n");
        let repository = main.join(".git").to_str().unwrap().to_owned();
        let twins = [Twin { path: copy.clone(), repository }];

        let lock = |root: &Path, scope| {
            let path = root.join("src/a.rs");
            lock_path(path.to_str().unwrap(), scope, false, &twins).unwrap()
        };
        let repository = LockScope::Repository;
        assert!(lock(&main, repository).meets(&lock(&tree, repository)));
        assert!(lock(&main, repository).meets(&lock(&copy, repository)));
        assert!(lock(&tree, repository).meets(&lock(&tree, LockScope::Worktree)));
        assert!(!lock(&main, LockScope::Worktree).meets(&lock(&tree, LockScope::Worktree)));
    }
}
