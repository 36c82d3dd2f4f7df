//! Copying a tree, and telling later what was changed in the copy.
//!
//! Files share their blocks with the original where the file system can do that. Links are copied
//! as links, modes and times are kept; sockets, pipes and devices are nothing that could be copied.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, Timespec, Timestamps, ioctl_ficlone, utimensat};
use serde::{Deserialize, Serialize};

use crate::file::{FileError, make_dir};

/// What a file was when it was copied. By name in the tree, spelt in printable characters.
pub type Manifest = BTreeMap<String, Stamp>;

/// By what a file is known to be unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    size: u64,
    mode: u32,
    modified: (i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        // A link has whatever time it was made at; where it leads to is its content.
        let modified = (found.mtime(), found.mtime_nsec());
        let modified = if found.is_symlink() { (0, 0) } else { modified };
        Self { size: found.size(), mode: found.mode(), modified }
    }
}

/// Whether everything below `dir` is at most `limit` bytes. Stops counting at the limit.
#[must_use]
pub fn fits(dir: &Path, limit: u64) -> bool {
    let mut left = limit;
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() {
                dirs.push(entry.path());
            } else if found.is_file() {
                match left.checked_sub(found.size()) {
                    Some(rest) => left = rest,
                    None => return false,
                }
            }
        }
    }
    true
}

/// Copies everything in `from` into `to`, which is there and empty.
///
/// # Errors
///
/// [`FileError`]; a part of it may be there.
pub fn tree(from: &Path, to: &Path) -> Result<Manifest, FileError> {
    let mut manifest = Manifest::new();
    let mut dirs = vec![PathBuf::new()];
    let mut times = Vec::new();
    while let Some(dir) = dirs.pop() {
        let source = from.join(&dir);
        let entries = fs::read_dir(&source).map_err(FileError::when("read", &source))?;
        for entry in entries {
            let entry = entry.map_err(FileError::when("read", &source))?;
            let (name, path) = (dir.join(entry.file_name()), entry.path());
            let found = entry.metadata().map_err(FileError::when("look at", &path))?;
            if found.is_dir() {
                let target = to.join(&name);
                make_dir(&target)?;
                times.push((target, found));
                dirs.push(name);
            } else if let Some(stamp) = one(&path, &found, &to.join(&name))? {
                manifest.insert(spelt(&name), stamp);
            }
        }
    }
    // Inner ones first: what is put into a directory changes its time.
    for (dir, found) in times.into_iter().rev() {
        keep_times(&dir, &found).map_err(FileError::when("set the time of", &dir))?;
        fs::set_permissions(&dir, Permissions::from_mode(found.mode() & 0o7777))
            .map_err(FileError::when("set the mode of", &dir))?;
    }
    Ok(manifest)
}

/// Copies one file or link to a name that is free; nothing if it is of another kind.
///
/// # Errors
///
/// [`FileError`].
pub fn one(path: &Path, found: &Metadata, to: &Path) -> Result<Option<Stamp>, FileError> {
    if found.is_symlink() {
        let leads = fs::read_link(path).map_err(FileError::when("read", path))?;
        symlink(leads, to).map_err(FileError::when("make", to))?;
    } else if found.is_file() {
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let source = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let source = source.map_err(FileError::when("read", path))?;
        contents(&source, to, found).map_err(FileError::when("copy to", to))?;
    } else {
        return Ok(None);
    }
    let made = fs::symlink_metadata(to).map_err(FileError::when("look at", to))?;
    Ok(Some(Stamp::of(&made)))
}

fn contents(mut source: &File, to: &Path, found: &Metadata) -> io::Result<()> {
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    if ioctl_ficlone(&target, source).is_err() {
        io::copy(&mut source, &mut target)?;
    }
    target.set_permissions(Permissions::from_mode(found.mode() & 0o7777))?;
    target.set_times(FileTimes::new().set_modified(found.modified()?))
}

