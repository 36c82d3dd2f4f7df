//! Disk usage of directory trees.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The unit of `st_blocks`, independent of the file system's block size.
const BLOCK: u64 = 512;

/// Which directories count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All of them.
    All,
    /// All but those that the `.gitignore` files of a repository exclude, such as build output.
    /// Ignored files that are not in such a directory count.
    NotIgnored,
}

/// Returns the bytes on disk of a path and everything below it.
///
/// Links are not followed and other file systems not entered; a file with several hard links counts
/// once. Entries that vanish or cannot be accessed count as 0. Blocks.
#[must_use]
pub fn bytes(path: &Path) -> u64 {
    let mut all = usize::MAX;
    bytes_within(path, Counted::All, &mut all).unwrap_or(u64::MAX)
}

/// Returns the same as [`bytes`] for the counted directories, or `None` if there are more than
/// `entries` files and directories. Subtracts the number of visited entries. Blocks.
pub fn bytes_within(path: &Path, counted: Counted, entries: &mut usize) -> Option<u64> {
    let Ok(top) = fs::symlink_metadata(path) else { return Some(0) };
    let mut total = taken(&top);
    let mut linked = HashSet::new();
    let is_repository = counted == Counted::NotIgnored && path.join(".git").exists();
    let rules = is_repository.then(|| Rules::of_repository(path));
    let mut dirs = if top.is_dir() { vec![(path.to_owned(), rules)] } else { Vec::new() };
    while let Some((dir, rules)) = dirs.pop() {
        let rules = rules.map(|rules| rules.within(&dir));
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            *entries = entries.checked_sub(1)?;
            // Metadata of the entry itself, also if it is a link.
            let Ok(found) = entry.metadata() else { continue };
            let has_other_names = !found.is_dir() && found.nlink() > 1;
            let elsewhere = found.dev() != top.dev();
            if elsewhere || has_other_names && !linked.insert((found.dev(), found.ino())) {
                continue;
            }
            if found.is_dir() {
                let inner = entry.path();
                if rules.as_ref().is_some_and(|rules| rules.ignore(&inner)) {
                    continue;
                }
                dirs.push((inner, rules.clone()));
            }
            total += taken(&found);
        }
    }
    Some(total)
}

/// The ignore rules of a directory and its ancestors in a repository, innermost first.
#[derive(Clone)]
struct Rules(Rc<[Rc<Gitignore>]>);

impl Rules {
    fn of_repository(root: &Path) -> Self {
        Self(Rc::from([Rc::new(rules_in(root, &root.join(".git/info/exclude")))]))
    }

    /// Adds the rules of a directory, if it has any.
    fn within(self, dir: &Path) -> Self {
        let file = dir.join(".gitignore");
        if !file.is_file() {
            return self;
        }
        let own = Rc::new(rules_in(dir, &file));
        Self(std::iter::once(own).chain(self.0.iter().cloned()).collect())
    }

    /// Returns whether a directory is ignored. The innermost rule that matches decides.
    fn ignore(&self, dir: &Path) -> bool {
        let mut matches = self.0.iter().map(|rules| rules.matched(dir, true));
        matches.find(|found| !found.is_none()).is_some_and(|found| found.is_ignore())
    }
}

/// Reads a file of ignore rules. A rule that cannot be parsed ignores nothing, as in git.
fn rules_in(dir: &Path, file: &Path) -> Gitignore {
    let mut rules = GitignoreBuilder::new(dir);
    let _unreadable = rules.add(file);
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}

fn taken(found: &Metadata) -> u64 {
    found.blocks() * BLOCK
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn write(path: &Path, length: usize) {
        fs::File::create(path).unwrap().write_all(&vec![b'x'; length]).unwrap();
    }

    #[test]
    fn bytes_counts_every_file_once_and_stays_inside() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, outside) = (dir.path().join("tree"), dir.path().join("outside"));
        fs::create_dir_all(tree.join("deep/deeper")).unwrap();
        fs::create_dir(&outside).unwrap();
        write(&outside.join("large"), 1 << 20);
        let empty = bytes(&tree);

        write(&tree.join("deep/deeper/file"), 100_000);
        fs::hard_link(tree.join("deep/deeper/file"), tree.join("same")).unwrap();
        symlink(&outside, tree.join("link")).unwrap();
        symlink(&tree, tree.join("deep/loop")).unwrap();

        let grown = bytes(&tree) - empty;
        assert!((100_000..150_000).contains(&grown), "{grown}");
        assert!(bytes(&tree.join("same")) >= 100_000);
        assert!(bytes(&tree.join("link")) < 100_000, "the link itself, not its target");
        assert_eq!(bytes(&dir.path().join("missing")), 0);
        let mut entries = 6;
        assert_eq!(bytes_within(&tree, Counted::All, &mut entries), Some(bytes(&tree)));
        assert_eq!((entries, bytes_within(&tree, Counted::All, &mut entries)), (0, None));
    }

    #[test]
    fn ignored_directories_of_a_repository_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path();
        let count = |counted| {
            let mut all = usize::MAX;
            bytes_within(tree, counted, &mut all).unwrap()
        };
        for (directory, rules) in [("a", "/out\n!keep/\n"), (".", "node_modules/\n*.log\nkeep\n")] {
            fs::create_dir_all(tree.join(directory)).unwrap();
            let file = fs::File::create(tree.join(directory).join(".gitignore"));
            file.unwrap().write_all(rules.as_bytes()).unwrap();
        }
        // Each path, and whether it counts.
        let files = [
            ("node_modules/x/file", false),
            ("a/node_modules/file", false),
            ("a/out/file", false),
            ("excluded/file", false),
            ("out/file", true),
            ("a/keep/file", true),
            ("large.log", true),
            (".git/objects/file", true),
        ];
        let mut expected = 0;
        for (file, counts) in files {
            let path = tree.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(&path, 1 << 20);
            expected += u64::from(counts);
        }
        fs::create_dir_all(tree.join(".git/info")).unwrap();
        let exclude = fs::File::create(tree.join(".git/info/exclude"));
        exclude.unwrap().write_all(b"excluded\n").unwrap();

        assert_eq!(count(Counted::All) >> 20, 8);
        assert_eq!(count(Counted::NotIgnored) >> 20, expected);
        fs::rename(tree.join(".git"), tree.join("git")).unwrap();
        assert_eq!(count(Counted::NotIgnored) >> 20, 8, "not a repository");
    }

    #[test]
    fn bytes_tolerates_vanishing_files() {
        let dir = tempfile::tempdir().unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let inner = dir.path().join("coming/going");
                    fs::create_dir_all(&inner).unwrap();
                    write(&inner.join("file"), 10_000);
                    fs::remove_dir_all(dir.path().join("coming")).unwrap();
                }
            });
            for _ in 0..200 {
                assert!(bytes(dir.path()) < 1 << 20);
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
