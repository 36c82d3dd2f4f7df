//! Taking the directories of a pane out of the way.
//!
//! What keeps a pane apart goes first, its own directory last: as long as that is there, it says
//! what else there is. A directory that is not what we made is left alone and reported, and never
//! keeps a pane from being closed (R13).

use std::io;
use std::path::{Path, PathBuf};

use host::StateRoot;
use host::file::{self, FileError};
use host::furnish;
use model::PaneId;
use model::event::Happening;
use protocol::{ErrorBody, ErrorCode};
use tracing::warn;

use crate::pane::Pane;
use crate::supervisor::{Supervisor, run_blocking};
use crate::trash::{self, Since};
use crate::workspace;

/// What of a pane stays when it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing, once the trash has kept it for its time.
    Nothing,
    /// What keeps it apart: the user wants it so.
    Apart,
    /// Nothing at all: the user wants it deleted.
    NotEvenInTrash,
}

impl Keep {
    fn since(self) -> Since {
        match self {
            Self::Nothing | Self::Apart => Since::Now,
            Self::NotEvenInTrash => Since::Ever,
        }
    }
}

/// Something that should have gone and is still there.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

/// What became of the directories of a pane.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    /// Where they are in the trash.
    pub(crate) moved: Vec<PathBuf>,
    pub(crate) left: Vec<Left>,
}

/// Moves everything of a pane to the trash. Blocks.
///
/// # Errors
///
/// [`FileError`] if the pane's own directory is still there, or if something that is to stay could
/// not be marked so. What else is left is told.
pub(crate) fn retire(
    root: &StateRoot,
    dir: &Path,
    pane: PaneId,
    keep: Keep,
) -> Result<Retired, FileError> {
    let (trash, mut retired) = (root.trash(), Retired::default());
    for path in root.apart(pane) {
        if let Err(error) = furnish::check_ours(&path) {
            // One that is gone by now needs nothing.
            if error.source.kind() != io::ErrorKind::NotFound {
                retired.left.push(Left { path, why: error.source.to_string() });
            }
            continue;
        }
        if keep == Keep::Apart {
            trash::mark_kept(&path)?;
            continue;
        }
        match trash::shelve(&path, &trash, &holder_of(&path), pane, keep.since()) {
            Ok(moved) => retired.moved.extend(moved),
            Err(error) => retired.left.push(Left { path, why: error.to_string() }),
        }
    }
    host::hooks::point("retire.apart");
    let left = &mut retired.left;
    let tree = workspace::retire(&root.locks(), dir, &trash, pane, keep.since(), left)?;
    retired.moved.extend(tree);
    let own = trash::shelve(dir, &trash, "pane", pane, keep.since())?;
    // One sync for all of them. What keeps a pane apart lies in as many places as there are agents,
    // and those are not synced: if a directory is back there after a power loss, it belongs to no
    // pane, and the sweep moves it again.
    file::sync_dir(&trash)?;
    if let Some(parent) = dir.parent().filter(|_| own.is_some()) {
        file::sync_dir(parent)?;
    }
    retired.moved.extend(own);
    Ok(retired)
}

/// What a directory of a pane is called in the trash: after the one that it was in.
pub(crate) fn holder_of(path: &Path) -> String {
    let holder = path.parent().and_then(Path::file_name).unwrap_or_default();
    holder.to_string_lossy().into_owned()
}

impl Supervisor {
    /// Moves everything of a pane to the trash; whether its own directory is gone. What is left is
    /// told as events.
    pub(crate) async fn retire_pane(&self, pane: &Pane, keep: Keep) -> bool {
        match self.try_retire(pane, keep).await {
            Ok(_) => true,
            Err(error) => {
                warn!(pane = %pane.id, %error, "its directory stays");
                false
            }
        }
    }

