//! Files that all panes may read and none may write: project files and templates (R18).
//!
//! File modes prevent writes, except by root.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::file::{FileError, make_dir};
use crate::{StateRoot, copy};

/// Subdirectories of the shared directory.
pub const PARTS: [&str; 2] = ["project-files", "templates"];

/// A shared file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The subdirectory that contains it.
    pub part: &'static str,
    /// File name.
    pub name: String,
    /// Absolute path.
    pub path: PathBuf,
}

/// Creates the shared directories, readable and not writable.
///
/// # Errors
///
/// [`FileError`].
pub fn prepare(root: &StateRoot) -> Result<(), FileError> {
    make_dir(&root.shared())?;
    for part in PARTS {
        let dir = root.shared().join(part);
        if !dir.is_dir() {
            make_dir(&dir)?;
            set_mode(&dir, 0o500)?;
        }
    }
    Ok(())
}

/// Returns all shared files, sorted by part and name.
#[must_use]
pub fn list(root: &StateRoot) -> Vec<Shared> {
    let mut all = Vec::new();
    for part in PARTS {
        let entries = fs::read_dir(root.shared().join(part)).into_iter().flatten().flatten();
        all.extend(entries.map(|entry| Shared {
            part,
            name: entry.file_name().to_string_lossy().into_owned(),
            path: entry.path(),
        }));
    }
    all.sort_by(|a, b| (a.part, &a.name).cmp(&(b.part, &b.name)));
    // Files that are being added or removed have such names.
    all.retain(|shared| !shared.name.starts_with('.'));
    all
}

/// Copies a file or directory into a part and replaces the entry of the same name.
///
/// # Errors
///
/// [`FileError`]; the previous entry is kept.
pub fn add(root: &StateRoot, part: &str, from: &Path) -> Result<(), FileError> {
    let real = fs::canonicalize(from).map_err(FileError::when("share", from))?;
    let name = real.file_name().and_then(|name| name.to_str());
    add_as(root, part, from, name.unwrap_or_default())
}

/// Copies a file or directory into a part under another name.
///
/// # Errors
///
/// [`FileError`]; the previous entry is kept.
pub fn add_as(root: &StateRoot, part: &str, from: &Path, name: &str) -> Result<(), FileError> {
    prepare(root)?;
    let invalid = |why: &str| FileError::when("share", from)(io::Error::other(why.to_owned()));
    let real = fs::canonicalize(from).map_err(FileError::when("share", from))?;
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(invalid("its name cannot be shared"));
    }
    if root.path().starts_with(&real) {
        return Err(invalid("it contains the state root of ccmux"));
    }
    let dir = root.shared().join(part);
    // On the same file system, but not in a part.
    let staged = root.shared().join(format!(".new-{}", std::process::id()));
    crate::remove::tree(&staged)?;
    make_dir(&staged)?;
    let (fresh, old, place) = (staged.join(name), staged.join(".old"), dir.join(name));
    let found = fs::metadata(&real).map_err(FileError::when("share", from))?;
    let copied = if found.is_dir() {
        make_dir(&fresh).and_then(|()| copy::tree(&real, &fresh).map(drop))
    } else {
        copy::file(&real, &found, &fresh).map(drop)
    };
    let done = copied.and_then(|()| make_read_only(&fresh)).and_then(|()| {
        with_writable_dir(&dir, || {
            if place.symlink_metadata().is_ok() {
                move_shared(&place, &old)?;
            }
            move_shared(&fresh, &place)
        })
    });
    crate::remove::tree(&staged)?;
    done
}

/// Removes an entry from any part. Returns whether it existed.
///
/// # Errors
///
/// [`FileError`].
pub fn remove(root: &StateRoot, name: &str) -> Result<bool, FileError> {
    for part in PARTS {
        if remove_from(root, part, name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes an entry from one part. Returns whether it existed.
///
/// # Errors
///
/// [`FileError`].
pub fn remove_from(root: &StateRoot, part: &str, name: &str) -> Result<bool, FileError> {
    let mut all = list(root).into_iter();
    let Some(shared) = all.find(|shared| shared.part == part && shared.name == name) else {
        return Ok(false);
    };
    let staged = root.shared().join(format!(".old-{}", std::process::id()));
    let dir = root.shared().join(shared.part);
    with_writable_dir(&dir, || {
        make_dir(&staged)?;
        move_shared(&shared.path, &staged.join("x"))
    })?;
    crate::remove::tree(&staged)?;
    Ok(true)
}

/// Makes a tree read-only.
fn make_read_only(path: &Path) -> Result<(), FileError> {
    let found = fs::symlink_metadata(path).map_err(FileError::when("access", path))?;
    if found.is_symlink() {
        return Ok(());
    }
    if !found.is_dir() {
        let executable = found.permissions().mode() & 0o111 != 0;
        return set_mode(path, if executable { 0o500 } else { 0o400 });
    }
    set_mode(path, 0o700)?;
    for entry in fs::read_dir(path).map_err(FileError::when("read", path))? {
        make_read_only(&entry.map_err(FileError::when("read", path))?.path())?;
    }
    set_mode(path, 0o500)
}

/// Moves a read-only entry. The owner needs write permission on a directory to move it.
fn move_shared(from: &Path, to: &Path) -> Result<(), FileError> {
    let is_dir = fs::symlink_metadata(from).is_ok_and(|found| found.is_dir());
    if is_dir {
        set_mode(from, 0o700)?;
    }
    fs::rename(from, to).map_err(FileError::when("move", from))?;
    if is_dir { set_mode(to, 0o500) } else { Ok(()) }
}

/// Changes the entries of a read-only directory.
fn with_writable_dir(
    dir: &Path,
    change: impl FnOnce() -> Result<(), FileError>,
) -> Result<(), FileError> {
    set_mode(dir, 0o700)?;
    let changed = change();
    set_mode(dir, 0o500)?;
    changed
}

fn set_mode(path: &Path, mode: u32) -> Result<(), FileError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(FileError::when("set the mode of", path))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// R18: shared files are readable and not writable.
    #[test]
    fn shared_files_can_be_read_replaced_and_removed_but_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("root")).unwrap();
        let (file, tree) = (dir.path().join("rules.md"), dir.path().join("docs"));
        let put = |path: &Path, text: &str| {
            fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
        };
        put(&file, "one");
        fs::create_dir_all(tree.join("deep")).unwrap();
        put(&tree.join("deep/a"), "a");

        add(&root, PARTS[0], &file).unwrap();
        add(&root, PARTS[1], &tree).unwrap();
        put(&file, "two");
        add(&root, PARTS[0], &file).unwrap();

        let names: Vec<String> = list(&root).into_iter().map(|shared| shared.name).collect();
        assert_eq!(names, ["rules.md", "docs"]);
        let place = root.shared().join("project-files/rules.md");
        assert_eq!(fs::read_to_string(&place).unwrap(), "two");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&place), mode(&root.shared().join("templates/docs/deep"))),
            (0o400, 0o500)
        );
        assert_eq!(mode(&root.shared().join("templates")), 0o500);
        assert!(remove(&root, "docs").unwrap() && !remove(&root, "docs").unwrap());
        assert!(add(&root, PARTS[0], dir.path()).is_err(), "contains the state root");
    }
}
