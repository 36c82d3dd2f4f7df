//! Which pane has which conversation.
//!
//! A conversation has at most one live pane: whoever starts a pane claims it first, and the claim
//! ends with the pane's process. Which conversation a pane has can change while it runs, because
//! the agent began another one; the launch record follows, so that a restore goes on with the last.
//!
//! Agents that keep a file about themselves are followed by it while they run. Where there is no
//! such file, or nobody watched, the conversation that was written to last in the pane's own
//! directory is the pane's.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::{process, transcript};
use model::agent::{Agent, Liveness};
use model::event::Happening;
use model::launch::Plan;
use model::{ConversationId, LaunchRecord, PaneId};
use protocol::{ErrorBody, ErrorCode};
use tracing::{info, warn};

use crate::pane::Pane;
use crate::supervisor::{Supervisor, run_blocking};

/// The conversations of live panes.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashMap<ConversationId, PaneId>>);

impl Claims {
    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, PaneId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims a conversation for a pane, in place of the one it had; or says who has it.
    pub(crate) fn claim(&self, id: &ConversationId, pane: PaneId) -> Result<(), PaneId> {
        let mut claims = self.lock();
        match claims.get(id) {
            Some(holder) if *holder != pane => return Err(*holder),
            _ => {}
        }
        claims.retain(|_, holder| *holder != pane);
        claims.insert(id.clone(), pane);
        Ok(())
    }

    /// Gives up what a pane had.
    pub(crate) fn release(&self, pane: PaneId) {
        self.lock().retain(|_, holder| *holder != pane);
    }
}

impl Supervisor {
    /// Claims the conversation of a pane that is about to live.
    ///
    /// # Errors
    ///
    /// Which pane has it.
    pub(crate) async fn claim(&self, pane: PaneId, id: &ConversationId) -> Result<(), ErrorBody> {
        let Err(holder) = self.claims.claim(id, pane) else { return Ok(()) };
        let row = self.registry.read(move |change| change.pane(holder)).await;
        let name = row.map_or_else(|_| holder.short(), |row| row.name.to_string());
        let message = format!("the conversation {id} is open in pane {name} ({})", holder.short());
        Err(ErrorBody::new(ErrorCode::Conflict, message)
            .hint(format!("go there with `ccmux attach {name}`, or stop that pane first")))
    }

    /// Brings the launch record of a pane up to what its agent says about itself.
    pub(crate) async fn refresh_conversation(self: &Arc<Self>, pane: &Arc<Pane>, seen: Seen) {
        let Some((agent, launch, dir)) = self.conversing(pane).await else { return };
        let head = pane.look().keeper.map(|keeper| keeper.record.child.pid);
        let known = launch.conversation.clone();
        let (found, used) = run_blocking(move || {
            let found = current(&agent, &dir, head, seen).or(known);
            let used = found.as_ref().is_some_and(|id| transcript::of(&agent, &dir, id).is_some());
            (found, used)
        })
        .await;
        if let Some(id) = found {
            self.has_conversation(pane, id, used).await;
        }
    }

    /// The agent of a pane that can have a conversation, and its directory.
    async fn conversing(&self, pane: &Pane) -> Option<(Agent, Arc<LaunchRecord>, PathBuf)> {
        let launch = pane.launch()?;
        let config = self.config().await.ok()?;
        let agent = Agent::named(&launch.agent, &config.agents).ok()?;
        let dir = PathBuf::from(launch.isolation.dir_of(&agent.name)?);
        agent.can_converse().then_some((agent, launch, dir))
    }

    async fn has_conversation(self: &Arc<Self>, pane: &Arc<Pane>, id: ConversationId, used: bool) {
        let before = pane.launch().and_then(|launch| launch.conversation.clone());
        let changed = before.as_ref() != Some(&id);
        if changed
            && pane.look().state.is_live()
            && let Err(holder) = self.claims.claim(&id, pane.id)
        {
            let problem = format!(
                "its agent has opened the conversation {id}, which is open in pane {holder} too"
            );
            warn!(pane = %pane.id, "{problem}");
            return pane.set_problem(problem);
        }
        let (record, now) = (Arc::clone(pane), id.clone());
        let written = run_blocking(move || {
            record.change_launch(|launch| {
                launch.converse(now);
                launch.used |= used;
                if changed {
                    launch.used = used;
                }
            })
        });
        if let Err(error) = written.await {
            return warn!(pane = %pane.id, %error, "its conversation is not on record");
        }
        if changed {
            info!(pane = %pane.id, conversation = %id, "has a conversation");
            let told = Happening::ConversationChanged { pane: pane.id, conversation: id };
            if let Err(error) = self.registry.change(move |change| change.emit(told)).await {
                warn!(%error, "an event is not recorded");
            }
        }
    }
}

