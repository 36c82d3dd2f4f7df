//! Keeps `session.state` of every pane up to date (R22–R24).
//!
//! One task writes the files of all panes. A lifecycle step of a pane is written at once, other
//! changes at most every [`PERIOD`]. No request waits for a write, and the task sleeps while no
//! pane changes.
//!
//! The existing file is checked before it is replaced. A file that is damaged or belongs to another
//! pane is set aside and reported; a file of a newer release is left alone.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::state;
use host::{clock, transcript};
use model::agent::Agent;
use model::state::{PaneObservation, SavedLock, SavedState};
use model::{LaunchRecord, PaneId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::warn;

use super::Housekeeping;
use crate::panes::state_check::check_state;
use crate::panes::{Life, Pane, log_dir};
use crate::runtime::run_blocking;

/// The minimum time between two deferred writes of the same pane.
const PERIOD: Duration = Duration::from_secs(5);

/// The panes whose state has to be written.
#[derive(Debug, Default)]
pub(super) struct PendingSaves {
    panes: Mutex<BTreeMap<PaneId, Urgency>>,
    wake: Notify,
}

/// How soon the state of a pane has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Within [`PERIOD`]: some recorded value changed.
    Deferred,
    /// At once: the pane started, ended or was renamed.
    Immediate,
}

impl PendingSaves {
    /// Adds a pane. The higher urgency wins.
    pub(super) fn add(&self, pane: PaneId, urgency: Urgency) {
        let mut panes = self.panes.lock();
        let current = panes.entry(pane).or_insert(urgency);
        *current = urgency.max(*current);
        drop(panes);
        self.wake.notify_one();
    }

    fn take(&self) -> BTreeMap<PaneId, Urgency> {
        std::mem::take(&mut *self.panes.lock())
    }
}

/// When each pane is written next, and when it was written last.
#[derive(Debug, Default)]
struct Schedule {
    due: BTreeMap<PaneId, Instant>,
    written: HashMap<PaneId, Instant>,
}

impl Schedule {
    fn next(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    fn add(&mut self, pane: PaneId, urgency: Urgency, now: Instant) {
        let last = self.written.get(&pane).filter(|_| urgency == Urgency::Deferred);
        let at = last.map_or(now, |last| *last + PERIOD);
        let due = self.due.entry(pane).or_insert(at);
        *due = at.min(*due);
    }

    /// Removes and returns the panes that are due at `now`, or all of them.
    fn take_due(&mut self, now: Instant, all: bool) -> Vec<PaneId> {
        let due = self.due.iter().filter(|(_, at)| all || **at <= now);
        let due: Vec<PaneId> = due.map(|(pane, _)| *pane).collect();
        for pane in &due {
            self.due.remove(pane);
        }
        due
    }
}

impl Housekeeping {
    /// Writes the states of panes that changed, until the daemon ends; then the remaining ones.
    pub(crate) async fn run_state_writer(self: Arc<Self>) {
        let mut schedule = Schedule::default();
        loop {
            let next = schedule.next();
            let ending = tokio::select! {
                () = self.pending_saves.wake.notified() => false,
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)),
                    if next.is_some() => false,
                () = self.runtime.ending.cancelled() => true,
            };
            let now = Instant::now();
            for (pane, urgency) in self.pending_saves.take() {
                schedule.add(pane, urgency, now);
            }
            for id in schedule.take_due(now, ending) {
                match self.panes.get(id) {
                    Some(pane) => {
                        self.save_state(&pane).await;
                        schedule.written.insert(id, Instant::now());
                    }
                    None => drop(schedule.written.remove(&id)),
                }
            }
            if ending {
                return;
            }
        }
    }

    /// Writes the state of a pane, unless the file is up to date.
    async fn save_state(&self, pane: &Arc<Pane>) {
        let Some(launch) = pane.launch() else { return };
        if matches!(pane.life(), Life::Gone(_) | Life::Starting) {
            return;
        }
        let config = self.runtime.config().await.ok();
        let agent = config.and_then(|config| Agent::named(&launch.agent, &config.agents).ok());
        let _guard = pane.state_lock.lock().await;
        let Some(saved) = check_state(&self.registry, pane).await else { return };
        let locks = self.coordination.locks.of_pane(pane.id).await;
        let locks = locks.into_iter().map(SavedLock::from).collect();
        let observed = Arc::clone(pane);
        let written = run_blocking(move || {
            let dir = &observed.dir;
            let seen = PaneObservation {
                transcript: agent.and_then(|agent| transcript_of(&agent, &launch)),
                locks,
                last_activity: last_activity(&log_dir(dir)),
            };
            let status = observed.status();
            let now = SavedState::of(&launch, (status.state, status.ending), seen, clock::now());
            if saved.is_some_and(|saved| saved.says_the_same_as(&now)) || !dir.is_dir() {
                return Ok(());
            }
            state::write(dir, &now)
        });
        if let Err(error) = written.await {
            // The write also fails if the pane's directory was removed meanwhile.
            if pane.dir.is_dir() {
                warn!(pane = %pane.id, session = %pane.session, %error, "pane state not written");
            }
        }
    }
}

/// Returns the path and length of the agent's transcript of a pane's conversation. Blocks.
fn transcript_of(agent: &Agent, launch: &LaunchRecord) -> Option<(String, u64)> {
    let dir = launch.isolation.dir_of(&agent.name)?;
    let path = transcript::find(agent, Path::new(dir), launch.conversation.as_ref()?)?;
    let length = fs::metadata(&path).ok()?.len();
    Some((path.to_string_lossy().into_owned(), length))
}

/// Returns the time of a pane's last output: the latest modification in its log. Blocks.
fn last_activity(log: &Path) -> Option<Timestamp> {
    let entries = fs::read_dir(log).ok()?.flatten();
    let times = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let since = times.max()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp(i64::try_from(since.as_millis()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pane() -> PaneId {
        PaneId::from_random([1; 16])
    }

    #[test]
    fn pending_saves_keep_the_higher_urgency() {
        let pending = PendingSaves::default();

        pending.add(pane(), Urgency::Immediate);
        pending.add(pane(), Urgency::Deferred);

        assert_eq!(pending.take(), BTreeMap::from([(pane(), Urgency::Immediate)]));
        assert!(pending.take().is_empty());
    }

    #[test]
    fn schedule_delays_only_deferred_writes() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.written.insert(pane(), now);

        schedule.add(pane(), Urgency::Deferred, now);
        assert_eq!(schedule.next(), Some(now + PERIOD));
        assert!(schedule.take_due(now, false).is_empty());

        schedule.add(pane(), Urgency::Immediate, now);
        assert_eq!(schedule.take_due(now, false), [pane()]);
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn schedule_returns_everything_at_the_end() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.written.insert(pane(), now);
        schedule.add(pane(), Urgency::Deferred, now);

        assert_eq!(schedule.take_due(now, true), [pane()]);
    }
}
