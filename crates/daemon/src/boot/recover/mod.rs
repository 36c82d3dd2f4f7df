//! Recovery: reconciles the registry, the directories and the running keepers at startup.
//!
//! The registry and the directories are compared once, [`decide`] is applied to every pane, and the
//! registry is changed in one transaction. Directories are moved to the trash before it: if the
//! daemon is killed in between, the next recovery reaches the same result.

mod apply;
mod decide;
mod rebase;
mod scan;

use std::sync::Arc;
use std::time::{Duration, Instant};

use host::file::{Durability, FileError};
use host::process;
use host::record;
use host::root_identity::RootHistory;
use host::state::{self, SavedStateFile};
use host::store::{SetAside, StoreError};
use model::SessionId;
use protocol::pane::KeeperRecord;
use rustix::process::Signal;
use serde::Serialize;
use tracing::{info, warn};

use self::apply::{Applied, Changes};
use self::decide::{Decision, decide};
use self::scan::{Scan, ScannedPane, observe, scan};
use crate::operations::Services;
use crate::panes::error::RestoreError;
use crate::panes::pane::LAUNCH_RECORD;
use crate::panes::retire::{self, Retention};
use crate::panes::{Life, Pane, PaneStatus};
use crate::runtime::run_blocking;
use crate::sessions::SESSION_RECORD;
use crate::trash::{self, Expiry};

/// How often to check for the record of a keeper that is being started.
const POLL: Duration = Duration::from_millis(20);

/// The same, after [`START_TIMEOUT`].
const POLL_SLOW: Duration = Duration::from_secs(1);

/// The time in which a keeper should have written its record.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The recovery of one start.
pub(super) struct Recovery<'a>(pub(super) &'a Arc<Services>);

