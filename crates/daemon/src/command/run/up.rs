//! Bringing a team to what is described, whatever there is of it.

use std::sync::Arc;

use host::store::{PaneRow, SessionRow};
use model::team::{Action, CurrentPane, Step, WantedPane, plan};
use protocol::control::{Response, SessionAnswer};
use protocol::run::{RunAnswer, UpAnswer, UpRequest};
use protocol::{ErrorBody, ErrorCode};

use super::start::{How, Item};
use super::{request_for, wanted};
use crate::command::Failure;
use crate::supervisor::Supervisor;
use crate::workspace;

/// How long the processes of a pane that goes may take to leave by themselves.
const GRACE_MS: u64 = 5000;

/// A pane that is there, with what the team wanted it as.
struct There {
    row: PaneRow,
    current: CurrentPane,
}

impl Supervisor {
    /// Makes a team what is described.
    pub(in crate::command) async fn up(
        self: &Arc<Self>,
        request: UpRequest,
    ) -> Result<Response, Failure> {
        let Some(name) = request.run.name.clone() else {
            let message = "a team needs the name of its session";
            return Err(ErrorBody::new(ErrorCode::Usage, message)
                .hint("say `session = \"NAME\"` in the file, or --name NAME")
                .into());
        };
        let _turn = self.turns.take(format!("team {name}")).await;
        let wanted = wanted(&request.run)?;
        self.check_panes(&request.run, &wanted).await?;
        let rows = self.rows().await?;
        let found = rows.sessions.iter().find(|row| row.record.name == name);
        let answer = match found {
            Some(session) => {
                let there = self.there(rows.panes_of(session.record.id));
                self.bring(session, &there, &request, &wanted).await?
            }
            None if request.dry_run => UpAnswer {
                plan: plan(&[], &wanted),
                applied: false,
                session: None,
                panes: Vec::new(),
                warnings: Vec::new(),
            },
            None => {
                let RunAnswer { session, panes, warnings, .. } = self.run_once(request.run).await?;
                let session = Some(session);
                UpAnswer { plan: plan(&[], &wanted), applied: true, session, panes, warnings }
            }
        };
        Ok(Response::Up(Box::new(answer)))
    }

