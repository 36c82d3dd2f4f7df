//! Making whole what the last daemon left, however it ended.
//!
//! The registry and the directories are compared once, every pane is judged by one rule
//! ([`decide`]), and all that follows for the registry is one transaction. Directories that go are
//! moved before it, so that killed in between, the next recovery comes to the same result.

mod apply;
mod decide;
mod scan;

use std::sync::Arc;
use std::time::{Duration, Instant};

use host::file::{FileError, Survive};
use host::process;
use host::record;
use host::state::{self, Found};
use host::store::{SetAside, StoreError};
use model::SessionId;
use protocol::pane::KeeperRecord;
use rustix::process::Signal;
use serde::Serialize;
use tracing::{info, warn};

use self::apply::{Applied, Changes};
use self::decide::{Decision, decide};
use self::scan::{FoundPane, Scan, look, scan};
use crate::command::resolution::Rows;
use crate::launch::SESSION_RECORD;
use crate::pane::{LAUNCH_RECORD, Life, Pane};
use crate::retire::{self, Keep};
use crate::supervisor::{Supervisor, run_blocking};

/// How often it is looked whether a keeper has said who it is.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The same, when it takes longer than a start should.
const LOOK_SELDOM: Duration = Duration::from_secs(1);

/// How long a keeper may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(10);

impl Supervisor {
    /// Recovers the registry and adopts every pane that lives.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; nothing but directories in the trash has changed then.
    pub(crate) async fn recover(
        self: &Arc<Self>,
        damaged: Vec<SetAside>,
    ) -> Result<(), StoreError> {
        let rows = self.registry.read(|change| {
            Ok::<_, StoreError>(Rows { sessions: change.sessions()?, panes: change.panes()? })
        });
        let rows = rows.await?;
        let rebuilding = rows.sessions.is_empty();
        let (root, known) = (self.root.clone(), rows.panes);
        let mut scan = run_blocking(move || scan(&root, &known)).await;
        self.note(&mut scan, damaged);
        let judged: Vec<(FoundPane, Decision)> =
            std::mem::take(&mut scan.panes).into_iter().map(judge).collect();
        let judged = self.retire_what_goes(judged).await;
        let changes = Changes::new(&judged, &scan, rebuilding);
        let applied = self.registry.change(move |change| changes.make(change)).await?;
        self.retire_sessions(&applied, &scan).await;
        self.write_records(&applied, &judged, &scan).await;
        let count = judged.len();
        for (pane, decision) in judged {
            self.take_on(pane, decision);
        }
        info!(panes = count, adopted = applied.adopted, "recovered");
        Ok(())
    }

    /// Remembers what was damaged, for people.
    fn note(&self, scan: &mut Scan, damaged: Vec<SetAside>) {
        for aside in damaged {
            self.add_problem(format!(
                "`{}` was damaged ({}); a new one took its place, and it is kept as `{}`",
                aside.path.display(),
                aside.why,
                aside.kept_as.display()
            ));
            scan.set_aside.push(aside);
        }
        for problem in &scan.problems {
            self.add_problem(problem.clone());
        }
    }

    /// Moves the directories of panes that go to the trash. What cannot be moved stays as it is,
    /// with its row.
    async fn retire_what_goes(
        &self,
        judged: Vec<(FoundPane, Decision)>,
    ) -> Vec<(FoundPane, Decision)> {
        let (root, household) = (self.root.clone(), self.household.clone());
        let (judged, left, failed) = run_blocking(move || {
            let (mut left, mut failed) = (Vec::new(), Vec::new());
            let moved = judged.into_iter().filter(|(pane, decision)| {
                let Some(keep) = what_to_keep(pane, *decision) else { return true };
                if *decision == Decision::RollBack {
                    // What set up its workspace may have outlived its daemon.
                    let left = process::of_pane(pane.id, None, &household);
                    process::signal_all(&left, Signal::KILL);
                }
                match retire::retire(&root, &pane.dir, pane.id, keep) {
                    Ok(retired) => left.extend(retired.left),
                    Err(error) => {
                        failed.push(error.to_string());
                        return false;
                    }
                }
                true
            });
            let moved: Vec<_> = moved.collect();
            (moved, left, failed)
        })
        .await;
        self.tell_left(left).await;
        failed.into_iter().for_each(|problem| self.add_problem(problem));
        judged
    }

