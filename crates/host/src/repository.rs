//! Repository roots of a directory, for the trust prompts of agents.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the directory as given, its canonical path, and the roots of its repositories: its own
/// work tree and, for a linked work tree, the main one.
#[must_use]
pub fn trust_roots(cwd: &Path) -> Vec<String> {
    let real = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
    let mut roots = vec![cwd.to_owned(), real.clone()];
    if let Some(tree) = real.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok()) {
        roots.push(tree.to_owned());
        roots.extend(main_tree(&tree.join(".git")));
    }
    let mut texts: Vec<String> =
        roots.into_iter().filter_map(|root| Some(root.to_str()?.to_owned())).collect();
    let mut seen = Vec::new();
    texts.retain(|text| {
        !seen.contains(text) && {
            seen.push(text.clone());
            true
        }
    });
    texts
}

/// Returns the main work tree of a linked one, whose `.git` is a file that names a directory with a
/// `commondir` file.
fn main_tree(git: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(git).ok()?;
    let own = git.parent()?.join(text.strip_prefix("gitdir:")?.trim());
    let common = fs::read_to_string(own.join("commondir")).ok()?;
    let common = fs::canonicalize(own.join(common.trim())).ok()?;
    Some(common.parent()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_roots_of_linked_work_tree_include_main_work_tree() {
        let base = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(base.path()).unwrap();
        let (main, tree) = (base.join("main"), base.join("tree"));
        fs::create_dir_all(main.join(".git/worktrees/tree")).unwrap();
        fs::create_dir_all(tree.join("deep")).unwrap();
        let write = |path: PathBuf, text: &str| {
            crate::file::write_atomic(
                &path,
                text.as_bytes(),
                crate::file::Durability::ProcessCrash,
            )
            .unwrap();
        };
        let gitdir = format!("gitdir: {}\n", main.join(".git/worktrees/tree").display());
        write(tree.join(".git"), &gitdir);
        write(main.join(".git/worktrees/tree/commondir"), "../..\n");

        let roots = trust_roots(&tree.join("deep"));

        let expected =
            [tree.join("deep"), tree, main].map(|path| path.to_str().unwrap().to_owned());
        assert_eq!(roots, expected);
        assert_eq!(trust_roots(Path::new("/nowhere")), ["/nowhere"]);
    }
}
