//! Checks of the state root itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use host::root_identity::RootIdentity;
use host::{config, inspect, store};
use model::PaneId;
use model::agent::BUILT_IN;
use model::config::Config;
use model::health::place::{self, Expected};
use model::health::{Finding, FindingKind, Severity};
use model::isolation::{holds_pane_dirs, pane_of_entry};

use super::{Context, Report};
use crate::sessions::SESSION_RECORD;
use crate::trash::kept_marker;

/// The subject of findings about the state root.
const SUBJECT: &str = "state root";

/// The number of orphans that a finding lists by path.
const MAX_LISTED: usize = 3;

/// Returns the configuration; if it is invalid, the defaults and a finding. Blocks.
pub(crate) fn configuration(root: &host::StateRoot) -> (Config, Option<Finding>) {
    match config::load(root, &BUILT_IN) {
        Ok(loaded) => (loaded.config, None),
        Err(error) => {
            let (evidence, remedy) = (error.to_string(), error.hint());
            let (severity, kind) = (Severity::Error, FindingKind::ConfigInvalid);
            let finding = Finding::new(severity, "configuration", kind, evidence, remedy);
            (Config::default(), Some(finding))
        }
    }
}

/// Checks the directories and files of the state root, and its registry. Blocks.
pub(crate) fn examine(context: &Context, known: &BTreeSet<PaneId>) -> Report {
    let mut report = Report::default();
    let root = &context.root;
    let mut dirs =
        vec![root.path().to_owned(), root.run(), root.sessions(), root.trash(), root.config()];
    let parents = parents_of_pane_dirs(root.path());
    dirs.extend(parents.iter().cloned());
    for session in entries(&root.sessions()).into_iter().filter(|path| is_session(path)) {
        report.add(check_path(&session.join(SESSION_RECORD), Expected::File, context));
        report.checked.places += 1;
        dirs.extend([session.join("panes"), session]);
    }
    for dir in dirs {
        report.checked.places += 1;
        report.add(check_path(&dir, Expected::Directory, context));
    }
    report.checked.places += 1;
    report.add(check_path(&root.database(), Expected::File, context));
    report.add(registry(root));
    report.add(orphans(&parents, known));
    report.add(trash(&root.trash()));
    report
}

/// Returns the findings for a root that was moved or copied.
pub(crate) fn identity(identity: &RootIdentity) -> Vec<Finding> {
    let finding =
        |kind, evidence, remedy| Finding::new(Severity::Info, SUBJECT, kind, evidence, remedy);
    let moved = identity.former.last().map(|from| {
        let evidence = format!("moved from `{from}` to `{}`", identity.path);
        let remedy = "stop and restore panes that were started before the move";
        finding(FindingKind::RootMoved, evidence, remedy)
    });
    let copied = identity.copy_of.as_ref().map(|from| {
        let evidence = format!("`{}` is a copy of `{from}`", identity.path);
        let remedy = "none is needed; panes that ran in the original are lost here";
        finding(FindingKind::RootCopied, evidence, remedy)
    });
    moved.into_iter().chain(copied).collect()
}

fn check_path(path: &Path, expected: Expected, context: &Context) -> Option<Finding> {
    place::of_root(SUBJECT, &inspect::path_status(path), expected, context.uid)
}

/// Returns the finding for a damaged registry.
pub(crate) fn damaged(why: &store::StoreError) -> Finding {
    let remedy = "`ccmux daemon stop`: the next command starts a daemon that sets the damaged file \
                  aside and rebuilds the registry from the directories; panes keep running";
    let (severity, kind) = (Severity::Error, FindingKind::RegistryDamaged);
    Finding::new(severity, "registry", kind, why.to_string(), remedy)
}

fn registry(root: &host::StateRoot) -> Option<Finding> {
    store::check(root).err().as_ref().map(damaged)
}

/// Returns the entries that are named like a directory of per-pane directories, including links.
fn parents_of_pane_dirs(root: &Path) -> Vec<PathBuf> {
    let named = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(holds_pane_dirs)
    };
    entries(root).into_iter().filter(named).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn is_session(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.parse::<model::SessionId>().is_ok())
}

/// Reports per-pane directories whose pane does not exist and that are not marked to be kept.
fn orphans(parents: &[PathBuf], known: &BTreeSet<PaneId>) -> Option<Finding> {
    let is_orphan = |path: &PathBuf| {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
        pane_of_entry(name).is_some_and(|pane| !known.contains(&pane))
            && !kept_marker(path).exists()
    };
    let orphans: Vec<String> = parents
        .iter()
        .flat_map(|parent| entries(parent))
        .filter(is_orphan)
        .map(|path| format!("`{}`", path.display()))
        .collect();
    if orphans.is_empty() {
        return None;
    }
    let more = orphans.len().saturating_sub(MAX_LISTED);
    let mut evidence = orphans.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 {
        evidence = format!("{evidence} and {more} more");
    }
    let remedy = "`ccmux gc --dry-run` shows what happens to them";
    Some(Finding::new(Severity::Info, SUBJECT, FindingKind::Orphan, evidence, remedy))
}

fn trash(dir: &Path) -> Option<Finding> {
    let count = entries(dir).len();
    (count > 0).then(|| {
        let noun = if count == 1 { "entry" } else { "entries" };
        let evidence = format!("{count} {noun} in `{}`", dir.display());
        let remedy = "none is needed; `ccmux gc` deletes expired entries";
        Finding::new(Severity::Info, "trash", FindingKind::Trash, evidence, remedy)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::process::geteuid;

    use super::*;

    fn context(home: &Path) -> Context {
        let root = host::StateRoot::open(home).unwrap();
        drop(store::Store::open(&root).unwrap());
        Context {
            root,
            uid: geteuid().as_raw(),
            agents: BTreeMap::new(),
            client: BTreeMap::new(),
            conversations: BTreeMap::new(),
        }
    }

    fn kinds(context: &Context, known: &[PaneId]) -> Vec<String> {
        let report = examine(context, &known.iter().copied().collect());
        report.findings.into_iter().map(|finding| finding.what).collect()
    }

    fn pane_dir(context: &Context, pane: PaneId) -> PathBuf {
        let dir = context.root.path().join("tmp").join(format!("pane-{pane}"));
        fs::create_dir_all(&dir).unwrap();
        for private in [dir.parent().unwrap(), &dir] {
            fs::set_permissions(private, fs::Permissions::from_mode(0o700)).unwrap();
        }
        dir
    }

    #[test]
    fn new_state_root_has_no_findings() {
        let dir = tempfile::tempdir().unwrap();
        let context = context(&dir.path().join("home"));

        assert_eq!(kinds(&context, &[]), [""; 0]);
    }

    #[test]
    fn directory_of_an_unknown_pane_is_reported_unless_marked() {
        let dir = tempfile::tempdir().unwrap();
        let context = context(&dir.path().join("home"));
        let pane = PaneId::from_random([1; 16]);
        let isolated = pane_dir(&context, pane);

        assert_eq!(kinds(&context, &[pane]), [""; 0]);
        assert_eq!(kinds(&context, &[]), [FindingKind::Orphan.as_str()]);

        crate::trash::mark_kept(&isolated).unwrap();
        assert_eq!(kinds(&context, &[]), [""; 0]);
    }

    #[test]
    fn trash_entries_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let context = context(&dir.path().join("home"));
        fs::create_dir(context.root.trash().join("a")).unwrap();

        let report = examine(&context, &BTreeSet::new());

        assert!(report.findings[0].evidence.starts_with("1 entry in "), "{:?}", report.findings);
    }
}