    /// Moves the directories of sessions that are gone, or never were, to the trash. Only when
    /// everything could be read: what was not seen must not be taken for not there.
    async fn retire_sessions(&self, applied: &Applied, scan: &Scan) {
        if !scan.problems.is_empty() {
            return;
        }
        for session in scan.sessions.keys().filter(|id| !applied.kept.contains_key(id)) {
            self.retire_session(*session).await;
        }
    }

    /// Brings the records in the directories up to what the registry says.
    async fn write_records(
        &self,
        applied: &Applied,
        judged: &[(FoundPane, Decision)],
        scan: &Scan,
    ) {
        for (id, record) in &applied.kept {
            let there = scan.sessions.get(id);
            // Without a directory there is nothing to describe; the next pane makes it.
            if there.is_some_and(|found| found.as_ref() != Some(record)) {
                self.write(self.session_record(*id), record.clone()).await;
            }
        }
        for (pane, _) in judged {
            let (Some(row), Some(launch)) = (&pane.row, &pane.launch) else { continue };
            if row.name != launch.name && pane.dir.is_dir() {
                let mut launch = launch.clone();
                launch.name = row.name.clone();
                self.write(pane.dir.join(LAUNCH_RECORD), launch).await;
            }
        }
    }

    fn session_record(&self, id: SessionId) -> std::path::PathBuf {
        self.root.session(id).join(SESSION_RECORD)
    }

