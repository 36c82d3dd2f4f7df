//! The state root: where everything lies, and whether it may be used.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use model::{PaneId, SessionId, isolation};
use rustix::process::geteuid;

use crate::file::{FileError, make_dir};

/// A directory that belongs to us alone, with the layout of ccmux in it.
///
/// # Invariant
///
/// When [`StateRoot::open`] returned it, the directory was no symlink, had our owner, and nobody
/// else could write to it.
#[derive(Clone, Debug)]
pub struct StateRoot(PathBuf);

/// Why a directory cannot be the state root.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnusableRoot {
    /// The operating system refused something.
    #[error(transparent)]
    File(#[from] FileError),
    /// It would lead wherever the link's owner likes.
    #[error("the state root `{}` is a symbolic link", .0.display())]
    Symlink(PathBuf),
    /// Not a directory at all.
    #[error("the state root `{}` is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// Somebody else could change it under us.
    #[error("the state root `{}` belongs to user {owner}, not to us (user {us})", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Us.
        us: u32,
    },
    /// Others may write to it.
    #[error("the state root `{}` is writable by others (mode {mode:04o})", path.display())]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Meaningless to a daemon that lives elsewhere.
    #[error("the state root `{}` is not an absolute path", .0.display())]
    Relative(PathBuf),
}

impl UnusableRoot {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::File(_) => "choose another directory with CCMUX_HOME".to_owned(),
            Self::Symlink(_) | Self::NotADirectory(_) | Self::Relative(_) => {
                "set CCMUX_HOME to the absolute path of a real directory".to_owned()
            }
            Self::Foreign { .. } => {
                "set CCMUX_HOME to a directory of your own, or run as its owner".to_owned()
            }
            Self::Writable { path, .. } => format!("run `chmod 700 {}`", path.display()),
        }
    }
}

impl StateRoot {
    /// Checks the directory, and makes it and its parts where they are missing.
    ///
    /// # Errors
    ///
    /// [`UnusableRoot`]; nothing of what was there is changed then.
    pub fn open(path: &Path) -> Result<Self, UnusableRoot> {
        if !path.is_absolute() {
            return Err(UnusableRoot::Relative(path.to_owned()));
        }
        if fs::symlink_metadata(path).is_err() {
            let mut builder = fs::DirBuilder::new();
            builder
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(FileError::when("make", path))?;
        }
        Self::check(path)?;
        let root = Self(path.to_owned());
        for dir in [root.run(), root.sessions(), root.trash(), root.config(), root.locks()] {
            make_dir(&dir)?;
        }
        Ok(root)
    }

    fn check(path: &Path) -> Result<(), UnusableRoot> {
        let found = fs::symlink_metadata(path).map_err(FileError::when("look at", path))?;
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

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Control socket, instance lock, log of the daemon.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    /// The user's configuration.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.0.join("config")
    }

    /// The registry.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.0.join("ccmux.db")
    }

    /// All sessions.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    /// Retired directories.
    #[must_use]
    pub fn trash(&self) -> PathBuf {
        self.0.join("trash")
    }

    /// What all panes may read.
    #[must_use]
    pub fn shared(&self) -> PathBuf {
        self.0.join("shared")
    }

    /// Locks that several processes respect, and the snapshot of those that panes hold.
    #[must_use]
    pub fn locks(&self) -> PathBuf {
        self.0.join("locks")
    }

    /// The directories that keep this pane apart from others, as far as they are there: whatever
    /// has its name, be it a directory or not.
    #[must_use]
    pub fn apart(&self, pane: PaneId) -> Vec<PathBuf> {
        let entry = isolation::pane_entry(pane);
        let places = self.holders().into_iter().map(|holder| holder.join(&entry));
        places.filter(|place| fs::symlink_metadata(place).is_ok()).collect()
    }

    /// The directories in which such directories of all panes lie, sorted. A link is none.
    #[must_use]
    pub fn holders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut holders: Vec<PathBuf> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter(|entry| entry.file_name().to_str().is_some_and(isolation::holds_pane_dirs))
            .map(|entry| entry.path())
            .collect();
        holders.sort();
        holders
    }

    /// One session.
    #[must_use]
    pub fn session(&self, id: SessionId) -> PathBuf {
        self.sessions().join(id.to_string())
    }

    /// One pane.
    #[must_use]
    pub fn pane(&self, session: SessionId, pane: PaneId) -> PathBuf {
        self.session(session).join("panes").join(pane.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_missing_root_is_made_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();

        let root = StateRoot::open(&dir.path().join("a/b")).unwrap();

        assert_eq!(mode_of(root.path()), 0o700);
        assert_eq!(mode_of(&root.run()), 0o700);
    }

    #[test]
    fn roots_that_others_control_are_refused() {
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
        assert_eq!(fs::read_dir(&real).unwrap().count(), 0, "nothing was made in it");
    }
}
