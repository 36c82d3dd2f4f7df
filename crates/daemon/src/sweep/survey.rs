//! What lies among the directories of panes. Looks, and changes nothing.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::furnish;
use host::household::Household;
use host::{StateRoot, process};
use model::config::duration;
use model::isolation::{pane_entry, pane_of_entry};
use model::orphan::{Found, Verdict, judge};
use model::{PaneId, Timestamp};
use protocol::gc::GcKind;
use rustix::process::geteuid;

use super::{Fate, Finding};
use crate::trash::{KEPT_MARK, mark_of};

/// An entry among the directories of panes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) name: Name,
}

/// What an entry is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// The directory of this pane.
    Dir(PaneId),
    /// The mark that the directory of this pane is to stay.
    Mark(PaneId),
    Other,
}

impl Entry {
    /// What has this path.
    pub(super) fn at(path: PathBuf) -> Self {
        let name = Name::of(path.file_name().unwrap_or_default());
        Self { path, name }
    }

    /// Whether it is a mark whose directory is there.
    fn marks_something(&self) -> bool {
        let Name::Mark(pane) = self.name else { return false };
        !is_missing(&self.path.with_file_name(pane_entry(pane)))
    }
}

impl Name {
    fn of(name: &OsStr) -> Self {
        let Some(name) = name.to_str() else { return Self::Other };
        match (pane_of_entry(name), name.strip_suffix(KEPT_MARK).and_then(pane_of_entry)) {
            (Some(pane), _) => Self::Dir(pane),
            (None, Some(pane)) => Self::Mark(pane),
            (None, None) => Self::Other,
        }
    }

    pub(super) fn pane(self) -> Option<PaneId> {
        match self {
            Self::Dir(pane) | Self::Mark(pane) => Some(pane),
            Self::Other => None,
        }
    }
}

/// What speaks for an entry besides itself.
#[derive(Clone, Copy, Debug, Default)]
struct Ties {
    known: bool,
    claimed: bool,
    alive: bool,
}

