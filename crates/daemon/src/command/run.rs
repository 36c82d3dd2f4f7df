//! Sessions that are made with all their panes, whole or not at all (R29, R33).
//!
//! ```text
//!  request --> session, pending --> panes, each when those before it are ready --> complete
//!                  \________________________ something fails ________________________/
//!                                                  |
//!                               processes ended, directories in the trash
//! ```
//!
//! A session is on record as pending until its last pane is there. Killed in between, the next
//! daemon takes it back before it answers anybody.

mod ready;
mod start;
mod undo;
mod up;

use std::sync::Arc;

use host::store::{Made, StoreError};
use model::team::{TeamFault, WantedPane, expand};
use model::{LaunchRequest, Name, SessionId, SessionMode};
use protocol::control::{Response, SessionAnswer};
use protocol::run::{RunAnswer, RunRequest};
use protocol::{ErrorBody, ErrorCode};
use regex::Regex;
use serde_json::json;
use tracing::info;

use self::start::{How, Item};
use super::Failure;
use crate::once;
use crate::session::{self, SessionWish};
use crate::supervisor::{Supervisor, point};

impl Supervisor {
    /// Makes a session with all its panes, or answers with the one that the same request has made
    /// before.
    pub(super) async fn run(self: &Arc<Self>, request: RunRequest) -> Result<Response, Failure> {
        Ok(Response::Run(Box::new(self.run_once(request).await?)))
    }

    async fn run_once(self: &Arc<Self>, request: RunRequest) -> Result<RunAnswer, ErrorBody> {
        let Some(key) = request.key.clone() else { return self.make_run(request).await };
        let _turn = self.turns.take(once::turn_of(&key)).await;
        match self.made_by(&key, once::run_digest(&request)).await? {
            Some(Made::Session(id)) => {
                let wanted = wanted(&request)?;
                let answer = self.session_now(id, &wanted).await?;
                Ok(RunAnswer { repeated: true, ..answered(answer, Vec::new()) })
            }
            // The digest of a pane's request is never that of a run.
            Some(Made::Pane(_)) | None => self.make_run(request).await,
        }
    }

    async fn make_run(self: &Arc<Self>, request: RunRequest) -> Result<RunAnswer, ErrorBody> {
        let wanted = wanted(&request)?;
        self.check_panes(&request, &wanted).await?;
        let session = self.make_session(wish(&request)).await?;
        let id = session.id;
        // Its panes join it as one that is there.
        let told = self.registry.change(move |change| change.announce_session(id)).await;
        if let Err(error) = told {
            self.take_back(id).await;
            return Err(Failure::from(error).into_body());
        }
        point("run.entered").await;
        let item = |pane: &WantedPane| {
            let how = How::Create(request_for(&request, id, pane));
            Item { how, pane: pane.clone() }
        };
        let items = wanted.iter().map(item).collect();
        let started = match self.start_all(items).await {
            Ok(warnings) => self.complete(session.id).await.map(|()| warnings),
            Err(failed) => Err(failed.why),
        };
        match started {
            Ok(warnings) => {
                info!(session = %session.id, "a run is complete");
                point("run.done").await;
                Ok(answered(self.session_now(id, &wanted).await?, warnings))
            }
            Err(error) => {
                self.take_back(session.id).await;
                Err(error)
            }
        }
    }

    async fn complete(&self, session: SessionId) -> Result<(), ErrorBody> {
        let completed = self.registry.change(move |change| change.complete(session)).await;
        completed.map_err(|error: StoreError| Failure::from(error).into_body())
    }