fn keep_times(dir: &Path, found: &Metadata) -> io::Result<()> {
    let time = |seconds, nanos| Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps {
        last_access: time(found.atime(), found.atime_nsec()),
        last_modification: time(found.mtime(), found.mtime_nsec()),
    };
    Ok(utimensat(CWD, dir, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?)
}

/// A name in printable characters, no two of them the same.
#[must_use]
pub fn spelt(name: &Path) -> String {
    name.as_os_str().as_bytes().escape_ascii().to_string()
}

/// What differs in `dir` from the manifest, by name, each with what it is now.
///
/// # Errors
///
/// [`FileError`] if something cannot be looked at.
pub fn changes(dir: &Path, manifest: &Manifest) -> Result<Vec<(String, Change)>, FileError> {
    let now = stamps(dir)?;
    let mut changes: Vec<(String, Change)> = now
        .iter()
        .filter_map(|(name, stamp)| match manifest.get(name) {
            Some(then) if then == stamp => None,
            Some(_) => Some((name.clone(), Change::Changed(*stamp))),
            None => Some((name.clone(), Change::New(*stamp))),
        })
        .collect();
    let removed = manifest.keys().filter(|name| !now.contains_key(*name));
    changes.extend(removed.map(|name| (name.clone(), Change::Removed)));
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(changes)
}

/// How a file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not there.
    New(Stamp),
    /// It was another.
    Changed(Stamp),
    /// It is gone.
    Removed,
}

/// Everything in a tree that is no directory.
fn stamps(top: &Path) -> Result<Manifest, FileError> {
    let mut manifest = Manifest::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(dir) = dirs.pop() {
        let path = top.join(&dir);
        for entry in fs::read_dir(&path).map_err(FileError::when("read", &path))? {
            let entry = entry.map_err(FileError::when("read", &path))?;
            let found = match entry.metadata() {
                Ok(found) => found,
                // It vanished while it was looked at.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(FileError::when("look at", &entry.path())(error)),
            };
            let name = dir.join(entry.file_name());
            if found.is_dir() {
                dirs.push(name);
            } else {
                manifest.insert(spelt(&name), Stamp::of(&found));
            }
        }
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::Write as _;

    use super::*;

    fn put(path: &Path, text: &str) {
        File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// R16: a copy is a copy, and what is done in it is seen.
    #[test]
    fn a_copy_is_like_the_original_and_every_change_in_it_is_seen() {
        let base = tempfile::tempdir().unwrap();
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        fs::create_dir_all(from.join("deep")).unwrap();
        fs::create_dir(&to).unwrap();
        put(&from.join("deep/run"), "#!/bin/sh\n");
        fs::set_permissions(from.join("deep/run"), Permissions::from_mode(0o755)).unwrap();
        put(&from.join("gone"), "x");
        let odd = OsStr::from_bytes(b"od\xffd\n");
        put(&from.join(odd), "odd");
        symlink("/nowhere", from.join("link")).unwrap();
        fs::set_permissions(from.join("deep"), Permissions::from_mode(0o500)).unwrap();

        let manifest = tree(&from, &to).unwrap();

        assert_eq!(manifest.len(), 4);
        assert!(changes(&to, &manifest).unwrap().is_empty());
        let (old, new) =
            (from.join("deep/run").metadata().unwrap(), to.join("deep/run").metadata().unwrap());
        assert_eq!((old.mode(), old.mtime_nsec()), (new.mode(), new.mtime_nsec()));
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/nowhere"));
        assert_eq!(fs::read(to.join(odd)).unwrap(), b"odd");
        assert_eq!(to.join("deep").metadata().unwrap().mode() & 0o777, 0o500);

        fs::remove_file(to.join("gone")).unwrap();
        put(&to.join("new"), "");
        put(&to.join(odd), "other");
        let changed: Vec<String> =
            changes(&to, &manifest).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(changed, ["gone", "new", "od\\xffd\\n"]);
        assert_eq!(fs::read(from.join(odd)).unwrap(), b"odd", "the original is another file");
    }

    #[test]
    fn a_tree_fits_up_to_the_last_byte() {
        let base = tempfile::tempdir().unwrap();
        put(&base.path().join("a"), "12345");

        assert!(fits(base.path(), 5) && !fits(base.path(), 4));
    }
}