impl Supervisor {
    /// Copies the transcript of a conversation that the user's own arguments go on with into the
    /// pane's directory, from the user's own or from that of another pane. Blocks.
    pub(crate) fn bring_transcript(&self, plan: &Plan, id: &ConversationId) {
        let name = &plan.agent.name;
        let Some(to) = plan.record.isolation.dir_of(name).map(Path::new) else { return };
        let holder = to.parent().unwrap_or(to);
        let others = std::fs::read_dir(holder).into_iter().flatten().flatten();
        let places = plan.users_dir.iter().map(PathBuf::from);
        for from in places.chain(others.map(|entry| entry.path())).filter(|from| from != to) {
            if let Some(found) = transcript::of(&plan.agent, &from, id) {
                match transcript::bring(&found, &from, to) {
                    Ok(()) => info!(conversation = %id, from = %from.display(), "brought"),
                    Err(error) => warn!(conversation = %id, %error, "not brought"),
                }
                return;
            }
        }
    }
}

/// How much is known about a pane from watching it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was watched to its end, or still is: what its agent says about itself counts, and
    /// without that, what is known.
    Watched,
    /// Nobody watched for a while: what was written last counts.
    Unwatched,
}

/// The conversation of the agent in `dir`, as far as it can be told. Blocks.
fn current(agent: &Agent, dir: &Path, head: Option<u32>, seen: Seen) -> Option<ConversationId> {
    let says = agent.conversations.live.is_some();
    if says && let Some(living) = speaker(transcript::live(agent, dir), head) {
        return Some(living.conversation);
    }
    if says && seen == Seen::Watched {
        return None;
    }
    transcript::latest(agent, dir).map(|(id, _)| id)
}

/// Whose word counts: the process at the head of the pane; else the one that was started first, for
/// agents start others of their kind. What a killed process left behind counts only if none lives.
fn speaker(mut all: Vec<Liveness>, head: Option<u32>) -> Option<Liveness> {
    if let Some(at) = all.iter().position(|one| Some(one.pid) == head) {
        return Some(all.swap_remove(at));
    }
    let lives = |one: &Liveness| {
        process::stat(one.pid).is_some_and(|now| one.started.is_none_or(|then| then == now.start))
    };
    all.sort_by_key(|one| (!lives(one), one.started));
    all.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> ConversationId {
        ConversationId::from_random([n; 16])
    }

    #[test]
    fn a_conversation_has_one_pane_and_a_pane_one_conversation() {
        let (a, b) = (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]));
        let claims = Claims::default();

        assert_eq!(claims.claim(&id(1), a), Ok(()));
        assert_eq!(claims.claim(&id(1), a), Ok(()), "again is no conflict");
        assert_eq!(claims.claim(&id(1), b), Err(a));
        assert_eq!(claims.claim(&id(2), a), Ok(()), "the agent began another one");
        assert_eq!(claims.claim(&id(1), b), Ok(()), "so the first is free");
        claims.release(a);
        assert_eq!(claims.claim(&id(2), b), Ok(()));
    }

    #[test]
    fn the_process_at_the_head_of_the_pane_is_believed_first() {
        let says = |pid: u32, n: u8| Liveness {
            pid,
            started: Some(u64::from(n)),
            conversation: id(n),
            cwd: None,
            version: None,
        };

        let said = |head| speaker(vec![says(70, 1), says(71, 2)], head).unwrap().conversation;

        assert_eq!(said(Some(71)), id(2));
        assert_eq!(said(None), id(1), "of several it is the first");
        assert_eq!(speaker(Vec::new(), Some(1)), None);
    }
}
