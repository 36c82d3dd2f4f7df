//! Unsaved work: its description, and the token that identifies it.

use std::io;
use std::path::{Path, PathBuf};

use super::contents;
use crate::copy;

/// Maximum number of names in a description.
const MAX_NAMES: usize = 5;

/// Unsaved work.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Descriptions, one line each.
    pub lines: Vec<String>,
    /// Boxed, because it has 2 KB and errors carry work.
    hash: Box<blake3::Hasher>,
    /// Texts in descriptions and their replacements, so that they name the original places.
    renamed: Vec<(String, String)>,
}

impl Work {
    /// Creates a value for the work in the directory `now`; descriptions name it by its path `then`.
    pub(super) fn in_moved_dir(now: &Path, then: &Path) -> Self {
        let mut work = Self::default();
        work.add_moved_dir(now, then);
        work
    }

    /// Descriptions name the directory `now` by its path `then`.
    pub(super) fn add_moved_dir(&mut self, now: &Path, then: &Path) {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        self.renamed.push((text(now), text(then)));
    }

    /// Returns whether there is no unsaved work.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns a token that identifies exactly this work: a hash of all of its content.
    #[must_use]
    pub fn token(&self) -> String {
        self.hash.finalize().to_hex()[..12].to_owned()
    }

    /// Adds other work.
    pub fn append(&mut self, other: Self) {
        if !other.is_empty() {
            self.hash.update(other.hash.finalize().as_bytes());
            self.lines.extend(other.lines);
        }
    }

    /// Adds work: a description, data that identifies it, and the files with its content.
    pub(super) fn add(&mut self, line: String, marks: impl AsRef<[u8]>, contents: &[PathBuf]) {
        let line = self.renamed.iter().fold(line, |line, (now, then)| line.replace(now, then));
        for part in [line.as_bytes(), marks.as_ref()] {
            self.hash.update(&part.len().to_le_bytes()).update(part);
        }
        for path in contents {
            contents::hash_into(&mut self.hash, path);
        }
        self.lines.push(line);
    }

    /// Adds work that consists of named files or other items.
    pub(super) fn add_names(
        &mut self,
        what: &str,
        names: &[String],
        marks: &[u8],
        contents: &[PathBuf],
    ) {
        let marks = [names.join("\0").as_bytes(), b"\0", marks].concat();
        self.add(format!("{what}: {}", list_names(names)), marks, contents);
    }

    pub(super) fn add_files(&mut self, what: &str, top: &Path, mut files: Vec<PathBuf>) {
        if files.is_empty() {
            return;
        }
        files.sort();
        let name = |path: &PathBuf| copy::escaped(path.strip_prefix(top).unwrap_or(path));
        let names: Vec<String> = files.iter().map(name).collect();
        self.add_names(what, &names, b"", &files);
    }

    pub(super) fn add_unreadable(&mut self, top: &Path, unreadable: Vec<(PathBuf, io::Error)>) {
        for (dir, error) in unreadable {
            let name = copy::escaped(dir.strip_prefix(top).unwrap_or(&dir));
            self.add(format!("`{name}` cannot be examined: {error}"), "", &[dir]);
        }
    }
}

/// Formats `a, b, c`, or the first few of many names.
fn list_names(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0..=MAX_NAMES => shown,
        more => format!("{shown} and {} more", more - MAX_NAMES),
    }
}
