//! Taking the directories of a pane out of the way.
//!
//! What keeps a pane apart goes first, its own directory last: as long as that is there, it says
//! what else there is. A directory that is not what we made is left alone and reported, and never
//! keeps a pane from being closed (R13).

use std::path::{Path, PathBuf};

use host::StateRoot;
use host::file::FileError;
use host::furnish;
use model::PaneId;
use model::event::Happening;
use protocol::{ErrorBody, ErrorCode};
use tracing::warn;

use crate::pane::Pane;
use crate::supervisor::{Supervisor, run_blocking};
use crate::trash;

/// What of a pane stays when it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Nothing,
    /// What keeps it apart: the user wants it so.
    Apart,
}

/// Something that should have gone and is still there.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

/// Moves everything of a pane to the trash. Blocks.
///
/// # Errors
///
/// [`FileError`] if the pane's own directory is still there. What else is left is told.
pub(crate) fn retire(
    root: &StateRoot,
    dir: &Path,
    pane: PaneId,
    keep: Keep,
) -> Result<Vec<Left>, FileError> {
    let mut left = Vec::new();
    for path in root.apart(pane) {
        let gone = match keep {
            Keep::Nothing => retire_apart(&path, root, pane),
            Keep::Apart => trash::mark_kept(&path),
        };
        if let Err(error) = gone {
            left.push(Left { path, why: error.to_string() });
        }
    }
    host::hooks::point("retire.apart");
    trash::retire(dir, &root.trash(), "pane", pane)?;
    Ok(left)
}

/// Moves one directory that kept a pane apart to the trash, if it is one that we made.
pub(crate) fn retire_apart(path: &Path, root: &StateRoot, pane: PaneId) -> Result<(), FileError> {
    match furnish::check(path) {
        // Its mode says nothing about whose it is.
        Err(error) if !path.is_dir() || path.is_symlink() => return Err(error),
        _ => {}
    }
    let holder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    trash::retire(path, &root.trash(), &holder, pane).map(drop)
}

impl Supervisor {
    /// Moves everything of a pane to the trash; whether its own directory is gone. What is left is
    /// told as events.
    pub(crate) async fn retire_pane(&self, pane: &Pane, keep: Keep) -> bool {
        match self.try_retire(pane, keep).await {
            Ok(()) => true,
            Err(error) => {
                warn!(pane = %pane.id, %error, "its directory stays");
                false
            }
        }
    }

    /// As [`Supervisor::retire_pane`].
    ///
    /// # Errors
    ///
    /// Why the pane's own directory is still there.
    pub(crate) async fn try_retire(&self, pane: &Pane, keep: Keep) -> Result<(), ErrorBody> {
        let (root, dir, id) = (self.root.clone(), pane.dir.clone(), pane.id);
        let retired = run_blocking(move || retire(&root, &dir, id, keep)).await;
        let left = retired.map_err(|error| ErrorBody::new(ErrorCode::Failed, error.to_string()))?;
        self.tell_left(left).await;
        Ok(())
    }

    /// Tells of what should have gone and is still there.
    pub(crate) async fn tell_left(&self, left: Vec<Left>) {
        for Left { path, why } in left {
            warn!(path = %path.display(), %why, "is still there");
            let path = path.to_string_lossy().into_owned();
            let told = Happening::CleanupFailed { path, why };
            if let Err(error) = self.registry.change(move |change| change.emit(told)).await {
                warn!(%error, "an event is not recorded");
            }
        }
    }
}
