//! Finds the directories in `work/` that belong to no pane. Read-only.
//!
//! They are listed and never removed: without the records of a pane, unsaved work in them cannot be
//! told from files that are saved elsewhere.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use host::StateRoot;
use host::workspace::{WorkDir, all_work_dirs};
use protocol::gc::GcKind;

use super::SweepFinding;

/// Returns a finding for each directory in `work/` that no pane's directory leads to. Blocks.
pub(super) fn survey(root: &StateRoot) -> Vec<SweepFinding> {
    // Read before the panes: the directory of a pane exists before its tree.
    let dirs = all_work_dirs(root.path());
    if dirs.is_empty() {
        return Vec::new();
    }
    let used = used(root);
    let unused = dirs.into_iter().filter(|dir| !used.contains(dir));
    let why = "belongs to no pane; it may contain unsaved work, so delete it yourself";
    unused.map(|dir| SweepFinding::kept(dir, GcKind::Unknown, why.to_owned())).collect()
}

/// Returns the directories to which the directories of panes lead.
fn used(root: &StateRoot) -> HashSet<PathBuf> {
    let sessions = entries(&root.sessions());
    let panes = sessions.iter().flat_map(|session| entries(&session.join("panes")));
    let work_dirs = panes.filter_map(|pane| WorkDir::find(root.path(), &pane));
    work_dirs.map(|dir| dir.original().to_owned()).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use model::{PaneId, SessionId};

    use super::*;

    #[test]
    fn only_directories_that_no_pane_leads_to_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        for name in ["web/dev1/app", "web/dev2/app", ".aside/id/app"] {
            fs::create_dir_all(root.work().join(name)).unwrap();
        }
        let pane = root.pane(SessionId::from_random([1; 16]), PaneId::from_random([2; 16]));
        fs::create_dir_all(&pane).unwrap();
        symlink("../../../../work/web/dev1/app", pane.join("workspace")).unwrap();

        let found = survey(&root);

        let paths: Vec<&Path> = found.iter().map(|finding| finding.path.as_path()).collect();
        assert_eq!(paths, [root.work().join("web/dev2")]);
        assert_eq!(found[0].kind, GcKind::Unknown);
    }
}
