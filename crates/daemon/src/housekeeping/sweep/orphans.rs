//! Finds the per-pane directories that belong to no pane. Read-only.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::own_processes::OwnProcesses;
use host::pane_dirs;
use host::{StateRoot, process};
use model::config::duration;
use model::isolation::{pane_entry, pane_of_entry};
use model::orphan::{EntryEvidence, OrphanVerdict, judge};
use model::{PaneId, Timestamp};
use protocol::gc::GcKind;
use rustix::process::geteuid;

use super::{SweepAction, SweepFinding};
use crate::trash::{KEPT_SUFFIX, kept_marker};

/// An entry of a directory that holds per-pane directories, such as `claude-configs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) name: EntryName,
}

/// The meaning of an entry's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryName {
    /// The directory of this pane.
    Dir(PaneId),
    /// The marker that keeps the directory of this pane.
    Marker(PaneId),
    Other,
}

impl Entry {
    /// Creates the entry for a path.
    pub(super) fn at(path: PathBuf) -> Self {
        let name = EntryName::of(path.file_name().unwrap_or_default());
        Self { path, name }
    }

    /// Returns whether this is a marker whose directory exists.
    fn is_marker_in_use(&self) -> bool {
        let EntryName::Marker(pane) = self.name else { return false };
        !is_missing(&self.path.with_file_name(pane_entry(pane)))
    }
}

impl EntryName {
    fn of(name: &OsStr) -> Self {
        let Some(name) = name.to_str() else { return Self::Other };
        match (pane_of_entry(name), name.strip_suffix(KEPT_SUFFIX).and_then(pane_of_entry)) {
            (Some(pane), _) => Self::Dir(pane),
            (None, Some(pane)) => Self::Marker(pane),
            (None, None) => Self::Other,
        }
    }

    pub(super) fn pane(self) -> Option<PaneId> {
        match self {
            Self::Dir(pane) | Self::Marker(pane) => Some(pane),
            Self::Other => None,
        }
    }
}

/// Evidence, besides the entry itself, that its pane exists.
#[derive(Clone, Copy, Debug, Default)]
struct References {
    /// The pane is in the registry.
    known: bool,
    /// The pane has a directory in a session.
    claimed: bool,
    /// Processes of the pane are running.
    alive: bool,
}