    /// As [`Supervisor::retire_pane`]; where everything is now.
    ///
    /// # Errors
    ///
    /// Why the pane's own directory is still there.
    pub(crate) async fn try_retire(
        &self,
        pane: &Pane,
        keep: Keep,
    ) -> Result<Vec<PathBuf>, ErrorBody> {
        let (root, dir, id) = (self.root.clone(), pane.dir.clone(), pane.id);
        let retired = run_blocking(move || retire(&root, &dir, id, keep)).await;
        let Retired { moved, left } =
            retired.map_err(|error| ErrorBody::new(ErrorCode::Failed, error.to_string()))?;
        self.tell_left(left).await;
        Ok(moved)
    }

    /// Tells of what should have gone and is still there.
    pub(crate) async fn tell_left(&self, left: Vec<Left>) {
        for Left { path, why } in left {
            warn!(path = %path.display(), %why, "is still there");
            let path = path.to_string_lossy().into_owned();
            self.tell(Happening::CleanupFailed { path, why }).await;
        }
    }

    /// Puts an event on record that stands alone.
    pub(crate) async fn tell(&self, what: Happening) {
        if let Err(error) = self.registry.change(move |change| change.emit(what)).await {
            warn!(%error, "an event is not recorded");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use model::SessionId;

    use super::*;

    struct Place {
        _dir: tempfile::TempDir,
        root: StateRoot,
        pane: PaneId,
        own: PathBuf,
    }

    impl Place {
        /// A pane with its own directory and these others.
        fn with(holders: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = StateRoot::open(&dir.path().join("home")).unwrap();
            let pane = PaneId::from_random([1; 16]);
            let own = root.pane(SessionId::from_random([2; 16]), pane);
            fs::create_dir_all(&own).unwrap();
            let place = Self { _dir: dir, root, pane, own };
            for holder in holders {
                fs::create_dir_all(place.apart(holder)).unwrap();
            }
            place
        }

        fn apart(&self, holder: &str) -> PathBuf {
            self.root.path().join(holder).join(format!("pane-{}", self.pane))
        }

        fn retire(&self, keep: Keep) -> Result<Retired, FileError> {
            retire(&self.root, &self.own, self.pane, keep)
        }
    }

    #[test]
    fn all_directories_of_a_pane_go_together() {
        let place = Place::with(&["claude-configs", "codex-configs", "claude-homes", "tmp"]);

        let retired = place.retire(Keep::Nothing).unwrap();
        let again = place.retire(Keep::Nothing).unwrap();

        assert_eq!(retired.moved.len(), 5);
        assert!(retired.moved.iter().all(|path| path.is_dir()), "{:?}", retired.moved);
        assert!(place.root.apart(place.pane).is_empty() && !place.own.exists());
        assert!(retired.left.is_empty() && again.left.is_empty() && again.moved.is_empty());
    }

    #[test]
    fn what_is_not_ours_stays_and_is_told_of() {
        let place = Place::with(&["claude-configs", "tmp"]);
        let (link, target) = (place.apart("codex-configs"), place.root.path().join("precious"));
        fs::create_dir(&target).unwrap();
        fs::create_dir(link.parent().unwrap()).unwrap();
        symlink(&target, &link).unwrap();
        let foreign = place.apart("tmp");
        let is_root = std::os::unix::fs::chown(&foreign, Some(12345), None).is_ok();

        let retired = place.retire(Keep::Nothing).unwrap();

        assert!(link.is_symlink() && target.is_dir());
        let told: Vec<&str> = retired.left.iter().map(|left| left.why.as_str()).collect();
        if is_root {
            assert!(foreign.is_dir());
            assert_eq!(told, ["it is a symbolic link", "it belongs to user 12345"]);
        } else {
            assert_eq!(told, ["it is a symbolic link"]);
        }
        assert!(!place.own.exists() && !place.apart("claude-configs").exists());
    }

    #[test]
    fn what_is_to_stay_is_marked_and_the_rest_goes() {
        let place = Place::with(&["claude-configs", "tmp"]);

        let retired = place.retire(Keep::Apart).unwrap();

        assert_eq!(retired.moved.len(), 1);
        for holder in ["claude-configs", "tmp"] {
            assert!(place.apart(holder).is_dir() && trash::mark_of(&place.apart(holder)).is_file());
        }
    }
}
