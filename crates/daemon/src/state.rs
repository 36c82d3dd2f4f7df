//! Keeping `session.state` of every pane up to date (R22–R24).
//!
//! One task writes for all panes. A step in the life of a pane is written at once, anything else
//! at most every [`PERIOD`]; nobody waits for it. While nothing happens, nothing is looked at.
//!
//! What is in the directory is looked at before it is replaced. Something that is not the state of
//! this pane is set aside and told of; something that a newer release wrote is left alone.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::state::{self, Found};
use host::store::SetAside;
use host::{clock, transcript};
use model::agent::Agent;
use model::event::Happening;
use model::state::{SavedLock, SavedState, Sightings};
use model::{LaunchRecord, PaneId, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::warn;

use crate::pane::{Life, Pane, log_dir};
use crate::supervisor::{Supervisor, run_blocking};

/// How often a pane's state is written while only its contents change.
const PERIOD: Duration = Duration::from_secs(5);

/// Which panes have to be written.
#[derive(Debug, Default)]
pub(crate) struct States {
    news: Mutex<BTreeMap<PaneId, News>>,
    wake: Notify,
}

/// What happened to a pane, in order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    /// Something about it is different.
    Change,
    /// It began, ended, or is called otherwise.
    Step,
}

impl States {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PaneId, News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, pane: PaneId, news: News) {
        let mut all = self.lock();
        let known = all.entry(pane).or_insert(news);
        *known = news.max(*known);
        drop(all);
        self.wake.notify_one();
    }
}

impl Supervisor {
    /// A step in the life of a pane: its state is written as soon as nobody waits for anything.
    pub(crate) fn note_step(&self, pane: PaneId) {
        self.states.note(pane, News::Step);
        self.commons.look_again();
    }

    /// Something about a pane is different: its state is written soon.
    pub(crate) fn note_change(&self, pane: PaneId) {
        self.states.note(pane, News::Change);
    }

    /// Writes what has to be written, until the daemon ends; then what is left.
    pub(crate) async fn keep_states(self: Arc<Self>) {
        let mut due: BTreeMap<PaneId, Instant> = BTreeMap::new();
        let mut last: HashMap<PaneId, Instant> = HashMap::new();
        loop {
            let next = due.values().min().copied();
            let ending = tokio::select! {
                () = self.states.wake.notified() => false,
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)),
                    if next.is_some() => false,
                () = self.ending.cancelled() => true,
            };
            let now = Instant::now();
            for (pane, news) in std::mem::take(&mut *self.states.lock()) {
                let written = last.get(&pane).filter(|_| news == News::Change);
                let at = written.map_or(now, |written| *written + PERIOD);
                let planned = due.entry(pane).or_insert(at);
                *planned = at.min(*planned);
            }
            let ready: Vec<PaneId> =
                due.iter().filter(|(_, at)| ending || **at <= now).map(|(pane, _)| *pane).collect();
            for id in ready {
                due.remove(&id);
                match self.pane(id) {
                    Some(pane) => {
                        self.save_state(&pane).await;
                        last.insert(id, Instant::now());
                    }
                    None => drop(last.remove(&id)),
                }
            }
            if ending {
                return;
            }
        }
    }

    /// Writes the state of a pane, unless it says so already.
    async fn save_state(&self, pane: &Arc<Pane>) {
        let Some(launch) = pane.launch() else { return };
        if matches!(pane.life(), Life::Gone(_) | Life::Starting) {
            return;
        }
        let agent = self.config().await.ok();
        let agent = agent.and_then(|config| Agent::named(&launch.agent, &config.agents).ok());
        let _turn = pane.saving.lock().await;
        let Some(before) = self.check_state(pane).await else { return };
        let locks = self.locks.of_pane(pane.id).await.into_iter().map(SavedLock::from).collect();
        let looked_at = Arc::clone(pane);
        let written = run_blocking(move || {
            let dir = &looked_at.dir;
            let seen = Sightings {
                transcript: agent.and_then(|agent| transcript_of(&agent, &launch)),
                locks,
                last_activity: last_written(&log_dir(dir)),
            };
            let sight = looked_at.look();
            let now = SavedState::of(&launch, (sight.state, sight.ending), seen, clock::now());
            if before.is_some_and(|before| before.says_the_same_as(&now)) || !dir.is_dir() {
                return Ok(());
            }
            state::write(dir, &now)
        });
        if let Err(error) = written.await {
            // One whose directory has just gone needs none.
            if pane.dir.is_dir() {
                warn!(pane = %pane.id, %error, "its state is not written");
            }
        }
    }

    /// Looks at the state of a pane that is about to be started again: something damaged is set
    /// aside, and told of.
    pub(crate) async fn look_at_state(&self, pane: &Arc<Pane>) {
        let _turn = pane.saving.lock().await;
        self.check_state(pane).await;
    }

    /// Looks at the state that is in a pane's directory: what it says, if there is one, or nothing
    /// at all if it must stay as it is. Something damaged is set aside, and told of. The caller
    /// holds [`Pane::saving`].
    async fn check_state(&self, pane: &Arc<Pane>) -> Option<Option<Box<SavedState>>> {
        let looked_at = Arc::clone(pane);
        let found = run_blocking(move || {
            let Pane { dir, id, session, .. } = &*looked_at;
            match state::look(dir, *id, *session) {
                Found::Damaged(why) => Err(state::set_aside(dir, why)),
                found @ (Found::Nothing | Found::Own(_) | Found::Untouchable(_)) => Ok(found),
            }
        });
        match found.await {
            Ok(Found::Own(before)) => Some(Some(before)),
            Ok(Found::Nothing | Found::Damaged(_)) => Some(None),
            Ok(Found::Untouchable(why)) => {
                pane.set_state_problem(format!("its state is left as it is: {why}"));
                None
            }
            Err(Ok(aside)) => {
                self.tell_damaged(pane, aside).await;
                Some(None)
            }
            Err(Err(error)) => {
                pane.set_state_problem(format!("its state is damaged and stays so: {error}"));
                None
            }
        }
    }

    async fn tell_damaged(&self, pane: &Pane, aside: SetAside) {
        let SetAside { path, kept_as, why } = aside;
        let (path, kept_as) = (path.display().to_string(), kept_as.display().to_string());
        let problem = format!("`{path}` was damaged ({why}) and is kept as `{kept_as}`");
        warn!(pane = %pane.id, "{problem}");
        pane.set_state_problem(problem);
        let told = Happening::Quarantined { path, kept_as, why };
        if let Err(error) = self.registry.change(move |change| change.emit(told)).await {
            warn!(%error, "an event is not recorded");
        }
    }
}

/// The agent's own transcript of a pane's conversation, and how long it is. Blocks.
fn transcript_of(agent: &Agent, launch: &LaunchRecord) -> Option<(String, u64)> {
    let dir = launch.isolation.dir_of(&agent.name)?;
    let path = transcript::of(agent, Path::new(dir), launch.conversation.as_ref()?)?;
    let length = fs::metadata(&path).ok()?.len();
    Some((path.to_string_lossy().into_owned(), length))
}

/// When a pane last wrote something: its log says so. Blocks.
fn last_written(log: &Path) -> Option<Timestamp> {
    let entries = fs::read_dir(log).ok()?.flatten();
    let times = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let since = times.max()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp(i64::try_from(since.as_millis()).ok()?))
}
