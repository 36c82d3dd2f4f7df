//! What the directories say. Reads, and sets aside what is damaged; changes nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use host::StateRoot;
use host::file;
use host::lock;
use host::record::{self, RecordError};
use host::store::{PaneRow, SetAside};
use model::{Ending, LaunchRecord, PaneId, SessionId, SessionRecord};
use protocol::pane::KeeperRecord;
use serde::de::DeserializeOwned;

use super::decide::{Found, KeeperFound};
use crate::launch::SESSION_RECORD;
use crate::pane::{EXIT_RECORD, KEEPER_RECORD, Keeper, LAUNCH_RECORD};

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) sessions: BTreeMap<SessionId, Option<SessionRecord>>,
    pub(super) panes: Vec<FoundPane>,
    pub(super) set_aside: Vec<SetAside>,
    pub(super) problems: Vec<String>,
}

/// A pane that has a row, a directory, or both.
#[derive(Debug)]
pub(super) struct FoundPane {
    pub(super) id: PaneId,
    pub(super) session: SessionId,
    pub(super) dir: PathBuf,
    pub(super) row: Option<PaneRow>,
    pub(super) launch: Option<LaunchRecord>,
    pub(super) problem: Option<String>,
    pub(super) look: Look,
}

/// What can be seen of a pane's keeper.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) found: Found,
    pub(super) keeper: Option<Keeper>,
    pub(super) keeper_record: Option<KeeperRecord>,
    pub(super) ending: Option<Ending>,
}

/// Looks at every directory, and at every row without one.
pub(super) fn scan(root: &StateRoot, rows: &[PaneRow]) -> Scan {
    let mut scan = Scan::default();
    let mut rows: BTreeMap<PaneId, &PaneRow> = rows.iter().map(|row| (row.id, row)).collect();
    for session in scan.ids_in::<SessionId>(&root.sessions()) {
        let record = scan.session_record(&root.session(session), session);
        scan.sessions.insert(session, record);
        for pane in scan.ids_in::<PaneId>(&root.session(session).join("panes")) {
            let row = rows.remove(&pane).filter(|row| row.session == session);
            scan.look_at(root, session, pane, row);
        }
    }
    for row in rows.into_values() {
        scan.look_at(root, row.session, row.id, Some(row));
    }
    scan
}

impl Scan {
    /// The entries of a directory that are ids; others are not ours. Sorted, so that the result
    /// does not depend on the file system.
    fn ids_in<T: std::str::FromStr + Ord>(&mut self, dir: &Path) -> BTreeSet<T> {
        let entries = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return BTreeSet::new(),
            Err(error) => {
                self.problems.push(format!("cannot read `{}`: {error}", dir.display()));
                return BTreeSet::new();
            }
        };
        entries
            .into_iter()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect()
    }

    fn session_record(&mut self, dir: &Path, id: SessionId) -> Option<SessionRecord> {
        let path = dir.join(SESSION_RECORD);
        let (record, problem) = self.read::<SessionRecord>(&path, |record| record.id == id);
        self.problems.extend(problem);
        record
    }

    fn look_at(&mut self, root: &StateRoot, session: SessionId, id: PaneId, row: Option<&PaneRow>) {
        let dir = root.pane(session, id);
        let is_it = |record: &LaunchRecord| record.pane == id && record.session == session;
        let (launch, problem) = self.read(&dir.join(LAUNCH_RECORD), is_it);
        let look = look(&dir, row);
        let wanted = row.is_some_and(|row| row.announced && !row.closing);
        let missing = (launch.is_none() && wanted).then(|| {
            format!("its launch record `{}` is missing", dir.join(LAUNCH_RECORD).display())
        });
        let problem = problem.or(missing);
        self.problems.extend(problem.as_ref().map(|problem| format!("pane {id}: {problem}")));
        let row = row.cloned();
        self.panes.push(FoundPane { id, session, dir, row, launch, problem, look });
    }

    /// A record, or what is wrong with it. One that is damaged, or is about something else, is set
    /// aside; one of a newer release, or that cannot be read now, stays where it is.
    fn read<T: DeserializeOwned>(
        &mut self,
        path: &Path,
        is_it: impl Fn(&T) -> bool,
    ) -> (Option<T>, Option<String>) {
        let why = match record::read::<T>(path) {
            Ok(record) if is_it(&record) => return (Some(record), None),
            Ok(_) => "it is the record of something else".to_owned(),
            Err(RecordError::Missing(_)) => return (None, None),
            Err(RecordError::Damaged { why, .. }) => why,
            Err(error) => return (None, Some(error.to_string())),
        };
        let dir = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match file::set_aside(path, dir, &format!("{name}.damaged")) {
            Ok(kept_as) => {
                let problem = format!(
                    "`{}` is damaged ({why}) and was kept as `{}`",
                    path.display(),
                    kept_as.display()
                );
                self.set_aside.push(SetAside { path: path.to_owned(), kept_as, why });
                (None, Some(problem))
            }
            Err(error) => (None, Some(format!("`{}` is damaged: {error}", path.display()))),
        }
    }
}