impl Recovery<'_> {
    /// Recovers the registry and adopts every live pane.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; directories may have been moved to the trash, nothing else has changed.
    pub(super) async fn run(&self, damaged: Vec<SetAside>) -> Result<(), StoreError> {
        let rows = self.0.registry.rows().await?;
        let rebuilding = rows.sessions.is_empty();
        let (runtime, known) = (Arc::clone(&self.0.runtime), rows.panes);
        let mut scan =
            run_blocking(move || scan(&runtime.root, &runtime.examined_root, &known)).await;
        self.note_problems(&mut scan, damaged);
        let decided: Vec<(ScannedPane, Decision)> =
            std::mem::take(&mut scan.panes).into_iter().map(decide_pane).collect();
        let decided = self.retire_panes(decided).await;
        let changes =
            Changes::new(&decided, &scan, rebuilding).rebased(&self.0.runtime.examined_root);
        let applied = self.0.registry.change(move |change| changes.apply(change)).await?;
        self.retire_sessions(&applied, &scan).await;
        self.write_records(&applied, &decided, &scan).await;
        let count = decided.len();
        let config = self.0.runtime.config().await;
        let restores = config.is_ok_and(|config| config.restore_on_start);
        for (pane, decision) in decided {
            self.register(pane, decision, restores);
        }
        self.write_identity().await;
        info!(panes = count, adopted = applied.adopted, "recovery completed");
        Ok(())
    }

    /// Writes the identity of the state root, last: an interrupted recovery of a moved or copied root
    /// is repeated.
    async fn write_identity(&self) {
        let runtime = Arc::clone(&self.0.runtime);
        let examined = &runtime.examined_root;
        match &examined.history {
            RootHistory::New | RootHistory::Same => {}
            RootHistory::Moved { from } => info!(from, "state root moved"),
            RootHistory::Copied { from } => info!(?from, "state root copied"),
        }
        let written = run_blocking(move || runtime.examined_root.write(&runtime.root)).await;
        if let Err(error) = written {
            warn!(%error, "identity of the state root not written");
        }
    }

    /// Adds damaged files and unreadable records to the problems that `daemon status` lists.
    fn note_problems(&self, scan: &mut Scan, damaged: Vec<SetAside>) {
        for aside in damaged {
            self.0.runtime.add_problem(format!(
                "`{}` was damaged ({}); it was replaced and set aside as `{}`",
                aside.path.display(),
                aside.why,
                aside.kept_as.display()
            ));
            scan.set_aside.push(aside);
        }
        if let Some(problem) = &self.0.runtime.examined_root.problem {
            self.0.runtime.add_problem(problem.clone());
        }
        for problem in &scan.problems {
            self.0.runtime.add_problem(problem.clone());
        }
    }

    /// Moves the directories of removed panes to the trash. Returns the panes without those whose
    /// directory cannot be moved; they stay unchanged, with their rows.
    async fn retire_panes(
        &self,
        decided: Vec<(ScannedPane, Decision)>,
    ) -> Vec<(ScannedPane, Decision)> {
        let (root, own_processes) =
            (self.0.runtime.root.clone(), self.0.runtime.own_processes.clone());
        let (decided, failures, problems) = run_blocking(move || {
            let (mut failures, mut problems) = (Vec::new(), Vec::new());
            let remaining = decided.into_iter().filter(|(pane, decision)| {
                let Some(keep) = retention(pane, *decision) else { return true };
                if *decision == Decision::RollBack && pane.owns_processes {
                    // Processes that set up its workspace may have outlived the last daemon.
                    let processes = process::of_pane(pane.id, None, &own_processes);
                    process::signal_all(&processes, Signal::KILL);
                }
                match retire::retire(&root, &pane.dir, pane.id, keep) {
                    Ok(retired) => failures.extend(retired.failures),
                    Err(error) => {
                        problems.push(error.to_string());
                        return false;
                    }
                }
                true
            });
            let remaining: Vec<_> = remaining.collect();
            (remaining, failures, problems)
        })
        .await;
        trash::report_removal_failures(&self.0.registry, failures).await;
        problems.into_iter().for_each(|problem| self.0.runtime.add_problem(problem));
        decided
    }

    /// Moves the directories of sessions that are not in the registry to the trash. Does nothing if
    /// any record could not be read, because the session may then have panes.
    async fn retire_sessions(&self, applied: &Applied, scan: &Scan) {
        if !scan.problems.is_empty() {
            return;
        }
        for session in scan.sessions.keys().filter(|id| !applied.sessions.contains_key(id)) {
            drop(self.0.sessions.retire(*session, Expiry::AfterRetention).await);
        }
    }

    /// Updates the records in the directories from the registry.
    async fn write_records(
        &self,
        applied: &Applied,
        decided: &[(ScannedPane, Decision)],
        scan: &Scan,
    ) {
        for (id, record) in &applied.sessions {
            let scanned = scan.sessions.get(id);
            // A session without a directory gets its record with the next pane.
            if scanned.is_some_and(|found| found.as_ref() != Some(record)) {
                self.write(self.session_record_path(*id), record.clone()).await;
            }
        }
        for (pane, _) in decided {
            let (Some(row), Some(launch)) = (&pane.row, &pane.launch) else { continue };
            if row.name != launch.name && pane.dir.is_dir() {
                let mut launch = launch.clone();
                launch.name = row.name.clone();
                self.write(pane.dir.join(LAUNCH_RECORD), launch).await;
            }
        }
    }

    fn session_record_path(&self, id: SessionId) -> std::path::PathBuf {
        self.0.runtime.root.session(id).join(SESSION_RECORD)
    }

    async fn write<T: Serialize + Send + 'static>(&self, path: std::path::PathBuf, value: T) {
        let written: Result<(), FileError> = run_blocking(move || {
            // A record of a newer release must not be replaced.
            if let Err(record::RecordError::TooNew { .. }) =
                record::read::<serde_json::Value>(&path)
            {
                return Ok(());
            }
            record::write(&path, &value, Durability::PowerLoss)
        })
        .await;
        if let Err(error) = written {
            warn!(%error, "record not updated");
        }
    }

    /// Adds a pane to the services and resumes the work of the last daemon on it. With `restores`, an
    /// interrupted pane is restored.
    fn register(&self, found: ScannedPane, decision: Decision, restores: bool) {
        let keeper = found.observed.keeper.map(Arc::new);
        let life = match (decision, &keeper, found.observed.ending) {
            (Decision::RollBack | Decision::FinishClosing, _, _) => return,
            (Decision::Adopt, Some(keeper), _) => Life::Live(Arc::clone(keeper)),
            (Decision::AwaitKeeper, _, _) => Life::Starting,
            (Decision::RecordEnding, _, Some(ending)) => Life::Ended(ending),
            (Decision::Adopt | Decision::RecordEnding | Decision::Lost, _, _) => Life::Orphaned,
        };
        let pane = Arc::new(Pane::new(found.id, found.session, found.dir, life.clone()));
        if let Some(launch) = found.launch {
            launch.ports.into_iter().for_each(|block| self.0.panes.ports.hold(pane.id, block));
            pane.set_launch(launch);
        } else if let SavedStateFile::Valid(saved) = state::read(&pane.dir, pane.id, pane.session) {
            // The launch record is lost, but the pane still uses its ports.
            saved.ports.into_iter().for_each(|block| self.0.panes.ports.hold(pane.id, block));
        }
        if let Some(problem) = found.problem {
            pane.set_problem(problem);
        }
        let PaneStatus { state, ending, .. } = pane.status();
        pane.set_restored_soon(restores && state.was_interrupted(ending.as_ref(), false));
        self.0.panes.add(Arc::clone(&pane));
        self.claim_conversation(&pane);
        self.0.lifecycle.pane_transitioned(pane.id);
        match (life, keeper) {
            (Life::Live(keeper), _) => {
                let record = &keeper.record;
                self.0.panes.keepers.ready(pane.id, &record.keeper, &record.child);
                self.0.panes.watch(&pane, keeper);
                self.0.panes.report_limits_soon(&pane);
                self.0.panes.conversations.follow(&pane);
            }
            (Life::Starting, _) => {
                self.0.runtime.tasks.spawn(await_keeper(Arc::clone(self.0), pane));
            }
            (Life::Orphaned, _) => settle_orphan(self.0, pane, found.observed.keeper_record),
            (Life::Ended(_), _) if pane.is_restored_soon() => {
                self.0.runtime.tasks.spawn(restore_interrupted(Arc::clone(self.0), pane));
            }
            (Life::Ended(_) | Life::Gone(_), _) => {}
        }
    }

    /// Claims the conversation of a live pane. If another pane has claimed it, this one gets a
    /// problem.
    fn claim_conversation(&self, pane: &Pane) {
        let id = pane.launch().and_then(|launch| launch.conversation.clone());
        let Some(id) = id.filter(|_| pane.status().state.is_live()) else { return };
        if let Err(holder) = self.0.panes.conversations.claims.claim(&id, pane.id) {
            pane.set_problem(format!("its conversation {id} is also open in pane {holder}"));
        }
    }
}