/// Returns the entries of every directory that holds per-pane directories, and a finding for each
/// such directory that cannot be read. Blocks.
pub(super) fn entries(root: &StateRoot) -> (Vec<Entry>, Vec<SweepFinding>) {
    let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
    for parent in root.isolated_dir_parents() {
        match names_in(&parent) {
            Ok(names) => {
                entries.extend(names.into_iter().map(|name| Entry::at(parent.join(name))));
            }
            Err(error) => {
                let why = format!("cannot read the directory: {error}");
                unreadable.push(SweepFinding::kept(parent, GcKind::Unknown, why));
            }
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    (entries, unreadable)
}

/// Returns a finding for each entry that is not in use. `known` are the panes in the registry, read
/// after the entries. Blocks.
pub(super) fn assess_all(
    root: &StateRoot,
    entries: Vec<Entry>,
    known: &HashSet<PaneId>,
    min_age: Duration,
    now: Timestamp,
) -> Vec<SweepFinding> {
    let claimed = panes_with_directories(root);
    let alive = process::marked_panes();
    let incomplete = claimed.as_ref().err().map(|error| format!("cannot read `sessions`: {error}"));
    let claimed = claimed.unwrap_or_default();
    let findings = entries.into_iter().filter_map(|entry| {
        let has = |panes: &HashSet<PaneId>| entry.name.pane().is_some_and(|p| panes.contains(&p));
        let references =
            References { known: has(known), claimed: has(&claimed), alive: has(&alive) };
        assess(entry, references, min_age, now)
    });
    let mut findings: Vec<SweepFinding> = findings.collect();
    if let Some(why) = incomplete {
        findings.iter_mut().for_each(|finding| finding.cancel(&why));
    }
    findings
}

/// Returns whether an entry is an orphan now. `known` says whether the registry has its pane, read
/// after the entry was listed. Blocks.
pub(super) fn is_still_orphan(
    root: &StateRoot,
    entry: &Entry,
    known: bool,
    own_processes: &OwnProcesses,
    min_age: Duration,
    now: Timestamp,
) -> bool {
    let Some(pane) = entry.name.pane() else { return false };
    if entry.is_marker_in_use() {
        return false;
    }
    let claimed = has_directory(root, pane);
    let alive = !process::of_pane(pane, None, own_processes).is_empty();
    let (evidence, _) = inspect(entry, References { known, claimed, alive }, now);
    judge(evidence, min_age) == OrphanVerdict::Orphan
}

fn assess(
    entry: Entry,
    references: References,
    min_age: Duration,
    now: Timestamp,
) -> Option<SweepFinding> {
    if entry.is_marker_in_use() {
        return None;
    }
    let is_marker = matches!(entry.name, EntryName::Marker(_));
    let (evidence, foreign) = inspect(&entry, references, now);
    let kind = if is_marker { GcKind::Kept } else { GcKind::Orphan };
    let kept = |kind, why: &str| Some(SweepFinding::kept(entry.path.clone(), kind, why.to_owned()));
    match judge(evidence, min_age) {
        OrphanVerdict::InUse => None,
        OrphanVerdict::Unknown => kept(GcKind::Unknown, &foreign.unwrap_or_default()),
        OrphanVerdict::Kept => kept(GcKind::Kept, "kept when its pane was closed"),
        OrphanVerdict::Claimed => {
            kept(kind, "its pane is not in the registry, but has a directory in `sessions`")
        }
        OrphanVerdict::Alive => {
            kept(kind, "its pane is gone, but processes of the pane are running")
        }
        OrphanVerdict::Young => {
            kept(kind, &format!("belongs to no pane, but {}", age_text(min_age, evidence)))
        }
        OrphanVerdict::Orphan => {
            let (why, planned) = if is_marker {
                ("marker of a directory that no longer exists", SweepAction::DeleteFile)
            } else {
                ("belongs to no pane", SweepAction::MoveToTrash)
            };
            let (path, why) = (entry.path, why.to_owned());
            Some(SweepFinding { path, kind, why, planned, delete_after: None })
        }
    }
}

/// Describes the age of an entry that is younger than `min_age`.
fn age_text(min_age: Duration, evidence: EntryEvidence) -> String {
    let min_age = duration::text(min_age);
    match evidence.age {
        Some(age) => {
            let age = duration::text(Duration::from_secs(age.as_secs()));
            format!("is only {age} old (minimum {min_age})")
        }
        None => "its modification time is in the future".to_owned(),
    }
}

/// Collects the evidence about an entry, and the reason if it was not created by ccmux.
fn inspect(
    entry: &Entry,
    references: References,
    now: Timestamp,
) -> (EntryEvidence, Option<String>) {
    let metadata = match entry.name {
        EntryName::Dir(_) => {
            pane_dirs::check_owner(&entry.path).map_err(|error| error.source.to_string())
        }
        EntryName::Marker(_) => check_marker(&entry.path),
        EntryName::Other => Err("not a name that ccmux creates".to_owned()),
    };
    let is_dir = matches!(entry.name, EntryName::Dir(_));
    let evidence = EntryEvidence {
        named: entry.name != EntryName::Other,
        known: references.known,
        ours: metadata.is_ok(),
        // Any file type counts as a marker, and so does one that cannot be examined.
        kept: is_dir && !is_missing(&kept_marker(&entry.path)),
        claimed: references.claimed,
        alive: references.alive,
        age: metadata.as_ref().ok().and_then(|found| age(found, now)),
    };
    (evidence, metadata.err())
}

/// Returns the time since the last change of contents, name or owner; `None` if that is in the
/// future.
fn age(found: &Metadata, now: Timestamp) -> Option<Duration> {
    let millis = |seconds: i64, nanos: i64| seconds.saturating_mul(1000) + nanos / 1_000_000;
    let modified = millis(found.mtime(), found.mtime_nsec());
    let changed = millis(found.ctime(), found.ctime_nsec());
    let age = now.0.checked_sub(modified.max(changed))?;
    u64::try_from(age).ok().map(Duration::from_millis)
}

fn check_marker(path: &Path) -> Result<Metadata, String> {
    let found = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() {
        Err("named like a marker, but not a file".to_owned())
    } else if found.uid() != geteuid().as_raw() {
        Err(format!("it belongs to user {}", found.uid()))
    } else {
        Ok(found)
    }
}

/// Returns the panes that have an entry in the `panes` directory of any session.
fn panes_with_directories(root: &StateRoot) -> io::Result<HashSet<PaneId>> {
    let mut panes = HashSet::new();
    for session in names_in(&root.sessions())? {
        match names_in(&root.sessions().join(session).join("panes")) {
            Ok(names) => {
                let ids = names.iter().filter_map(|name| name.to_str()?.parse::<PaneId>().ok());
                panes.extend(ids);
            }
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(panes)
}

/// Returns whether this pane has a directory in any session; also true if that cannot be determined.
fn has_directory(root: &StateRoot, pane: PaneId) -> bool {
    let Ok(sessions) = names_in(&root.sessions()) else { return true };
    let mut places = sessions.into_iter().map(|session| {
        let panes = root.sessions().join(session).join("panes");
        panes.join(pane.to_string())
    });
    places.any(|place| !is_missing(&place))
}

fn names_in(dir: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
}

fn is_missing(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if is_not_found(&error))
}

/// Returns whether the path does not exist, or one of its parents is not a directory.
fn is_not_found(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    use host::clock;
    use model::SessionId;

    use super::*;

    const PARENTS: [&str; 3] = ["claude-configs", "claude-homes", "tmp"];

    fn root() -> (tempfile::TempDir, StateRoot) {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        (dir, root)
    }

    /// Returns an id that no process of another test has in its environment.
    fn pane(n: u8) -> PaneId {
        let mut bytes = [0x5e; 16];
        bytes[0] = n;
        PaneId::from_random(bytes)
    }

    fn make(root: &StateRoot, parent: &str, name: &str) -> PathBuf {
        let path = root.path().join(parent).join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn assess_entries(
        root: &StateRoot,
        known: &[PaneId],
        min_age: Duration,
    ) -> BTreeMap<PathBuf, SweepFinding> {
        let (entries, unreadable) = entries(root);
        assert!(unreadable.is_empty());
        let known = known.iter().copied().collect();
        let findings = assess_all(root, entries, &known, min_age, clock::now());
        findings.into_iter().map(|finding| (finding.path.clone(), finding)).collect()
    }

    #[test]
    fn directories_without_a_pane_are_orphans_in_every_parent() {
        let (_dir, root) = root();
        let orphans: Vec<_> =
            PARENTS.iter().map(|at| make(&root, at, &format!("pane-{}", pane(1)))).collect();
        let used: Vec<_> =
            PARENTS.iter().map(|at| make(&root, at, &format!("pane-{}", pane(2)))).collect();

        let found = assess_entries(&root, &[pane(2)], Duration::ZERO);

        for path in &orphans {
            assert_eq!(
                (found[path].kind, found[path].planned),
                (GcKind::Orphan, SweepAction::MoveToTrash)
            );
        }
        assert!(used.iter().all(|path| !found.contains_key(path)));
        assert_eq!(found.len(), orphans.len());
    }

    #[test]
    fn names_that_ccmux_does_not_create_are_unknown() {
        let (_dir, root) = root();
        let id = PaneId::from_random([0xab; 16]).to_string();
        let names = [
            "pane-x".to_owned(),
            "pane-".to_owned(),
            id.clone(),
            format!("pane-{id}x"),
            format!("pane-{id}\n"),
            format!("pane-{}", id.to_uppercase()),
            format!("pane-{{{id}}}"),
            format!("pane-{}", id.replace('-', "")),
            format!(".pane-{id}"),
            format!("pane-{id}.keep"),
        ];
        for name in &names {
            make(&root, "claude-configs", name);
        }

        let found = assess_entries(&root, &[], Duration::ZERO);

        assert_eq!(found.len(), names.len());
        for finding in found.values() {
            assert_eq!(
                (finding.kind, finding.planned),
                (GcKind::Unknown, SweepAction::Keep),
                "{finding:?}"
            );
        }
    }

    #[test]
    fn young_marked_claimed_and_non_directory_entries_are_kept() {
        let (_dir, root) = root();
        let name = |n: u8| format!("pane-{}", pane(n));
        let young = make(&root, "tmp", &name(1));
        let found = assess_entries(&root, &[], Duration::from_secs(3600));
        assert_eq!(
            (found[&young].kind, found[&young].planned),
            (GcKind::Orphan, SweepAction::Keep)
        );
        assert!(found[&young].why.contains("1h"), "{}", found[&young].why);
        fs::remove_dir(&young).unwrap();

        let kept = make(&root, "tmp", &name(2));
        fs::File::create(kept_marker(&kept)).unwrap();
        let claimed = make(&root, "tmp", &name(3));
        fs::create_dir_all(root.pane(SessionId::from_random([9; 16]), pane(3))).unwrap();
        let link = root.path().join("tmp").join(name(4));
        symlink(&claimed, &link).unwrap();
        let file = root.path().join("tmp").join(name(5));
        fs::File::create(&file).unwrap();
        let found = assess_entries(&root, &[], Duration::ZERO);

        let of = |path: &PathBuf| (found[path].kind, found[path].why.clone());
        assert_eq!(of(&kept).0, GcKind::Kept);
        assert_eq!(of(&claimed).0, GcKind::Orphan);
        assert_eq!(of(&link), (GcKind::Unknown, "it is a symbolic link".to_owned()));
        assert_eq!(of(&file), (GcKind::Unknown, "it is not a directory".to_owned()));
        assert!(found.values().all(|finding| finding.planned == SweepAction::Keep), "{found:?}");
        assert_eq!(found.len(), 4, "a marker in use has no separate finding");
    }

    #[test]
    fn only_a_marker_file_without_its_directory_is_deleted() {
        let (_dir, root) = root();
        let parent = root.path().join("tmp");
        fs::create_dir(&parent).unwrap();
        let stale = parent.join(format!("pane-{}.kept", pane(1)));
        fs::File::create(&stale).unwrap();
        let odd = make(&root, "tmp", &format!("pane-{}.kept", pane(2)));

        let found = assess_entries(&root, &[], Duration::ZERO);

        assert_eq!(
            (found[&stale].kind, found[&stale].planned),
            (GcKind::Kept, SweepAction::DeleteFile)
        );
        assert_eq!((found[&odd].kind, found[&odd].planned), (GcKind::Unknown, SweepAction::Keep));
    }

    #[test]
    fn recheck_spares_a_directory_that_came_into_use() {
        let (_dir, root) = root();
        let path = make(&root, "tmp", &format!("pane-{}", pane(1)));
        let entry = Entry::at(path.clone());
        let still = |known: bool, min_age: Duration, now: Timestamp| {
            is_still_orphan(&root, &entry, known, &OwnProcesses::none(), min_age, now)
        };
        let (none, now) = (Duration::ZERO, clock::now());

        assert!(still(false, none, now));
        assert!(!still(true, none, now), "pane in the registry");
        assert!(!still(false, Duration::from_secs(60), now), "too young");
        assert!(!still(false, none, Timestamp(now.0 - 60_000)), "clock set back");
        let own = root.pane(SessionId::from_random([9; 16]), pane(1));
        fs::create_dir_all(&own).unwrap();
        assert!(!still(false, none, now), "pane directory exists");
        fs::remove_dir(&own).unwrap();
        fs::File::create(kept_marker(&path)).unwrap();
        assert!(!still(false, none, clock::now()), "marked");
        fs::remove_file(kept_marker(&path)).unwrap();
        assert!(still(false, none, clock::now()), "no reason left");
    }
}