    fn there<'a>(&self, rows: impl Iterator<Item = &'a PaneRow>) -> Vec<There> {
        rows.map(|row| {
            let pane = self.pane(row.id);
            let launch = pane.as_ref().and_then(|pane| pane.launch());
            let wanted = launch.and_then(|launch| launch.wanted.as_deref().cloned());
            let live = pane.is_some_and(|pane| pane.look().state.is_live());
            let current = CurrentPane { name: row.name.clone(), wanted, live };
            There { row: row.clone(), current }
        })
        .collect()
    }

    /// Changes a team that is there.
    async fn bring(
        self: &Arc<Self>,
        session: &SessionRow,
        there: &[There],
        request: &UpRequest,
        wanted: &[WantedPane],
    ) -> Result<UpAnswer, Failure> {
        let id = session.record.id;
        if self.registry.read(|change| change.pending()).await?.contains(&id) {
            let message = format!("the session {} is still being made", session.record.name);
            return Err(ErrorBody::new(ErrorCode::Conflict, message)
                .hint("try again later")
                .into());
        }
        if let Some(mode) = request.run.mode.filter(|mode| *mode != session.record.mode) {
            let (name, is) = (&session.record.name, session.record.mode);
            let message = format!("the session {name} is {is}, not {mode}");
            return Err(ErrorBody::new(ErrorCode::Conflict, message).into());
        }
        let current: Vec<CurrentPane> = there.iter().map(|pane| pane.current.clone()).collect();
        let steps = plan(&current, wanted);
        let mut warnings = Vec::new();
        if !request.dry_run {
            self.make_way(there, &steps, request).await?;
            let env = request.run.env.clone();
            if env.iter().any(|(name, value)| session.record.env.get(name) != Some(value)) {
                self.registry.change(move |change| change.add_session_env(id, &env)).await?;
            }
            let items = items(there, &steps, request, id, wanted);
            warnings = self.start_added(items).await?;
        }
        let SessionAnswer { session, panes } = self.session_now(id, wanted).await?;
        let applied = !request.dry_run;
        Ok(UpAnswer { plan: steps, applied, session: Some(session), panes, warnings })
    }

    /// Starts panes in a session that was there; if one fails, those that were made go again.
    async fn start_added(self: &Arc<Self>, items: Vec<Item>) -> Result<Vec<String>, Failure> {
        match self.start_all(items).await {
            Ok(warnings) => Ok(warnings),
            Err(failed) => {
                let mut rows = self.rows().await?.panes;
                rows.retain(|row| failed.made.contains(&row.id));
                self.take_back_panes(rows).await;
                Err(failed.why.into())
            }
        }
    }

    /// Ends what is not wanted any more, or not as it is.
    async fn make_way(
        self: &Arc<Self>,
        there: &[There],
        steps: &[Step],
        request: &UpRequest,
    ) -> Result<(), Failure> {
        let of = |action| steps.iter().filter(move |step| step.action == action);
        if !request.replace && of(Action::Change).next().is_some() {
            return Err(differs(steps).into());
        }
        let removed = if request.prune { Some(Action::Remove) } else { None };
        let going: Vec<&There> = [Some(Action::Change), removed]
            .into_iter()
            .flatten()
            .flat_map(of)
            .filter_map(|step| find(there, step))
            .collect();
        // All of them, before the first goes; what still runs could write more.
        let rows: Vec<PaneRow> = going.iter().map(|pane| pane.row.clone()).collect();
        self.stop_all(&rows, GRACE_MS).await?;
        for There { row, .. } in &going {
            let Some(pane) = self.pane(row.id) else { continue };
            if let Some(work) = self.unsaved_work(&pane, &[]).await? {
                return Err(workspace::stays(&row.name, &pane, &work).into());
            }
        }
        for There { row, .. } in &going {
            Box::pin(self.close(&row.id.to_string(), GRACE_MS, &[])).await?;
        }
        if !request.prune {
            let unwanted: Vec<PaneRow> = of(Action::Remove)
                .filter_map(|step| find(there, step))
                .filter(|pane| pane.current.live)
                .map(|pane| pane.row.clone())
                .collect();
            self.stop_all(&unwanted, GRACE_MS).await?;
        }
        Ok(())
    }
}

fn find<'a>(there: &'a [There], step: &Step) -> Option<&'a There> {
    let of_team = there
        .iter()
        .find(|pane| pane.current.wanted.as_ref().is_some_and(|wanted| wanted.name == step.pane));
    of_team.or_else(|| there.iter().find(|pane| pane.current.name == step.pane))
}

/// What has to be started.
fn items(
    there: &[There],
    steps: &[Step],
    request: &UpRequest,
    session: model::SessionId,
    wanted: &[WantedPane],
) -> Vec<Item> {
    let start = |pane: &WantedPane| {
        let step = steps.iter().find(|step| step.pane == pane.name)?;
        let how = match step.action {
            Action::Create | Action::Change => {
                How::Create(request_for(&request.run, session, pane))
            }
            Action::Restore => How::Restore(find(there, step)?.row.clone()),
            Action::Keep | Action::Remove => return None,
        };
        Some(Item { pane: pane.clone(), how })
    };
    wanted.iter().filter_map(start).collect()
}

fn differs(steps: &[Step]) -> ErrorBody {
    let told = |step: &Step| format!("\n {}: {}", step.pane, step.why.join("; "));
    let changed = steps.iter().filter(|step| step.action == Action::Change);
    let lines: String = changed.map(told).collect();
    ErrorBody::new(ErrorCode::Conflict, format!("panes differ from what is described:{lines}"))
        .hint("replace them with --replace; nothing was changed")
        .details(&serde_json::json!({ "plan": steps }))
}
