//! Disk usage of directory trees.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The unit of `st_blocks`, independent of the file system's block size.
const BLOCK: u64 = 512;

/// Returns the bytes on disk of a path and everything below it.
///
/// Links are not followed and other file systems not entered; a file with several hard links counts
/// once. Entries that vanish or cannot be accessed count as 0. Blocks.
#[must_use]
pub fn bytes(path: &Path) -> u64 {
    let mut all = usize::MAX;
    bytes_within(path, &mut all).unwrap_or(u64::MAX)
}

/// Returns the same as [`bytes`], or `None` if there are more than `entries` files and directories.
/// Subtracts the number of visited entries. Blocks.
pub fn bytes_within(path: &Path, entries: &mut usize) -> Option<u64> {
    let Ok(top) = fs::symlink_metadata(path) else { return Some(0) };
    let mut total = taken(&top);
    let mut counted = HashSet::new();
    let mut dirs = if top.is_dir() { vec![path.to_owned()] } else { Vec::new() };
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            *entries = entries.checked_sub(1)?;
            // Metadata of the entry itself, also if it is a link.
            let Ok(found) = entry.metadata() else { continue };
            let has_other_names = !found.is_dir() && found.nlink() > 1;
            let elsewhere = found.dev() != top.dev();
            if elsewhere || has_other_names && !counted.insert((found.dev(), found.ino())) {
                continue;
            }
            total += taken(&found);
            if found.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    Some(total)
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
        assert_eq!(bytes_within(&tree, &mut entries), Some(bytes(&tree)));
        assert_eq!((entries, bytes_within(&tree, &mut entries)), (0, None));
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
