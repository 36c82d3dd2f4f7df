//! Examination of a pane that is about to be removed.
//!
//! ```text
//!  panes/<id>  -- moved aside -->  panes/<id>.aside  -- examined -->  trash
//!      ^                                  |
//!      +--------- unsaved work -----------+
//! ```
//!
//! A program that knows the path of the pane cannot write between examination and removal, because
//! the path does not exist any more. The directory stays at the same depth, so that relative paths
//! in repositories remain valid. A daemon that is killed in between leaves a directory that the next
//! one puts back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use host::file::FileError;
use host::process::PaneProcesses;
use host::workspace::{self, PaneRemoval, SessionRemoval, Work, WorkspaceRecord};
use host::{StateRoot, hooks, template};
use model::SessionRecord;
use model::template::SESSION_DIRS;
use tracing::info;

use super::pane::Pane;
use super::workspace::Workspaces;
use crate::runtime::run_blocking;

/// The suffix of a pane's directory that was moved aside.
const ASIDE_SUFFIX: &str = ".aside";

/// The directories that are removed together with a pane's own.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemovalScope {
    /// Whether its private home is removed.
    pub(crate) home: bool,
    /// The directories of its session, if that is removed.
    pub(crate) session: Option<SessionRemoval>,
    /// The processes of live panes that are ended before the removal.
    pub(crate) ending: Vec<PaneProcesses>,
}

impl Workspaces {
    /// Returns the work that would be lost with a pane, unless one of the `discard` tokens
    /// identifies it. Moves nothing.
    pub(crate) async fn unsaved_work(
        &self,
        pane: &Pane,
        scope: &RemovalScope,
        discard: &[String],
    ) -> Option<Work> {
        let (root, dir) = (self.state_root().clone(), pane.dir.clone());
        let (scope, id) = (scope.clone(), pane.id);
        let work = run_blocking(move || examine(&root, &present_dir(&dir), &dir, id, &scope)).await;
        (!work.is_empty() && !discard.contains(&work.token())).then_some(work)
    }

    /// Moves the directory of an ended pane aside and examines it there. If it has work that none of
    /// the `discard` tokens identifies, puts it back and returns the work.
    ///
    /// # Errors
    ///
    /// [`FileError`] if the directory cannot be moved.
    pub(crate) async fn set_aside(
        &self,
        pane: &Pane,
        scope: &RemovalScope,
        discard: &[String],
    ) -> Result<Option<Work>, FileError> {
        let (root, dir, id) = (self.state_root().clone(), pane.dir.clone(), pane.id);
        let (scope, discard) = (scope.clone(), discard.to_vec());
        run_blocking(move || {
            let aside = aside_path(&dir);
            match fs::rename(&dir, &aside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FileError::when("move", &dir)(error));
                }
                _ => {}
            }
            hooks::point("removal.aside");
            let work = examine(&root, &aside, &dir, id, &scope);
            if work.is_empty() {
                return Ok(None);
            }
            if !discard.contains(&work.token()) {
                put_back(&dir)?;
                return Ok(Some(work));
            }
            // A record that cannot be read protects nothing.
            if let Ok(Some(record)) = WorkspaceRecord::read(&aside) {
                record.discard(&aside)?;
            }
            info!(pane = %id, work = ?work.lines, "unsaved work discarded");
            Ok(None)
        })
        .await
    }
}

/// Returns the work in the directories of a pane. Blocks.
pub(super) fn examine(
    root: &StateRoot,
    now: &Path,
    original: &Path,
    pane: model::PaneId,
    scope: &RemovalScope,
) -> Work {
    let removal = PaneRemoval {
        pane_dir: now.to_owned(),
        original_dir: original.to_owned(),
        home: scope.home.then(|| root.private_home(pane)),
        state_root: root.path().to_owned(),
        locks: root.locks(),
        ending: scope.ending.clone(),
    };
    let mut work = workspace::find(&removal);
    if let Some(session) = &scope.session {
        work.append(workspace::find_in_session(session));
    }
    work
}

/// Returns what is removed with a session. Blocks.
pub(crate) fn session_removal(root: &StateRoot, session: &SessionRecord) -> SessionRemoval {
    let template = session.template.as_deref().and_then(|name| template::find(root, name).ok());
    let template = template.and_then(|template| template.path);
    let project = session.project.as_ref().map(PathBuf::from);
    let sources = template.into_iter().chain(project).collect();
    SessionRemoval { dir: root.session(session.id), parts: SESSION_DIRS.to_vec(), sources }
}

/// Returns the place of a pane's directory that is moved aside.
fn aside_path(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(ASIDE_SUFFIX);
    dir.with_file_name(name)
}

/// Returns where the directory of a pane is: aside, or in its place.
pub(crate) fn present_dir(dir: &Path) -> PathBuf {
    let aside = aside_path(dir);
    if aside.symlink_metadata().is_ok() && dir.symlink_metadata().is_err() {
        return aside;
    }
    dir.to_owned()
}

/// Puts a directory back that was moved aside. Does nothing if there is none.
///
/// # Errors
///
/// [`FileError`], also if there is a new directory in its place.
pub(crate) fn put_back(dir: &Path) -> Result<(), FileError> {
    let aside = aside_path(dir);
    if aside.symlink_metadata().is_err() {
        return Ok(());
    }
    fs::rename(&aside, dir).map_err(FileError::when("move back", &aside))
}

/// Puts all directories back that were moved aside by a daemon that was killed.
///
/// # Errors
///
/// [`FileError`] for each that stays aside.
pub(crate) fn put_all_back(panes: &Path) -> Vec<FileError> {
    let entries = fs::read_dir(panes).into_iter().flatten().flatten();
    let aside = entries.filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_suffix(ASIDE_SUFFIX).map(|name| panes.join(name))
    });
    aside.filter_map(|dir| put_back(&dir).err()).collect()
}
