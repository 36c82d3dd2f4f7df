//! Lists sessions in pages. Only the panes of sessions on the page are examined.

use std::sync::Arc;

use host::store::StoreError;
use model::authority::{Access, Caller};
use model::session::SessionStatus;
use model::{SessionId, SessionMode, SessionRecord, Timestamp};
use protocol::control::ListedSession;

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::any_of;
use crate::runtime::run_blocking;

any_of! {
    /// Why sessions were not listed.
    pub(crate) enum PageError {
        Denied(AccessDenied),
        Store(StoreError),
    }
}

/// The position of a session in the list, which does not depend on other sessions.
pub(crate) type Cursor = (Timestamp, SessionId);

/// The selection of sessions on a page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Only sessions after this position.
    pub(crate) after: Option<Cursor>,
    /// Only sessions with this mode.
    pub(crate) mode: Option<SessionMode>,
    /// Only sessions with this status.
    pub(crate) status: Option<SessionStatus>,
    /// The maximum number of sessions.
    pub(crate) limit: usize,
}

/// Returns a page of sessions, oldest first, and whether more follow.
pub(crate) async fn page(
    services: &Arc<Services>,
    caller: &Caller,
    page: Page,
) -> Result<(Vec<ListedSession>, bool), PageError> {
    authorize(services, caller, Access::List, None).await?;
    let rows = services.panes.rows().await?;
    let this = Arc::clone(services);
    // Blocking: the state of each pane takes a few system calls.
    let (mut found, limit) = run_blocking(move || {
        let is_selected = |record: &SessionRecord| {
            page.mode.is_none_or(|mode| mode == record.mode)
                && page.after.is_none_or(|after| cursor(record) > after)
        };
        let mut candidates: Vec<_> =
            rows.visible_sessions().filter(|row| is_selected(&row.record)).collect();
        candidates.sort_by_key(|row| cursor(&row.record));
        let listed = candidates.into_iter().map(|row| this.panes.listed(row, &rows));
        let has_status = |listed: &ListedSession| {
            page.status.is_none_or(|status| status == listed.session.status)
        };
        (listed.filter(has_status).take(page.limit + 1).collect::<Vec<_>>(), page.limit)
    })
    .await;
    let more = found.len() > limit;
    found.truncate(limit);
    Ok((found, more))
}

fn cursor(record: &SessionRecord) -> Cursor {
    (record.created, record.id)
}