/// The entries of every directory that holds directories of panes, and those of the holders that
/// cannot be read. Blocks.
pub(super) fn entries(root: &StateRoot) -> (Vec<Entry>, Vec<Finding>) {
    let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
    for holder in root.holders() {
        match names_in(&holder) {
            Ok(names) => {
                entries.extend(names.into_iter().map(|name| Entry::at(holder.join(name))));
            }
            Err(error) => {
                let why = format!("it cannot be read: {error}");
                unreadable.push(Finding::staying(holder, GcKind::Unknown, why));
            }
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    (entries, unreadable)
}

/// Says of each entry what it is and what is to become of it; nothing of those that are in use.
/// `known` are the panes in the registry, read after the entries were. Blocks.
pub(super) fn judge_all(
    root: &StateRoot,
    entries: Vec<Entry>,
    known: &HashSet<PaneId>,
    least: Duration,
    now: Timestamp,
) -> Vec<Finding> {
    let claimed = panes_with_directories(root);
    let alive = process::marked_panes();
    let unsure = claimed.as_ref().err().map(|error| format!("`sessions` cannot be read: {error}"));
    let claimed = claimed.unwrap_or_default();
    let judged = entries.into_iter().filter_map(|entry| {
        let has = |panes: &HashSet<PaneId>| entry.name.pane().is_some_and(|p| panes.contains(&p));
        let ties = Ties { known: has(known), claimed: has(&claimed), alive: has(&alive) };
        describe(entry, ties, least, now)
    });
    let mut findings: Vec<Finding> = judged.collect();
    if let Some(why) = unsure {
        findings.iter_mut().for_each(|finding| finding.spare(&why));
    }
    findings
}

/// Whether an entry is an orphan at this very moment. `known` was read after it was found. Blocks.
pub(super) fn is_still_orphan(
    root: &StateRoot,
    entry: &Entry,
    known: bool,
    household: &Household,
    least: Duration,
    now: Timestamp,
) -> bool {
    let Some(pane) = entry.name.pane() else { return false };
    if entry.marks_something() {
        return false;
    }
    let claimed = has_directory(root, pane);
    let alive = !process::of_pane(pane, None, household).is_empty();
    let (found, _) = look(entry, Ties { known, claimed, alive }, now);
    judge(found, least) == Verdict::Orphan
}

fn describe(entry: Entry, ties: Ties, least: Duration, now: Timestamp) -> Option<Finding> {
    if entry.marks_something() {
        return None;
    }
    let is_mark = matches!(entry.name, Name::Mark(_));
    let (found, strange) = look(&entry, ties, now);
    let kind = if is_mark { GcKind::Kept } else { GcKind::Orphan };
    let stays = |kind, why: &str| Some(Finding::staying(entry.path.clone(), kind, why.to_owned()));
    match judge(found, least) {
        Verdict::InUse => None,
        Verdict::Unknown => stays(GcKind::Unknown, &strange.unwrap_or_default()),
        Verdict::Kept => stays(GcKind::Kept, "it was to stay when its pane was closed"),
        Verdict::Claimed => stays(kind, "no pane is known by it, but `sessions` has its directory"),
        Verdict::Alive => stays(kind, "its pane is gone, but processes of it run"),
        Verdict::Young => {
            stays(kind, &format!("it belongs to no pane, but only since {}", since(least, found)))
        }
        Verdict::Orphan => {
            let (why, fate) = if is_mark {
                ("it marks a directory that is gone", Fate::DeleteFile)
            } else {
                ("it belongs to no pane", Fate::Trash)
            };
            let (path, why) = (entry.path, why.to_owned());
            Some(Finding { path, kind, why, fate, until: None })
        }
    }
}

/// How young something is, for people.
fn since(least: Duration, found: Found) -> String {
    let least = duration::text(least);
    match found.age {
        Some(age) => {
            let age = duration::text(Duration::from_secs(age.as_secs()));
            format!("{age}; it may be moved after {least}")
        }
        None => format!("a time that is yet to come; it may be moved {least} after that"),
    }
}

/// What is known of an entry now, and why it is not ours if it is not.
fn look(entry: &Entry, ties: Ties, now: Timestamp) -> (Found, Option<String>) {
    let ours = match entry.name {
        Name::Dir(_) => furnish::check_ours(&entry.path).map_err(|error| error.source.to_string()),
        Name::Mark(_) => file_of_ours(&entry.path),
        Name::Other => Err("ccmux gives no directory such a name".to_owned()),
    };
    let is_dir = matches!(entry.name, Name::Dir(_));
    let found = Found {
        named: entry.name != Name::Other,
        known: ties.known,
        ours: ours.is_ok(),
        // Whatever has the name of a mark is one, and so is what cannot be looked at.
        kept: is_dir && !is_missing(&mark_of(&entry.path)),
        claimed: ties.claimed,
        alive: ties.alive,
        age: ours.as_ref().ok().and_then(|found| age(found, now)),
    };
    (found, ours.err())
}

/// How long ago something was last changed, be it its contents, its name or its owner; none if that
/// is yet to come.
fn age(found: &Metadata, now: Timestamp) -> Option<Duration> {
    let millis = |seconds: i64, nanos: i64| seconds.saturating_mul(1000) + nanos / 1_000_000;
    let modified = millis(found.mtime(), found.mtime_nsec());
    let changed = millis(found.ctime(), found.ctime_nsec());
    let age = now.0.checked_sub(modified.max(changed))?;
    u64::try_from(age).ok().map(Duration::from_millis)
}

fn file_of_ours(path: &Path) -> Result<Metadata, String> {
    let found = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() {
        Err("it has the name of a mark and is no file".to_owned())
    } else if found.uid() != geteuid().as_raw() {
        Err(format!("it belongs to user {}", found.uid()))
    } else {
        Ok(found)
    }
}

/// The panes that have a directory in any session, or something with that name.
fn panes_with_directories(root: &StateRoot) -> io::Result<HashSet<PaneId>> {
    let mut panes = HashSet::new();
    for session in names_in(&root.sessions())? {
        match names_in(&root.sessions().join(session).join("panes")) {
            Ok(names) => {
                let ids = names.iter().filter_map(|name| name.to_str()?.parse::<PaneId>().ok());
                panes.extend(ids);
            }
            Err(error) if is_nothing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(panes)
}

/// Whether this pane has a directory in any session. What cannot be looked at may be one.
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
    matches!(fs::symlink_metadata(path), Err(error) if is_nothing(&error))
}

/// There is nothing of that name, because there is none or because what is above is no directory.
fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    use host::clock;
    use model::SessionId;

    use super::*;

    const HOLDERS: [&str; 3] = ["claude-configs", "claude-homes", "tmp"];

    fn root() -> (tempfile::TempDir, StateRoot) {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("home")).unwrap();
        (dir, root)
    }

    /// One that no process of another test carries.
    fn pane(n: u8) -> PaneId {
        let mut bytes = [0x5e; 16];
        bytes[0] = n;
        PaneId::from_random(bytes)
    }

    fn make(root: &StateRoot, holder: &str, name: &str) -> PathBuf {
        let path = root.path().join(holder).join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn look_at(root: &StateRoot, known: &[PaneId], least: Duration) -> BTreeMap<PathBuf, Finding> {
        let (entries, unreadable) = entries(root);
        assert!(unreadable.is_empty());
        let known = known.iter().copied().collect();
        let findings = judge_all(root, entries, &known, least, clock::now());
        findings.into_iter().map(|finding| (finding.path.clone(), finding)).collect()
    }

    #[test]
    fn directories_of_nobody_are_orphans_in_every_place() {
        let (_dir, root) = root();
        let orphans: Vec<_> =
            HOLDERS.iter().map(|at| make(&root, at, &format!("pane-{}", pane(1)))).collect();
        let used: Vec<_> =
            HOLDERS.iter().map(|at| make(&root, at, &format!("pane-{}", pane(2)))).collect();

        let found = look_at(&root, &[pane(2)], Duration::ZERO);

        for path in &orphans {
            assert_eq!((found[path].kind, found[path].fate), (GcKind::Orphan, Fate::Trash));
        }
        assert!(used.iter().all(|path| !found.contains_key(path)));
        assert_eq!(found.len(), orphans.len());
    }

    #[test]
    fn a_name_that_is_not_exactly_a_panes_is_nobodys_business() {
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

        let found = look_at(&root, &[], Duration::ZERO);

        assert_eq!(found.len(), names.len());
        for finding in found.values() {
            assert_eq!((finding.kind, finding.fate), (GcKind::Unknown, Fate::Stay), "{finding:?}");
        }
    }

    #[test]
    fn what_is_young_marked_claimed_or_no_directory_stays() {
        let (_dir, root) = root();
        let name = |n: u8| format!("pane-{}", pane(n));
        let young = make(&root, "tmp", &name(1));
        let found = look_at(&root, &[], Duration::from_secs(3600));
        assert_eq!((found[&young].kind, found[&young].fate), (GcKind::Orphan, Fate::Stay));
        assert!(found[&young].why.contains("1h"), "{}", found[&young].why);
        fs::remove_dir(&young).unwrap();

        let kept = make(&root, "tmp", &name(2));
        fs::File::create(mark_of(&kept)).unwrap();
        let claimed = make(&root, "tmp", &name(3));
        fs::create_dir_all(root.pane(SessionId::from_random([9; 16]), pane(3))).unwrap();
        let link = root.path().join("tmp").join(name(4));
        symlink(&claimed, &link).unwrap();
        let file = root.path().join("tmp").join(name(5));
        fs::File::create(&file).unwrap();
        let found = look_at(&root, &[], Duration::ZERO);

        let of = |path: &PathBuf| (found[path].kind, found[path].why.clone());
        assert_eq!(of(&kept).0, GcKind::Kept);
        assert_eq!(of(&claimed).0, GcKind::Orphan);
        assert_eq!(of(&link), (GcKind::Unknown, "it is a symbolic link".to_owned()));
        assert_eq!(of(&file), (GcKind::Unknown, "it is not a directory".to_owned()));
        assert!(found.values().all(|finding| finding.fate == Fate::Stay), "{found:?}");
        assert_eq!(found.len(), 4, "the mark is told of with its directory");
    }

    #[test]
    fn a_mark_without_its_directory_may_go_and_nothing_else_of_that_name() {
        let (_dir, root) = root();
        let holder = root.path().join("tmp");
        fs::create_dir(&holder).unwrap();
        let stale = holder.join(format!("pane-{}.kept", pane(1)));
        fs::File::create(&stale).unwrap();
        let odd = make(&root, "tmp", &format!("pane-{}.kept", pane(2)));

        let found = look_at(&root, &[], Duration::ZERO);

        assert_eq!((found[&stale].kind, found[&stale].fate), (GcKind::Kept, Fate::DeleteFile));
        assert_eq!((found[&odd].kind, found[&odd].fate), (GcKind::Unknown, Fate::Stay));
    }

    #[test]
    fn whatever_came_up_since_it_was_found_saves_a_directory() {
        let (_dir, root) = root();
        let path = make(&root, "tmp", &format!("pane-{}", pane(1)));
        let entry = Entry::at(path.clone());
        let still = |known: bool, least: Duration, now: Timestamp| {
            is_still_orphan(&root, &entry, known, &Household::nobody(), least, now)
        };
        let (none, now) = (Duration::ZERO, clock::now());

        assert!(still(false, none, now));
        assert!(!still(true, none, now), "a row");
        assert!(!still(false, Duration::from_secs(60), now), "its age");
        assert!(!still(false, none, Timestamp(now.0 - 60_000)), "a clock that was set back");
        let own = root.pane(SessionId::from_random([9; 16]), pane(1));
        fs::create_dir_all(&own).unwrap();
        assert!(!still(false, none, now), "a directory of the pane");
        fs::remove_dir(&own).unwrap();
        fs::File::create(mark_of(&path)).unwrap();
        assert!(!still(false, none, clock::now()), "a mark");
        fs::remove_file(mark_of(&path)).unwrap();
        assert!(still(false, none, clock::now()), "nothing but these");
    }
}
