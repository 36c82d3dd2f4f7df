//! Copies of the user's files in a pane's directory, brought up to date before every start.
//!
//! The rules are in [`model::agent::refresh`]. What was copied last is recorded in a file in the
//! directory, so that changes made by the pane are recognised.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use model::agent::refresh::{FileRefresh, Mirror, decide, merge, with_defaults};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest;
use crate::file::{Durability, FileError, make_parents, write_atomic};

/// The record of what was copied last, in the agent's directory.
const RECORD: &str = ".ccmux-copies.json";

/// Limits of a directory that is copied. A larger one is linked.
const MAX_BYTES: u64 = 64 << 20;
const MAX_FILES: usize = 5000;

/// The maximum depth of a copied directory; also ends cycles of symbolic links.
const MAX_DEPTH: usize = 16;

/// What was copied last.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Copies {
    /// Digests of files, by path in the directory.
    files: BTreeMap<String, String>,
    /// The settings, by path in the directory.
    settings: BTreeMap<String, Map<String, Value>>,
    /// The user's files, by path in the directory. A restart does not know the user's environment.
    sources: BTreeMap<String, String>,
}

/// Brings the copies in an agent's directory up to date.
///
/// # Errors
///
/// [`FileError`] if a copy or the record cannot be written. Unreadable files of the user are
/// skipped: the agent could not have read them either.
pub fn refresh(dir: &Path, mirrors: &[Mirror]) -> Result<(), FileError> {
    if mirrors.is_empty() {
        return Ok(());
    }
    let record = dir.join(RECORD);
    let mut copies: Copies = fs::read(&record)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let before = serde_json::to_vec(&copies).unwrap_or_default();
    for mirror in mirrors {
        let place = dir.join(&mirror.at);
        let from = mirror.from.as_ref();
        let from = from
            .map(|from| copies.sources.entry(mirror.at.clone()).or_insert(from.clone()).clone());
        if let Some(from) = &from {
            remove_link(&place, Path::new(from))?;
        }
        let from = from.as_ref().map(Path::new);
        match mirror.settings {
            Some(defaults) => {
                refresh_settings(&place, &mirror.at, from, defaults, &mut copies)?;
            }
            None => refresh_files(dir, &mirror.at, from, &mut copies)?,
        }
    }
    let after = serde_json::to_vec(&copies).unwrap_or_default();
    if after == before {
        return Ok(());
    }
    write_atomic(&record, &after, Durability::ProcessCrash)
}

/// Removes a link to the user's file, which earlier releases created.
fn remove_link(place: &Path, target: &Path) -> Result<(), FileError> {
    if fs::read_link(place).is_ok_and(|to| to == target) {
        fs::remove_file(place).map_err(FileError::when("replace", place))?;
    }
    Ok(())
}

fn refresh_settings(
    place: &Path,
    at: &str,
    from: Option<&Path>,
    defaults: &[(&str, &str)],
    copies: &mut Copies,
) -> Result<(), FileError> {
    let text = from.and_then(|from| fs::read(from).ok());
    let parse = |bytes: &[u8]| serde_json::from_slice::<Map<String, Value>>(bytes).ok();
    let user = match &text {
        Some(text) => parse(text),
        None => Some(Map::new()),
    };
    let pane = fs::read(place).ok();
    let Some(user) = user else {
        // The agent reports the error in the file of the user.
        return match (pane, text) {
            (None, Some(text)) => write(place, &text, 0o600),
            _ => Ok(()),
        };
    };
    let user = with_defaults(user, defaults);
    let base = copies.settings.get(at).cloned().unwrap_or_default();
    let merged = match pane.as_deref().map(parse) {
        None => user.clone(),
        Some(Some(pane)) => merge(&base, &user, &pane),
        // The pane's file is damaged, or has comments: it stays.
        Some(None) => return Ok(()),
    };
    let bytes = serde_json::to_vec_pretty(&merged).expect("the keys are strings");
    if pane.as_deref() != Some(&bytes) {
        write(place, &bytes, 0o600)?;
    }
    copies.settings.insert(at.to_owned(), user);
    Ok(())
}

fn refresh_files(
    dir: &Path,
    at: &str,
    from: Option<&Path>,
    copies: &mut Copies,
) -> Result<(), FileError> {
    let Some(from) = from else { return Ok(()) };
    if dir.join(at).is_symlink() {
        return Ok(());
    }
    let mut found = Listing::default();
    if found.add(from, at, 0).is_err() {
        return link(dir, from, at);
    }
    let inside = format!("{at}/");
    let belongs = |path: &str| path == at || path.starts_with(&inside);
    let is_removed = |path: &&String| belongs(path) && !found.files.contains_key(*path);
    let removed = copies.files.keys().filter(is_removed);
    let removed: Vec<String> = removed.cloned().collect();
    for path in removed {
        let place = dir.join(&path);
        let pane = read_own(&place).map(|bytes| digest::of(&bytes));
        let base = copies.files.remove(&path);
        if decide(base.as_deref(), None, pane.as_deref()) == FileRefresh::Remove {
            fs::remove_file(&place).map_err(FileError::when("remove", &place))?;
        }
    }
    for (path, source) in found.files {
        let Ok(bytes) = fs::read(&source) else { continue };
        let place = dir.join(&path);
        let user = digest::of(&bytes);
        let pane = read_own(&place).map(|bytes| digest::of(&bytes));
        match decide(copies.files.get(&path).map(String::as_str), Some(&user), pane.as_deref()) {
            FileRefresh::Copy => {
                let mode = fs::metadata(&source).map_or(0o600, |found| found.permissions().mode());
                make_parents(dir, &path)?;
                write(&place, &bytes, (mode & 0o700) | 0o600)?;
            }
            FileRefresh::Keep if pane.as_ref() != Some(&user) => continue,
            FileRefresh::Keep | FileRefresh::Remove => {}
        }
        copies.files.insert(path, user);
    }
    Ok(())
}

