//! Sessions as they are shown to clients: the record and the current status (R31, R32).

use host::file::{self, Durability};
use host::record;
use host::store::SessionRow;
use model::{PaneState, SessionRecord, SessionStatus};
use protocol::session::SessionView;
use tracing::warn;

use super::condition::Condition;
use super::error::RepairError;
use super::{SESSION_RECORD, Sessions, part_dir};

impl Sessions {
    /// Returns the view of a session with panes in these states. Checks its directory, which takes a
    /// few system calls.
    pub(crate) fn view(
        &self,
        row: &SessionRow,
        panes: impl IntoIterator<Item = PaneState>,
    ) -> SessionView {
        let record = &row.record;
        let dir = self.runtime.root.session(record.id);
        let from_panes = SessionStatus::derive(row.announced, panes);
        let (status, problem) = match self.conditions.check(&self.runtime.root, record.id) {
            // The directory is created shortly after the registry entry.
            _ if !row.announced => (from_panes, None),
            Condition::Intact => (from_panes, None),
            Condition::Unverified(why) => (from_panes, Some(why)),
            Condition::Missing => (SessionStatus::Missing, Some(missing(record, &dir))),
            Condition::Damaged(why) => (SessionStatus::Damaged, Some(damaged(record, &why))),
        };
        let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
        SessionView {
            id: record.id,
            name: record.name.clone(),
            mode: record.mode,
            status,
            template: record.template.clone(),
            project: record.project.clone(),
            unit_dir: text(part_dir(&self.runtime.root, record, "unit")),
            workflows_dir: text(part_dir(&self.runtime.root, record, "workflows")),
            logs_dir: text(dir.join("logs")),
            dir: text(dir),
            created: record.created,
            problem,
        }
    }

    /// Repairs the directory of a session: a damaged record is set aside and rewritten from the
    /// registry. Blocks.
    ///
    /// # Errors
    ///
    /// [`RepairError`] if the directory is missing or the record cannot be written.
    pub(crate) fn repair(&self, record: &SessionRecord) -> Result<(), RepairError> {
        let dir = self.runtime.root.session(record.id);
        let why = match self.conditions.check(&self.runtime.root, record.id) {
            Condition::Intact | Condition::Unverified(_) => return Ok(()),
            Condition::Missing => {
                return Err(RepairError::Missing { session: record.name.clone(), dir });
            }
            Condition::Damaged(why) => why,
        };
        let path = dir.join(SESSION_RECORD);
        let failed = |source| RepairError::File { session: record.name.clone(), source };
        if path.symlink_metadata().is_ok() {
            let kept = file::set_aside(&path, &dir, ".session.damaged").map_err(failed)?;
            self.runtime.add_problem(format!(
                "session {}: {why}; it was renamed to `{}` and rewritten",
                record.name,
                kept.display()
            ));
        } else {
            warn!(session = %record.id, %why, "session record rewritten");
        }
        record::write(&path, record, Durability::PowerLoss).map_err(failed)
    }
}

fn missing(record: &SessionRecord, dir: &std::path::Path) -> String {
    format!(
        "the directory `{}` of session {} is missing; restore it, or remove the session with \
         `ccmux purge {} --yes`",
        dir.display(),
        record.name,
        record.name
    )
}

fn damaged(record: &SessionRecord, why: &str) -> String {
    format!("{why}; `ccmux restore {}` rewrites it from the registry", record.name)
}
