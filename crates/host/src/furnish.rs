//! Making the directories that keep a pane apart, and putting into them what was planned.
//!
//! Everything is made new. Something that has the name already is never taken over, followed or
//! overwritten: it is an error for the directory itself, and left alone inside it.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use model::agent::{Seed, Seeding};
use model::config::Share;
use model::environment::Environment;
use model::isolation::Furnishing;
use rustix::process::geteuid;
use serde_json::Value;

use crate::file::{FileError, make_dir};

/// The largest file of the user's that is read or copied.
const LARGEST: u64 = 64 << 20;

/// What is the same for all directories of one pane.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// Directories that the agents need not ask about.
    pub trusted: &'a [String],
    /// What of the user's may be shared.
    pub share: &'a [Share],
    /// The pane's environment.
    pub environment: &'a Environment,
}

/// What mattered of files of the user's when they were last read. Some are megabytes long, and are
/// asked for by every new pane.
#[derive(Debug, Default)]
pub struct Digests(Mutex<HashMap<PathBuf, (Stamp, Option<Value>)>>);

/// By what a file is known to be unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Digests {
    fn of(&self, path: &Path, digest: fn(&[u8]) -> Option<Value>) -> Option<Value> {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let modified = (found.mtime(), found.mtime_nsec());
        let stamp = Stamp { inode: found.ino(), size: found.size(), modified };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((then, value)) = known.get(path)
            && *then == stamp
        {
            return value.clone();
        }
        let value = read_small(path).ok().and_then(|bytes| digest(&bytes));
        known.insert(path.to_owned(), (stamp, value.clone()));
        value
    }
}

/// Makes one directory and puts into it what was planned.
///
/// # Errors
///
/// [`FileError`]; what was made so far is there. A directory or link that has the name already is
/// one.
pub fn furnish(
    furnishing: &Furnishing,
    surroundings: &Surroundings<'_>,
    digests: &Digests,
) -> Result<(), FileError> {
    make_new(Path::new(&furnishing.dir))?;
    fill(furnishing, surroundings, digests)
}

/// Makes a directory for its owner alone that was not there, and the one that holds it.
///
/// # Errors
///
/// [`FileError`].
pub fn make_new(dir: &Path) -> Result<(), FileError> {
    if let Some(holder) = dir.parent() {
        make_dir(holder)?;
        check(holder)?;
    }
    DirBuilder::new().mode(0o700).create(dir).map_err(FileError::when("make", dir))
}

/// Whether a directory is one that we made: no link, ours, and for us alone.
///
/// # Errors
///
/// [`FileError`] that says what is wrong with it.
pub fn check(dir: &Path) -> Result<(), FileError> {
    let mode = check_ours(dir)?.mode();
    if mode & 0o077 != 0 {
        let why = format!("others may enter it (mode {:04o})", mode & 0o7777);
        return Err(FileError::when("use", dir)(io::Error::other(why)));
    }
    Ok(())
}

/// Whether a directory is a real one and ours, whoever may enter it; what the system says of it.
///
/// # Errors
///
/// [`FileError`] that says what is wrong with it.
pub fn check_ours(dir: &Path) -> Result<fs::Metadata, FileError> {
    let found = fs::symlink_metadata(dir).map_err(FileError::when("look at", dir))?;
    let refuse = |why: String| Err(FileError::when("use", dir)(io::Error::other(why)));
    if found.file_type().is_symlink() {
        return refuse("it is a symbolic link".to_owned());
    }
    if !found.is_dir() {
        return refuse("it is not a directory".to_owned());
    }
    if found.uid() != geteuid().as_raw() {
        return refuse(format!("it belongs to user {}", found.uid()));
    }
    Ok(found)
}

/// Puts into a directory what is missing of what was planned.
///
/// # Errors
///
/// [`FileError`].
pub fn fill(
    furnishing: &Furnishing,
    surroundings: &Surroundings<'_>,
    digests: &Digests,
) -> Result<(), FileError> {
    let dir = Path::new(&furnishing.dir);
    for inner in &furnishing.directories {
        make_dir(&dir.join(inner))?;
    }
    for (at, target) in &furnishing.links {
        link(dir, at, Path::new(target))?;
    }
    for (at, source) in &furnishing.copies {
        // What cannot be read the agent would not have read either.
        if let Ok(bytes) = read_small(Path::new(source)) {
            write_new(dir, at, &bytes)?;
        }
    }
    for Seed { at, bytes } in seeds(furnishing, surroundings, digests) {
        write_new(dir, &at, &bytes)?;
    }
    Ok(())
}

fn seeds(furnishing: &Furnishing, surroundings: &Surroundings<'_>, digests: &Digests) -> Vec<Seed> {
    let Some(agent) = &furnishing.agent else { return Vec::new() };
    let Some(made) = agent.made else { return Vec::new() };
    let mut known = BTreeMap::new();
    for (consulted, (name, path)) in agent.consults.iter().zip(&furnishing.consults) {
        if let Some(value) = digests.of(Path::new(path), consulted.digest) {
            known.insert(*name, value);
        }
    }
    made(&Seeding {
        digests: known,
        trusted: surroundings.trusted,
        share: surroundings.share,
        environment: surroundings.environment,
    })
}

