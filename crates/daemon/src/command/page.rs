//! Sessions, a page at a time: only what is on the page is looked at.

use std::sync::Arc;

use model::session::SessionStatus;
use model::{SessionId, SessionMode, SessionRecord, Timestamp};
use protocol::control::ListedSession;

use super::Failure;
use crate::supervisor::{Supervisor, run_blocking};

/// The place of a session in the list: it stays where it is, also when others come and go.
pub(crate) type Place = (Timestamp, SessionId);

/// Which sessions are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Only those after this one.
    pub(crate) after: Option<Place>,
    /// Only those of this mode.
    pub(crate) mode: Option<SessionMode>,
    /// Only those that are like this.
    pub(crate) status: Option<SessionStatus>,
    /// How many at most.
    pub(crate) most: usize,
}

impl Supervisor {
    /// A page of sessions, oldest first, and whether more follow.
    pub(crate) async fn page(
        self: &Arc<Self>,
        page: Page,
    ) -> Result<(Vec<ListedSession>, bool), Failure> {
        let rows = self.rows().await?;
        let this = Arc::clone(self);
        // What is on it is looked at, which is a few system calls each.
        let (mut found, most) = run_blocking(move || {
            let wanted = |record: &SessionRecord| {
                page.mode.is_none_or(|mode| mode == record.mode)
                    && page.after.is_none_or(|after| place(record) > after)
            };
            let mut candidates: Vec<_> = rows.shown().filter(|row| wanted(&row.record)).collect();
            candidates.sort_by_key(|row| place(&row.record));
            let listed = candidates.into_iter().map(|row| this.listed(row, &rows));
            let is_like = |listed: &ListedSession| {
                page.status.is_none_or(|status| status == listed.session.status)
            };
            (listed.filter(is_like).take(page.most + 1).collect::<Vec<_>>(), page.most)
        })
        .await;
        let more = found.len() > most;
        found.truncate(most);
        Ok((found, more))
    }
}

fn place(record: &SessionRecord) -> Place {
    (record.created, record.id)
}
