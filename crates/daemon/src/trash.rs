//! Retired directories: moved out of the way at once, deleted days later.
//!
//! An entry of the trash is called `<since>-<kind>-<id>`, with the milliseconds since 1970 from
//! which on its time counts, what it was, and whose. Whatever has another name, or is no directory
//! of ours, was put there by somebody else and is never touched.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::clock;
use host::file::{self, FileError};
use host::furnish;
use model::config::duration;
use model::{PaneId, Timestamp};
use protocol::gc::GcKind;

use crate::sweep::{Fate, Finding};

/// From when on the time of something in the trash counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Now,
    /// It has had its time: its owner wants it deleted. Should nobody come to that, the next
    /// daemon does, because it looks as old as can be.
    Ever,
}

impl Since {
    fn millis(self) -> i64 {
        match self {
            Self::Now => clock::now().0,
            Self::Ever => 0,
        }
    }
}

/// Moves a directory to the trash, durably. One that is not there needs no moving.
///
/// # Errors
///
/// [`FileError`]; it is then where it was.
pub(crate) fn retire(
    dir: &Path,
    trash: &Path,
    kind: &str,
    id: impl Display,
    since: Since,
) -> Result<Option<PathBuf>, FileError> {
    let moved = shelve(dir, trash, kind, id, since)?;
    if moved.is_some() {
        file::sync_dir(trash)?;
        if let Some(parent) = dir.parent() {
            file::sync_dir(parent)?;
        }
    }
    Ok(moved)
}

/// The same, but it may be back where it was after the death of the machine.
///
/// # Errors
///
/// [`FileError`]; it is then where it was.
pub(crate) fn shelve(
    dir: &Path,
    trash: &Path,
    kind: &str,
    id: impl Display,
    since: Since,
) -> Result<Option<PathBuf>, FileError> {
    let stem = format!("{}-{kind}-{id}", since.millis());
    match file::set_aside(dir, trash, &stem) {
        Ok(moved) => Ok(Some(moved)),
        // Or the trash is not there, which is another matter.
        Err(error) if error.source.kind() == io::ErrorKind::NotFound && is_missing(dir) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_missing(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// What the name of the mark beside a directory that is to stay ends with.
pub(crate) const KEPT_MARK: &str = ".kept";

/// Marks a directory of a closed pane as one that is to stay.
///
/// # Errors
///
/// [`FileError`].
pub(crate) fn mark_kept(dir: &Path) -> Result<(), FileError> {
    let mark = mark_of(dir);
    let why = format!("kept when its pane was closed, {}\n", clock::now());
    // Its name is all that counts, so it is made in place: half a mark is one, too.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&mark);
    let written = made.and_then(|mut file| {
        file.write_all(why.as_bytes())?;
        file.sync_all()
    });
    match written {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(FileError::when("write", &mark)(error))
        }
        _ => dir.parent().map_or(Ok(()), file::sync_dir),
    }
}

/// Where the mark of a directory is, if it has one.
pub(crate) fn mark_of(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(KEPT_MARK);
    dir.with_file_name(name)
}

/// What to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// What has been in the trash for this long.
    After(Duration),
    /// Everything.
    All,
}

/// Looks through the trash. Blocks.
pub(crate) fn look(trash: &Path, due: Due, now: Timestamp) -> Vec<Finding> {
    let mut paths: Vec<PathBuf> = match fs::read_dir(trash) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            let why = format!("it cannot be read: {error}");
            return vec![Finding::staying(trash.to_owned(), GcKind::Unknown, why)];
        }
    };
    paths.sort();
    paths.into_iter().map(|path| judge(path, due, now)).collect()
}

fn judge(path: PathBuf, due: Due, now: Timestamp) -> Finding {
    let Some(since) = path.file_name().and_then(retired_since) else {
        let why = "ccmux has put nothing of this name into the trash".to_owned();
        return Finding::staying(path, GcKind::Unknown, why);
    };
    if let Err(error) = furnish::check_ours(&path) {
        return Finding::staying(path, GcKind::Unknown, error.source.to_string());
    }
    let delete = |why: String| Finding {
        path: path.clone(),
        kind: GcKind::Trash,
        why,
        fate: Fate::Delete,
        until: None,
    };
    if since.0 == 0 {
        return delete("it was purged".to_owned());
    }
    let retention = match due {
        Due::All => return delete(format!("retired {since}; the trash is to be empty")),
        Due::After(retention) => retention,
    };
    let millis = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
    let until = Timestamp(since.0.saturating_add(millis));
    let retention = duration::text(retention);
    if until <= now {
        return delete(format!("retired {since}, more than {retention} ago"));
    }
    let why = format!("retired {since}, kept for {retention}");
    Finding { until: Some(until), ..Finding::staying(path, GcKind::Trash, why) }
}

