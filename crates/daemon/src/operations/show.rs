//! Shows all information about a pane or a session.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::mounts;
use host::store::StoreError;
use model::authority::{Access, Caller};
use model::health::{login, process};
use protocol::control::{PaneAnswer, PaneView};
use protocol::pane::{Request as KeeperRequest, Response as KeeperResponse};

use super::access::{AccessDenied, authorize};
use super::{PaneOrSession, Services};
use crate::fault::any_of;
use crate::panes::workspace;
use crate::panes::{Pane, PaneStatus, Tracking};
use crate::registry::{PaneOrSessionRow, TargetError};
use crate::runtime::run_blocking;
use crate::wire::keeper;

any_of! {
    /// Why a pane or session was not shown.
    pub(crate) enum ShowError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
    }
}

/// Adds the changes in the worktree or clone of an ended pane.
pub(super) async fn add_changes(services: &Services, answer: &mut PaneAnswer) {
    if answer.pane.state.is_live() || answer.pane.branch.is_none() {
        return;
    }
    let Some(pane) = services.panes.get(answer.pane.id) else { return };
    answer.changes = run_blocking(move || workspace::changes(&pane.dir)).await;
}

/// How long to wait for the status from a keeper.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns all information about a pane or a session.
pub(crate) async fn show(
    services: &Arc<Services>,
    caller: &Caller,
    target: &str,
) -> Result<PaneOrSession, ShowError> {
    let rows = services.panes.rows().await?;
    match rows.find(target)? {
        PaneOrSessionRow::Session(session) => {
            authorize(services, caller, Access::Read, Some(session.record.id)).await?;
            Ok(PaneOrSession::Session(Box::new(services.panes.session_answer(&session, &rows))))
        }
        PaneOrSessionRow::Pane(pane) => {
            authorize(services, caller, Access::Read, Some(pane.session)).await?;
            if let Some(handle) = services.panes.get(pane.id) {
                services.panes.conversations.refresh(&handle, Tracking::Continuous).await;
            }
            let mut answer = services.panes.answer(&pane, &rows)?;
            add_keeper_status(services, &mut answer.pane).await;
            answer.pane.locks = services.coordination.locks_of(answer.pane.id).await;
            answer.pane.conflicts = services.coordination.conflicts_of(answer.pane.id).await;
            answer.pane.login_note = login_note(services, &answer.pane).await;
            answer.pane.shared_note = shared_note(answer.pane.pid, &services.runtime.root.shared());
            add_changes(services, &mut answer).await;
            Ok(PaneOrSession::Pane(Box::new(answer)))
        }
    }
}

/// Returns a note on the shared login, if the pane depends on it and its check found a problem.
async fn login_note(services: &Services, view: &PaneView) -> Option<String> {
    let (pane, isolation) = (services.panes.get(view.id)?, view.isolation.as_ref()?);
    let program = match services.panes.probes.program_of(&pane).await {
        Some(candidate) => services.panes.probes.known_program(&candidate.identity).await,
        None => None,
    };
    login::note(&isolation.login, program.as_ref())
}

/// Adds the status that only the keeper knows. A keeper that does not answer is reported as a
/// problem of the pane, not as an error.
async fn add_keeper_status(services: &Services, view: &mut PaneView) {
    let Some(pane) = services.panes.get(view.id) else { return };
    let usable = pane.status().keeper.is_some_and(|keeper| keeper.incompatible().is_none());
    if !view.state.is_live() || !usable {
        return;
    }
    match keeper::ask(&pane.dir, &KeeperRequest::Status, KEEPER_TIMEOUT).await {
        Ok(KeeperResponse::Status(live)) => view.live = Some(live),
        Ok(_) => view.problem = Some("its keeper sent an unexpected response".to_owned()),
        // The pane may have ended in the meantime.
        Err(_) if !pane.status().state.is_live() => *view = refreshed(view, &pane),
        Err(error) => view.problem = Some(error.to_string()),
    }
}

/// Returns `view` with the state of a pane that has ended.
fn refreshed(view: &PaneView, pane: &Pane) -> PaneView {
    let PaneStatus { state, ending, .. } = pane.status();
    let interrupted = state.was_interrupted(ending.as_ref(), false);
    PaneView {
        state,
        ending,
        interrupted,
        pid: None,
        frozen: None,
        over_limit: None,
        ..view.clone()
    }
}

/// Returns a note if the pane can write to the shared files.
fn shared_note(head: Option<u32>, shared: &Path) -> Option<String> {
    let is_writable = head.is_some_and(|pid| mounts::is_writable_for(pid, shared));
    is_writable.then(|| process::SHARED_IS_OPEN.to_owned())
}
