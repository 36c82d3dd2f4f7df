//! A directory tree as a value, to be compared before and after.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What one entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory, with its mode.
    Directory(u32),
    /// A file: mode, inode and contents. Another inode is another file, even with these contents.
    File(u32, u64, Vec<u8>),
    /// A link, and where it leads.
    Link(PathBuf),
    /// A socket, pipe or device.
    Other,
}

/// Everything below `dir`, by its path relative to it. Links are not followed.
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
            // What a daemon writes in the background comes and goes under a name of its own.
            let Some(found) = unless_gone(entry.metadata()) else { continue };
            let mode = found.permissions().mode() & 0o7777;
            let kind = found.file_type();
            let value = if kind.is_dir() {
                dirs.push(path.clone());
                Entry::Directory(mode)
            } else if kind.is_symlink() {
                Entry::Link(fs::read_link(&path).expect("a link"))
            } else if kind.is_file() {
                let Some(bytes) = unless_gone(fs::read(&path)) else { continue };
                Entry::File(mode, found.ino(), bytes)
            } else {
                Entry::Other
            };
            entries.insert(path.strip_prefix(dir).expect("it is below").to_owned(), value);
        }
    }
    entries
}

/// What was found, unless it is gone by now.
#[track_caller]
fn unless_gone<T>(found: io::Result<T>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("cannot be read: {error}"),
    }
}

/// Writes a file of the test's own, and the directories that it lies in.
///
/// # Panics
///
/// When it cannot be written.
#[expect(clippy::disallowed_methods, reason = "nobody looks before the test goes on")]
#[track_caller]
pub fn put(path: &Path, text: &str) {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).expect("a directory");
    }
    fs::write(path, text).expect("a file");
}
