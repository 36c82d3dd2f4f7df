//! The directory that contains the working tree of a pane: `work/SESSION/PANE` in the state root
//! (ADR 0032).
//!
//! ```text
//!  work/web/dev1/app                                  the tree; the directory is the pane's alone
//!  work/.aside/PANE-ID/app                            while it is examined for removal
//!  sessions/…/panes/PANE-ID/workspace                 a relative link to the tree
//! ```
//!
//! Both places have the same depth, so that relative paths in work trees and submodules stay valid.
//! The link is relative, so that a moved or copied state root leads to its own trees. Panes of
//! earlier releases have no such directory: their tree is at `workspace` itself.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use super::{WORKSPACE, WorkspaceRecord};
use crate::file::{self, FileError, make_dir};
use crate::root::WORK;

/// Contains the directories that are examined. The name of a session does not start with a dot.
const ASIDE: &str = ".aside";

/// The suffix of a pane's directory while that is examined.
pub const ASIDE_SUFFIX: &str = ".aside";

/// The name of a directory that was created in the place of one that was moved aside.
const RECREATED: &str = "recreated";

/// Attempts to change an entry that other processes create or remove at the same time.
const MAX_ATTEMPTS: usize = 100;

/// The directory that contains the working tree of one pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkDir {
    original: PathBuf,
    aside: PathBuf,
    project: OsString,
}

impl WorkDir {
    /// Returns the directory with the tree of a pane; `None` if the pane has none in `work/`.
    #[must_use]
    pub fn find(state_root: &Path, pane_dir: &Path) -> Option<Self> {
        let recorded = WorkspaceRecord::read(pane_dir).ok().flatten();
        let recorded =
            recorded.and_then(|record| Self::of_tree(state_root, pane_dir, record.path()));
        // The record is lost, or names the state root at a former path.
        recorded.or_else(|| Self::of_link(state_root, pane_dir))
    }

    /// Returns the directory that contains `tree`, the tree of a pane.
    #[must_use]
    pub fn of_tree(state_root: &Path, pane_dir: &Path, tree: &Path) -> Option<Self> {
        let work = state_root.join(WORK);
        let mut parts = tree.strip_prefix(&work).ok()?.components();
        let mut next = || match parts.next() {
            Some(Component::Normal(part)) => Some(part.to_owned()),
            _ => None,
        };
        let (session, pane, project) = (next()?, next()?, next()?);
        if parts.next().is_some() || session == ASIDE {
            return None;
        }
        let id = pane_dir.file_name()?.to_str()?;
        let id = id.strip_suffix(ASIDE_SUFFIX).unwrap_or(id);
        let aside = work.join(ASIDE).join(id);
        Some(Self { original: work.join(session).join(pane), aside, project })
    }

    fn of_link(state_root: &Path, pane_dir: &Path) -> Option<Self> {
        let target = fs::read_link(pane_dir.join(WORKSPACE)).ok()?;
        let inside: PathBuf =
            target.components().skip_while(|part| *part == Component::ParentDir).collect();
        Self::of_tree(state_root, pane_dir, &state_root.join(inside))
    }

    /// Returns the path of the directory while its pane exists.
    #[must_use]
    pub fn original(&self) -> &Path {
        &self.original
    }

    /// Returns where the directory is: aside, or in its place.
    #[must_use]
    pub fn present(&self) -> &Path {
        if self.aside.symlink_metadata().is_ok() { &self.aside } else { &self.original }
    }

    /// Returns the name of the tree in the directory.
    #[must_use]
    pub fn project(&self) -> &Path {
        Path::new(&self.project)
    }

