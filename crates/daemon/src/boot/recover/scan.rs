//! Reads the directories of sessions and panes. Damaged records are set aside; nothing else changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use host::StateRoot;
use host::clock;
use host::file::{self, Durability};
use host::lock;
use host::record::{self, RecordError};
use host::root_identity::ExaminedRoot;
use host::store::{PaneRow, SetAside};
use model::{Ending, EndingReason, LaunchRecord, PaneId, SessionId, SessionRecord};
use protocol::pane::{GROUPS, KeeperRecord};
use serde::de::DeserializeOwned;
use tracing::warn;

use super::decide::{Evidence, KeeperState};
use super::rebase::Rebase;
use crate::panes::Keeper;
use crate::panes::pane::{EXIT_RECORD, KEEPER_RECORD, LAUNCH_RECORD};
use crate::panes::removal;
use crate::sessions::SESSION_RECORD;

/// The contents of the session directories.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The sessions that have a directory, with their records if readable.
    pub(super) sessions: BTreeMap<SessionId, Option<SessionRecord>>,
    pub(super) panes: Vec<ScannedPane>,
    pub(super) set_aside: Vec<SetAside>,
    pub(super) problems: Vec<String>,
}

/// A pane with a registry row, a directory, or both.
#[derive(Debug)]
pub(super) struct ScannedPane {
    pub(super) id: PaneId,
    pub(super) session: SessionId,
    pub(super) dir: PathBuf,
    pub(super) row: Option<PaneRow>,
    pub(super) launch: Option<LaunchRecord>,
    pub(super) problem: Option<String>,
    pub(super) observed: Observation,
    /// Whether processes that were started for the pane belong to this state root.
    pub(super) owns_processes: bool,
}

/// The observed state of a pane's keeper.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) evidence: Evidence,
    pub(super) keeper: Option<Keeper>,
    pub(super) keeper_record: Option<KeeperRecord>,
    pub(super) ending: Option<Ending>,
}

/// Reads the directory of every session and pane, and observes the panes that only have a row.
pub(super) fn scan(root: &StateRoot, examined: &ExaminedRoot, rows: &[PaneRow]) -> Scan {
    let mut scan = Scan::default();
    let rebase = Rebase { root, examined };
    let mut rows: BTreeMap<PaneId, &PaneRow> = rows.iter().map(|row| (row.id, row)).collect();
    for session in scan.ids_in::<SessionId>(&root.sessions()) {
        let record = scan.session_record(&root.session(session), session);
        scan.sessions.insert(session, record);
        let panes = root.session(session).join("panes");
        let aside = removal::put_all_back(root, &panes).into_iter().map(|error| error.to_string());
        scan.problems.extend(aside);
        for pane in scan.ids_in::<PaneId>(&panes) {
            let row = rows.remove(&pane).filter(|row| row.session == session);
            scan.add_pane(&rebase, session, pane, row);
        }
    }
    for row in rows.into_values() {
        scan.add_pane(&rebase, row.session, row.id, Some(row));
    }
    scan
}

impl Scan {
    /// Returns the subdirectories whose name is an id, sorted. Others were not created by ccmux.
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

    fn add_pane(
        &mut self,
        rebase: &Rebase<'_>,
        session: SessionId,
        id: PaneId,
        row: Option<&PaneRow>,
    ) {
        let dir = rebase.root.pane(session, id);
        let is_expected = |record: &LaunchRecord| record.pane == id && record.session == session;
        let (launch, problem) = self.read(&dir.join(LAUNCH_RECORD), is_expected);
        let mut observed = observe(&dir, row);
        let former = rebase.former_root(&dir, launch.as_ref());
        let owns_processes = rebase.owns_processes(former.as_deref());
        if !owns_processes {
            observed.disown(&dir, former.as_deref());
        }
        let (launch, problem) = match former {
            Some(from) => match rebase.rebase(&dir, launch, &from) {
                Ok(launch) => {
                    let live = observed.evidence.locked.then(|| {
                        format!("it was started in the state root `{from}`: stop and restore it")
                    });
                    (launch, problem.or(live))
                }
                // Without a launch record the pane cannot be restored in foreign directories.
                Err(why) => (None, Some(format!("its records name `{from}`: {why}"))),
            },
            None => (launch, problem),
        };
        let expected = row.is_some_and(|row| row.announced && !row.closing);
        let missing = (launch.is_none() && expected)
            .then(|| format!("launch record `{}` is missing", dir.join(LAUNCH_RECORD).display()));
        let problem = problem.or(missing);
        self.problems.extend(problem.as_ref().map(|problem| format!("pane {id}: {problem}")));
        let row = row.cloned();
        self.panes.push(ScannedPane {
            id,
            session,
            dir,
            row,
            launch,
            problem,
            observed,
            owns_processes,
        });
    }

