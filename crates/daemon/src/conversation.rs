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

use host::{process, record, transcript};
use model::agent::{Agent, Liveness};
use model::conversation::Asked;
use model::event::Happening;
use model::launch::Plan;
use model::{ConversationId, LaunchRecord, PaneId, ProcessIdentity};
use protocol::{ErrorBody, ErrorCode};
use tracing::{info, warn};

use crate::pane::{KEEPER_RECORD, Pane};
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
        let keeper = pane.look().keeper.map(|keeper| keeper.record.clone());
        let (known, pane_dir) = (launch.conversation.clone(), pane.dir.clone());
        let (found, used) = run_blocking(move || {
            let keeper = keeper.or_else(|| record::read(&pane_dir.join(KEEPER_RECORD)).ok());
            let head = keeper.map(|keeper| keeper.child);
            let found = current(&agent, &dir, head.as_ref(), seen).or(known);
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
        let converses = agent.asked(launch.asked()) != Asked::None;
        converses.then_some((agent, launch, dir))
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
            self.note_change(pane.id);
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
fn current(
    agent: &Agent,
    dir: &Path,
    head: Option<&ProcessIdentity>,
    seen: Seen,
) -> Option<ConversationId> {
    let says = agent.conversations.live.is_some();
    if says && let Some(living) = speaker(transcript::live(agent, dir), head) {
        return Some(living.conversation);
    }
    if says && seen == Seen::Watched {
        return None;
    }
    transcript::latest(agent, dir)
}

/// Whose word counts: that of the process at the head of the pane, dead or alive; else that of the
/// living one that was started first, for agents start others of their kind. What was left behind by
/// processes of an earlier life of the pane counts for nothing.
pub(crate) fn speaker(mut all: Vec<Liveness>, head: Option<&ProcessIdentity>) -> Option<Liveness> {
    let is_head = |one: &Liveness| {
        head.is_some_and(|head| {
            head.pid == one.pid && one.started.is_none_or(|then| then == head.start)
        })
    };
    if let Some(at) = all.iter().position(is_head) {
        return Some(all.swap_remove(at));
    }
    all.retain(|one| {
        process::stat(one.pid).is_some_and(|now| one.started.is_none_or(|then| then == now.start))
    });
    all.into_iter().min_by_key(|one| one.started)
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
    fn the_process_at_the_head_of_the_pane_is_believed_and_no_earlier_one() {
        let says = |pid: u32, started: u64, n: u8| Liveness {
            pid,
            started: Some(started),
            conversation: id(n),
            cwd: None,
            version: None,
            idle_since: None,
        };
        let us = process::identify(std::process::id()).unwrap();
        let head = ProcessIdentity { pid: 4_194_303, start: 7, boot: us.boot.clone() };
        let left_behind = says(4_194_302, 5, 1);

        let all = vec![left_behind.clone(), says(us.pid, us.start, 2), says(head.pid, 7, 3)];
        let said = |all: &[Liveness], head| speaker(all.to_vec(), head).map(|one| one.conversation);

        assert_eq!(said(&all, Some(&head)), Some(id(3)), "also when it was killed");
        assert_eq!(said(&all[..2], Some(&head)), Some(id(2)), "one that lives");
        assert_eq!(said(&all[..1], Some(&head)), None);
        let reused = ProcessIdentity { pid: left_behind.pid, start: 9, boot: us.boot };
        assert_eq!(said(&all[..1], Some(&reused)), None, "another process had that number");
    }
}
