//! Starting a pane again that has ended, as exactly what it was (B2), going on with its own
//! conversation and no other (R11, B4).
//!
//! ```text
//!  ended --> conversation claimed --> record written --> keeper started --> ready --> told
//! ```
//!
//! Killed before the keeper was started, the pane is still ended; killed later, recovery finds it
//! alive. Nothing but the words about the conversation differs from the first start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::file::Survive;
use host::furnish::{self, Surroundings};
use host::store::{PaneRow, StoreError};
use host::{record, repository, transcript};
use model::agent::Agent;
use model::config::{Config, ResumeFallback};
use model::conversation::{Asked, Start};
use model::event::Happening;
use model::isolation::{Ground, isolate};
use model::{ConversationId, Ending, LaunchRecord, SessionRecord, launch};
use protocol::control::Response;
use protocol::{ErrorBody, ErrorCode};
use tokio::time::timeout;
use tracing::{info, warn};

use super::Failure;
use super::resolution::Meant;
use crate::conversation::Seen;
use crate::hooked;
use crate::launch::{not_started, not_written};
use crate::pane::{EXIT_RECORD, LAUNCH_RECORD, Life, Pane};
use crate::replay;
use crate::supervisor::{Supervisor, point, run_blocking};
use crate::workspace;

/// How soon an agent ends that cannot go on with a conversation.
const REFUSES_WITHIN: Duration = Duration::from_secs(20);

/// How long the end of a pane may take to be put on record.
const SETTLED: Duration = Duration::from_secs(15);

/// How many lines of what an agent said last are passed on.
const LAST_WORDS: usize = 5;

/// What a pane is started again as.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Again {
    /// Its agent, told this about the conversation.
    Agent(Start),
    /// The user's shell, because the conversation cannot be gone on with.
    Shell,
}

impl Supervisor {
    /// Starts a pane again, or all panes of a session that have ended.
    pub(super) async fn restore(self: &Arc<Self>, target: &str) -> Result<Response, Failure> {
        let rows = self.rows().await?;
        match rows.find(target)? {
            Meant::Pane(row) => {
                if let Some(session) = rows.session(row.session) {
                    self.make_usable(&session.record).await?;
                }
                Box::pin(self.restore_pane(&row)).await?;
                Ok(Response::Pane(Box::new(self.pane_answer(row.id).await?)))
            }
            Meant::Session(session) => {
                self.make_usable(&session.record).await?;
                let ended = rows.panes_of(session.record.id).filter(|row| {
                    self.pane(row.id).is_some_and(|pane| !pane.look().state.is_live())
                });
                let restores: Vec<_> = ended
                    .map(|row| {
                        let (this, row) = (Arc::clone(self), row.clone());
                        self.tasks.spawn(async move { this.restore_pane(&row).await })
                    })
                    .collect();
                let mut result = Ok(());
                for restore in restores {
                    let restored = restore.await.unwrap_or_else(|failed| {
                        let message = format!("the restore failed: {failed}");
                        Err(ErrorBody::new(ErrorCode::Failed, message))
                    });
                    result = result.and(restored);
                }
                result?;
                Ok(self.session_answer(&session, &self.rows().await?))
            }
        }
    }

    /// Sees to it that panes of a session can be started again.
    async fn make_usable(self: &Arc<Self>, session: &SessionRecord) -> Result<(), ErrorBody> {
        let (this, record) = (Arc::clone(self), session.clone());
        run_blocking(move || this.mend_session(&record)).await
    }