/// Links a directory that is too large to be copied, unless the pane already has one.
fn link(dir: &Path, from: &Path, at: &str) -> Result<(), FileError> {
    make_parents(dir, at)?;
    let place = &dir.join(at);
    match symlink(from, place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(FileError::when("link", place)(error))
        }
        _ => Ok(()),
    }
}

/// Reads a file of the pane. A link that the pane has created is not followed.
fn read_own(place: &Path) -> Option<Vec<u8>> {
    fs::symlink_metadata(place).ok().filter(fs::Metadata::is_file)?;
    fs::read(place).ok()
}

fn write(place: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    write_atomic(place, bytes, Durability::ProcessCrash)?;
    if mode != 0o600 {
        fs::set_permissions(place, fs::Permissions::from_mode(mode))
            .map_err(FileError::when("set the mode of", place))?;
    }
    Ok(())
}

/// The files to copy: path in the pane's directory, and path of the user's file.
#[derive(Debug, Default)]
struct Listing {
    files: BTreeMap<String, PathBuf>,
    bytes: u64,
}

/// A directory is too large to be copied.
#[derive(Debug)]
struct TooLarge;

impl Listing {
    /// Adds a file, or all files of a directory. Follows symbolic links; skips anything else.
    fn add(&mut self, from: &Path, at: &str, depth: usize) -> Result<(), TooLarge> {
        let Ok(found) = fs::metadata(from) else { return Ok(()) };
        if found.is_file() {
            self.bytes += found.len();
            self.files.insert(at.to_owned(), from.to_owned());
            let fits = self.bytes <= MAX_BYTES && self.files.len() <= MAX_FILES;
            return if fits { Ok(()) } else { Err(TooLarge) };
        }
        if !found.is_dir() {
            return Ok(());
        }
        if depth == MAX_DEPTH {
            return Err(TooLarge);
        }
        for entry in fs::read_dir(from).into_iter().flatten().flatten() {
            if let Some(name) = entry.file_name().to_str() {
                self.add(&entry.path(), &format!("{at}/{name}"), depth + 1)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: &[(&str, &str)] = &[("quiet", "yes")];

    struct Place {
        _base: tempfile::TempDir,
        user: PathBuf,
        pane: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let base = tempfile::tempdir().unwrap();
            let (user, pane) = (base.path().join("user"), base.path().join("pane"));
            fs::create_dir_all(user.join("skills/a")).unwrap();
            fs::create_dir(&pane).unwrap();
            Self { _base: base, user, pane }
        }

        fn put(path: &Path, text: &str) {
            write_atomic(path, text.as_bytes(), Durability::ProcessCrash).unwrap();
        }

        fn refresh(&self) {
            let from = |name: &str| Some(self.user.join(name).to_str().unwrap().to_owned());
            let mirrors = [
                Mirror { at: "s.json".to_owned(), from: from("s.json"), settings: Some(DEFAULTS) },
                Mirror { at: "skills".to_owned(), from: from("skills"), settings: None },
            ];
            refresh(&self.pane, &mirrors).unwrap();
        }

        fn settings(&self) -> Value {
            serde_json::from_slice(&fs::read(self.pane.join("s.json")).unwrap()).unwrap()
        }
    }

    #[test]
    fn settings_changed_in_pane_survive_refresh_and_others_follow_the_user() {
        let place = Place::new();
        let own = place.user.join("s.json");
        Place::put(&own, r#"{"model": "a", "theme": "dark"}"#);
        symlink(&own, place.pane.join("s.json")).unwrap();
        place.refresh();
        Place::put(
            &place.pane.join("s.json"),
            r#"{"model": "mine", "theme": "dark", "quiet": "yes"}"#,
        );
        Place::put(&own, r#"{"model": "b", "theme": "light"}"#);

        place.refresh();
        place.refresh();

        let expected = serde_json::json!({"model": "mine", "theme": "light", "quiet": "yes"});
        assert_eq!(place.settings(), expected);
        assert_eq!(fs::read_to_string(own).unwrap(), r#"{"model": "b", "theme": "light"}"#);
    }

    #[test]
    fn directories_are_copied_and_own_files_of_the_pane_stay() {
        let place = Place::new();
        let (user, pane) = (place.user.join("skills"), place.pane.join("skills"));
        for (name, text) in [("a/kept", "1"), ("a/changed", "1"), ("a/removed", "1")] {
            Place::put(&user.join(name), text);
        }
        fs::set_permissions(user.join("a/kept"), fs::Permissions::from_mode(0o755)).unwrap();
        place.refresh();
        Place::put(&pane.join("a/changed"), "by the pane");
        Place::put(&pane.join("a/new"), "by the pane");
        Place::put(&user.join("a/changed"), "by the user");
        Place::put(&user.join("a/kept"), "by the user");
        fs::remove_file(user.join("a/removed")).unwrap();

        place.refresh();

        let text = |name: &str| fs::read_to_string(pane.join(name)).unwrap();
        assert_eq!(text("a/kept"), "by the user");
        assert_eq!(text("a/changed"), "by the pane");
        assert_eq!(text("a/new"), "by the pane");
        assert!(!pane.join("a/removed").exists());
        let mode = |dir: &Path| fs::metadata(dir.join("a/kept")).unwrap().permissions().mode();
        assert_eq!(mode(&pane) & 0o700, mode(&user) & 0o700);
        assert!(!pane.is_symlink());
    }
}