/// Ends the remaining processes of a pane without a keeper, and restores it if it is to be restored.
fn settle_orphan(services: &Arc<Services>, pane: Arc<Pane>, keeper: Option<KeeperRecord>) {
    let this = Arc::clone(services);
    services.runtime.tasks.spawn(async move {
        this.panes.record_ending(&pane, keeper).await;
        if pane.is_restored_soon() {
            restore_interrupted(this, pane).await;
        }
    });
}

/// Restores a pane that was interrupted, for `restore_on_start`.
async fn restore_interrupted(services: Arc<Services>, pane: Arc<Pane>) {
    let id = pane.id;
    if let Ok(row) = services.registry.read(move |change| change.pane(id)).await {
        match services.panes.restore_pane(&row).await {
            // A client may have restored it meanwhile.
            Ok(()) | Err(RestoreError::Running(_)) => {}
            Err(error) => {
                warn!(pane = %id, %error, "pane not restored at startup");
                pane.set_problem(format!("not restored at startup: {error}"));
            }
        }
    }
    pane.set_restored_soon(false);
}

/// Waits until the keeper of a pane that is being started has written its record or ended.
async fn await_keeper(services: Arc<Services>, pane: Arc<Pane>) {
    let started = Instant::now();
    loop {
        let late = started.elapsed() > START_TIMEOUT;
        if late && pane.problem().is_none() {
            pane.set_problem("its keeper is running but has not written its record".to_owned());
        }
        tokio::select! {
            () = tokio::time::sleep(if late { POLL_SLOW } else { POLL }) => {}
            () = services.runtime.ending.cancelled() => return,
        }
        let id = pane.id;
        let row = match services.registry.read(move |change| change.pane(id)).await {
            Ok(row) => row,
            Err(error) => return warn!(pane = %id, %error, "pane not adopted"),
        };
        let dir = pane.dir.clone();
        let observed = run_blocking(move || observe(&dir, Some(&row))).await;
        match (decide(observed.evidence), observed.keeper) {
            (Decision::Adopt, Some(keeper)) => {
                if let Err(error) = services.panes.record_running(&pane).await {
                    warn!(pane = %id, %error, "adopted pane not recorded");
                }
                return services.panes.supervise(&pane, keeper);
            }
            (Decision::AwaitKeeper | Decision::Adopt, _) => {}
            (Decision::RollBack, _) => return services.panes.roll_back(&pane).await,
            (Decision::RecordEnding | Decision::Lost | Decision::FinishClosing, _) => {
                return services.panes.record_ending(&pane, observed.keeper_record).await;
            }
        }
    }
}

/// Returns what to keep of a pane that is removed; `None` if the pane is kept.
fn retention(pane: &ScannedPane, decision: Decision) -> Option<Retention> {
    let kept = pane.launch.as_ref().is_some_and(|launch| launch.isolation.kept_on_close);
    match decision {
        Decision::RollBack => Some(Retention::Trash),
        Decision::FinishClosing if kept => Some(Retention::KeepConfig),
        Decision::FinishClosing => Some(Retention::Trash),
        Decision::Adopt | Decision::AwaitKeeper | Decision::RecordEnding | Decision::Lost => None,
    }
}

fn decide_pane(pane: ScannedPane) -> (ScannedPane, Decision) {
    let decision = decide(pane.observed.evidence);
    info!(pane = %pane.id, session = %pane.session, ?decision, "pane recovered");
    (pane, decision)
}
