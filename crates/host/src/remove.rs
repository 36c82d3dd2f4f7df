//! Removal of directory trees.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::geteuid;

use crate::file::FileError;

/// Removes a directory tree; succeeds if it does not exist. Links are removed, not followed. Blocks.
///
/// Package managers create read-only directories. Those are made writable first.
///
/// # Errors
///
/// [`FileError`]; the removal may be partial. A tree that contains a mount point is left unchanged:
/// the mounted files do not belong to it.
pub fn tree(path: &Path) -> Result<(), FileError> {
    let fail = || FileError::when("remove", path);
    if let Some(mount) = mount_in(path).map_err(fail())? {
        let why = format!("something is mounted at `{}`", mount.display());
        return Err(fail()(io::Error::other(why)));
    }
    let mut removed = fs::remove_dir_all(path);
    if matches!(&removed, Err(error) if error.kind() == io::ErrorKind::PermissionDenied) {
        make_removable(path);
        removed = fs::remove_dir_all(path);
    }
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fail()(error)),
        _ => Ok(()),
    }
}

/// Makes every directory of a tree writable by its owner. Failures show when the tree is removed.
fn make_removable(path: &Path) {
    let us = geteuid().as_raw();
    let mut dirs = vec![path.to_owned()];
    while let Some(dir) = dirs.pop() {
        let Ok(found) = fs::symlink_metadata(&dir) else { continue };
        if found.is_dir() && found.uid() == us && found.mode() & 0o700 != 0o700 {
            let _visible_later = make_accessible(&dir);
        }
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        dirs.extend(inner.map(|entry| entry.path()));
    }
}

/// Changes the mode through a descriptor, so that a link put in its place is not followed.
fn make_accessible(dir: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held: OwnedFd = openat(CWD, dir, flags, Mode::empty())?;
    let held = format!("/proc/self/fd/{}", held.as_raw_fd());
    fs::set_permissions(held, Permissions::from_mode(0o700))
}

/// Returns the first mount point at or below `path`.
fn mount_in(path: &Path) -> io::Result<Option<PathBuf>> {
    // As spelled by the kernel.
    let path = match path.canonicalize() {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mounts = fs::read("/proc/self/mountinfo")?;
    let mut points = mounts.split(|&byte| byte == b'\n').filter_map(mount_point);
    Ok(points.find(|point| point.starts_with(&path)))
}

/// Returns the fifth field of a `mountinfo` line, in which special characters are octal escapes.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let field = line.split(|&byte| byte == b' ').nth(4)?;
    let mut point = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let octal = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                point.push(escaped);
                rest = &after[3..];
            }
            None => {
                point.push(byte);
                rest = after;
            }
        }
    }
    Some(std::ffi::OsString::from_vec(point).into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn tree_removes_links_and_keeps_their_targets() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, other) = (dir.path().join("tree"), dir.path().join("other"));
        fs::create_dir_all(tree.join("inner")).unwrap();
        fs::create_dir_all(other.join("precious")).unwrap();
        symlink(&other, tree.join("inner/link")).unwrap();

        super::tree(&tree).unwrap();

        assert!(!tree.exists());
        assert!(other.join("precious").is_dir());
        super::tree(&tree).expect("a missing tree is not an error");
    }

    #[test]
    fn tree_with_read_only_directories_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, other) = (dir.path().join("tree"), dir.path().join("other"));
        fs::create_dir_all(tree.join("module/inner")).unwrap();
        fs::create_dir(&other).unwrap();
        symlink(&other, tree.join("link")).unwrap();
        for closed in [tree.join("module/inner"), tree.join("module"), other.clone()] {
            fs::set_permissions(closed, Permissions::from_mode(0o500)).unwrap();
        }

        make_removable(&tree);

        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&tree.join("module")), 0o700);
        assert_eq!(mode(&tree.join("module/inner")), 0o700);
        assert_eq!(mode(&other), 0o500);
        super::tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn mount_point_decodes_escapes() {
        let line = b"36 35 98:0 /mnt1 /mnt/a\\040b\\134c\\011 rw - ext3 /dev/root rw";

        assert_eq!(mount_point(line), Some(PathBuf::from("/mnt/a b\\c\t")));
        assert_eq!(mount_point(b"36 35"), None);
        assert!(mount_in(Path::new("/proc")).unwrap().is_some());
    }
}