    /// Creates the directory with an empty tree, and replaces `workspace`, an empty directory, by a
    /// link to it.
    ///
    /// # Errors
    ///
    /// [`FileError`], also if the directory exists: it may have the work of another pane.
    pub(super) fn create(&self, pane_dir: &Path) -> Result<(), FileError> {
        let create = || DirBuilder::new().mode(0o700).create(&self.original);
        self.in_parent(create).map_err(FileError::when("create", &self.original))?;
        make_dir(&self.original.join(&self.project))?;
        let link = pane_dir.join(WORKSPACE);
        match fs::remove_dir(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FileError::when("replace", &link)(error));
            }
            _ => {}
        }
        symlink(self.link_target(), &link).map_err(FileError::when("create", &link))
    }

    /// Returns the path from the pane's directory, `sessions/SESSION/panes/PANE`, to the tree.
    fn link_target(&self) -> PathBuf {
        let tree = self.original.join(&self.project);
        let inside: Vec<Component<'_>> = tree.components().rev().take(4).collect();
        let up = std::iter::repeat_n(Component::ParentDir, 4);
        up.chain(inside.into_iter().rev()).collect()
    }

    /// Moves the directory aside. Does nothing if it does not exist.
    ///
    /// # Errors
    ///
    /// [`FileError`] if it cannot be moved.
    pub fn set_aside(&self) -> Result<(), FileError> {
        let failed = FileError::when("move", &self.original);
        let mut attempts = MAX_ATTEMPTS;
        while self.original.symlink_metadata().is_ok() {
            self.aside.parent().map_or(Ok(()), make_dir)?;
            match fs::rename(&self.original, &self.aside) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts > 0 => {
                    attempts -= 1;
                }
                moved => return moved.map_err(failed),
            }
        }
        Ok(())
    }

    /// Puts the directory back that was moved aside, as [`move_back`] does. Does nothing if it was
    /// not moved.
    ///
    /// # Errors
    ///
    /// [`FileError`]; the directory stays aside.
    pub fn put_back(&self) -> Result<(), FileError> {
        if self.aside.symlink_metadata().is_err() {
            return Ok(());
        }
        let moved =
            self.in_parent(|| move_back(&self.aside, &self.original).map_err(|error| error.source));
        moved.map_err(FileError::when("move back", &self.aside))?;
        self.remove_empty_parents();
        Ok(())
    }

    /// Returns the directories whose entries lead to the tree.
    #[must_use]
    pub fn parents(&self) -> Vec<PathBuf> {
        self.original.ancestors().take(3).map(Path::to_owned).collect()
    }

    /// Removes the parents of the directory that are empty.
    pub fn remove_empty_parents(&self) {
        for parent in [&self.original, &self.aside].into_iter().filter_map(|dir| dir.parent()) {
            // Fails if it has entries.
            let _in_use = fs::remove_dir(parent);
        }
    }

    /// Runs `make` in the existing parent of the directory, which another pane may remove.
    fn in_parent(&self, make: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut attempts = MAX_ATTEMPTS;
        loop {
            let parent = self.original.parent().unwrap_or(Path::new("/"));
            for dir in parent.parent().into_iter().chain([parent]) {
                match make_dir(dir) {
                    Err(error) if error.source.kind() == io::ErrorKind::NotFound => {}
                    made => made.map_err(|error| error.source)?,
                }
            }
            match make() {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts > 0 => {
                    attempts -= 1;
                }
                made => return made,
            }
        }
    }
}

/// Moves a directory back that was moved aside. A directory that a program created in its place
/// meanwhile is moved into it, where it counts as work.
///
/// # Errors
///
/// [`FileError`]; the directory stays aside.
pub fn move_back(aside: &Path, original: &Path) -> Result<(), FileError> {
    let mut attempts = MAX_ATTEMPTS;
    loop {
        match fs::rename(aside, original) {
            Err(_) if attempts > 0 && original.symlink_metadata().is_ok() => {
                attempts -= 1;
                file::set_aside(original, aside, RECREATED)?;
            }
            moved => return moved.map_err(FileError::when("move back", aside)),
        }
    }
}

/// Removes empty directories that a killed daemon left in `work/`. No pane may be in creation.
pub fn remove_empty_dirs(state_root: &Path) {
    for session in subdirs(&state_root.join(WORK)) {
        for pane in subdirs(&session) {
            // Fails if it has entries.
            let _in_use = fs::remove_dir(pane);
        }
        let _in_use = fs::remove_dir(session);
    }
}

/// Returns the directories in `work/` that contain the tree of one pane each, except those that are
/// moved aside, sorted.
#[must_use]
pub fn all_work_dirs(state_root: &Path) -> Vec<PathBuf> {
    let mut sessions = subdirs(&state_root.join(WORK));
    sessions.retain(|session| !session.ends_with(ASIDE));
    let mut dirs: Vec<PathBuf> = sessions.iter().flat_map(|session| subdirs(session)).collect();
    dirs.sort();
    dirs
}

