//! How much of the disk something takes.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The unit in which the system counts what a file takes, whatever the blocks of its disk are.
const BLOCK: u64 = 512;

/// The bytes on disk of everything at and below `path`.
///
/// Links are not followed and other disks not entered; a file with several names counts once. What
/// vanishes while it is looked at, or cannot be looked at, takes nothing. Blocks.
#[must_use]
pub fn bytes(path: &Path) -> u64 {
    let mut all = usize::MAX;
    bytes_within(path, &mut all).unwrap_or(u64::MAX)
}

/// The same, unless there is more to look at than `entries` files and directories, of which those
/// that were looked at are taken off. Blocks.
pub fn bytes_within(path: &Path, entries: &mut usize) -> Option<u64> {
    let Ok(top) = fs::symlink_metadata(path) else { return Some(0) };
    let mut total = taken(&top);
    let mut counted = HashSet::new();
    let mut dirs = if top.is_dir() { vec![path.to_owned()] } else { Vec::new() };
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            *entries = entries.checked_sub(1)?;
            // Of the entry itself, be it a link or not.
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
    fn every_file_counts_once_and_nothing_outside() {
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
        assert!(bytes(&tree.join("link")) < 100_000, "the link itself, not what it leads to");
        assert_eq!(bytes(&dir.path().join("missing")), 0);
        let mut entries = 6;
        assert_eq!(bytes_within(&tree, &mut entries), Some(bytes(&tree)));
        assert_eq!((entries, bytes_within(&tree, &mut entries)), (0, None));
    }

    #[test]
    fn files_that_vanish_meanwhile_are_no_trouble() {
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