    /// Starts one pane again.
    ///
    /// # Errors
    ///
    /// Why not; it is then as it was.
    pub(crate) async fn restore_pane(self: &Arc<Self>, row: &PaneRow) -> Result<(), ErrorBody> {
        let gone = || Failure::from(StoreError::Gone).into_body();
        let pane = self.pane(row.id).ok_or_else(gone)?;
        let _turn = pane.turn.lock().await;
        let ending = match pane.life() {
            Life::Gone(_) => return Err(gone()),
            Life::Live(_) | Life::Starting if pane.look().state.is_live() => {
                let message = format!("pane {} is running", row.name);
                return Err(ErrorBody::new(ErrorCode::Conflict, message)
                    .hint(format!("go there with `ccmux attach {}`", row.name)));
            }
            Life::Starting | Life::Live(_) | Life::Orphaned | Life::Ended(_) => {
                timeout(SETTLED, pane.ended()).await.ok().flatten()
            }
        };
        let config = self.config().await?;
        let launch = pane.launch().ok_or_else(|| {
            let message =
                format!("pane {} cannot be restored: its launch record is lost", row.name);
            ErrorBody::new(ErrorCode::Failed, message)
                .hint("start a new pane; the output of this one is kept")
        })?;
        let agent = Agent::named(&launch.agent, &config.agents)
            .map_err(|error| ErrorBody::new(ErrorCode::Usage, error.to_string()))?;
        if !pane.was_followed() {
            self.refresh_conversation(&pane, Seen::Unwatched).await;
        }
        let launch = pane.launch().unwrap_or(launch);
        let (checked, of) = (Arc::clone(&launch), agent.clone());
        let dir = pane.dir.clone();
        run_blocking(move || {
            check_dirs(&checked)?;
            workspace::check_again(&dir, &checked)
        })
        .await?;
        let start = run_blocking(move || how(&of, &launch)).await;
        let (again, why) = match start {
            Ok(start) => (Again::Agent(start), None),
            Err(Lost { id, why }) => {
                self.tell_failed(&pane, id, &why).await;
                (
                    fall_back(&agent, config.resume_fallback).ok_or_else(|| lost(row, &why))?,
                    Some(why),
                )
            }
        };
        self.check_ports(&pane).await;
        self.look_at_state(&pane).await;
        self.start_again(&pane, &agent, &config, again, ending).await?;
        if let Some(why) = why {
            pane.set_problem(format!("its conversation could not be resumed: {why}"));
        }
        Ok(())
    }

    /// Starts a pane again as decided. Its turn is held by the caller.
    async fn start_again(
        self: &Arc<Self>,
        pane: &Arc<Pane>,
        agent: &Agent,
        config: &Arc<Config>,
        again: Again,
        ending: Option<Ending>,
    ) -> Result<(), ErrorBody> {
        let Some(launch) = pane.launch() else { return Ok(()) };
        let mut record = LaunchRecord::clone(&launch);
        let mut hook_file = None;
        match &again {
            Again::Agent(start) => {
                if let Start::New(id) | Start::Resume(id) = start {
                    self.claim(pane.id, id).await?;
                    if record.conversation.as_ref() != Some(id) {
                        record.used = false;
                    }
                    record.converse(id.clone());
                }
                let (of, argv) = (agent.clone(), agent.argv(record.asked(), start));
                let hooking = self.hooking(pane.id, &pane.dir, &record.cwd, config);
                let wishes = Arc::clone(config);
                (record.argv, hook_file) =
                    run_blocking(move || hooking.again(&of, argv, &wishes)).await;
            }
            Again::Shell => {
                let env = record.env.clone().into();
                record.argv = vec![launch::shell(&env)];
            }
        }
        point("restore.claimed").await;
        pane.begin_again();
        let (this, dir) = (Arc::clone(self), pane.dir.clone());
        let (kept, config) = (record.clone(), Arc::clone(config));
        let starting = run_blocking(move || {
            this.furnish_again(&kept, &config)?;
            hooked::write(hook_file.as_ref())?;
            record::write(&dir.join(LAUNCH_RECORD), &kept, Survive::PowerLoss)?;
            host::hooks::point("restore.recorded");
            this.start_keeper(&dir)
        });
        let keeper = match starting.await {
            Ok(starting) => starting.ready().await.map_err(|why| not_started(&why)),
            Err(error) => Err(not_written(error)),
        };
        let keeper = match keeper {
            Ok(keeper) => keeper,
            Err(error) => {
                self.end_again(pane, ending).await;
                return Err(error);
            }
        };
        pane.set_launch(record);
        point("restore.started").await;
        if let Err(error) = self.tell_alive(pane).await {
            // It lives, and the next daemon will tell of it.
            warn!(pane = %pane.id, %error.message, "the restore is not on record");
        }
        info!(pane = %pane.id, ?again, "restored");
        self.take_over(pane, keeper);
        if let Again::Agent(Start::Resume(id)) = again {
            self.await_refusal(pane, agent.clone(), id);
        }
        Ok(())
    }

