//! Git LFS objects that exist only in a repository that is about to be removed.
//!
//! A commit has only a pointer to a file that Git LFS stores; the content is an object in the local
//! store of the repository until it is pushed. An object is saved if the store of the project or of a
//! remote that is a directory has it, or if a remote-tracking branch of a remote on another machine
//! has a pointer to it: objects are pushed before the commits that need them. Git LFS itself is not
//! run and need not be installed.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::contents::TreeContents;
use super::repository::{RepositoryExamination, Saved};
use super::unsaved::Work;
use crate::git::GitError;

/// Number of digits of an object id in a description.
const SHOWN_DIGITS: usize = 12;

impl RepositoryExamination<'_> {
    /// Adds the objects in the store of the repository that are not saved.
    pub(super) fn lfs_objects(
        &self,
        git_dir: &Path,
        saved: &Saved,
        work: &mut Work,
    ) -> Result<(), GitError> {
        let found = TreeContents::of(&self.lfs_store(git_dir)?, true);
        work.add_unreadable(git_dir, found.unreadable);
        let is_stored = |object: &PathBuf| saved.stores.iter().any(|store| has(store, object));
        let mut objects: Vec<PathBuf> =
            found.files.into_iter().filter(|object| !is_stored(object)).collect();
        if objects.is_empty() {
            return Ok(());
        }
        let pushed = self.pushed_objects(saved)?;
        objects.retain(|object| !pushed.contains(&id(object)));
        objects.sort();
        if !objects.is_empty() {
            let shown = |object: &PathBuf| id(object).chars().take(SHOWN_DIGITS).collect();
            let names: Vec<String> = objects.iter().map(shown).collect();
            let what = format!("{}Git LFS objects only here", self.label);
            work.add_names(&what, &names, b"", &objects);
        }
        Ok(())
    }

    /// Returns the directory of the objects, which the agent may have moved.
    fn lfs_store(&self, git_dir: &Path) -> Result<PathBuf, GitError> {
        // Fails if it is not configured.
        let configured = self.lines(&["config", "--get", "lfs.storage"]).unwrap_or_default();
        let storage = configured.first().map_or("lfs", String::as_str);
        Ok(git_dir.join(storage).join("objects"))
    }

    /// Returns the ids in all pointers in the remote-tracking branches.
    fn pushed_objects(&self, saved: &Saved) -> Result<HashSet<String>, GitError> {
        let mut pushed = HashSet::new();
        for remote in &saved.remotes {
            let refs = format!("refs/remotes/{remote}/");
            for commit in self.lines(&["for-each-ref", "--format=%(objectname)", &refs])? {
                let pattern = "^oid sha256:[0-9a-f]{64}$";
                let words = ["grep", "--no-color", "-h", "-I", "-E", "-e", pattern, &commit];
                // Fails if nothing matches.
                let lines = self.lines(&words).unwrap_or_default();
                let ids = lines.iter().filter_map(|line| line.rsplit_once("sha256:"));
                pushed.extend(ids.map(|(_, id)| id.to_owned()));
            }
        }
        Ok(pushed)
    }
}

/// Returns whether a store has an object. An object with another size is incomplete.
fn has(store: &Path, object: &Path) -> bool {
    let id = id(object);
    let (Some(first), Some(second)) = (id.get(..2), id.get(2..4)) else { return false };
    let size = |path: &Path| fs::metadata(path).ok().map(|found| found.len());
    let stored = size(&store.join(first).join(second).join(&id));
    stored.is_some() && stored == size(object)
}

fn id(object: &Path) -> String {
    object.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
