//! The state root: its layout and permission checks.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use model::{PaneId, SessionId, isolation};
use nix::unistd::{Gid, Group, Uid, User};
use rustix::process::geteuid;

use crate::file::{FileError, make_dir};

/// The directory of all work trees in the state root.
pub const WORK: &str = "work";

/// The state directory of ccmux.
///
/// # Invariant
///
/// When [`StateRoot::open`] returned it, the directory was not a symlink, was owned by the user, and
/// not writable by other users, and no other user could replace it or a directory above it.
#[derive(Clone, Debug)]
pub struct StateRoot(PathBuf);

/// A directory that cannot be the state root.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnusableRoot {
    /// Error of the operating system.
    #[error(transparent)]
    File(#[from] FileError),
    /// The path is a symbolic link, whose target its owner controls.
    #[error("the state root `{}` is a symbolic link", .0.display())]
    Symlink(PathBuf),
    /// The path is not a directory.
    #[error("the state root `{}` is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The directory is owned by another user.
    #[error("the state root `{}` belongs to user {owner}, not to user {us}", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The owner of the directory.
        owner: u32,
        /// The current user.
        us: u32,
    },
    /// Other users can write to the directory.
    #[error("the state root `{}` is writable by other users (mode {mode:04o})", path.display())]
    Writable {
        /// The directory.
        path: PathBuf,
        /// The mode of the directory.
        mode: u32,
    },
    /// A directory or link on the path is owned by another user, who can replace the root.
    #[error("the state root `{}` is below `{}`, which belongs to user {owner}", path.display(), above.display())]
    ForeignParent {
        /// The state root.
        path: PathBuf,
        /// The directory or link.
        above: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Other users can replace the directories in a directory on the path.
    #[error(
        "the state root `{}` is below `{}`, which is writable by other users (mode {mode:04o})",
        path.display(), above.display()
    )]
    WritableParent {
        /// The state root.
        path: PathBuf,
        /// The directory.
        above: PathBuf,
        /// The mode of the directory.
        mode: u32,
    },
    /// The path is relative and depends on the working directory.
    #[error("the state root `{}` is not an absolute path", .0.display())]
    Relative(PathBuf),
}

impl UnusableRoot {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::File(_) => "choose another directory with CCMUX_HOME".to_owned(),
            Self::Symlink(_) | Self::NotADirectory(_) | Self::Relative(_) => {
                "set CCMUX_HOME to the absolute path of a real directory".to_owned()
            }
            Self::Foreign { .. } => {
                "set CCMUX_HOME to a directory that you own, or run as its owner".to_owned()
            }
            Self::Writable { path, .. } => format!("run `chmod 700 {}`", path.display()),
            Self::ForeignParent { .. } => {
                "set CCMUX_HOME to a directory in your home directory".to_owned()
            }
            Self::WritableParent { above, .. } => format!(
                "run `chmod go-w {}`, or set CCMUX_HOME to a directory in your home directory",
                above.display()
            ),
        }
    }
}

impl StateRoot {
    /// Checks the directory, and creates it and its subdirectories if they are missing.
    ///
    /// # Errors
    ///
    /// [`UnusableRoot`]; existing files are not changed.
    pub fn open(path: &Path) -> Result<Self, UnusableRoot> {
        if !path.is_absolute() {
            return Err(UnusableRoot::Relative(path.to_owned()));
        }
        check_above(path)?;
        if fs::symlink_metadata(path).is_err() {
            let mut builder = fs::DirBuilder::new();
            builder
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(FileError::when("create", path))?;
        }
        Self::check(path)?;
        check_above(path)?;
        let root = Self(path.to_owned());
        for dir in [root.run(), root.sessions(), root.trash(), root.config(), root.locks()] {
            make_dir(&dir)?;
        }
        Ok(root)
    }

    fn check(path: &Path) -> Result<(), UnusableRoot> {
        let found = fs::symlink_metadata(path).map_err(FileError::when("access", path))?;
        if found.file_type().is_symlink() {
            return Err(UnusableRoot::Symlink(path.to_owned()));
        }
        if !found.is_dir() {
            return Err(UnusableRoot::NotADirectory(path.to_owned()));
        }
        let us = geteuid().as_raw();
        if found.uid() != us {
            return Err(UnusableRoot::Foreign { path: path.to_owned(), owner: found.uid(), us });
        }
        let mode = found.mode() & 0o7777;
        if mode & 0o022 != 0 {
            return Err(UnusableRoot::Writable { path: path.to_owned(), mode });
        }
        if mode & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))
                .map_err(FileError::when("restrict", path))?;
        }
        Ok(())
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the directory of the control socket, the instance lock and the daemon log.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    /// Returns the directory of the user configuration.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.0.join("config")
    }

    /// Returns the path of the registry database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.0.join("ccmux.db")
    }

    /// Returns the directory of all sessions.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    /// Returns the directory of the work trees of panes, which need not exist.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.0.join(WORK)
    }

    /// Returns the directory of removed directories.
    #[must_use]
    pub fn trash(&self) -> PathBuf {
        self.0.join("trash")
    }

    /// Returns the directory that all panes may read.
    #[must_use]
    pub fn shared(&self) -> PathBuf {
        self.0.join("shared")
    }

    /// Returns the directory of the lock files and the lock database.
    #[must_use]
    pub fn locks(&self) -> PathBuf {
        self.0.join("locks")
    }

    /// Returns the existing isolated directories of a pane, including paths of other types with
    /// their names.
    #[must_use]
    pub fn isolated_dirs(&self, pane: PaneId) -> Vec<PathBuf> {
        let entry = isolation::pane_entry(pane);
        let places = self.isolated_dir_parents().into_iter().map(|holder| holder.join(&entry));
        places.filter(|place| fs::symlink_metadata(place).is_ok()).collect()
    }

    /// Returns the private home directory of a pane, which need not exist.
    #[must_use]
    pub fn private_home(&self, pane: PaneId) -> PathBuf {
        self.0.join(isolation::HOMES).join(isolation::pane_entry(pane))
    }

    /// Returns the directories that contain the isolated directories of panes, sorted. Links are
    /// skipped.
    #[must_use]
    pub fn isolated_dir_parents(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut holders: Vec<PathBuf> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter(|entry| entry.file_name().to_str().is_some_and(isolation::holds_pane_dirs))
            .map(|entry| entry.path())
            .collect();
        holders.sort();
        holders
    }

    /// Returns the directory of a session.
    #[must_use]
    pub fn session(&self, id: SessionId) -> PathBuf {
        self.sessions().join(id.to_string())
    }

    /// Returns the directory of a pane.
    #[must_use]
    pub fn pane(&self, session: SessionId, pane: PaneId) -> PathBuf {
        self.session(session).join("panes").join(pane.to_string())
    }
}