    /// What can be told before anything is made.
    async fn check_panes(
        &self,
        request: &RunRequest,
        wanted: &[WantedPane],
    ) -> Result<(), ErrorBody> {
        let config = self.config().await?;
        // The id is nobody's: only whether it could be started is asked.
        let session = SessionId::from_random([0; 16]);
        for pane in wanted {
            let in_pane = |body: ErrorBody| ErrorBody {
                message: format!("pane {}: {}", pane.name, body.message),
                ..body
            };
            let launch = Arc::from(request_for(request, session, pane));
            crate::launch::check(&launch, &config).await.map_err(in_pane)?;
            let pattern = pane.ready.as_ref().and_then(|ready| ready.text.as_ref());
            if let Some(Err(error)) = pattern.map(|pattern| Regex::new(pattern)) {
                let message = format!("`ready.text` is not a regular expression: {error}");
                return Err(in_pane(ErrorBody::new(ErrorCode::Usage, message)));
            }
        }
        Ok(())
    }

    /// A session with all its panes, as they are now: those of the team in its order, then others.
    async fn session_now(
        &self,
        id: SessionId,
        wanted: &[WantedPane],
    ) -> Result<SessionAnswer, ErrorBody> {
        let failed = |error: StoreError| Failure::from(error).into_body();
        let rows = self.rows().await.map_err(failed)?;
        let session = rows.session(id).ok_or(StoreError::Gone).map_err(failed)?;
        let Response::Session(mut answer) = self.session_answer(session, &rows) else {
            return Err(failed(StoreError::Gone));
        };
        let place = |name: &Name| wanted.iter().position(|pane| pane.name == *name);
        answer.panes.sort_by_key(|pane| place(&pane.name).unwrap_or(usize::MAX));
        Ok(answer)
    }
}

fn answered(answer: SessionAnswer, warnings: Vec<String>) -> RunAnswer {
    let SessionAnswer { session, panes } = answer;
    RunAnswer { session, panes, repeated: false, warnings }
}

/// The panes that are wanted, or everything that is wrong with them.
fn wanted(request: &RunRequest) -> Result<Vec<WantedPane>, ErrorBody> {
    expand(&request.panes, &request.cwd).map_err(|faults| {
        let told = |fault: &TeamFault| match fault.pane {
            Some(at) => format!("pane {}: {}", at + 1, fault.why),
            None => fault.why.clone(),
        };
        let lines: Vec<String> = faults.iter().map(told).collect();
        ErrorBody::new(ErrorCode::Usage, lines.join("\n"))
    })
}

/// The session of a run, which is pending from the moment it is entered.
fn wish(request: &RunRequest) -> SessionWish {
    let mut origin =
        request.source.clone().unwrap_or_else(|| json!({ "kind": "run", "request": request }));
    session::masked(&mut origin);
    let once = request.key.clone().map(|key| (key, once::run_digest(request)));
    let mode = request.mode.or(request.default_mode).unwrap_or_default();
    SessionWish {
        name: request.name.clone(),
        mode,
        template: request.template.clone(),
        project: (mode == SessionMode::Legacy).then(|| request.cwd.clone()),
        isolation: None,
        env: request.env.clone(),
        implicit: false,
        origin: Some(origin),
        entering: Some(Box::new(move |change, session| {
            change.mark_pending(session.id)?;
            if let Some((key, digest)) = once {
                change.add_key(&key, Made::Session(session.id), &digest)?;
            }
            Ok(())
        })),
    }
}

/// How a pane of a run is started: as any other.
fn request_for(request: &RunRequest, session: SessionId, pane: &WantedPane) -> Box<LaunchRequest> {
    Box::new(LaunchRequest {
        name: Some(pane.name.clone()),
        session: Some(session.to_string()),
        agent: pane.agent.clone(),
        isolation: pane.isolation,
        workspace: pane.workspace,
        command: pane.command.clone(),
        cwd: pane.cwd.clone(),
        env: pane.env.clone(),
        role: pane.role.clone(),
        client_env: request.client_env.clone(),
        limits: pane.limits.clone(),
        unit: pane.unit.clone(),
        prompt: pane.prompt.clone(),
        wanted: Some(Box::new(pane.clone())),
        run: Some(session),
        ..LaunchRequest::default()
    })
}
