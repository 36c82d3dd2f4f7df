//! What all panes may read and none may write: project files and templates (R18).
//!
//! Modes keep panes from writing, as they keep anybody. They do not keep the superuser.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::file::{FileError, make_dir};
use crate::{StateRoot, copy, remove};

/// The parts of what is shared.
pub const PARTS: [&str; 2] = ["project-files", "templates"];

/// Something that is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Which part it is in.
    pub part: &'static str,
    /// What it is called there.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Makes the directories, readable and not writable.
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

/// Everything that is shared.
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
    // What is on its way in or out has such a name.
    all.retain(|shared| !shared.name.starts_with('.'));
    all
}

/// Copies a file or a tree into a part, in the place of what had its name.
///
/// # Errors
///
/// [`FileError`]; what had the name is then still there.
pub fn add(root: &StateRoot, part: &str, from: &Path) -> Result<(), FileError> {
    let real = fs::canonicalize(from).map_err(FileError::when("share", from))?;
    let name = real.file_name().and_then(|name| name.to_str());
    add_as(root, part, from, name.unwrap_or_default())
}

/// The same, under a name of its own.
///
/// # Errors
///
/// [`FileError`]; what had the name is then still there.
pub fn add_as(root: &StateRoot, part: &str, from: &Path, name: &str) -> Result<(), FileError> {
    prepare(root)?;
    let wrong = |why: &str| FileError::when("share", from)(io::Error::other(why.to_owned()));
    let real = fs::canonicalize(from).map_err(FileError::when("share", from))?;
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(wrong("it has no name that can be shared"));
    }
    if root.path().starts_with(&real) {
        return Err(wrong("it contains the state of ccmux"));
    }
    let dir = root.shared().join(part);
    // Outside of what panes look at, on the same disk.
    let staged = root.shared().join(format!(".new-{}", std::process::id()));
    remove::tree(&staged)?;
    make_dir(&staged)?;
    let (fresh, old, place) = (staged.join(name), staged.join(".old"), dir.join(name));
    let found = fs::metadata(&real).map_err(FileError::when("share", from))?;
    let copied = if found.is_dir() {
        make_dir(&fresh).and_then(|()| copy::tree(&real, &fresh).map(drop))
    } else {
        copy::one(&real, &found, &fresh).map(drop)
    };
    let done = copied.and_then(|()| close(&fresh)).and_then(|()| {
        changing(&dir, || {
            if place.symlink_metadata().is_ok() {
                move_shared(&place, &old)?;
            }
            move_shared(&fresh, &place)
        })
    });
    remove::tree(&staged)?;
    done
}

/// Takes something out; whether it was there.
///
/// # Errors
///
/// [`FileError`].
pub fn take_out(root: &StateRoot, name: &str) -> Result<bool, FileError> {
    for part in PARTS {
        if take_out_of(root, part, name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes something out of one part; whether it was there.
///
/// # Errors
///
/// [`FileError`].
pub fn take_out_of(root: &StateRoot, part: &str, name: &str) -> Result<bool, FileError> {
    let mut all = list(root).into_iter();
    let Some(shared) = all.find(|shared| shared.part == part && shared.name == name) else {
        return Ok(false);
    };
    let staged = root.shared().join(format!(".old-{}", std::process::id()));
    let dir = root.shared().join(shared.part);
    changing(&dir, || {
        make_dir(&staged)?;
        move_shared(&shared.path, &staged.join("x"))
    })?;
    remove::tree(&staged)?;
    Ok(true)
}

/// Lets nobody write to a tree any more.
fn close(path: &Path) -> Result<(), FileError> {
    let found = fs::symlink_metadata(path).map_err(FileError::when("look at", path))?;
    if found.is_symlink() {
        return Ok(());
    }
    if !found.is_dir() {
        let executable = found.permissions().mode() & 0o111 != 0;
        return set_mode(path, if executable { 0o500 } else { 0o400 });
    }
    set_mode(path, 0o700)?;
    for entry in fs::read_dir(path).map_err(FileError::when("read", path))? {
        close(&entry.map_err(FileError::when("read", path))?.path())?;
    }
    set_mode(path, 0o500)
}

/// Moves something that nobody may write to. A directory can be moved only by who may write to it.
fn move_shared(from: &Path, to: &Path) -> Result<(), FileError> {
    let is_dir = fs::symlink_metadata(from).is_ok_and(|found| found.is_dir());
    if is_dir {
        set_mode(from, 0o700)?;
    }
    fs::rename(from, to).map_err(FileError::when("move", from))?;
    if is_dir { set_mode(to, 0o500) } else { Ok(()) }
}

/// Changes the entries of a directory that nobody else may change.
fn changing(dir: &Path, change: impl FnOnce() -> Result<(), FileError>) -> Result<(), FileError> {
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
    fn what_is_shared_can_be_read_replaced_and_taken_out_and_not_written() {
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
        assert!(take_out(&root, "docs").unwrap() && !take_out(&root, "docs").unwrap());
        assert!(add(&root, PARTS[0], dir.path()).is_err(), "it contains the root");
    }
}
