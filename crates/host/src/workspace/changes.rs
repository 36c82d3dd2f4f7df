//! The changes in a worktree or clone since it was created.

use std::fs;
use std::path::Path;

use super::include::names;
use super::{WorkspaceError, WorkspaceRecord};

/// Maximum size of an untracked file whose lines are counted.
const MAX_COUNTED: u64 = 1 << 20;

/// The changes in a worktree or clone since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeChanges {
    /// The number of changed files, committed or not.
    pub files: usize,
    /// The number of added lines.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
    /// The number of files with changes that are not committed.
    pub uncommitted: usize,
}

impl WorkspaceRecord {
    /// Counts the changes since the tree was created; `None` for a tree without a base commit.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError`].
    pub fn changes(&self) -> Result<Option<TreeChanges>, WorkspaceError> {
        let Some(base) = self.workspace.base.as_deref().filter(|_| self.workspace.is_git()) else {
            return Ok(None);
        };
        let (git, tree) = (self.git(), self.path());
        let words = ["diff", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let words = words.into_iter().chain(["--ignore-submodules=dirty", "-z", base, "--"]);
        let mut changes = counted(&git.run(tree, &words.collect::<Vec<_>>())?);
        let words = ["ls-files", "-z", "--others", "--exclude-standard"];
        for name in names(&git.run(tree, &words)?) {
            changes.files += 1;
            changes.added += lines_of(&tree.join(name));
        }
        changes.uncommitted = git.status(tree)?.len();
        Ok(Some(changes))
    }
}

/// Sums the output of `git diff --numstat -z`: `ADDED\tREMOVED\tNAME`, with `-` for binary files.
fn counted(output: &[u8]) -> TreeChanges {
    let mut changes = TreeChanges::default();
    for entry in output.split(|&byte| byte == 0).filter(|entry| !entry.is_empty()) {
        let entry = String::from_utf8_lossy(entry);
        let mut numbers = entry.split('\t').map(|number| number.parse::<u64>().unwrap_or_default());
        changes.files += 1;
        changes.added += numbers.next().unwrap_or_default();
        changes.removed += numbers.next().unwrap_or_default();
    }
    changes
}

fn lines_of(path: &Path) -> u64 {
    let is_counted = |found: &fs::Metadata| found.is_file() && found.len() <= MAX_COUNTED;
    if !fs::symlink_metadata(path).is_ok_and(|found| is_counted(&found)) {
        return 0;
    }
    let bytes = fs::read(path).unwrap_or_default();
    if bytes.contains(&0) { 0 } else { bytes.split_inclusive(|&byte| byte == b'\n').count() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_sums_lines_and_counts_binary_files() {
        let changes = counted(b"3\t1\tsrc/a b\0-\t-\tlogo.png\x000\t7\told\0");

        assert_eq!((changes.files, changes.added, changes.removed), (3, 3, 8));
        assert_eq!(counted(b""), TreeChanges::default());
    }
}
