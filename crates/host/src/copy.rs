//! Copies directory trees and detects later changes in the copy.
//!
//! Files share blocks with the original where the file system supports it. Symbolic links are copied
//! as links, modes and times are preserved; sockets, pipes and devices are skipped.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, Timespec, Timestamps, ioctl_ficlone, utimensat};
use serde::{Deserialize, Serialize};

use crate::file::{FileError, make_dir};

/// The state of each file when it was copied, by its escaped path in the tree.
pub type Manifest = BTreeMap<String, Stamp>;

/// The attributes by which an unchanged file is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    size: u64,
    mode: u32,
    modified: (i64, i64),
    /// When the content or the attributes changed last, which programs cannot set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_changed: Option<(i64, i64)>,
}

impl Stamp {
    /// Returns the attributes of a file.
    pub(crate) fn of(found: &Metadata) -> Self {
        // The modification time of a link is its creation time; its content is the target.
        let modified = (found.mtime(), found.mtime_nsec());
        let modified = if found.is_symlink() { (0, 0) } else { modified };
        let status_changed = Some((found.ctime(), found.ctime_nsec()));
        Self { size: found.size(), mode: found.mode(), modified, status_changed }
    }

    /// Returns whether a file cannot have changed.
    pub(crate) fn is_same_status(&self, now: &Self) -> bool {
        self == now
    }

    /// Returns whether a file has the same size, mode and modification time, as an altered file can
    /// have, too.
    pub(crate) fn is_same(&self, now: &Self) -> bool {
        (self.size, self.mode, self.modified) == (now.size, now.mode, now.modified)
    }
}

/// Returns whether the files below `dir` have at most `limit` bytes. Stops at the limit.
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

/// Copies everything in `from` into `to`, an existing empty directory.
///
/// # Errors
///
/// [`FileError`]; the copy may be incomplete.
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
            let found = entry.metadata().map_err(FileError::when("access", &path))?;
            if found.is_dir() {
                let target = to.join(&name);
                make_dir(&target)?;
                times.push((target, found));
                dirs.push(name);
            } else if let Some(stamp) = file(&path, &found, &to.join(&name))? {
                manifest.insert(escaped(&name), stamp);
            }
        }
    }
    // Inner directories first: adding an entry changes the time of a directory.
    for (dir, found) in times.into_iter().rev() {
        keep_times(&dir, &found).map_err(FileError::when("set the time of", &dir))?;
        fs::set_permissions(&dir, Permissions::from_mode(found.mode() & 0o7777))
            .map_err(FileError::when("set the mode of", &dir))?;
    }
    Ok(manifest)
}

/// Copies one file or link to a new path; `None` if it is of another type.
///
/// # Errors
///
/// [`FileError`].
pub fn file(path: &Path, found: &Metadata, to: &Path) -> Result<Option<Stamp>, FileError> {
    if found.is_symlink() {
        let leads = fs::read_link(path).map_err(FileError::when("read", path))?;
        symlink(leads, to).map_err(FileError::when("create", to))?;
    } else if found.is_file() {
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let source = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let source = source.map_err(FileError::when("read", path))?;
        contents(&source, to, found).map_err(FileError::when("copy to", to))?;
    } else {
        return Ok(None);
    }
    let made = fs::symlink_metadata(to).map_err(FileError::when("access", to))?;
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

/// Escapes a path to printable characters, without collisions.
#[must_use]
pub fn escaped(name: &Path) -> String {
    name.as_os_str().as_bytes().escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::Write as _;

    use super::*;

    fn put(path: &Path, text: &str) {
        File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// R16: a copy equals its original, and changes in it are detected.
    #[test]
    fn copied_tree_equals_original_and_stamps_detect_changes() {
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
        let stamp = |name: &str| Stamp::of(&fs::symlink_metadata(to.join(name)).unwrap());
        for name in ["deep/run", "gone", "link"] {
            assert!(manifest[name].is_same_status(&stamp(name)), "{name}");
        }
        let (old, new) =
            (from.join("deep/run").metadata().unwrap(), to.join("deep/run").metadata().unwrap());
        assert_eq!((old.mode(), old.mtime_nsec()), (new.mode(), new.mtime_nsec()));
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/nowhere"));
        assert_eq!(fs::read(to.join(odd)).unwrap(), b"odd");
        assert_eq!(to.join("deep").metadata().unwrap().mode() & 0o777, 0o500);

        put(&to.join("gone"), "y");
        let then = from.join("gone").metadata().unwrap().modified().unwrap();
        let times = FileTimes::new().set_modified(then);
        File::options().write(true).open(to.join("gone")).unwrap().set_times(times).unwrap();
        assert!(manifest["gone"].is_same(&stamp("gone")));
        assert!(!manifest["gone"].is_same_status(&stamp("gone")));
        assert_eq!(fs::read(from.join(odd)).unwrap(), b"odd", "the original is unchanged");
    }

    #[test]
    fn fits_counts_up_to_the_last_byte() {
        let base = tempfile::tempdir().unwrap();
        put(&base.path().join("a"), "12345");

        assert!(fits(base.path(), 5) && !fits(base.path(), 4));
    }
}
