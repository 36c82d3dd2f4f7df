//! Templates of sessions: found, checked, copied, added and taken out (R18, R26).
//!
//! A template is a directory with a description ([`model::template::FILE`]) and the parts
//! [`model::template::PARTS`]. A user's own are among what all panes may read and nobody may write;
//! one more comes with the program. What is copied is a file of its own, never a second name of the
//! original, and belongs to the session's owner, who may write to it.

mod copied;

use std::fs;
use std::path::{Path, PathBuf};

use model::Name;
use model::template::{FILE, MOST_BYTES, MOST_ENTRIES, PARTS, SHIPPED};
use toml::de::{DeTable, DeValue};

pub use copied::{Copied, copy_parts, survey};

use crate::file::FileError;
use crate::{StateRoot, shared};

/// Which part of what is shared they are in.
const SHARED: &str = shared::PARTS[1];

/// The files of the template that comes with the program.
const SHIPPED_FILES: [(&str, &str); 5] = [
    (FILE, include_str!("default/template.toml")),
    ("unit/core/README.md", include_str!("default/unit/core/README.md")),
    ("unit/core/manager.md", include_str!("default/unit/core/manager.md")),
    ("unit/core/worker.md", include_str!("default/unit/core/worker.md")),
    ("workflows/plan-build-review.md", include_str!("default/workflows/plan-build-review.md")),
];

/// A template that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// What it is called.
    pub name: Name,
    /// What it is for.
    pub description: String,
    /// Where it is; none: in the program.
    pub path: Option<PathBuf>,
    /// Its files and links, by their names in it, with what they take.
    pub files: Vec<(String, u64)>,
}

/// Why a template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// There is none of that name.
    #[error("there is no template {0:?}")]
    NotFound(String),
    /// It is no template, or none that may be copied.
    #[error("`{}` cannot be used as a template: {why}", path.display())]
    Invalid {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It comes with the program.
    #[error("the template {0} comes with ccmux and cannot be removed")]
    Shipped(Name),
    /// The system refused something.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What a template says about itself.
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
                return Err(format!("{key} is not a text"));
            };
            match key {
                "name" => described.name = Some(value.to_string()),
                "description" => described.description = value.to_string(),
                _ => return Err(format!("there is no {key}; a template has name and description")),
            }
        }
        Ok(described)
    }
}

/// Every template by name; of one that cannot be used, why not.
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

/// The template of this name: the user's own, or the one that comes with the program.
///
/// # Errors
///
/// [`TemplateError`].
pub fn find(root: &StateRoot, name: &str) -> Result<Template, TemplateError> {
    let missing = || TemplateError::NotFound(name.to_owned());
    let called: Name = name.parse().map_err(|_| missing())?;
    let path = root.shared().join(SHARED).join(called.as_str());
    // A name with which a path would lead elsewhere is no name of a template.
    let is_one = path.file_name().is_some_and(|last| last == called.as_str());
    if is_one && path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return read(&path, called);
    }
    if name == SHIPPED { shipped() } else { Err(missing()) }
}

/// The template in a directory.
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

/// Copies the parts of a template into a directory that is there. What is there already stays: of
/// several who do this at once, one wins each part.
///
/// # Errors
///
/// [`TemplateError`]; a part of it may be there.
pub fn copy_into(template: &Template, dir: &Path) -> Result<(), TemplateError> {
    match &template.path {
        Some(path) => copy_parts(path, &PARTS, dir, true).map(drop),
        None => Ok(copied::write_parts(&SHIPPED_FILES[1..], dir)?),
    }
}

/// Makes everything that was copied survive the death of the machine.
///
/// # Errors
///
/// [`FileError`].
pub fn sync(dir: &Path) -> Result<(), FileError> {
    copied::sync(dir, &PARTS)
}

/// Adds a directory as a template, in the place of the one that had its name.
///
/// # Errors
///
/// [`TemplateError`]; everything is then as it was.
pub fn add(root: &StateRoot, from: &Path, name: Option<Name>) -> Result<Template, TemplateError> {
    let real = fs::canonicalize(from).map_err(FileError::when("read", from))?;
    let invalid = |why: String| TemplateError::Invalid { path: from.to_owned(), why };
    if !real.is_dir() {
        return Err(invalid("it is not a directory".to_owned()));
    }
    let name = match name {
        Some(name) => name,
        None => {
            let said = describe(&real)?.name;
            let own = || real.file_name().map(|name| name.to_string_lossy().into_owned());
            let text = said.or_else(own).unwrap_or_default();
            text.parse().map_err(|error| invalid(format!("its name {text:?}: {error}")))?
        }
    };
    if name.as_str().starts_with('.') {
        return Err(invalid(format!("its name {name} begins with a dot")));
    }
    if !PARTS.iter().any(|part| real.join(part).is_dir()) {
        return Err(invalid(format!("it has none of the directories {}", PARTS.join(", "))));
    }
    // Looked at as what it will be, before anything is copied.
    read(&real, name.clone())?;
    shared::add_as(root, SHARED, &real, name.as_str())?;
    find(root, name.as_str())
}

/// Takes a user's own template out.
///
/// # Errors
///
/// [`TemplateError`], also if there is none.
pub fn remove(root: &StateRoot, name: &str) -> Result<(), TemplateError> {
    if shared::take_out_of(root, SHARED, name)? {
        return Ok(());
    }
    match find(root, name)? {
        Template { path: None, name, .. } => Err(TemplateError::Shipped(name)),
        Template { .. } => Err(TemplateError::NotFound(name.to_owned())),
    }
}

/// What is too much for a template.
fn too_much(path: &Path) -> TemplateError {
    let why = format!("it holds more than {} MiB or {MOST_ENTRIES} entries", MOST_BYTES >> 20);
    TemplateError::Invalid { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests;