fn subdirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

    fn place(root: &Path) -> (PathBuf, WorkDir) {
        let pane_dir = root.join("sessions/s/panes").join(ID);
        fs::create_dir_all(pane_dir.join(WORKSPACE)).unwrap();
        let tree = root.join("work/web/dev1/my app");
        let dir = WorkDir::of_tree(root, &pane_dir, &tree).unwrap();
        (pane_dir, dir)
    }

    #[test]
    fn of_tree_accepts_exactly_three_components_below_work() {
        let (root, pane) = (Path::new("/root"), Path::new("/root/sessions/s/panes/id"));
        let of = |tree: &str| WorkDir::of_tree(root, pane, Path::new(tree)).map(|dir| dir.original);

        assert_eq!(of("/root/work/web/dev1/app"), Some("/root/work/web/dev1".into()));
        for other in [
            "/root/work/web/dev1",
            "/root/work/web/dev1/app/src",
            "/root/work/web/../app",
            "/root/work/.aside/id/app",
            "/root/sessions/s/panes/id/workspace",
            "/elsewhere/work/web/dev1/app",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn create_makes_a_private_tree_and_a_link_that_survives_a_move_of_the_root() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("root");
        let (pane_dir, dir) = place(&root);

        dir.create(&pane_dir).unwrap();

        for path in [dir.original(), dir.original().parent().unwrap()] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        let moved = base.path().join("moved");
        fs::rename(&root, &moved).unwrap();
        let link = moved.join("sessions/s/panes").join(ID).join(WORKSPACE);
        assert_eq!(fs::canonicalize(&link).unwrap(), moved.join("work/web/dev1/my app"));
        let found = WorkDir::find(&moved, link.parent().unwrap()).unwrap();
        assert_eq!(found.original(), moved.join("work/web/dev1"));
    }

    #[test]
    fn create_refuses_an_existing_directory() {
        let base = tempfile::tempdir().unwrap();
        let (pane_dir, dir) = place(base.path());
        fs::create_dir_all(dir.original()).unwrap();

        let error = dir.create(&pane_dir).unwrap_err();

        assert_eq!(error.source.kind(), io::ErrorKind::AlreadyExists);
        assert!(!pane_dir.join(WORKSPACE).is_symlink());
    }

    #[test]
    fn directory_set_aside_is_found_and_put_back() {
        let base = tempfile::tempdir().unwrap();
        let (pane_dir, dir) = place(base.path());
        dir.create(&pane_dir).unwrap();
        let aside_pane = pane_dir.with_file_name(format!("{ID}{ASIDE_SUFFIX}"));
        fs::rename(&pane_dir, &aside_pane).unwrap();

        dir.set_aside().unwrap();
        let found = WorkDir::find(base.path(), &aside_pane).unwrap();
        assert_eq!(found.present(), base.path().join("work/.aside").join(ID));
        assert!(found.present().join("my app").is_dir() && !dir.original().exists());
        found.remove_empty_parents();
        assert!(!base.path().join("work/web").exists());
        found.put_back().unwrap();

        assert_eq!(found.present(), dir.original());
        assert!(dir.original().join("my app").is_dir());
        assert!(!base.path().join("work/.aside").exists());
    }

    #[test]
    fn put_back_keeps_a_tree_that_was_created_meanwhile() {
        let base = tempfile::tempdir().unwrap();
        let (pane_dir, dir) = place(base.path());
        dir.create(&pane_dir).unwrap();
        dir.set_aside().unwrap();
        fs::create_dir_all(dir.original().join("my app/new")).unwrap();

        assert_eq!(dir.present(), base.path().join("work/.aside").join(ID));
        dir.put_back().unwrap();

        assert!(dir.original().join("my app").is_dir());
        assert!(dir.original().join("recreated/my app/new").is_dir());
    }

    #[test]
    fn remove_empty_dirs_keeps_directories_with_contents() {
        let base = tempfile::tempdir().unwrap();
        for dir in ["work/web/dev1/app", "work/web/dev2", "work/old/dev1"] {
            fs::create_dir_all(base.path().join(dir)).unwrap();
        }

        remove_empty_dirs(base.path());

        assert_eq!(all_work_dirs(base.path()), [base.path().join("work/web/dev1")]);
        assert!(base.path().join("work/web/dev1/app").is_dir());
        assert!(!base.path().join("work/old").exists());
    }
}
