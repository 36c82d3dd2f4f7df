//! Copies the parts of a template or a project into a session's directory.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use model::template::{MOST_BYTES, MOST_ENTRIES, stays_inside};

use super::{TemplateError, too_much};
use crate::file::{self, Durability, FileError, make_dir};
use crate::{copy, hooks, remove};

/// A file, directory or link to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Path relative to the top directory.
    pub at: PathBuf,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Dir,
    File { bytes: u64, executable: bool },
    Link(PathBuf),
}

impl Copied {
    /// Returns path and size, unless it is a directory.
    #[must_use]
    pub fn as_file(&self) -> Option<(String, u64)> {
        let bytes = match &self.kind {
            Kind::Dir => return None,
            Kind::File { bytes, .. } => *bytes,
            Kind::Link(_) => 0,
        };
        Some((self.at.to_string_lossy().into_owned(), bytes))
    }
}

/// Lists everything in the existing parts of a directory; a directory comes before its entries. With
/// `inside`, a link that leads out of the parts is an error.
///
/// # Errors
///
/// [`TemplateError`] if something cannot be read or copied, or exceeds the limits.
pub fn survey(top: &Path, parts: &[&str], inside: bool) -> Result<Vec<Copied>, TemplateError> {
    let (mut found, mut bytes) = (Vec::new(), 0_u64);
    let mut waiting: Vec<PathBuf> = parts.iter().rev().map(PathBuf::from).collect();
    while let Some(at) = waiting.pop() {
        let path = top.join(&at);
        let invalid =
            |why: &str| TemplateError::Invalid { path: path.clone(), why: why.to_owned() };
        let meta = match fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(FileError::when("access", &path)(error).into()),
        };
        let is_part = at.components().count() == 1;
        let kind = if meta.is_dir() {
            let read = fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
            let read = read.map_err(FileError::when("read", &path))?;
            let mut names: Vec<_> = read.iter().map(fs::DirEntry::file_name).collect();
            names.sort_unstable_by(|a, b| b.cmp(a));
            waiting.extend(names.iter().map(|name| at.join(name)));
            Kind::Dir
        } else if is_part {
            return Err(invalid("not a directory"));
        } else if meta.is_symlink() {
            let leads = fs::read_link(&path).map_err(FileError::when("read", &path))?;
            if inside && !stays_inside(&at, &leads) {
                return Err(invalid(&format!("the link leads outside, to `{}`", leads.display())));
            }
            Kind::Link(leads)
        } else if meta.is_file() {
            bytes = bytes.saturating_add(meta.len());
            let executable = meta.permissions().mode() & 0o111 != 0;
            Kind::File { bytes: meta.len(), executable }
        } else {
            return Err(invalid("neither a file, a directory nor a link"));
        };
        found.push(Copied { at, kind });
        if bytes > MOST_BYTES || found.len() > MOST_ENTRIES {
            return Err(too_much(top));
        }
    }
    Ok(found)
}

/// Copies the existing parts of a directory into another, each completely or not at all. Returns the
/// copied parts. Existing parts that are not empty are kept.
///
/// # Errors
///
/// [`TemplateError`].
pub fn copy_parts<'p>(
    from: &Path,
    parts: &[&'p str],
    to: &Path,
    inside: bool,
) -> Result<Vec<&'p str>, TemplateError> {
    let all = survey(from, parts, inside)?;
    Ok(staged(to, parts, |stage| all.iter().try_for_each(|one| copy_one(one, from, stage)))?)
}

/// Writes files from memory, like [`copy_parts`].
pub(super) fn write_parts(files: &[(&str, &str)], to: &Path) -> Result<(), FileError> {
    let parts = model::template::PARTS;
    let written = staged(to, &parts, |stage| {
        for (name, text) in files {
            let path = stage.join(name);
            for dir in Path::new(name).ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
                make_dir(&stage.join(dir))?;
            }
            file::write_atomic(&path, text.as_bytes(), Durability::ProcessCrash)?;
        }
        Ok(())
    });
    written.map(drop)
}

/// Fills a staging directory and moves its parts to their destination.
fn staged<'p>(
    to: &Path,
    parts: &[&'p str],
    fill: impl FnOnce(&Path) -> Result<(), FileError>,
) -> Result<Vec<&'p str>, FileError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let stage = to.join(format!(".new-{}-{count}", std::process::id()));
    make_dir(&stage)?;
    let moved = fill(&stage).and_then(|()| {
        hooks::point("template.staged");
        let mut moved = Vec::new();
        for part in parts.iter().filter(|part| stage.join(part).is_dir()) {
            let place = to.join(part);
            match fs::rename(stage.join(part), &place) {
                Ok(()) => moved.push(*part),
                // Another process moved its complete copy there first.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) => return Err(FileError::when("create", &place)(error)),
            }
        }
        Ok(moved)
    });
    remove::tree(&stage)?;
    moved
}

fn copy_one(one: &Copied, from: &Path, to: &Path) -> Result<(), FileError> {
    let (path, place) = (from.join(&one.at), to.join(&one.at));
    match &one.kind {
        Kind::Dir => make_dir(&place),
        Kind::Link(leads) => symlink(leads, &place).map_err(FileError::when("create", &place)),
        Kind::File { executable, .. } => {
            let meta = fs::symlink_metadata(&path).map_err(FileError::when("access", &path))?;
            if copy::file(&path, &meta, &place)?.is_none() || meta.is_symlink() {
                let error = io::Error::other("it was replaced during the copy");
                return Err(FileError::when("copy", &path)(error));
            }
            let mode = if *executable { 0o700 } else { 0o600 };
            fs::set_permissions(&place, Permissions::from_mode(mode))
                .map_err(FileError::when("set the mode of", &place))
        }
    }
}

/// Syncs parts of a directory to disk, contents before names.
pub(super) fn sync(dir: &Path, parts: &[&str]) -> Result<(), FileError> {
    let all = match survey(dir, parts, false) {
        Ok(all) => all,
        Err(TemplateError::File(error)) => return Err(error),
        // The session is already in use.
        Err(_) => return Ok(()),
    };
    for one in all.iter().rev().filter(|one| !matches!(one.kind, Kind::Link(_))) {
        let path = dir.join(&one.at);
        File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(FileError::when("sync", &path))?;
    }
    Ok(())
}
