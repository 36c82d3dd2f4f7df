//! Lists all sessions with their panes.

use std::sync::Arc;

use host::store::StoreError;
use model::authority::{Access, Caller};
use protocol::control::Listing;

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::any_of;
use crate::runtime::run_blocking;

any_of! {
    /// Why sessions were not listed.
    pub(crate) enum ListError {
        Denied(AccessDenied),
        Store(StoreError),
    }
}

/// Returns all sessions with their panes.
pub(crate) async fn list(services: &Arc<Services>, caller: &Caller) -> Result<Listing, ListError> {
    authorize(services, caller, Access::List, None).await?;
    let rows = services.panes.rows().await?;
    let this = Arc::clone(services);
    // Blocking: the state of each pane takes a few system calls.
    let sessions = run_blocking(move || {
        let visible = rows.visible_sessions();
        visible.map(|session| this.panes.listed(session, &rows)).collect()
    });
    let sessions = sessions.await;
    Ok(Listing { sessions, problems: services.runtime.problems() })
}