/// Since when something of this name is in the trash, if it has been put there by us.
fn retired_since(name: &OsStr) -> Option<Timestamp> {
    let (since, rest) = name.to_str()?.split_once('-')?;
    let is_number = !since.is_empty() && since.bytes().all(|byte| byte.is_ascii_digit());
    let since = since.parse().ok().filter(|_| is_number)?;
    // Several of one name are told apart by a number.
    let rest = match rest.rsplit_once('.') {
        Some((rest, number)) if number.parse::<u32>().is_ok() => rest,
        _ => rest,
    };
    let id_at = rest.len().checked_sub(ID_LENGTH).filter(|&at| rest.is_char_boundary(at))?;
    let (kind, id) = rest.split_at(id_at);
    let is_ours = kind.len() > 1 && kind.ends_with('-') && id.parse::<PaneId>().is_ok();
    is_ours.then_some(Timestamp(since))
}

/// Every id is a UUID in the form that has this many characters.
const ID_LENGTH: usize = 36;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const ID: &str = "550e8400-e29b-41d4-a716-446655440000";
    const DAY: Duration = Duration::from_secs(86_400);

    fn retired(since: i64) -> String {
        format!("{since}-pane-{ID}")
    }

    #[test]
    fn what_is_in_the_trash_is_known_by_its_name() {
        let cases = [
            (retired(1000), Some(1000)),
            (format!("7-claude-configs-{ID}"), Some(7)),
            (format!("7-tmp-{ID}.12"), Some(7)),
            (format!("0-session-{ID}"), Some(0)),
            ("notes".to_owned(), None),
            ("2024-budget".to_owned(), None),
            (format!("-pane-{ID}"), None),
            (format!("-5-pane-{ID}"), None),
            (format!("+5-pane-{ID}"), None),
            (format!("5-{ID}"), None),
            (format!("5--{ID}"), None),
            (format!("5-pane-{ID}x"), None),
            (format!("5-pane-{ID}.bak"), None),
            (format!("5-pane-{}", ID.to_uppercase()), None),
            (format!("5-pane-é{}", &ID[1..]), None),
            (format!("99999999999999999999-pane-{ID}"), None),
        ];
        for (name, since) in cases {
            let found = retired_since(OsStr::new(&name));
            assert_eq!(found, since.map(Timestamp), "{name}");
        }
    }

    #[test]
    fn only_what_is_ours_and_old_enough_is_to_be_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let day = 86_400_000;
        let (old, due, young, future) =
            (retired(1000), retired(day), retired(day + 1), retired(90 * day));
        let (purged, link, file) = (retired(0), retired(2), retired(3));
        for name in [old.as_str(), &due, &young, &future, &purged, "notes"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        symlink(dir.path().join("notes"), dir.path().join(&link)).unwrap();
        fs::File::create(dir.path().join(&file)).unwrap();
        let fates = |due: Due| {
            let found = look(dir.path(), due, Timestamp(8 * day));
            let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            let fates = found.into_iter().map(|found| (name(&found.path), found.fate));
            fates.collect::<std::collections::BTreeMap<_, _>>()
        };

        let after = fates(Due::After(7 * DAY));
        let all = fates(Due::All);

        let to_delete = |fates: &std::collections::BTreeMap<String, Fate>| {
            let deleted = fates.iter().filter(|(_, fate)| **fate == Fate::Delete);
            deleted.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let mut expected = vec![old, due, purged];
        expected.sort();
        assert_eq!(to_delete(&after), expected);
        expected.extend([young, future]);
        expected.sort();
        assert_eq!(to_delete(&all), expected);
        assert_eq!(after.len(), 8);
        assert!(after.values().all(|fate| matches!(fate, Fate::Delete | Fate::Stay)));
    }

    #[test]
    fn a_directory_is_moved_whole_and_a_missing_one_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let (pane, trash) = (dir.path().join("pane"), dir.path().join("trash"));
        fs::create_dir_all(pane.join("workspace")).unwrap();
        fs::create_dir(&trash).unwrap();

        let moved = retire(&pane, &trash, "pane", ID, Since::Now).unwrap().unwrap();
        let again = retire(&pane, &trash, "pane", ID, Since::Now).unwrap();

        assert!(moved.join("workspace").is_dir());
        assert!(retired_since(moved.file_name().unwrap()).is_some());
        assert_eq!(again, None);
    }

    #[test]
    fn without_a_trash_nothing_is_taken_for_moved() {
        let dir = tempfile::tempdir().unwrap();
        let pane = dir.path().join("pane");
        fs::create_dir(&pane).unwrap();

        let error = retire(&pane, &dir.path().join("trash"), "pane", ID, Since::Now).unwrap_err();

        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
        assert!(pane.is_dir());
    }

    #[test]
    fn a_mark_is_made_beside_its_directory_and_twice_is_once() {
        let dir = tempfile::tempdir().unwrap();
        let pane = dir.path().join("pane-x");
        fs::create_dir(&pane).unwrap();

        mark_kept(&pane).unwrap();
        mark_kept(&pane).unwrap();

        assert_eq!(mark_of(&pane), dir.path().join("pane-x.kept"));
        assert!(fs::read_to_string(mark_of(&pane)).unwrap().starts_with("kept when"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
