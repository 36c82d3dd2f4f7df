//! Session templates: found, validated, copied, added and removed (R18, R26).
//!
//! A template is a directory with a description ([`model::template::FILE`]) and the parts
//! [`model::template::PARTS`]. User templates are in the shared read-only directory; one template is
//! built in. Copies are separate files (never hard links) that the session may write to.

mod copied;

use std::fs;
use std::path::{Path, PathBuf};

use model::Name;
use model::template::{FILE, MOST_BYTES, MOST_ENTRIES, PARTS, SHIPPED};
use toml::de::{DeTable, DeValue};

pub use copied::{Copied, copy_parts, survey};

use crate::file::FileError;
use crate::{StateRoot, shared};

/// The part of the shared directory that contains templates.
const SHARED: &str = shared::PARTS[1];

/// The files of the built-in template.
const SHIPPED_FILES: [(&str, &str); 5] = [
    (FILE, include_str!("default/template.toml")),
    ("unit/core/README.md", include_str!("default/unit/core/README.md")),
    ("unit/core/manager.md", include_str!("default/unit/core/manager.md")),
    ("unit/core/worker.md", include_str!("default/unit/core/worker.md")),
    ("workflows/plan-build-review.md", include_str!("default/workflows/plan-build-review.md")),
];

/// Returns whether a file has the content of the built-in template's file `name`.
#[must_use]
pub fn is_shipped(path: &Path, name: &Path) -> bool {
    let shipped = SHIPPED_FILES.iter().find(|(shipped, _)| Path::new(shipped) == name);
    shipped.is_some_and(|(_, text)| {
        path.symlink_metadata().is_ok_and(|found| found.is_file())
            && fs::read(path).is_ok_and(|content| content == text.as_bytes())
    })
}

/// A valid template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its name.
    pub name: Name,
    /// Its description.
    pub description: String,
    /// Its directory; `None` for the built-in template.
    pub path: Option<PathBuf>,
    /// Relative paths and sizes of its files and links.
    pub files: Vec<(String, u64)>,
}

/// Failure to use a template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// There is no template of this name.
    #[error("template {0:?} does not exist")]
    NotFound(String),
    /// The directory is not a valid template.
    #[error("`{}` is not a valid template: {why}", path.display())]
    Invalid {
        /// The directory or file.
        path: PathBuf,
        /// Description of the problem.
        why: String,
    },
    /// The template is built in.
    #[error("template {0} is built in and cannot be removed")]
    Shipped(Name),
    /// Error of the operating system.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The description file of a template.
#[derive(Default)]
struct Description {
    name: Option<String>,
    description: String,
}

impl Description {
    fn parse(text: &str) -> Result<Self, String> {
        let table = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
        let mut described = Self::default();
        for (key, value) in table.get_ref() {
            let key = key.get_ref().as_ref();
            let DeValue::String(value) = value.get_ref() else {
                return Err(format!("{key} must be a string"));
            };
            match key {
                "name" => described.name = Some(value.to_string()),
                "description" => described.description = value.to_string(),
                _ => return Err(format!("unknown key {key}; expected name or description")),
            }
        }
        Ok(described)
    }
}

/// Returns all templates by name, or the reason why one is invalid.
#[must_use]
pub fn list(root: &StateRoot) -> Vec<(String, Result<Template, TemplateError>)> {
    let entries = fs::read_dir(root.shared().join(SHARED)).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .map(|name| {
            let found = find(root, &name);
            (name, found)
        })
        .collect();
    if all.iter().all(|(name, _)| name != SHIPPED) {
        all.push((SHIPPED.to_owned(), shipped()));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// Returns the template of this name: a user template, or the built-in one.
///
/// # Errors
///
/// [`TemplateError`].
pub fn find(root: &StateRoot, name: &str) -> Result<Template, TemplateError> {
    let missing = || TemplateError::NotFound(name.to_owned());
    let called: Name = name.parse().map_err(|_| missing())?;
    let path = root.shared().join(SHARED).join(called.as_str());
    // A name that changes the path is not the name of a template.
    let is_one = path.file_name().is_some_and(|last| last == called.as_str());
    if is_one && path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return read(&path, called);
    }
    if name == SHIPPED { shipped() } else { Err(missing()) }
}

/// Reads the template in a directory.
fn read(path: &Path, name: Name) -> Result<Template, TemplateError> {
    let Description { description, .. } = describe(path)?;
    let surveyed = survey(path, &PARTS, true)?;
    let files = surveyed.iter().filter_map(Copied::as_file).collect();
    Ok(Template { name, description, path: Some(path.to_owned()), files })
}

fn describe(dir: &Path) -> Result<Description, TemplateError> {
    let path = dir.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Description::parse(&text).map_err(|why| TemplateError::Invalid { path, why }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Description::default()),
        Err(error) => Err(FileError::when("read", &path)(error).into()),
    }
}

