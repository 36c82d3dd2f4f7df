//! The conversations of panes.
//!
//! A conversation is open in at most one live pane: it is claimed before the pane starts, and
//! released when its processes have ended. The agent can switch to another conversation while it
//! runs; the launch record is updated, so that a restore resumes the latest one.
//!
//! Some agents write a session file about themselves, which is followed while they run. Without such
//! a file, or if the daemon was not running in between, the conversation whose transcript was written
//! last in the pane's own directory counts.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::{process, record, transcript};
use model::agent::{Agent, Liveness};
use model::conversation::ConversationRequest;
use model::event::EventBody;
use model::launch::Plan;
use model::{ConversationId, LaunchRecord, PaneId, ProcessIdentity, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use tracing::{info, warn};

use super::Panes;
use super::error::ConversationOpen;
use super::follow::{AgentUpdates, Follower};
use super::pane::{KEEPER_RECORD, Pane};
use crate::lifecycle::Lifecycle;
use crate::registry::Registry;
use crate::runtime::{Runtime, run_blocking};

/// The service that claims conversations for live panes and follows their agents.
pub(crate) struct Conversations {
    pub(super) runtime: Arc<Runtime>,
    registry: Registry,
    lifecycle: Lifecycle,
    pub(crate) claims: Claims,
    pub(super) follower: Follower,
}

/// The conversations of live panes.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashMap<ConversationId, PaneId>>);

impl Claims {
    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, PaneId>> {
        self.0.lock()
    }

    /// Claims a conversation for a pane and releases its previous one.
    ///
    /// # Errors
    ///
    /// The pane that has claimed the conversation.
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

    /// Releases the conversation of a pane.
    pub(crate) fn release(&self, pane: PaneId) {
        self.lock().retain(|_, holder| *holder != pane);
    }
}

impl Conversations {
    pub(super) fn new(
        runtime: Arc<Runtime>,
        registry: Registry,
        lifecycle: Lifecycle,
    ) -> (Self, AgentUpdates) {
        let (follower, changes) = Follower::new(&runtime.file_watch);
        (Self { runtime, registry, lifecycle, claims: Claims::default(), follower }, changes)
    }

    /// Returns the agent of a pane and its launch record.
    pub(crate) async fn agent_of(&self, pane: &Pane) -> Option<(Agent, Arc<LaunchRecord>)> {
        let launch = pane.launch()?;
        let config = self.runtime.config().await.ok()?;
        Some((Agent::named(&launch.agent, &config.agents).ok()?, launch))
    }

    /// Returns the time since which the agent of a pane is idle, according to its session file.
    pub(crate) async fn idle_since(&self, pane: &Pane) -> Option<Timestamp> {
        let (agent, launch) = self.agent_of(pane).await?;
        let dir = launch.isolation.dir_of(&agent.name)?.to_owned();
        let head = pane.status().keeper.map(|keeper| keeper.record.child.clone())?;
        run_blocking(move || {
            let all = transcript::live(&agent, Path::new(&dir));
            select_session(all, Some(&head)).filter(|found| found.pid == head.pid)?.idle_since
        })
        .await
    }

    /// Claims the conversation of a pane that is about to start.
    ///
    /// # Errors
    ///
    /// [`ConversationOpen`], with the pane that has claimed it.
    pub(crate) async fn claim(
        &self,
        pane: PaneId,
        id: &ConversationId,
    ) -> Result<(), ConversationOpen> {
        let Err(holder) = self.claims.claim(id, pane) else { return Ok(()) };
        let row = self.registry.read(move |change| change.pane(holder)).await;
        let name = row.map_or_else(|_| holder.short(), |row| row.name.to_string());
        Err(ConversationOpen { conversation: id.clone(), pane: holder, name })
    }

    /// Updates the conversation in the launch record of a pane from the files of its agent.
    pub(crate) async fn refresh(&self, pane: &Arc<Pane>, tracking: Tracking) {
        let Some((agent, launch, dir)) = self.conversing_agent(pane).await else { return };
        let keeper = pane.status().keeper.map(|keeper| keeper.record.clone());
        let (known, pane_dir) = (launch.conversation.clone(), pane.dir.clone());
        let (found, used) = run_blocking(move || {
            let keeper = keeper.or_else(|| record::read(&pane_dir.join(KEEPER_RECORD)).ok());
            let head = keeper.map(|keeper| keeper.child);
            let found = current(&agent, &dir, head.as_ref(), tracking).or(known);
            let used =
                found.as_ref().is_some_and(|id| transcript::find(&agent, &dir, id).is_some());
            (found, used)
        })
        .await;
        if let Some(id) = found {
            self.set_conversation(pane, id, used).await;
        }
    }

    /// Returns the agent of a pane, its launch record and its directory, if the agent was started in
    /// a way that has conversations.
    async fn conversing_agent(&self, pane: &Pane) -> Option<(Agent, Arc<LaunchRecord>, PathBuf)> {
        let (agent, launch) = self.agent_of(pane).await?;
        let dir = PathBuf::from(launch.isolation.dir_of(&agent.name)?);
        let converses = agent.asked(launch.asked()) != ConversationRequest::None;
        converses.then_some((agent, launch, dir))
    }

    async fn set_conversation(&self, pane: &Arc<Pane>, id: ConversationId, used: bool) {
        let before = pane.launch().and_then(|launch| launch.conversation.clone());
        let changed = before.as_ref() != Some(&id);
        if changed
            && pane.status().state.is_live()
            && let Err(holder) = self.claims.claim(&id, pane.id)
        {
            let problem = format!(
                "its agent has opened conversation {id}, which is also open in pane {holder}"
            );
            warn!(pane = %pane.id, conversation = %id, %holder, "conversation open in two panes");
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
            return warn!(pane = %pane.id, %error, "conversation not recorded");
        }
        if changed {
            self.lifecycle.pane_changed(pane.id);
            info!(pane = %pane.id, conversation = %id, "conversation changed");
            let event = EventBody::ConversationChanged { pane: pane.id, conversation: id };
            self.registry.record(event).await;
        }
    }
}

impl Conversations {
    /// Follows the agent of a live pane, if it writes session files.
    pub(crate) fn follow(self: &Arc<Self>, pane: &Arc<Pane>) {
        let (this, pane) = (Arc::clone(self), Arc::clone(pane));
        self.runtime.tasks.spawn(async move {
            let Some((agent, launch)) = this.agent_of(&pane).await else { return };
            let dir = launch.isolation.dir_of(&agent.name).map(PathBuf::from);
            let (Some(dir), Some(live)) = (dir, agent.conversations.live) else { return };
            run_blocking(move || {
                this.follower.watch(&dir.join(live.dir), pane.id);
                // The files may have changed before the directory was watched.
                this.follower.wake(pane.id);
            })
            .await;
        });
    }

    /// Stops following the agent of a pane that has ended.
    pub(crate) fn unfollow(&self, pane: PaneId) {
        self.follower.unwatch(pane);
    }
}

impl Panes {
    /// Reads the session files of agents whenever they change, until the daemon ends.
    pub(crate) async fn follow_agents(self: Arc<Self>, mut updates: AgentUpdates) {
        loop {
            let pane = tokio::select! {
                pane = updates.recv() => pane,
                () = self.runtime.ending.cancelled() => return,
            };
            let Some(first) = pane else { return };
            // One write of an agent is several events.
            let mut changed = BTreeSet::from([first]);
            while let Ok(pane) = updates.try_recv() {
                changed.insert(pane);
            }
            for pane in changed.into_iter().filter_map(|id| self.get(id)) {
                self.conversations.refresh(&pane, Tracking::Continuous).await;
                self.lifecycle.pane_changed(pane.id);
            }
        }
    }
}

/// Copies the transcript of the conversation that the user's arguments resume to the pane's directory,
/// from the user's directory or from another pane's. Blocks.
pub(super) fn import_transcript(plan: &Plan, id: &ConversationId) {
    let name = &plan.agent.name;
    let Some(to) = plan.record.isolation.dir_of(name).map(Path::new) else { return };
    let holder = to.parent().unwrap_or(to);
    let others = std::fs::read_dir(holder).into_iter().flatten().flatten();
    let places = plan.users_dir.iter().map(PathBuf::from);
    for from in places.chain(others.map(|entry| entry.path())).filter(|from| from != to) {
        if let Some(found) = transcript::find(&plan.agent, &from, id) {
            match transcript::copy_between(&found, &from, to) {
                Ok(()) => info!(conversation = %id, from = %from.display(), "transcript imported"),
                Err(error) => warn!(conversation = %id, %error, "transcript not imported"),
            }
            return;
        }
    }
}

/// Whether the agent of a pane was followed without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// It was followed until it exited, or still is. Its session file counts; without one, the known
    /// conversation stays.
    Continuous,
    /// It was not followed for a while. Without a session file, the transcript that was written last
    /// counts.
    Interrupted,
}

