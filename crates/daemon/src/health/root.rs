//! Looking at the state root itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use host::{config, examine, store};
use model::PaneId;
use model::agent::BUILT_IN;
use model::config::Config;
use model::health::place::{self, Expected};
use model::health::{Finding, Kind, Severity};
use model::isolation::{holds_pane_dirs, pane_of_entry};

use super::{Report, Ward};
use crate::launch::SESSION_RECORD;
use crate::trash::KEPT_MARK;

/// What findings about the state root are about.
const SUBJECT: &str = "state root";

/// How many of several things are named.
const NAMED: usize = 3;

/// The configuration in force, or the defaults and what is wrong with it. Blocks.
pub(crate) fn configuration(root: &host::StateRoot) -> (Config, Option<Finding>) {
    match config::load(root, &BUILT_IN) {
        Ok(loaded) => (loaded.config, None),
        Err(error) => {
            let (evidence, remedy) = (error.to_string(), error.hint());
            let (severity, kind) = (Severity::Error, Kind::ConfigInvalid);
            let finding = Finding::new(severity, "configuration", kind, evidence, remedy);
            (Config::default(), Some(finding))
        }
    }
}

/// Looks at the directories and files of the state root, and at its registry. Blocks.
pub(crate) fn examine(ward: &Ward, known: &BTreeSet<PaneId>) -> Report {
    let mut report = Report::default();
    let root = &ward.root;
    let mut dirs =
        vec![root.path().to_owned(), root.run(), root.sessions(), root.trash(), root.config()];
    let holders = holders(root.path());
    dirs.extend(holders.iter().cloned());
    for session in entries(&root.sessions()).into_iter().filter(|path| is_session(path)) {
        report.add(look_at(&session.join(SESSION_RECORD), Expected::File, ward));
        report.checked.places += 1;
        dirs.extend([session.join("panes"), session]);
    }
    for dir in dirs {
        report.checked.places += 1;
        report.add(look_at(&dir, Expected::Directory, ward));
    }
    report.checked.places += 1;
    report.add(look_at(&root.database(), Expected::File, ward));
    report.add(registry(root));
    report.add(orphans(&holders, known));
    report.add(trash(&root.trash()));
    report
}

fn look_at(path: &Path, expected: Expected, ward: &Ward) -> Option<Finding> {
    place::of_root(SUBJECT, &examine::sight(path), expected, ward.us)
}

/// What is wrong with the registry.
pub(crate) fn damaged(why: &store::StoreError) -> Finding {
    let remedy = "`ccmux daemon stop`: the next command starts a daemon that sets the damaged file \
                  aside and rebuilds it from the directories; panes run on";
    let (severity, kind) = (Severity::Error, Kind::RegistryDamaged);
    Finding::new(severity, "registry", kind, why.to_string(), remedy)
}

fn registry(root: &host::StateRoot) -> Option<Finding> {
    store::examine(root).err().as_ref().map(damaged)
}

/// Whatever has the name of a directory that holds those of panes, links included.
fn holders(root: &Path) -> Vec<PathBuf> {
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

/// Directories of panes that nobody knows, unless they were to stay.
fn orphans(holders: &[PathBuf], known: &BTreeSet<PaneId>) -> Option<Finding> {
    let belongs_to_none = |path: &PathBuf| {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
        let mark = path.with_file_name(format!("{name}{KEPT_MARK}"));
        pane_of_entry(name).is_some_and(|pane| !known.contains(&pane)) && !mark.exists()
    };
    let orphans: Vec<String> = holders
        .iter()
        .flat_map(|holder| entries(holder))
        .filter(belongs_to_none)
        .map(|path| format!("`{}`", path.display()))
        .collect();
    if orphans.is_empty() {
        return None;
    }
    let more = orphans.len().saturating_sub(NAMED);
    let mut evidence = orphans.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 {
        evidence = format!("{evidence} and {more} more");
    }
    let remedy = "`ccmux gc --dry-run` says what becomes of them";
    Some(Finding::new(Severity::Info, SUBJECT, Kind::Orphan, evidence, remedy))
}

fn trash(dir: &Path) -> Option<Finding> {
    let count = entries(dir).len();
    (count > 0).then(|| {
        let evidence = format!("{count} in `{}`", dir.display());
        let remedy = "none is needed; `ccmux gc` deletes what has been kept long enough";
        Finding::new(Severity::Info, "trash", Kind::Trash, evidence, remedy)
    })
}