fn shipped() -> Result<Template, TemplateError> {
    let [(_, description), files @ ..] = SHIPPED_FILES;
    let invalid = |why: String| TemplateError::Invalid { path: FILE.into(), why };
    let Description { description, .. } = Description::parse(description).map_err(invalid)?;
    let name = SHIPPED.parse().map_err(|_| invalid(SHIPPED.to_owned()))?;
    let size = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), size(text))).collect();
    Ok(Template { name, description, path: None, files })
}

/// Copies the parts of a template into an existing directory. Existing parts are kept: of concurrent
/// calls, one wins each part.
///
/// # Errors
///
/// [`TemplateError`]; the copy may be partial.
pub fn copy_into(template: &Template, dir: &Path) -> Result<(), TemplateError> {
    match &template.path {
        Some(path) => copy_parts(path, &PARTS, dir, true).map(drop),
        None => Ok(copied::write_parts(&SHIPPED_FILES[1..], dir)?),
    }
}

/// Syncs the copied parts to disk.
///
/// # Errors
///
/// [`FileError`].
pub fn sync(dir: &Path) -> Result<(), FileError> {
    copied::sync(dir, &PARTS)
}

/// Adds a directory as a template and replaces the template of the same name.
///
/// # Errors
///
/// [`TemplateError`]; nothing was changed.
pub fn add(root: &StateRoot, from: &Path, name: Option<Name>) -> Result<Template, TemplateError> {
    let real = fs::canonicalize(from).map_err(FileError::when("read", from))?;
    let invalid = |why: String| TemplateError::Invalid { path: from.to_owned(), why };
    if !real.is_dir() {
        return Err(invalid("not a directory".to_owned()));
    }
    let name = match name {
        Some(name) => name,
        None => {
            let said = describe(&real)?.name;
            let own = || real.file_name().map(|name| name.to_string_lossy().into_owned());
            let text = said.or_else(own).unwrap_or_default();
            text.parse().map_err(|error| invalid(format!("invalid name {text:?}: {error}")))?
        }
    };
    if name.as_str().starts_with('.') {
        return Err(invalid(format!("the name {name} starts with a dot")));
    }
    if !PARTS.iter().any(|part| real.join(part).is_dir()) {
        return Err(invalid(format!("none of the directories {} exists", PARTS.join(", "))));
    }
    // Validated before anything is copied.
    read(&real, name.clone())?;
    shared::add_as(root, SHARED, &real, name.as_str())?;
    find(root, name.as_str())
}

/// Removes a user template.
///
/// # Errors
///
/// [`TemplateError`], also if it does not exist.
pub fn remove(root: &StateRoot, name: &str) -> Result<(), TemplateError> {
    if shared::remove_from(root, SHARED, name)? {
        return Ok(());
    }
    match find(root, name)? {
        Template { path: None, name, .. } => Err(TemplateError::Shipped(name)),
        Template { .. } => Err(TemplateError::NotFound(name.to_owned())),
    }
}

/// The error for a template over the limits.
fn too_much(path: &Path) -> TemplateError {
    let why = format!("larger than {} MiB or {MOST_ENTRIES} entries", MOST_BYTES >> 20);
    TemplateError::Invalid { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests;