/// Finds the current conversation of the agent in `dir`. Blocks.
fn current(
    agent: &Agent,
    dir: &Path,
    head: Option<&ProcessIdentity>,
    tracking: Tracking,
) -> Option<ConversationId> {
    let has_session_files = agent.conversations.live.is_some();
    if has_session_files && let Some(session) = select_session(transcript::live(agent, dir), head) {
        return Some(session.conversation);
    }
    if has_session_files && tracking == Tracking::Continuous {
        return None;
    }
    transcript::latest(agent, dir)
}

/// Selects the session file that counts: that of the pane's main process, dead or alive; otherwise
/// that of the live process that was started first, because agents start agents of the same kind.
/// Files from an earlier run of the pane are ignored.
fn select_session(mut all: Vec<Liveness>, head: Option<&ProcessIdentity>) -> Option<Liveness> {
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
    fn claim_allows_one_pane_per_conversation_and_one_conversation_per_pane() {
        let (a, b) = (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]));
        let claims = Claims::default();

        assert_eq!(claims.claim(&id(1), a), Ok(()));
        assert_eq!(claims.claim(&id(1), a), Ok(()), "repeating a claim is not a conflict");
        assert_eq!(claims.claim(&id(1), b), Err(a));
        assert_eq!(claims.claim(&id(2), a), Ok(()), "the agent switched conversations");
        assert_eq!(claims.claim(&id(1), b), Ok(()), "the first one was released");
        claims.release(a);
        assert_eq!(claims.claim(&id(2), b), Ok(()));
    }

    #[test]
    fn select_session_prefers_main_process_and_ignores_earlier_runs() {
        let session = |pid: u32, started: u64, n: u8| Liveness {
            pid,
            started: Some(started),
            conversation: id(n),
            cwd: None,
            version: None,
            idle_since: None,
        };
        let us = process::identify(std::process::id()).unwrap();
        let head = ProcessIdentity { pid: 4_194_303, start: 7, boot: us.boot.clone() };
        let stale = session(4_194_302, 5, 1);

        let all = vec![stale.clone(), session(us.pid, us.start, 2), session(head.pid, 7, 3)];
        let selected =
            |all: &[Liveness], head| select_session(all.to_vec(), head).map(|one| one.conversation);

        assert_eq!(selected(&all, Some(&head)), Some(id(3)), "even if it was killed");
        assert_eq!(selected(&all[..2], Some(&head)), Some(id(2)), "a live process");
        assert_eq!(selected(&all[..1], Some(&head)), None);
        let reused = ProcessIdentity { pid: stale.pid, start: 9, boot: us.boot };
        assert_eq!(selected(&all[..1], Some(&reused)), None, "the process id was reused");
    }
}
