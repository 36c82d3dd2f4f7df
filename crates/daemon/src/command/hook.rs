//! What agents tell by their hooks: that they are about to edit a file, and that they are done.
//!
//! An edit takes the write lock of its file, which stays with the pane until its turn is over. One
//! that cannot have it is refused in words that the model can act on, and the refusal is put on
//! record before it is said.

use std::sync::Arc;

use model::agent::hooks::HookEvent;
use model::conflict::{Evidence, Outcome};
use model::event::Happening;
use model::lock::{LockMode, LockScope};
use model::{PaneId, Timestamp};
use protocol::control::Response;
use protocol::hooks::{HookAnswer, HookRequest};
use protocol::locks::{Acquire, LockRequest, LockView, Refusal, Waits};
use tracing::info;

use super::Failure;
use super::resolution::no_pane;
use crate::conflicts::TURN;
use crate::supervisor::Supervisor;

impl Supervisor {
    /// Whether an agent may go ahead.
    pub(super) async fn hook(self: &Arc<Self>, request: HookRequest) -> Result<Response, Failure> {
        let Some(pane) = self.pane(request.pane) else { return Err(no_pane(request.pane).into()) };
        let refused = match (request.event, &request.path) {
            (HookEvent::PreEdit, Some(path)) => self.before_edit(&request, path).await?,
            (HookEvent::PostEdit, Some(path)) => {
                self.watchman.edited(request.pane, path).await;
                self.commons.edited(request.pane, path).await;
                None
            }
            (HookEvent::Prompt, _) => {
                self.prompt_accepted(&pane, request.prompt.unwrap_or_default()).await;
                None
            }
            (HookEvent::PreEdit | HookEvent::PostEdit, None) => None,
            (event @ (HookEvent::TurnEnd | HookEvent::SessionEnd), _) => {
                self.turn_ended(request.pane).await?;
                if event == HookEvent::TurnEnd {
                    self.turn_is_over(&pane).await;
                }
                None
            }
        };
        Ok(Response::Hook(HookAnswer { refused }))
    }

    /// Gives back what a pane took for its turn.
    async fn turn_ended(self: &Arc<Self>, pane: PaneId) -> Result<(), Failure> {
        self.watchman.leave(pane);
        let pane = pane.to_string();
        self.lock(LockRequest::ReleaseOwner { pane, tag: Some(TURN.to_owned()) }).await?;
        Ok(())
    }

    /// Takes the lock of a file; why not, if it cannot be had.
    async fn before_edit(
        self: &Arc<Self>,
        request: &HookRequest,
        path: &str,
    ) -> Result<Option<String>, Failure> {
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
                tag: Some(TURN.to_owned()),
            })
        };
        let mut asked = self.lock(acquire(0)).await.map_err(Failure::into_body);
        if let Err(body) = &asked
            && let Some(Refusal::Conflict { holders }) = Refusal::of(body)
        {
            let forgotten = self.give_back_forgotten(&holders).await;
            if forgotten || request.wait_ms > 0 {
                asked = self.lock(acquire(request.wait_ms)).await.map_err(Failure::into_body);
            }
        }
        let Err(body) = asked else {
            self.watchman.editing(id, &path).await;
            return Ok(None);
        };
        match Refusal::of(&body) {
            Some(Refusal::Conflict { holders } | Refusal::Timeout { holders }) => {
                Ok(Some(self.refuse_edit(id, &path, &holders).await?))
            }
            Some(Refusal::Deadlock { cycle }) => Ok(Some(in_a_circle(&path, &cycle))),
            None => Err(body.into()),
        }
    }

    /// Gives back what agents forgot: a turn that its user interrupted ends without a word, and the
    /// agent is idle by its own. Whether anything was.
    async fn give_back_forgotten(self: &Arc<Self>, holders: &[LockView]) -> bool {
        let mut any = false;
        for held in holders.iter().filter(|held| held.tag.as_deref() == Some(TURN)) {
            let Some(pane) = held.pane else { continue };
            let idle = self.idle_since(pane).await;
            if idle.is_some_and(|since| since > held.acquired) {
                info!(%pane, path = held.path, "its turn is over");
                any |= self.turn_ended(pane).await.is_ok();
            }
        }
        any
    }

    /// Puts a refusal on record, and says it.
    async fn refuse_edit(
        self: &Arc<Self>,
        pane: PaneId,
        path: &str,
        holders: &[LockView],
    ) -> Result<String, Failure> {
        let holder = holders.first();
        let held_by = holder.map_or_else(|| "somebody".to_owned(), LockView::holder);
        let told = Happening::Conflict {
            path: path.to_owned(),
            pane: Some(pane),
            name: self.name_of(pane).await,
            holder: holder.and_then(|holder| holder.pane),
            held_by: held_by.clone(),
            outcome: Outcome::Refused,
            evidence: Evidence::Asked,
        };
        self.tell_conflict(told).await?;
        let role = holder.and_then(|holder| self.pane(holder.pane?)?.launch()?.role.clone());
        let role = role.map(|role| format!(" ({role})")).unwrap_or_default();
        let since = holder.map(|holder| since(holder.acquired)).unwrap_or_default();
        Ok(format!(
            "This edit was not made: {path} is being edited by {held_by}{role}{since}. Leave the \
             file alone, by whatever tool, and go on with work that does not need it; try again \
             later. It is free when their turn ends, and `ccmux lock ls` shows who holds what."
        ))
    }
}

/// Since when, in words that need no clock.
fn since(acquired: Timestamp) -> String {
    let seconds = host::clock::now().0.saturating_sub(acquired.0).max(0) / 1000;
    format!(", since {acquired} ({seconds} s ago)")
}

fn in_a_circle(path: &str, cycle: &[Waits]) -> String {
    let steps: Vec<String> = cycle
        .iter()
        .map(|step| format!("{} waits for {}, which {} has", step.who, step.path, step.held_by))
        .collect();
    format!(
        "This edit was not made: waiting for {path} would never end, since {}. End your turn, so \
         that what you hold is given back, and try again later.",
        steps.join("; ")
    )
}
