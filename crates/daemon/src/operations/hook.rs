//! Hook events of agents: before and after an edit, prompts, and the end of a turn.
//!
//! Before an edit, the write lock of the file is acquired for the pane and held until the end of
//! the turn. If the lock is not available, the edit is refused with instructions for the model. The
//! refusal is recorded before it is returned.

use std::sync::Arc;

use host::store::StoreError;
use model::agent::hooks::HookEvent;
use model::authority::{Access, Caller};
use model::lock::{LockMode, LockScope};
use model::{PaneId, Timestamp};
use protocol::hooks::{HookAnswer, HookRequest};
use protocol::locks::{Acquire, LockRequest, LockView, WaitStep};
use tracing::info;

use super::Services;
use super::access::{AccessDenied, authorize};
use super::lock::{LockError, LockRefused, lock};
use crate::coordination::locks::TURN_TAG;
use crate::fault::any_of;
use crate::registry::TargetError;

any_of! {
    /// Why a hook event was not handled.
    pub(crate) enum HookError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        Lock(LockError),
    }
}

/// Handles a hook event and returns whether the agent may continue.
pub(crate) async fn hook(
    services: &Arc<Services>,
    caller: &Caller,
    mut request: HookRequest,
) -> Result<HookAnswer, HookError> {
    // A pane reports its own events only, regardless of its environment and arguments.
    if let Caller::Pane { pane, .. } = caller {
        request.pane = *pane;
    }
    let Some(pane) = services.panes.get(request.pane) else {
        return Err(TargetError::NoPane(request.pane).into());
    };
    authorize(services, caller, Access::Control, Some(pane.session)).await?;
    let refused = match (request.event, &request.path) {
        (HookEvent::PreEdit, Some(path)) => before_edit(services, &request, path).await?,
        (HookEvent::PostEdit, Some(path)) => {
            services.coordination.held_files.edit_finished(request.pane, path).await;
            services.coordination.shared_trees.edit_finished(request.pane, path).await;
            None
        }
        (HookEvent::Prompt, _) => {
            services.messages.prompt_accepted(&pane, request.prompt.unwrap_or_default()).await;
            None
        }
        (HookEvent::PreEdit | HookEvent::PostEdit, None) => None,
        (event @ (HookEvent::TurnEnd | HookEvent::SessionEnd), _) => {
            turn_ended(services, request.pane).await?;
            if event == HookEvent::TurnEnd {
                services.messages.turn_ended(&pane).await;
            }
            None
        }
    };
    Ok(HookAnswer { refused })
}

/// Releases the locks that a pane acquired during its turn.
async fn turn_ended(services: &Arc<Services>, pane: PaneId) -> Result<(), HookError> {
    services.coordination.held_files.release(pane);
    let pane = pane.to_string();
    lock(
        services,
        &Caller::Daemon,
        LockRequest::ReleaseOwner { pane, tag: Some(TURN_TAG.to_owned()) },
    )
    .await?;
    Ok(())
}

/// Acquires the lock of a file. Returns the text of the refusal if another owner holds it.
async fn before_edit(
    services: &Arc<Services>,
    request: &HookRequest,
    path: &str,
) -> Result<Option<String>, HookError> {
    let (id, path) = (request.pane, path.to_owned());
    let acquire = |wait_ms| {
        LockRequest::Acquire(Acquire {
            paths: vec![path.clone()],
            mode: LockMode::Write,
            tree: false,
            scope: if request.together { LockScope::Repository } else { LockScope::Worktree },
            pane: Some(id.to_string()),
            process: None,
            ttl_ms: None,
            wait_ms,
            tag: Some(TURN_TAG.to_owned()),
        })
    };
    let mut acquired = lock(services, &Caller::Daemon, acquire(0)).await;
    if let Err(LockError::Refused(LockRefused::Conflict { holders })) = &acquired {
        let released = release_stale_locks(services, holders).await;
        if released || request.wait_ms > 0 {
            acquired = lock(services, &Caller::Daemon, acquire(request.wait_ms)).await;
        }
    }
    match acquired {
        Ok(_) => {
            services.coordination.held_files.edit_started(id, &path).await;
            Ok(None)
        }
        Err(LockError::Refused(
            LockRefused::Conflict { holders } | LockRefused::TimedOut { holders, .. },
        )) => Ok(Some(refuse_edit(services, id, &path, &holders).await?)),
        Err(LockError::Refused(LockRefused::Deadlock { cycle })) => {
            Ok(Some(deadlock_text(&path, &cycle)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Releases the locks of turns that ended without a hook event, and returns whether there were any.
/// An agent whose user interrupts the turn reports no end of turn, but becomes idle.
async fn release_stale_locks(services: &Arc<Services>, holders: &[LockView]) -> bool {
    let mut released = false;
    for held in holders.iter().filter(|held| held.tag.as_deref() == Some(TURN_TAG)) {
        let Some(pane) = held.pane else { continue };
        let Some(known) = services.panes.get(pane) else { continue };
        let idle = services.panes.conversations.idle_since(&known).await;
        if idle.is_some_and(|since| since > held.acquired) {
            info!(%pane, path = held.path, "stale turn lock released");
            released |= turn_ended(services, pane).await.is_ok();
        }
    }
    released
}

/// Records a refused edit and returns the text for the model.
async fn refuse_edit(
    services: &Arc<Services>,
    pane: PaneId,
    path: &str,
    holders: &[LockView],
) -> Result<String, StoreError> {
    let holder = holders.first();
    let held_by = services.coordination.record_refused_edit(pane, path, holder).await?;
    let role = holder.and_then(|holder| services.panes.get(holder.pane?)?.launch()?.role.clone());
    let role = role.map(|role| format!(" ({role})")).unwrap_or_default();
    let since = holder.map(|holder| since_text(holder.acquired)).unwrap_or_default();
    Ok(format!(
        "This edit was not made: {path} is being edited by {held_by}{role}{since}. Do not \
         change this file with any tool; continue with work that does not need it and try again \
         later. The lock is released when that pane's turn ends; `ccmux lock ls` lists all locks."
    ))
}

/// Formats the time of acquisition, absolute and relative.
fn since_text(acquired: Timestamp) -> String {
    let seconds = host::clock::now().0.saturating_sub(acquired.0).max(0) / 1000;
    format!(", since {acquired} ({seconds} s ago)")
}

fn deadlock_text(path: &str, cycle: &[WaitStep]) -> String {
    let steps: Vec<String> = cycle
        .iter()
        .map(|step| format!("{} waits for {}, held by {}", step.who, step.path, step.held_by))
        .collect();
    format!(
        "This edit was not made: waiting for {path} would be a deadlock: {}. End your turn to \
         release your locks, and try again later.",
        steps.join("; ")
    )
}
