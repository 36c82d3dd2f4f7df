//! Creates the isolated directories of a pane and their planned contents.
//!
//! Existing paths are never reused, followed or overwritten: an existing directory is an error, and
//! existing entries in it are left alone.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use model::agent::{Seed, Seeding};
use model::config::Share;
use model::environment::Environment;
use model::launch::isolation::DirectorySetup;
use parking_lot::Mutex;
use rustix::process::geteuid;
use serde_json::Value;

use crate::file::{FileError, make_dir, make_parents};
use crate::mirror;

/// Size limit for user files that are read or copied.
const MAX_SIZE: u64 = 64 << 20;

/// Context shared by all directories of one pane.
#[derive(Debug)]
pub struct SeedContext<'a> {
    /// Directories that agents may trust without a prompt.
    pub trusted: &'a [String],
    /// The parts of the user's configuration that are in use.
    pub share: &'a [Share],
    /// The environment of the pane.
    pub environment: &'a Environment,
}

/// Cache of the relevant parts of user files. Some of these files have megabytes, and every new pane
/// needs them.
#[derive(Debug, Default)]
pub struct DigestCache(Mutex<HashMap<PathBuf, (Stamp, Option<Value>)>>);

/// The attributes by which an unchanged file is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl DigestCache {
    fn of(&self, path: &Path, digest: fn(&[u8]) -> Option<Value>) -> Option<Value> {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let modified = (found.mtime(), found.mtime_nsec());
        let stamp = Stamp { inode: found.ino(), size: found.size(), modified };
        let mut known = self.0.lock();
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

/// Creates one directory with its planned contents.
///
/// # Errors
///
/// [`FileError`], also if the path exists. Entries created so far are kept.
pub fn create(
    furnishing: &DirectorySetup,
    context: &SeedContext<'_>,
    digests: &DigestCache,
) -> Result<(), FileError> {
    create_new(Path::new(&furnishing.dir))?;
    fill(furnishing, context, digests)
}

/// Creates a new directory with mode 0700, and its parent if that is missing.
///
/// # Errors
///
/// [`FileError`].
pub fn create_new(dir: &Path) -> Result<(), FileError> {
    if let Some(holder) = dir.parent() {
        make_dir(holder)?;
        check(holder)?;
    }
    DirBuilder::new().mode(0o700).create(dir).map_err(FileError::when("create", dir))
}

/// Checks that a directory is not a link, is owned by the user, and has mode 0700.
///
/// # Errors
///
/// [`FileError`] with the reason.
pub fn check(dir: &Path) -> Result<(), FileError> {
    let mode = check_owner(dir)?.mode();
    if mode & 0o077 != 0 {
        let why = format!("it is accessible to other users (mode {:04o})", mode & 0o7777);
        return Err(FileError::when("use", dir)(io::Error::other(why)));
    }
    Ok(())
}

/// Checks that a directory is not a link and is owned by the user. Returns its metadata.
///
/// # Errors
///
/// [`FileError`] with the reason.
pub fn check_owner(dir: &Path) -> Result<fs::Metadata, FileError> {
    let found = fs::symlink_metadata(dir).map_err(FileError::when("access", dir))?;
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

/// Adds the missing parts of the planned contents to a directory.
///
/// # Errors
///
/// [`FileError`].
pub fn fill(
    furnishing: &DirectorySetup,
    context: &SeedContext<'_>,
    digests: &DigestCache,
) -> Result<(), FileError> {
    let dir = Path::new(&furnishing.dir);
    for inner in &furnishing.directories {
        make_dir(&dir.join(inner))?;
    }
    mirror::refresh(dir, &furnishing.mirrors)?;
    for (at, target) in &furnishing.links {
        link(dir, at, Path::new(target))?;
    }
    for (at, source) in &furnishing.copies {
        // The agent could not have read an unreadable file either.
        if let Ok(bytes) = read_small(Path::new(source)) {
            write_new(dir, at, &bytes)?;
        }
    }
    for Seed { at, bytes } in seeds(furnishing, context, digests) {
        write_new(dir, &at, &bytes)?;
    }
    Ok(())
}

fn seeds(
    furnishing: &DirectorySetup,
    context: &SeedContext<'_>,
    digests: &DigestCache,
) -> Vec<Seed> {
    let Some(agent) = &furnishing.agent else { return Vec::new() };
    let Some(seed) = agent.made else { return Vec::new() };
    let mut known = BTreeMap::new();
    for (consulted, (name, path)) in agent.consults.iter().zip(&furnishing.consults) {
        if let Some(value) = digests.of(Path::new(path), consulted.digest) {
            known.insert(*name, value);
        }
    }
    seed(&Seeding {
        digests: known,
        trusted: context.trusted,
        share: context.share,
        environment: context.environment,
    })
}

/// Links a user file, if it exists and the link path is free.
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

/// Writes a private file, unless it exists. An empty file is replaced: it is left over from a write
/// that did not survive a power loss.
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

fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SIZE { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use model::agent::Agent;

    use super::*;

    fn home(dir: &Path, links: &[(&str, &Path)]) -> DirectorySetup {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        DirectorySetup {
            dir: text(dir),
            agent: None,
            directories: Vec::new(),
            links: links.iter().map(|(at, to)| ((*at).to_owned(), text(to))).collect(),
            mirrors: Vec::new(),
            copies: Vec::new(),
            consults: Vec::new(),
        }
    }

    fn plain(environment: &Environment) -> SeedContext<'_> {
        SeedContext { trusted: &[], share: &[], environment }
    }

    #[test]
    fn fill_links_existing_targets_and_overwrites_nothing() {
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

        create(&plan, &plain(&environment), &DigestCache::default()).unwrap();
        fs::remove_file(pane.join(".rc")).unwrap();
        fs::create_dir(pane.join(".rc")).unwrap();
        fill(&plan, &plain(&environment), &DigestCache::default()).unwrap();

        assert_eq!(fs::read_link(pane.join(".config/git")).unwrap(), user.join("git"));
        assert!(pane.join(".rc").is_dir(), "the pane's own directory is kept");
        assert!(fs::symlink_metadata(pane.join(".missing")).is_err());
        assert_eq!(fs::metadata(&pane).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn create_refuses_existing_path() {
        let base = tempfile::tempdir().unwrap();
        let holder = base.path().join("configs");
        fs::create_dir(&holder).unwrap();
        fs::set_permissions(&holder, fs::Permissions::from_mode(0o700)).unwrap();
        let elsewhere = base.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, holder.join("pane")).unwrap();
        let environment = Environment::default();
        let plan = home(&holder.join("pane"), &[]);

        let refused = create(&plan, &plain(&environment), &DigestCache::default());

        assert!(refused.is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        let why = check(&holder.join("pane")).unwrap_err().to_string();
        assert!(why.contains("symbolic link"), "{why}");
    }

    #[test]
    fn check_reports_mode_of_accessible_directory() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();

        let why = check(base.path()).unwrap_err().to_string();

        assert!(why.contains("0755"), "{why}");
    }

    #[test]
    fn digest_cache_reads_file_again_after_change() {
        let base = tempfile::tempdir().unwrap();
        let (state, dir) = (base.path().join("state.json"), base.path().join("configs/pane"));
        let agent = Agent::everywhere().into_iter().next().unwrap();
        let digest = agent.consults[0].digest;
        let digests = DigestCache::default();
        let write = |text: &str| {
            crate::file::write_atomic(
                &state,
                text.as_bytes(),
                crate::file::Durability::ProcessCrash,
            )
            .unwrap();
        };

        write(r#"{"theme":"dark"}"#);
        let first = digests.of(&state, digest).unwrap();
        write(r#"{"theme":"light"}"#);
        let second = digests.of(&state, digest).unwrap();

        assert_eq!((&first["theme"], &second["theme"]), (&"dark".into(), &"light".into()));
        assert!(digests.of(&dir, digest).is_none());
    }
}
