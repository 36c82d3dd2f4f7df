//! Removal of a pane's directories.
//!
//! The isolated directories are removed first and the pane's own directory last, because its records
//! describe the others. A directory that ccmux did not create is left in place and reported, and
//! never prevents a pane from being closed (R13).

use std::io;
use std::path::{Path, PathBuf};

use host::StateRoot;
use host::file::{self, FileError};
use host::pane_dirs;
use model::PaneId;
use tracing::warn;

use super::pane::Pane;
use super::removal::present_dir;
use super::{Panes, workspace};
use crate::runtime::run_blocking;
use crate::trash::{self, RemovalFailure};

/// How the directories of a removed pane are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    /// All are moved to the trash, for the configured retention period.
    Trash,
    /// The isolated directories stay in place; the others are moved to the trash.
    KeepConfig,
}

/// The result of removing the directories of a pane.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    /// Their paths in the trash.
    pub(crate) moved: Vec<PathBuf>,
    /// Paths that could not be removed.
    pub(crate) failures: Vec<RemovalFailure>,
}

/// Moves the directories of a pane to the trash. Blocks.
///
/// # Errors
///
/// [`FileError`] if the pane's own directory was not moved, or if a directory to keep could not be
/// marked. Other failures are listed in [`Retired::failures`].
pub(crate) fn retire(
    root: &StateRoot,
    dir: &Path,
    pane: PaneId,
    retention: Retention,
) -> Result<Retired, FileError> {
    let (trash, mut retired) = (root.trash(), Retired::default());
    let (original, dir) = (dir, &present_dir(dir));
    for path in root.isolated_dirs(pane) {
        if let Err(error) = pane_dirs::check_owner(&path) {
            // It may have been removed in the meantime.
            if error.source.kind() != io::ErrorKind::NotFound {
                retired.failures.push(RemovalFailure { path, why: error.source.to_string() });
            }
            continue;
        }
        if retention == Retention::KeepConfig {
            trash::mark_kept(&path)?;
            continue;
        }
        match trash::retire_unsynced(&path, &trash, &trash_kind(&path), pane) {
            Ok(moved) => retired.moved.extend(moved),
            Err(error) => retired.failures.push(RemovalFailure { path, why: error.to_string() }),
        }
    }
    host::hooks::point("retire.isolation_dirs");
    let failures = &mut retired.failures;
    let tree = workspace::retire(root, dir, pane, failures)?;
    retired.moved.extend(tree);
    let own = trash::retire_unsynced(dir, &trash, "pane", pane)?;
    // One sync for all of them. The parents of isolated directories, one per agent, are not synced:
    // if a directory reappears after a power loss, it belongs to no pane, and the sweep moves it.
    file::sync_dir(&trash)?;
    if let Some(parent) = dir.parent().filter(|_| own.is_some()) {
        file::sync_dir(parent)?;
    }
    retired.moved.extend(own);
    // A program created it again after it was moved aside.
    retired.moved.extend(trash::retire(original, &trash, "pane", pane)?);
    Ok(retired)
}

/// Returns the kind of an isolated directory, as used in its name in the trash: the name of its
/// parent directory.
pub(crate) fn trash_kind(path: &Path) -> String {
    let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
    parent.to_string_lossy().into_owned()
}

impl Panes {
    /// Moves the directories of a pane to the trash. Returns whether its own directory was moved.
    /// Other failures are recorded as events.
    pub(crate) async fn retire_pane(&self, pane: &Pane, retention: Retention) -> bool {
        match self.try_retire(pane, retention).await {
            Ok(_) => true,
            Err(error) => {
                warn!(pane = %pane.id, %error, "pane directory not moved to trash");
                false
            }
        }
    }

    /// Moves the directories of a pane to the trash, and returns their new paths. Other failures are
    /// recorded as events.
    ///
    /// # Errors
    ///
    /// [`FileError`] if the pane's own directory was not moved.
    pub(crate) async fn try_retire(
        &self,
        pane: &Pane,
        retention: Retention,
    ) -> Result<Vec<PathBuf>, FileError> {
        let (root, dir, id) = (self.runtime.root.clone(), pane.dir.clone(), pane.id);
        let retired = run_blocking(move || retire(&root, &dir, id, retention)).await;
        let Retired { moved, failures } = retired?;
        trash::report_removal_failures(&self.registry, failures).await;
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use model::SessionId;

    use super::*;

    struct Fixture {
        _dir: tempfile::TempDir,
        root: StateRoot,
        pane: PaneId,
        own: PathBuf,
    }

    impl Fixture {
        /// Creates a pane with its own directory and isolated directories in these parents.
        fn with(parents: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = StateRoot::open(&dir.path().join("home")).unwrap();
            let pane = PaneId::from_random([1; 16]);
            let own = root.pane(SessionId::from_random([2; 16]), pane);
            fs::create_dir_all(&own).unwrap();
            let fixture = Self { _dir: dir, root, pane, own };
            for parent in parents {
                fs::create_dir_all(fixture.isolated(parent)).unwrap();
            }
            fixture
        }

        fn isolated(&self, parent: &str) -> PathBuf {
            self.root.path().join(parent).join(format!("pane-{}", self.pane))
        }

        fn retire(&self, retention: Retention) -> Result<Retired, FileError> {
            retire(&self.root, &self.own, self.pane, retention)
        }
    }

    #[test]
    fn retire_moves_all_directories_and_is_idempotent() {
        let fixture = Fixture::with(&["claude-configs", "codex-configs", "claude-homes", "tmp"]);

        let retired = fixture.retire(Retention::Trash).unwrap();
        let again = fixture.retire(Retention::Trash).unwrap();

        assert_eq!(retired.moved.len(), 5);
        assert!(retired.moved.iter().all(|path| path.is_dir()), "{:?}", retired.moved);
        assert!(fixture.root.isolated_dirs(fixture.pane).is_empty() && !fixture.own.exists());
        assert!(retired.failures.is_empty() && again.failures.is_empty() && again.moved.is_empty());
    }

    #[test]
    fn retire_reports_and_skips_foreign_directories() {
        let fixture = Fixture::with(&["claude-configs", "tmp"]);
        let (link, target) =
            (fixture.isolated("codex-configs"), fixture.root.path().join("precious"));
        fs::create_dir(&target).unwrap();
        fs::create_dir(link.parent().unwrap()).unwrap();
        symlink(&target, &link).unwrap();
        let foreign = fixture.isolated("tmp");
        let is_root = std::os::unix::fs::chown(&foreign, Some(12345), None).is_ok();

        let retired = fixture.retire(Retention::Trash).unwrap();

        assert!(link.is_symlink() && target.is_dir());
        let reasons: Vec<&str> =
            retired.failures.iter().map(|failure| failure.why.as_str()).collect();
        if is_root {
            assert!(foreign.is_dir());
            assert_eq!(reasons, ["it is a symbolic link", "it belongs to user 12345"]);
        } else {
            assert_eq!(reasons, ["it is a symbolic link"]);
        }
        assert!(!fixture.own.exists() && !fixture.isolated("claude-configs").exists());
    }

    #[test]
    fn retire_with_keep_config_marks_isolated_directories() {
        let fixture = Fixture::with(&["claude-configs", "tmp"]);

        let retired = fixture.retire(Retention::KeepConfig).unwrap();

        assert_eq!(retired.moved.len(), 1);
        for parent in ["claude-configs", "tmp"] {
            assert!(
                fixture.isolated(parent).is_dir()
                    && trash::kept_marker(&fixture.isolated(parent)).is_file()
            );
        }
    }
}