/// Links something of the user's, if it is there and nothing has the name.
fn link(dir: &Path, at: &str, target: &Path) -> Result<(), FileError> {
    if fs::metadata(target).is_err() {
        return Ok(());
    }
    make_parents(dir, at)?;
    let place = dir.join(at);
    match symlink(target, &place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(FileError::when("link", &place)(error))
        }
        _ => Ok(()),
    }
}

/// Writes a file for its owner alone, unless there is one. One without a byte is what is left of
/// one whose contents did not survive the death of the machine.
fn write_new(dir: &Path, at: &str, bytes: &[u8]) -> Result<(), FileError> {
    make_parents(dir, at)?;
    let place = dir.join(at);
    if fs::symlink_metadata(&place).is_ok_and(|found| found.is_file() && found.len() == 0) {
        fs::remove_file(&place).map_err(FileError::when("replace", &place))?;
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place);
    match opened.and_then(|mut file| file.write_all(bytes)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(FileError::when("write", &place)(error))
        }
        _ => Ok(()),
    }
}

fn make_parents(dir: &Path, at: &str) -> Result<(), FileError> {
    let mut place = dir.to_owned();
    let parents = Path::new(at).parent().into_iter().flat_map(Path::components);
    for part in parents {
        place.push(part);
        make_dir(&place)?;
    }
    Ok(())
}

fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use model::agent::Agent;

    use super::*;

    fn home(dir: &Path, links: &[(&str, &Path)]) -> Furnishing {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        Furnishing {
            dir: text(dir),
            agent: None,
            directories: Vec::new(),
            links: links.iter().map(|(at, to)| ((*at).to_owned(), text(to))).collect(),
            copies: Vec::new(),
            consults: Vec::new(),
        }
    }

    fn plain(environment: &Environment) -> Surroundings<'_> {
        Surroundings { trusted: &[], share: &[], environment }
    }

    #[test]
    fn links_are_made_where_there_is_something_and_nothing_is_overwritten() {
        let base = tempfile::tempdir().unwrap();
        let (user, pane) = (base.path().join("user"), base.path().join("homes/pane"));
        fs::create_dir_all(user.join("git")).unwrap();
        fs::File::create(user.join("rc")).unwrap();
        let environment = Environment::default();
        let plan = home(
            &pane,
            &[
                (".config/git", &user.join("git")),
                (".rc", &user.join("rc")),
                (".missing", &user.join("missing")),
            ],
        );

        furnish(&plan, &plain(&environment), &Digests::default()).unwrap();
        fs::remove_file(pane.join(".rc")).unwrap();
        fs::create_dir(pane.join(".rc")).unwrap();
        fill(&plan, &plain(&environment), &Digests::default()).unwrap();

        assert_eq!(fs::read_link(pane.join(".config/git")).unwrap(), user.join("git"));
        assert!(pane.join(".rc").is_dir(), "what the pane put there stays");
        assert!(fs::symlink_metadata(pane.join(".missing")).is_err());
        assert_eq!(fs::metadata(&pane).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_has_the_name_already_is_not_taken_over() {
        let base = tempfile::tempdir().unwrap();
        let holder = base.path().join("configs");
        fs::create_dir(&holder).unwrap();
        fs::set_permissions(&holder, fs::Permissions::from_mode(0o700)).unwrap();
        let elsewhere = base.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, holder.join("pane")).unwrap();
        let environment = Environment::default();
        let plan = home(&holder.join("pane"), &[]);

        let refused = furnish(&plan, &plain(&environment), &Digests::default());

        assert!(refused.is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        let why = check(&holder.join("pane")).unwrap_err().to_string();
        assert!(why.contains("symbolic link"), "{why}");
    }

    #[test]
    fn an_open_directory_is_refused_with_its_mode() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();

        let why = check(base.path()).unwrap_err().to_string();

        assert!(why.contains("0755"), "{why}");
    }

    #[test]
    fn a_file_of_the_users_is_read_again_only_when_it_changed() {
        let base = tempfile::tempdir().unwrap();
        let (state, dir) = (base.path().join("state.json"), base.path().join("configs/pane"));
        let agent = Agent::everywhere().into_iter().next().unwrap();
        let digest = agent.consults[0].digest;
        let digests = Digests::default();
        let write = |text: &str| {
            crate::file::write_atomic(&state, text.as_bytes(), crate::file::Survive::Kill).unwrap();
        };

        write(r#"{"theme":"dark"}"#);
        let first = digests.of(&state, digest).unwrap();
        write(r#"{"theme":"light"}"#);
        let second = digests.of(&state, digest).unwrap();

        assert_eq!((&first["theme"], &second["theme"]), (&"dark".into(), &"light".into()));
        assert!(digests.of(&dir, digest).is_none());
    }
}