    async fn write<T: Serialize + Send + 'static>(&self, path: std::path::PathBuf, value: T) {
        let written: Result<(), FileError> = run_blocking(move || {
            // A record of a newer release is not ours to replace.
            if let Err(record::RecordError::TooNew { .. }) =
                record::read::<serde_json::Value>(&path)
            {
                return Ok(());
            }
            record::write(&path, &value, Survive::PowerLoss)
        })
        .await;
        if let Err(error) = written {
            warn!(%error, "a record is out of date");
        }
    }

    /// Goes on with a pane where the last daemon left it.
    fn take_on(self: &Arc<Self>, found: FoundPane, decision: Decision) {
        let keeper = found.look.keeper.map(Arc::new);
        let life = match (decision, &keeper, found.look.ending) {
            (Decision::RollBack | Decision::FinishClosing, _, _) => return,
            (Decision::Adopt, Some(keeper), _) => Life::Live(Arc::clone(keeper)),
            (Decision::AwaitKeeper, _, _) => Life::Starting,
            (Decision::RecordEnding, _, Some(ending)) => Life::Ended(ending),
            (Decision::Adopt | Decision::RecordEnding | Decision::Lost, _, _) => Life::Orphaned,
        };
        let pane = Arc::new(Pane::new(found.id, found.session, found.dir, life.clone()));
        if let Some(launch) = found.launch {
            launch.ports.into_iter().for_each(|block| self.ports.hold(pane.id, block));
            pane.set_launch(launch);
        } else if let Found::Own(saved) = state::look(&pane.dir, pane.id, pane.session) {
            // Its record is lost, and its ports are still its own.
            saved.ports.into_iter().for_each(|block| self.ports.hold(pane.id, block));
        }
        if let Some(problem) = found.problem {
            pane.set_problem(problem);
        }
        self.add(Arc::clone(&pane));
        self.claim_found(&pane);
        self.note_step(pane.id);
        match (life, keeper) {
            (Life::Live(keeper), _) => {
                self.watch(&pane, keeper);
                self.heed_limits(&pane);
                self.follow(&pane);
            }
            (Life::Starting, _) => {
                self.tasks.spawn(Arc::clone(self).await_keeper(pane));
            }
            (Life::Orphaned, _) => self.bury(pane, found.look.keeper_record),
            (Life::Ended(_) | Life::Gone(_), _) => {}
        }
    }

    /// Claims the conversation of a pane that was found alive. Of two that have the same one, the
    /// second has a problem.
    fn claim_found(&self, pane: &Pane) {
        let id = pane.launch().and_then(|launch| launch.conversation.clone());
        let Some(id) = id.filter(|_| pane.look().state.is_live()) else { return };
        if let Err(holder) = self.claims.claim(&id, pane.id) {
            pane.set_problem(format!("its conversation {id} is open in pane {holder} too"));
        }
    }

    /// Ends what is left of a pane that was found without a keeper. One that went with the machine
    /// is started again, if the user wants that.
    fn bury(self: &Arc<Self>, pane: Arc<Pane>, keeper: Option<KeeperRecord>) {
        let this = Arc::clone(self);
        let went_with_the_machine =
            keeper.as_ref().is_none_or(|keeper| keeper.keeper.boot != self.boot);
        self.tasks.spawn(async move {
            this.settle(&pane, keeper).await;
            let wanted = this.config().await.is_ok_and(|config| config.restore_on_start);
            if !wanted || !went_with_the_machine {
                return;
            }
            let id = pane.id;
            let Ok(row) = this.registry.read(move |change| change.pane(id)).await else { return };
            if let Err(error) = this.restore_pane(&row).await {
                warn!(pane = %id, %error.message, "not restored");
                pane.set_problem(format!("it was not restored: {}", error.message));
            }
        });
    }

    /// Waits until the keeper of a pane that is being started says who it is, or is gone.
    async fn await_keeper(self: Arc<Self>, pane: Arc<Pane>) {
        let begun = Instant::now();
        loop {
            let late = begun.elapsed() > PATIENCE;
            if late && pane.problem().is_none() {
                pane.set_problem("its keeper lives and does not say who it is".to_owned());
            }
            tokio::select! {
                () = tokio::time::sleep(if late { LOOK_SELDOM } else { LOOK_AGAIN }) => {}
                () = self.ending.cancelled() => return,
            }
            let id = pane.id;
            let row = match self.registry.read(move |change| change.pane(id)).await {
                Ok(row) => row,
                Err(error) => return warn!(pane = %id, %error, "cannot be adopted"),
            };
            let dir = pane.dir.clone();
            let seen = run_blocking(move || look(&dir, Some(&row))).await;
            match (decide(seen.found), seen.keeper) {
                (Decision::Adopt, Some(keeper)) => {
                    if let Err(error) = self.tell_alive(&pane).await {
                        warn!(pane = %id, %error.message, "it is not told of");
                    }
                    return self.take_over(&pane, keeper);
                }
                (Decision::AwaitKeeper | Decision::Adopt, _) => {}
                (Decision::RollBack, _) => return self.undo(&pane).await,
                (Decision::RecordEnding | Decision::Lost | Decision::FinishClosing, _) => {
                    return self.settle(&pane, seen.keeper_record).await;
                }
            }
        }
    }
}

/// What of a pane that goes is to stay; none if it does not go.
fn what_to_keep(pane: &FoundPane, decision: Decision) -> Option<Keep> {
    let kept = pane.launch.as_ref().is_some_and(|launch| launch.isolation.kept_on_close);
    match decision {
        Decision::RollBack => Some(Keep::Nothing),
        Decision::FinishClosing if kept => Some(Keep::Apart),
        Decision::FinishClosing => Some(Keep::Nothing),
        Decision::Adopt | Decision::AwaitKeeper | Decision::RecordEnding | Decision::Lost => None,
    }
}

fn judge(pane: FoundPane) -> (FoundPane, Decision) {
    let decision = decide(pane.look.found);
    info!(pane = %pane.id, ?decision, "found");
    (pane, decision)
}