    /// Returns a record, or a description of the problem with it. A damaged record, or one of
    /// another pane or session, is set aside. A record that is of a newer release or cannot be read
    /// stays in place.
    fn read<T: DeserializeOwned>(
        &mut self,
        path: &Path,
        is_expected: impl Fn(&T) -> bool,
    ) -> (Option<T>, Option<String>) {
        let why = match record::read::<T>(path) {
            Ok(record) if is_expected(&record) => return (Some(record), None),
            Ok(_) => "it belongs to another pane or session".to_owned(),
            Err(RecordError::Missing(_)) => return (None, None),
            Err(RecordError::Damaged { why, .. }) => why,
            Err(error) => return (None, Some(error.to_string())),
        };
        let dir = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match file::set_aside(path, dir, &format!("{name}.damaged")) {
            Ok(kept_as) => {
                let problem = format!(
                    "`{}` is damaged ({why}); it was set aside as `{}`",
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

/// Observes the keeper and the end of a pane.
///
/// The lock is checked first and the exit record read last: a keeper that ends in between has
/// written the record by then.
pub(super) fn observe(dir: &Path, row: Option<&PaneRow>) -> Observation {
    let locked = lock::is_held(dir);
    let read = record::read::<KeeperRecord>(&dir.join(KEEPER_RECORD));
    let unreadable = !matches!(read, Ok(_) | Err(RecordError::Missing(_)));
    let keeper_record = read.ok();
    // The record alone proves nothing: in a copied root it names the keeper of the original.
    let keeper = keeper_record.clone().filter(|_| locked).and_then(Keeper::find);
    let ending = record::read(&dir.join(EXIT_RECORD)).ok();
    let ending: Option<Ending> = ending.or_else(|| row.and_then(|row| row.ended.clone()));
    let evidence = Evidence {
        closing: row.is_some_and(|row| row.closing),
        announced: row.is_some_and(|row| row.announced),
        locked,
        keeper: match (&keeper_record, &keeper) {
            (_, Some(_)) => KeeperState::Alive,
            (Some(_), None) => KeeperState::Dead,
            (None, None) if unreadable => KeeperState::Unreadable,
            (None, None) => KeeperState::None,
        },
        ended: ending.is_some(),
    };
    Observation { evidence, keeper, keeper_record, ending }
}

impl Observation {
    /// Records that a pane without a keeper is lost, so that none of its processes is signalled:
    /// they belong to another state root. Its control groups do, too.
    fn disown(&mut self, dir: &Path, former: Option<&str>) {
        if self.evidence.locked {
            return;
        }
        let _missing = fs::remove_file(dir.join(GROUPS));
        let was_started = self.keeper_record.is_some() || self.evidence.announced;
        if self.ending.is_some() || !was_started {
            return;
        }
        let mut ending = Ending::of(None, None, EndingReason::Lost, clock::now());
        let from = former.map_or_else(String::new, |from| format!(" `{from}`"));
        ending.detail = Some(format!("it ran in the state root{from} that this one is a copy of"));
        if let Err(error) = record::write(&dir.join(EXIT_RECORD), &ending, Durability::PowerLoss) {
            warn!(%error, "exit record not written");
        }
        self.ending = Some(ending);
        self.evidence.ended = true;
    }
}

#[cfg(test)]
mod tests {
    use host::file::write_atomic;
    use model::Timestamp;

    use super::*;

    fn root() -> (tempfile::TempDir, StateRoot) {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        (dir, root)
    }

    #[test]
    fn damaged_record_is_set_aside_and_other_panes_are_read() {
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
            record::write(&path, &launch, Durability::ProcessCrash).unwrap();
        }
        let damaged = root.pane(session, bad).join(LAUNCH_RECORD);
        write_atomic(&damaged, b"{", Durability::ProcessCrash).unwrap();

        let examined = ExaminedRoot::of(&root).unwrap();
        let scan = scan(&root, &examined, &[]);

        assert_eq!(scan.sessions.len(), 1);
        assert_eq!(scan.set_aside.len(), 1);
        assert_eq!(fs::read(damaged.with_extension("json.damaged")).unwrap(), b"{");
        assert!(!damaged.exists());
        assert!(scan.problems[0].contains("pane.json"), "{:?}", scan.problems);
        let has_launch: Vec<bool> = scan.panes.iter().map(|pane| pane.launch.is_some()).collect();
        assert_eq!(has_launch, [true, false]);
    }
}
