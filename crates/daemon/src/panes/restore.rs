//! Restart of ended panes from their launch records (B2), resuming the conversation of the pane (R11,
//! B4).
//!
//! ```text
//!  ended --> planned --> conversation claimed --> record written --> keeper started --> ready --> recorded
//! ```
//!
//! If the daemon is killed before the keeper was started, the pane is still ended; if it is killed
//! later, recovery adopts the pane. Only the arguments about the conversation differ from the first
//! start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::file::Durability;
use host::store::PaneRow;
use host::{pane_dirs, record, transcript};
use model::agent::Agent;
use model::config::{Config, ResumeFallback};
use model::conversation::{ConversationRequest, ConversationStart};
use model::event::EventBody;
use model::launch::{Launch, LaunchError, Restart};
use model::{ConversationId, Ending, LaunchRecord};
use tokio::time::timeout;
use tracing::{info, warn};

use super::conversation::Tracking;
use super::error::{RestoreError, StartError};
use super::launch::ExistingDirs;
use super::pane::{EXIT_RECORD, LAUNCH_RECORD, Life, Pane};
use super::{Panes, replay, state_check, workspace};
use crate::registry::Registry;
use crate::runtime::{point, run_blocking};

/// Time in which an agent that cannot resume its conversation exits.
const RESUME_FAILURE_WINDOW: Duration = Duration::from_secs(20);

/// Timeout for the ending of a pane to be recorded.
const RECORD_TIMEOUT: Duration = Duration::from_secs(15);

/// Number of lines of an agent's last output that are quoted.
const QUOTED_LINES: usize = 5;

impl Panes {
    /// Restarts an ended pane.
    ///
    /// # Errors
    ///
    /// [`RestoreError`]; the pane is unchanged.
    pub(crate) async fn restore_pane(self: &Arc<Self>, row: &PaneRow) -> Result<(), RestoreError> {
        let pane = self.get(row.id).ok_or(RestoreError::Gone)?;
        let _guard = pane.lifecycle_lock.lock().await;
        let ending = match pane.life() {
            Life::Gone(_) => return Err(RestoreError::Gone),
            Life::Live(_) | Life::Starting if pane.status().state.is_live() => {
                return Err(RestoreError::Running(row.name.clone()));
            }
            Life::Starting | Life::Live(_) | Life::Orphaned | Life::Ended(_) => {
                timeout(RECORD_TIMEOUT, pane.ended()).await.ok().flatten()
            }
        };
        let config = self.runtime.config().await?;
        let launch = pane.launch().ok_or_else(|| RestoreError::RecordLost(row.name.clone()))?;
        let agent = Agent::named(&launch.agent, &config.agents).map_err(LaunchError::from)?;
        if !pane.was_followed() {
            self.conversations.refresh(&pane, Tracking::Interrupted).await;
        }
        let launch = pane.launch().unwrap_or(launch);
        let (checked, of) = (Arc::clone(&launch), agent.clone());
        let dir = pane.dir.clone();
        run_blocking(move || {
            check_dirs(&checked)?;
            workspace::check_restorable(&dir, &checked)
        })
        .await?;
        let start = run_blocking(move || conversation_start(&of, &launch)).await;
        let (restart, why) = match start {
            Ok(start) => (Restart::Agent(start), None),
            Err(TranscriptLost { id, why }) => {
                report_resume_failure(&self.registry, &pane, id, &why).await;
                (
                    fall_back(&agent, config.resume_fallback).ok_or_else(|| {
                        let (pane, why) = (row.name.clone(), why.clone());
                        RestoreError::ConversationLost { pane, why }
                    })?,
                    Some(why),
                )
            }
        };
        self.ports.check(&pane).await;
        state_check::examine_state(&self.registry, &pane).await;
        self.restart(&pane, &config, restart, ending).await?;
        if let Some(why) = why {
            pane.set_problem(format!("its conversation could not be resumed: {why}"));
        }
        Ok(())
    }

    /// Restarts a pane. The caller holds [`Pane::lifecycle_lock`].
    async fn restart(
        self: &Arc<Self>,
        pane: &Arc<Pane>,
        config: &Arc<Config>,
        restart: Restart,
        ending: Option<Ending>,
    ) -> Result<(), RestoreError> {
        let Some(launch) = pane.launch() else { return Ok(()) };
        let (this, planned, with) = (Arc::clone(self), Arc::clone(pane), Arc::clone(config));
        let how = restart.clone();
        let plan = run_blocking(move || {
            this.plan(&planned, Launch::Again(&launch, &how), &launch.cwd, &with)
        });
        let plan = Arc::new(plan.await?);
        if let Some(id) = &plan.opens {
            self.conversations.claim(pane.id, id).await.map_err(StartError::from)?;
        }
        point("restore.claimed").await;
        pane.reset_for_restart();
        let (this, dir, id) = (Arc::clone(self), pane.dir.clone(), pane.id);
        let (executed, config) = (Arc::clone(&plan), Arc::clone(config));
        let starting = run_blocking(move || {
            this.prepare_isolation(&executed, &config, ExistingDirs::Complete)?;
            record::write(&dir.join(LAUNCH_RECORD), &executed.record, Durability::PowerLoss)?;
            host::hooks::point("restore.recorded");
            this.start_keeper(id, &dir)
        });
        let keeper = match starting.await {
            Ok(starting) => starting.ready().await.map_err(StartError::NotStarted),
            Err(error) => Err(StartError::from(error)),
        };
        let keeper = match keeper {
            Ok(keeper) => keeper,
            Err(error) => {
                self.revert_to_ended(pane, ending).await;
                return Err(error.into());
            }
        };
        pane.set_launch(plan.record.clone());
        point("restore.started").await;
        if let Err(error) = self.record_running(pane).await {
            // The pane runs, and the next start of the daemon records it.
            warn!(pane = %pane.id, %error, "pane restore not recorded");
        }
        info!(pane = %pane.id, session = %pane.session, ?restart, "pane restored");
        self.supervise(pane, keeper);
        if let Restart::Agent(ConversationStart::Resume(id)) = restart {
            self.watch_resume(pane, plan.agent.clone(), id);
        }
        Ok(())
    }