    /// Puts back what the pane was before a restore that failed.
    async fn end_again(&self, pane: &Arc<Pane>, ending: Option<Ending>) {
        self.claims.release(pane.id);
        let Some(ending) = ending else { return pane.publish(Life::Orphaned) };
        let (path, kept) = (pane.dir.join(EXIT_RECORD), ending.clone());
        let written = run_blocking(move || record::write(&path, &kept, Survive::PowerLoss)).await;
        if let Err(error) = written {
            warn!(pane = %pane.id, %error, "its ending is in the registry only");
        }
        pane.publish(Life::Ended(ending));
    }

    /// Makes what is missing of the directories that keep a pane apart.
    fn furnish_again(
        &self,
        launch: &LaunchRecord,
        config: &Config,
    ) -> Result<(), host::file::FileError> {
        let agent = Agent::named(&launch.agent, &config.agents);
        let Ok(agent) = agent else { return Ok(()) };
        let separation = isolate(&Ground {
            root: &self.root.path().to_string_lossy(),
            pane: launch.pane,
            agent: &agent,
            method: launch.isolation.method,
            config: &config.isolation,
            client: &launch.env.clone().into(),
            exists: &|path| Path::new(path).exists(),
        });
        let trusted = repository::trust_roots(Path::new(&launch.cwd));
        let surroundings = Surroundings {
            trusted: &trusted,
            share: &config.isolation.share,
            environment: &launch.env,
        };
        let temp = launch.isolation.temp.as_deref().map(Path::new);
        for missing in temp.into_iter().filter(|dir| !dir.exists()) {
            furnish::make_new(missing)?;
        }
        let known: Vec<&str> = launch.isolation.paths().collect();
        for furnishing in &separation.furnishings {
            if !known.contains(&furnishing.dir.as_str()) {
                continue;
            }
            if Path::new(&furnishing.dir).exists() {
                furnish::fill(furnishing, &surroundings, &self.digests)?;
            } else {
                furnish::furnish(furnishing, &surroundings, &self.digests)?;
            }
        }
        Ok(())
    }

    async fn tell_failed(&self, pane: &Pane, conversation: ConversationId, why: &str) {
        warn!(pane = %pane.id, %conversation, why, "not resumed");
        let told = Happening::ResumeFailed { pane: pane.id, conversation, why: why.to_owned() };
        if let Err(error) = self.registry.change(move |change| change.emit(told)).await {
            warn!(%error, "an event is not recorded");
        }
    }

