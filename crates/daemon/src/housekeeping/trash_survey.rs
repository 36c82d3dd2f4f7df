//! The contents of the trash, and which entries are due for deletion.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::pane_dirs;
use model::config::duration;
use model::{PaneId, Timestamp};
use protocol::gc::GcKind;

use super::finding::{SweepAction, SweepFinding};

/// The entries of the trash to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrashSelection {
    /// Entries that have been in the trash for this long.
    OlderThan(Duration),
    All,
}

/// Returns a finding for every entry of the trash. Blocks.
pub(crate) fn survey(trash: &Path, selection: TrashSelection, now: Timestamp) -> Vec<SweepFinding> {
    let mut paths: Vec<PathBuf> = match fs::read_dir(trash) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            let why = format!("cannot read the directory: {error}");
            return vec![SweepFinding::kept(trash.to_owned(), GcKind::Unknown, why)];
        }
    };
    paths.sort();
    paths.into_iter().map(|path| assess(path, selection, now)).collect()
}

fn assess(path: PathBuf, selection: TrashSelection, now: Timestamp) -> SweepFinding {
    let Some(since) = path.file_name().and_then(retired_since) else {
        let why = "not put into the trash by ccmux".to_owned();
        return SweepFinding::kept(path, GcKind::Unknown, why);
    };
    if let Err(error) = pane_dirs::check_owner(&path) {
        return SweepFinding::kept(path, GcKind::Unknown, error.source.to_string());
    }
    let delete = |why: String| SweepFinding {
        path: path.clone(),
        kind: GcKind::Trash,
        why,
        planned: SweepAction::DeleteTree,
        delete_after: None,
    };
    if since.0 == 0 {
        return delete("purged".to_owned());
    }
    let retention = match selection {
        TrashSelection::All => {
            return delete(format!("retired {since}; emptying the trash was requested"));
        }
        TrashSelection::OlderThan(retention) => retention,
    };
    let millis = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
    let delete_after = Timestamp(since.0.saturating_add(millis));
    let retention = duration::text(retention);
    if delete_after <= now {
        return delete(format!("retired {since}, more than {retention} ago"));
    }
    let why = format!("retired {since}, kept for {retention}");
    SweepFinding {
        delete_after: Some(delete_after),
        ..SweepFinding::kept(path, GcKind::Trash, why)
    }
}

/// Returns the start of the retention period that the name of an entry states; `None` if ccmux does
/// not create such names.
fn retired_since(name: &OsStr) -> Option<Timestamp> {
    let (since, rest) = name.to_str()?.split_once('-')?;
    let is_number = !since.is_empty() && since.bytes().all(|byte| byte.is_ascii_digit());
    let since = since.parse().ok().filter(|_| is_number)?;
    // A numeric suffix distinguishes entries with the same name.
    let rest = match rest.rsplit_once('.') {
        Some((rest, number)) if number.parse::<u32>().is_ok() => rest,
        _ => rest,
    };
    let id_at = rest.len().checked_sub(ID_LENGTH).filter(|&at| rest.is_char_boundary(at))?;
    let (kind, id) = rest.split_at(id_at);
    let is_ours = kind.len() > 1 && kind.ends_with('-') && id.parse::<PaneId>().is_ok();
    is_ours.then_some(Timestamp(since))
}

/// The length of an id: a UUID in hyphenated form.
const ID_LENGTH: usize = 36;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::trash::{make_due, retire};

    const ID: &str = "550e8400-e29b-41d4-a716-446655440000";
    const DAY: Duration = Duration::from_secs(86_400);

    fn retired(since: i64) -> String {
        format!("{since}-pane-{ID}")
    }

    #[test]
    fn retired_since_accepts_only_names_created_by_ccmux() {
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
    fn survey_selects_only_own_entries_that_are_old_enough() {
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
        let actions = |selection: TrashSelection| {
            let found = survey(dir.path(), selection, Timestamp(8 * day));
            let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            let actions = found.into_iter().map(|found| (name(&found.path), found.planned));
            actions.collect::<std::collections::BTreeMap<_, _>>()
        };

        let after = actions(TrashSelection::OlderThan(7 * DAY));
        let all = actions(TrashSelection::All);

        let to_delete = |actions: &std::collections::BTreeMap<String, SweepAction>| {
            let deleted = actions.iter().filter(|(_, action)| **action == SweepAction::DeleteTree);
            deleted.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let mut expected = vec![old, due, purged];
        expected.sort();
        assert_eq!(to_delete(&after), expected);
        expected.extend([young, future]);
        expected.sort();
        assert_eq!(to_delete(&all), expected);
        assert_eq!(after.len(), 8);
        assert!(
            after
                .values()
                .all(|action| matches!(action, SweepAction::DeleteTree | SweepAction::Keep))
        );
    }

    #[test]
    fn retired_since_accepts_the_names_that_retire_creates() {
        let dir = tempfile::tempdir().unwrap();
        let trash = dir.path().join("trash");
        fs::create_dir(&trash).unwrap();
        for is_due in [false, true, true] {
            let pane = dir.path().join("pane");
            fs::create_dir(&pane).unwrap();

            let mut moved = retire(&pane, &trash, "pane", ID).unwrap().unwrap();
            if is_due {
                moved = make_due(&moved).unwrap();
            }

            assert!(retired_since(moved.file_name().unwrap()).is_some(), "{moved:?}");
        }
    }
}
