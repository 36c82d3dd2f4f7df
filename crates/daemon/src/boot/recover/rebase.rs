//! Records of panes that were written when their state root was at another path.
//!
//! A launch record names its root in the variable `CCMUX_SOCKET`, so it is recognised by itself, also
//! if it comes from the trash or from a root that was moved before roots had an identity.

use std::path::Path;

use host::StateRoot;
use host::file::Durability;
use host::record;
use host::root::WORK;
use host::root_identity::{ExaminedRoot, RootHistory, same_dir};
use host::workspace::WorkspaceRecord;
use model::LaunchRecord;

use crate::panes::conversation_files;
use crate::panes::pane::LAUNCH_RECORD;

/// The control socket in a state root, as in `CCMUX_SOCKET`.
const SOCKET: &str = "/run/control.sock";

/// Converts records to the current path of the state root.
pub(super) struct Rebase<'a> {
    pub(super) root: &'a StateRoot,
    pub(super) examined: &'a ExaminedRoot,
}

impl Rebase<'_> {
    /// Returns the path of the root that the records of a pane were written for, if it is another
    /// one.
    pub(super) fn former_root(&self, dir: &Path, launch: Option<&LaunchRecord>) -> Option<String> {
        let socket = launch.and_then(|launch| launch.env.get("CCMUX_SOCKET"));
        let named = socket.and_then(|socket| socket.strip_suffix(SOCKET)).map(str::to_owned);
        let named = named.or_else(|| self.root_of_workspace(dir));
        let named = named.or_else(|| self.examined.previous_path().map(str::to_owned))?;
        (!same_dir(Path::new(&named), self.root.path())).then_some(named)
    }

    /// Returns the root of a workspace whose pane has no launch record.
    fn root_of_workspace(&self, dir: &Path) -> Option<String> {
        let record = WorkspaceRecord::read(dir).ok().flatten()?;
        let inside = dir.strip_prefix(self.root.path()).ok()?.to_str()?;
        let path = &record.workspace.path;
        let of_pane_dir =
            path.strip_suffix("/workspace").and_then(|path| path.strip_suffix(inside));
        let root = of_pane_dir.and_then(|root| root.strip_suffix('/'));
        // Otherwise the path is `work/SESSION/PANE/PROJECT` in the root.
        let work = Path::new(path).ancestors().nth(3).filter(|work| work.ends_with(WORK));
        root.or_else(|| work?.parent()?.to_str()).map(str::to_owned)
    }

    /// Returns whether the processes of a pane whose records name the root `former` are processes of
    /// this root.
    pub(super) fn owns_processes(&self, former: Option<&str>) -> bool {
        let is_copy = matches!(self.examined.history, RootHistory::Copied { .. });
        let formers = &self.examined.identity.former;
        !is_copy && former.is_none_or(|former| formers.iter().any(|path| path == former))
    }

    /// Converts the records of a pane from the root `from`, reconnects its work tree and moves its
    /// conversations. The launch record is written last, so that an interrupted conversion is
    /// repeated.
    pub(super) fn rebase(
        &self,
        dir: &Path,
        launch: Option<LaunchRecord>,
        from: &str,
    ) -> Result<Option<LaunchRecord>, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let to = self.root.path().to_string_lossy();
        let mut workspace = WorkspaceRecord::read(dir).map_err(|error| text(&error))?;
        if let Some(record) = &mut workspace {
            if record.rebase(from, &to).map_err(|error| text(&error))? {
                record.save(dir).map_err(|error| text(&error))?;
            }
            let former = model::rebase::text(&record.workspace.path, &to, from).into_owned();
            let relinked = record.relink(dir, Path::new(&former), &self.root.locks());
            relinked.map_err(|error| text(&error))?;
        }
        let Some(launch) = launch else { return Ok(None) };
        let mut launch: LaunchRecord =
            record::rebased(&launch, from, &to).map_err(|error| text(&error))?;
        if let (Some(ours), Some(record)) = (&mut launch.workspace, workspace) {
            ours.branch = record.workspace.branch;
        }
        conversation_files::refile(&launch).map_err(|error| text(&error))?;
        record::write(&dir.join(LAUNCH_RECORD), &launch, Durability::PowerLoss)
            .map_err(|error| text(&error))?;
        Ok(Some(launch))
    }
}
