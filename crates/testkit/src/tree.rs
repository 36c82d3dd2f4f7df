//! A directory tree as a value, to compare before and after.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory, with its mode.
    Directory(u32),
    /// A file: mode, inode and contents. A replaced file has another inode.
    File(u32, u64, Vec<u8>),
    /// A symbolic link and its target.
    Link(PathBuf),
    /// A socket, pipe or device.
    Other,
}

/// Returns everything below `dir` by relative path. Links are not followed.
///
/// # Panics
///
/// When something cannot be read.
#[must_use]
#[track_caller]
pub fn tree(dir: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut entries = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(inner) = dirs.pop() {
        for entry in fs::read_dir(&inner).expect("a directory").map(|entry| entry.expect("one")) {
            let path = entry.path();
            // A daemon's temporary files come and go meanwhile.
            let Some(found) = if_present(entry.metadata()) else { continue };
            let mode = found.permissions().mode() & 0o7777;
            let kind = found.file_type();
            let value = if kind.is_dir() {
                dirs.push(path.clone());
                Entry::Directory(mode)
            } else if kind.is_symlink() {
                Entry::Link(fs::read_link(&path).expect("a link"))
            } else if kind.is_file() {
                let Some(bytes) = if_present(fs::read(&path)) else { continue };
                Entry::File(mode, found.ino(), bytes)
            } else {
                Entry::Other
            };
            entries.insert(path.strip_prefix(dir).expect("it is below").to_owned(), value);
        }
    }
    entries
}

/// Returns the value, or `None` if the file has been removed.
#[track_caller]
fn if_present<T>(found: io::Result<T>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("cannot be read: {error}"),
    }
}

/// Writes a file, and creates its directory.
///
/// # Panics
///
/// When it cannot be written.
#[expect(clippy::disallowed_methods, reason = "nothing reads the file before the test continues")]
#[track_caller]
pub fn put(path: &Path, contents: impl AsRef<[u8]>) {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).expect("a directory");
    }
    fs::write(path, contents).expect("a file");
}