    /// Sees, in a task of its own, whether the agent refuses to go on with its conversation, and
    /// does then what the user wants to be done.
    fn await_refusal(self: &Arc<Self>, pane: &Arc<Pane>, agent: Agent, id: ConversationId) {
        let (this, pane) = (Arc::clone(self), Arc::clone(pane));
        self.tasks.spawn(async move {
            let ended = tokio::select! {
                ended = timeout(REFUSES_WITHIN, pane.ended()) => ended,
                () = this.ending.cancelled() => return,
            };
            let Ok(Some(ending)) = ended else { return };
            let failed = ending.signal.is_none() && ending.code.is_some_and(|code| code != 0);
            if !failed || pane.was_asked_to_stop() {
                return;
            }
            let log = crate::pane::log_dir(&pane.dir);
            let said = run_blocking(move || replay::lines(&log, LAST_WORDS)).await;
            let said = said.map(|replayed| replayed.text).unwrap_or_default();
            let said: Vec<&str> =
                said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let why = if said.is_empty() { ending.to_string() } else { said.join(" / ") };
            this.tell_failed(&pane, id, &why).await;
            pane.set_problem(format!("its conversation could not be resumed: {why}"));
            let _turn = pane.turn.lock().await;
            let Ok(config) = this.config().await else { return };
            let Some(again) = fall_back(&agent, config.resume_fallback) else { return };
            if !matches!(pane.life(), Life::Ended(_)) {
                return;
            }
            match this.start_again(&pane, &agent, &config, again, Some(ending)).await {
                Ok(()) => {
                    pane.set_problem(format!("its conversation could not be resumed: {why}"));
                }
                Err(error) => warn!(pane = %pane.id, %error.message, "the fallback failed"),
            }
        });
    }
}

/// A conversation that cannot be gone on with.
struct Lost {
    id: ConversationId,
    why: String,
}

/// What the agent of an ended pane is told about its conversation.
fn how(agent: &Agent, launch: &LaunchRecord) -> Result<Start, Lost> {
    let Some(id) = launch.conversation.clone() else { return Ok(Start::Plain) };
    let dir = launch.isolation.dir_of(&agent.name).map(Path::new);
    let Some(dir) = dir.filter(|_| agent.keeps_transcripts()) else {
        // Nobody but the agent knows; it will say so if it has nothing to go on with.
        return Ok(if agent.conversations.resume.is_empty() {
            Start::Plain
        } else {
            Start::Resume(id)
        });
    };
    if transcript::of(agent, dir, &id).is_some() {
        return Ok(Start::Resume(id));
    }
    if launch.used {
        let why = format!("there is no transcript of {id} in `{}` any more", dir.display());
        return Err(Lost { id, why });
    }
    // Nothing was ever said in it: it begins now.
    match agent.asked(launch.asked()) {
        Asked::New(_) | Asked::Resume(_) | Asked::AgentChooses | Asked::None => Ok(Start::Plain),
        Asked::Nothing if agent.takes_new_id() => Ok(Start::New(id)),
        Asked::Nothing => Ok(Start::Plain),
    }
}

/// What to start instead of an agent that cannot go on.
fn fall_back(agent: &Agent, fallback: ResumeFallback) -> Option<Again> {
    match fallback {
        ResumeFallback::Error => None,
        ResumeFallback::Shell => Some(Again::Shell),
        ResumeFallback::Fresh if agent.takes_new_id() => {
            let id = ConversationId::from_random(host::clock::random_id());
            Some(Again::Agent(Start::New(id)))
        }
        ResumeFallback::Fresh => Some(Again::Agent(Start::Plain)),
    }
}

fn lost(row: &PaneRow, why: &str) -> ErrorBody {
    let message = format!("the conversation of pane {} cannot be resumed: {why}", row.name);
    ErrorBody::new(ErrorCode::Conflict, message).hint(
        "it keeps its id; if the directory was retired it is in the trash, and with \
         resume_fallback = \"fresh\" or \"shell\" in ccmux.toml the pane starts without it",
    )
}

/// Whether the directories that keep a pane apart are still what we made. One that is missing is
/// made again.
fn check_dirs(launch: &LaunchRecord) -> Result<(), ErrorBody> {
    for path in launch.isolation.paths().map(Path::new) {
        if path.symlink_metadata().is_err() {
            continue;
        }
        if let Err(error) = furnish::check(path) {
            return Err(ErrorBody::new(ErrorCode::Conflict, error.to_string())
                .hint("`ccmux doctor` says what is wrong with it and what to do"));
        }
    }
    Ok(())
}