/// What can be seen of a pane's keeper and ending now.
///
/// The lock is looked at first, the ending last: a keeper that leaves in between has written its
/// ending by then.
pub(super) fn look(dir: &Path, row: Option<&PaneRow>) -> Look {
    let locked = lock::is_held(dir);
    let read = record::read::<KeeperRecord>(&dir.join(KEEPER_RECORD));
    let unreadable = !matches!(read, Ok(_) | Err(RecordError::Missing(_)));
    let keeper_record = read.ok();
    let keeper = keeper_record.clone().and_then(Keeper::find);
    let ending = record::read(&dir.join(EXIT_RECORD)).ok();
    let ending: Option<Ending> = ending.or_else(|| row.and_then(|row| row.ended.clone()));
    let found = Found {
        closing: row.is_some_and(|row| row.closing),
        announced: row.is_some_and(|row| row.announced),
        locked,
        keeper: match (&keeper_record, &keeper) {
            (_, Some(_)) => KeeperFound::Alive,
            (Some(_), None) => KeeperFound::Dead,
            (None, None) if unreadable => KeeperFound::Unreadable,
            (None, None) => KeeperFound::None,
        },
        ended: ending.is_some(),
    };
    Look { found, keeper, keeper_record, ending }
}

#[cfg(test)]
mod tests {
    use host::file::{Survive, write_atomic};
    use model::Timestamp;

    use super::*;

    fn root() -> (tempfile::TempDir, StateRoot) {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        (dir, root)
    }

    #[test]
    fn a_damaged_record_is_set_aside_and_the_pane_next_to_it_is_read() {
        let (_dir, root) = root();
        let session = SessionId::from_random([1; 16]);
        let (good, bad) = (PaneId::from_random([2; 16]), PaneId::from_random([3; 16]));
        for pane in [good, bad] {
            fs::create_dir_all(root.pane(session, pane)).unwrap();
            let launch = LaunchRecord {
                pane,
                session,
                name: "dev".parse().unwrap(),
                agent: "shell".to_owned(),
                asked: Vec::new(),
                argv: vec!["sh".to_owned()],
                cwd: "/".to_owned(),
                workspace: None,
                env: model::environment::Environment::default(),
                size: model::Size::DEFAULT,
                created: Timestamp(0),
                isolation: model::isolation::Isolation::none(),
                conversation: None,
                used: false,
                earlier: Vec::new(),
                owner: None,
                role: None,
                sources: std::collections::BTreeMap::default(),
                unused: Vec::new(),
                ports: None,
                limits: model::limits::Limits::default(),
                unit: None,
                wanted: None,
            };
            let path = root.pane(session, pane).join(LAUNCH_RECORD);
            record::write(&path, &launch, Survive::Kill).unwrap();
        }
        let hurt = root.pane(session, bad).join(LAUNCH_RECORD);
        write_atomic(&hurt, b"{", Survive::Kill).unwrap();

        let scan = scan(&root, &[]);

        assert_eq!(scan.sessions.len(), 1);
        assert_eq!(scan.set_aside.len(), 1);
        assert_eq!(fs::read(hurt.with_extension("json.damaged")).unwrap(), b"{");
        assert!(!hurt.exists());
        assert!(scan.problems[0].contains("pane.json"), "{:?}", scan.problems);
        let found: Vec<bool> = scan.panes.iter().map(|pane| pane.launch.is_some()).collect();
        assert_eq!(found, [true, false]);
    }
}
