//! A session as everybody sees it: what is on record, and how it is at this moment (R31, R32).

use host::file::{self, Survive};
use host::record;
use host::store::SessionRow;
use model::{PaneState, SessionId, SessionRecord, SessionStatus};
use protocol::session::SessionView;
use protocol::{ErrorBody, ErrorCode};
use tracing::warn;

use super::condition::Condition;
use super::part_of;
use crate::launch::SESSION_RECORD;
use crate::supervisor::Supervisor;

impl Supervisor {
    /// A session with panes in these states. Looks at its directory, which is a few system calls.
    pub(crate) fn session_view(
        &self,
        row: &SessionRow,
        panes: impl IntoIterator<Item = PaneState>,
    ) -> SessionView {
        let record = &row.record;
        let dir = self.root.session(record.id);
        let alive = SessionStatus::derive(row.announced, panes);
        let (status, problem) = match self.conditions.look(&self.root, record.id) {
            // It is made a moment after it is entered.
            _ if !row.announced => (alive, None),
            Condition::Whole => (alive, None),
            Condition::Strange(why) => (alive, Some(why)),
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
            unit_dir: text(part_of(&self.root, record, "unit")),
            workflows_dir: text(part_of(&self.root, record, "workflows")),
            logs_dir: text(dir.join("logs")),
            dir: text(dir),
            created: record.created,
            problem,
        }
    }

    /// Sees to it that a session can be worked in: a damaged record is set aside and written anew,
    /// because the registry knows what it said. Blocks.
    ///
    /// # Errors
    ///
    /// What is missing, and what can be done about it.
    pub(crate) fn mend_session(&self, record: &SessionRecord) -> Result<(), ErrorBody> {
        let dir = self.root.session(record.id);
        let why = match self.conditions.look(&self.root, record.id) {
            Condition::Whole | Condition::Strange(_) => return Ok(()),
            Condition::Missing => {
                let message = missing(record, &dir);
                return Err(ErrorBody::new(ErrorCode::Conflict, message)
                    .hint(format!("`ccmux purge {} --yes` forgets it", record.name)));
            }
            Condition::Damaged(why) => why,
        };
        let path = dir.join(SESSION_RECORD);
        let failed = |error: host::file::FileError| {
            ErrorBody::new(ErrorCode::Failed, format!("session {}: {error}", record.name))
        };
        if path.symlink_metadata().is_ok() {
            let kept = file::set_aside(&path, &dir, ".session.damaged").map_err(failed)?;
            self.add_problem(format!(
                "session {}: {why}; it was kept as `{}` and written anew",
                record.name,
                kept.display()
            ));
        } else {
            warn!(session = %record.id, %why, "written anew");
        }
        record::write(&path, record, Survive::PowerLoss).map_err(failed)
    }

    /// Forgets what was known of a session that is gone.
    pub(crate) fn forget_session(&self, id: SessionId) {
        self.conditions.forget(id);
    }
}

fn missing(record: &SessionRecord, dir: &std::path::Path) -> String {
    format!(
        "the directory `{}` of the session {} is missing; put it back, or forget the session with \
         `ccmux purge {} --yes`",
        dir.display(),
        record.name,
        record.name
    )
}

fn damaged(record: &SessionRecord, why: &str) -> String {
    format!("{why}; `ccmux restore {}` writes it anew from the registry", record.name)
}