    /// Makes a pane ended again after a failed restore.
    async fn revert_to_ended(&self, pane: &Arc<Pane>, ending: Option<Ending>) {
        self.conversations.claims.release(pane.id);
        let Some(ending) = ending else { return pane.publish(Life::Orphaned) };
        let (path, record) = (pane.dir.join(EXIT_RECORD), ending.clone());
        let written =
            run_blocking(move || record::write(&path, &record, Durability::PowerLoss)).await;
        if let Err(error) = written {
            warn!(pane = %pane.id, %error, "exit record not written");
        }
        pane.publish(Life::Ended(ending));
    }

    /// Detects in a background task that the agent fails to resume its conversation, and applies the
    /// configured fallback.
    fn watch_resume(self: &Arc<Self>, pane: &Arc<Pane>, agent: Agent, id: ConversationId) {
        let (this, pane) = (Arc::clone(self), Arc::clone(pane));
        self.runtime.tasks.spawn(async move {
            let ended = tokio::select! {
                ended = timeout(RESUME_FAILURE_WINDOW, pane.ended()) => ended,
                () = this.runtime.ending.cancelled() => return,
            };
            let Ok(Some(ending)) = ended else { return };
            let failed = ending.signal.is_none() && ending.code.is_some_and(|code| code != 0);
            if !failed || pane.is_stop_requested() {
                return;
            }
            let log = super::pane::log_dir(&pane.dir);
            let output = run_blocking(move || replay::lines(&log, QUOTED_LINES)).await;
            let output = output.map(|replayed| replayed.text).unwrap_or_default();
            let lines: Vec<&str> =
                output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let why = if lines.is_empty() { ending.to_string() } else { lines.join(" / ") };
            report_resume_failure(&this.registry, &pane, id, &why).await;
            pane.set_problem(format!("its conversation could not be resumed: {why}"));
            let _guard = pane.lifecycle_lock.lock().await;
            let Ok(config) = this.runtime.config().await else { return };
            let Some(restart) = fall_back(&agent, config.resume_fallback) else { return };
            if !matches!(pane.life(), Life::Ended(_)) {
                return;
            }
            match this.restart(&pane, &config, restart, Some(ending)).await {
                Ok(()) => {
                    pane.set_problem(format!("its conversation could not be resumed: {why}"));
                }
                Err(error) => warn!(pane = %pane.id, %error, "resume fallback failed"),
            }
        });
    }
}

/// A conversation whose transcript is missing.
#[derive(Debug)]
struct TranscriptLost {
    id: ConversationId,
    why: String,
}

/// Returns how the agent of an ended pane starts its conversation. Blocks.
fn conversation_start(
    agent: &Agent,
    launch: &LaunchRecord,
) -> Result<ConversationStart, TranscriptLost> {
    let Some(id) = launch.conversation.clone() else { return Ok(ConversationStart::Plain) };
    let dir = launch.isolation.dir_of(&agent.name).map(Path::new);
    let Some(dir) = dir.filter(|_| agent.keeps_transcripts()) else {
        // Only the agent knows whether the conversation exists; it fails if not.
        return Ok(if agent.conversations.resume.is_empty() {
            ConversationStart::Plain
        } else {
            ConversationStart::Resume(id)
        });
    };
    if transcript::find(agent, dir, &id).is_some() {
        return Ok(ConversationStart::Resume(id));
    }
    if launch.used {
        let why = format!("the transcript of {id} is missing in `{}`", dir.display());
        return Err(TranscriptLost { id, why });
    }
    // The conversation was never used, so it starts now.
    match agent.asked(launch.asked()) {
        ConversationRequest::New(_)
        | ConversationRequest::Resume(_)
        | ConversationRequest::AgentChooses
        | ConversationRequest::None => Ok(ConversationStart::Plain),
        ConversationRequest::Nothing if agent.takes_new_id() => Ok(ConversationStart::New(id)),
        ConversationRequest::Nothing => Ok(ConversationStart::Plain),
    }
}

/// Returns the configured replacement for an agent that cannot resume its conversation.
fn fall_back(agent: &Agent, fallback: ResumeFallback) -> Option<Restart> {
    match fallback {
        ResumeFallback::Error => None,
        ResumeFallback::Shell => Some(Restart::Shell),
        ResumeFallback::Fresh if agent.takes_new_id() => {
            let id = ConversationId::from_random(host::clock::random_id());
            Some(Restart::Agent(ConversationStart::New(id)))
        }
        ResumeFallback::Fresh => Some(Restart::Agent(ConversationStart::Plain)),
    }
}

/// Checks that the isolated directories of a pane are still the ones that ccmux created. Missing ones
/// are created again later.
fn check_dirs(launch: &LaunchRecord) -> Result<(), RestoreError> {
    for path in launch.isolation.paths().map(Path::new) {
        if path.symlink_metadata().is_err() {
            continue;
        }
        pane_dirs::check(path).map_err(RestoreError::Isolation)?;
    }
    Ok(())
}

async fn report_resume_failure(
    registry: &Registry,
    pane: &Pane,
    conversation: ConversationId,
    why: &str,
) {
    warn!(pane = %pane.id, %conversation, why, "conversation not resumed");
    let event = EventBody::ResumeFailed { pane: pane.id, conversation, why: why.to_owned() };
    registry.record(event).await;
}