/// Checks that no other user can replace the root: every existing directory and link above it belongs
/// to us or to root, and others can write only to directories with the sticky bit, in which they can
/// replace neither our entries nor those of root.
fn check_above(path: &Path) -> Result<(), UnusableRoot> {
    // With the links on the path, and without.
    let real = path.ancestors().skip(1).find_map(|above| fs::canonicalize(above).ok());
    let places = path.ancestors().skip(1).chain(real.iter().flat_map(|real| real.ancestors()));
    for above in places {
        let Ok(found) = fs::symlink_metadata(above) else { continue };
        let (path, above) = (path.to_owned(), above.to_owned());
        if ![0, geteuid().as_raw()].contains(&found.uid()) && !is_unmapped(found.uid()) {
            return Err(UnusableRoot::ForeignParent { path, above, owner: found.uid() });
        }
        let mode = found.mode() & 0o7777;
        let is_writable = mode & 0o002 != 0 || mode & 0o020 != 0 && !is_private_group(found.gid());
        if found.is_dir() && is_writable && mode & 0o1000 == 0 {
            return Err(UnusableRoot::WritableParent { path, above, mode });
        }
    }
    Ok(())
}

/// Returns whether a user id stands for all users that do not exist in this user namespace. The real
/// root of a container is one of them.
fn is_unmapped(uid: u32) -> bool {
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let has_all = map.split_whitespace().eq(["0", "0", "4294967295"]);
    !has_all && overflow.trim().parse() == Ok(uid)
}

/// Returns whether only root or the current user is in a group: many systems give each user a group
/// with the user's name, and make files writable by it.
fn is_private_group(gid: u32) -> bool {
    if gid == 0 {
        return true;
    }
    let user = User::from_uid(Uid::from_raw(geteuid().as_raw()));
    let group = Group::from_gid(Gid::from_raw(gid));
    let (Ok(Some(user)), Ok(Some(group))) = (user, group) else { return false };
    group.name == user.name && group.mem.iter().all(|member| *member == user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn open_creates_missing_root_with_private_mode() {
        let dir = tempfile::tempdir().unwrap();

        let root = StateRoot::open(&dir.path().join("a/b")).unwrap();

        assert_eq!(mode_of(root.path()), 0o700);
        assert_eq!(mode_of(&root.run()), 0o700);
    }

    #[test]
    fn open_refuses_roots_controlled_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link, file) =
            (dir.path().join("real"), dir.path().join("link"), dir.path().join("file"));
        fs::create_dir(&real).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o770)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        fs::File::create(&file).unwrap();

        assert!(matches!(StateRoot::open(&real), Err(UnusableRoot::Writable { mode: 0o770, .. })));
        assert!(matches!(StateRoot::open(&link), Err(UnusableRoot::Symlink(_))));
        assert!(matches!(StateRoot::open(&file), Err(UnusableRoot::NotADirectory(_))));
        assert!(matches!(StateRoot::open(Path::new("x")), Err(UnusableRoot::Relative(_))));
        assert_eq!(fs::read_dir(&real).unwrap().count(), 0, "nothing was created");
    }

    #[test]
    fn open_refuses_roots_below_directories_that_others_can_write_to() {
        let dir = tempfile::tempdir().unwrap();
        let (above, link) = (dir.path().join("above"), dir.path().join("link"));
        fs::create_dir(&above).unwrap();
        std::os::unix::fs::symlink(&above, &link).unwrap();

        for (mode, is_usable) in [(0o755, true), (0o777, false), (0o1777, true), (0o757, false)] {
            fs::set_permissions(&above, fs::Permissions::from_mode(mode)).unwrap();
            for root in [above.join("root"), above.join("new/root"), link.join("root")] {
                let opened = StateRoot::open(&root);

                assert_eq!(opened.is_ok(), is_usable, "{mode:o}: {opened:?}");
            }
            fs::remove_dir_all(above.join("new")).unwrap_or_default();
        }
        assert!(!above.join("new").exists(), "nothing was created");
    }
}
