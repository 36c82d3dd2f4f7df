//! Brings a team to its description: creates, restores, replaces and removes panes as needed.

use std::sync::Arc;

use host::store::{PaneRow, SessionRow, StoreError};
use model::authority::{Access, Caller};
use model::team::{Action, CurrentPane, Step, WantedPane, plan};
use model::{Name, SessionId, SessionMode};
use protocol::control::SessionAnswer;
use protocol::run::{RunAnswer, UpAnswer, UpRequest};

use super::rollback::roll_back_panes;
use super::start::{PaneStart, StartAction, start_all};
use super::{RunError, check_panes, current_session, launch_request, run, wanted_panes};
use crate::fault::{Advice, Description, Details, Fault, FaultKind, any_of};
use crate::operations::Services;
use crate::operations::access::{AccessDenied, authorize};
use crate::operations::close::{CloseError, CloseRequest, check_live, close, removal_scope};
use crate::panes::error::StopError;
use crate::panes::workspace::UnsavedWorkFound;

any_of! {
    /// Why a team was not brought up.
    pub(crate) enum UpError {
        Denied(AccessDenied),
        Run(RunError),
        Store(StoreError),
        Conflict(TeamConflict),
        Unsaved(UnsavedWorkFound),
        Close(Box<CloseError>),
        Stop(StopError),
    }
}

/// A team whose description conflicts with the current state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TeamConflict {
    #[error("the team has no session name")]
    Unnamed,
    #[error("session {0} is still being created")]
    Pending(Name),
    #[error("session {session} is {is}, not {asked}")]
    OtherMode { session: Name, is: SessionMode, asked: SessionMode },
    #[error("panes differ from the description:{}", differences(.0))]
    Differs(Vec<Step>),
}

impl Fault for TeamConflict {
    fn describe(&self) -> Description {
        match self {
            Self::Unnamed => FaultKind::Invalid.advise(Advice::NameTeam),
            Self::Pending(_) => FaultKind::Conflict.advise(Advice::try_later()),
            Self::OtherMode { .. } => FaultKind::Conflict.plain(),
            Self::Differs(steps) => FaultKind::Conflict
                .advise(Advice::ReplacePanes)
                .with_details(Details::TeamPlan(steps.clone())),
        }
    }
}

fn differences(steps: &[Step]) -> String {
    let line = |step: &Step| format!("\n {}: {}", step.pane, step.why.join("; "));
    steps.iter().filter(|step| step.action == Action::Change).map(line).collect()
}

/// How long the processes of a removed pane may take to exit before they are killed, in
/// milliseconds.
const GRACE_MS: u64 = 5000;

/// An existing pane of the team's session.
struct ExistingPane {
    row: PaneRow,
    current: CurrentPane,
}

/// Brings a team to its description.
pub(crate) async fn up(
    services: &Arc<Services>,
    caller: &Caller,
    request: UpRequest,
) -> Result<UpAnswer, UpError> {
    let Some(name) = request.run.name.clone() else {
        return Err(TeamConflict::Unnamed.into());
    };
    let _guard = services.request_locks.lock(format!("team {name}")).await;
    let wanted = wanted_panes(&request.run).map_err(RunError::from)?;
    check_panes(services, &request.run, &wanted).await?;
    let rows = services.panes.rows().await?;
    let found = rows.sessions.iter().find(|row| row.record.name == name);
    let answer = match found {
        Some(session) => {
            authorize(services, caller, Access::Control, Some(session.record.id)).await?;
            let existing = existing_panes(services, rows.panes_of(session.record.id));
            update(services, caller, session, &existing, &request, &wanted).await?
        }
        None if request.dry_run => UpAnswer {
            plan: plan(&[], &wanted),
            applied: false,
            session: None,
            panes: Vec::new(),
            warnings: Vec::new(),
        },
        None => {
            let RunAnswer { session, panes, warnings, .. } =
                run(services, caller, request.run).await?;
            let session = Some(session);
            UpAnswer { plan: plan(&[], &wanted), applied: true, session, panes, warnings }
        }
    };
    Ok(answer)
}

fn existing_panes<'a>(
    services: &Services,
    rows: impl Iterator<Item = &'a PaneRow>,
) -> Vec<ExistingPane> {
    rows.map(|row| {
        let pane = services.panes.get(row.id);
        let launch = pane.as_ref().and_then(|pane| pane.launch());
        let wanted = launch.and_then(|launch| launch.wanted.as_deref().cloned());
        let live = pane.is_some_and(|pane| pane.status().state.is_live());
        let current = CurrentPane { name: row.name.clone(), wanted, live };
        ExistingPane { row: row.clone(), current }
    })
    .collect()
}

/// Updates an existing team.
async fn update(
    services: &Arc<Services>,
    caller: &Caller,
    session: &SessionRow,
    existing: &[ExistingPane],
    request: &UpRequest,
    wanted: &[WantedPane],
) -> Result<UpAnswer, UpError> {
    let id = session.record.id;
    if services.registry.read(|change| change.pending()).await?.contains(&id) {
        return Err(TeamConflict::Pending(session.record.name.clone()).into());
    }
    if let Some(mode) = request.run.mode.filter(|mode| *mode != session.record.mode) {
        let (session, is) = (session.record.name.clone(), session.record.mode);
        return Err(TeamConflict::OtherMode { session, is, asked: mode }.into());
    }
    let current: Vec<CurrentPane> = existing.iter().map(|pane| pane.current.clone()).collect();
    let steps = plan(&current, wanted);
    let mut warnings = Vec::new();
    if !request.dry_run {
        remove_obsolete(services, caller, existing, &steps, request).await?;
        let env = request.run.env.clone();
        if env.iter().any(|(name, value)| session.record.env.get(name) != Some(value)) {
            services.registry.change(move |change| change.add_session_env(id, &env)).await?;
        }
        let starts = pane_starts(existing, &steps, request, id, wanted);
        warnings = start_added(services, starts).await?;
    }
    let SessionAnswer { session, panes } = current_session(services, id, wanted).await?;
    let applied = !request.dry_run;
    Ok(UpAnswer { plan: steps, applied, session: Some(session), panes, warnings })
}

/// Starts panes in an existing session. If one fails, the newly created panes are rolled back.
async fn start_added(
    services: &Arc<Services>,
    starts: Vec<PaneStart>,
) -> Result<Vec<String>, UpError> {
    match start_all(services, starts).await {
        Ok(warnings) => Ok(warnings),
        Err(failed) => {
            let mut rows = services.panes.rows().await?.panes;
            rows.retain(|row| failed.created.contains(&row.id));
            roll_back_panes(services, rows).await;
            Err(failed.why.into())
        }
    }
}

/// Closes the panes to be replaced and, with `prune`, those that are no longer described; without
/// `prune`, the latter are only stopped.
async fn remove_obsolete(
    services: &Arc<Services>,
    caller: &Caller,
    existing: &[ExistingPane],
    steps: &[Step],
    request: &UpRequest,
) -> Result<(), UpError> {
    let steps_with = |action| steps.iter().filter(move |step| step.action == action);
    if !request.replace && steps_with(Action::Change).next().is_some() {
        return Err(TeamConflict::Differs(steps.to_vec()).into());
    }
    let removed = if request.prune { Some(Action::Remove) } else { None };
    let obsolete: Vec<&ExistingPane> = [Some(Action::Change), removed]
        .into_iter()
        .flatten()
        .flat_map(steps_with)
        .filter_map(|step| find(existing, step))
        .collect();
    // All panes are checked before the first is stopped, and again before the first is closed: a
    // running pane could write more.
    let rows: Vec<PaneRow> = obsolete.iter().map(|pane| pane.row.clone()).collect();
    check_live(services, &rows).await.map_err(Box::new)?;
    services.panes.stop_all(&rows, GRACE_MS).await?;
    for ExistingPane { row, .. } in &obsolete {
        let Some(pane) = services.panes.get(row.id) else { continue };
        let scope = removal_scope(services, row, &pane).await?;
        if let Some(work) = services.panes.workspaces.unsaved_work(&pane, &scope, &[]).await {
            return Err(UnsavedWorkFound::of_pane(&row.name, &pane, work, false).into());
        }
    }
    for ExistingPane { row, .. } in &obsolete {
        let request = CloseRequest { grace_ms: GRACE_MS, ..CloseRequest::default() };
        Box::pin(close(services, caller, &row.id.to_string(), request)).await.map_err(Box::new)?;
    }
    if !request.prune {
        let unwanted: Vec<PaneRow> = steps_with(Action::Remove)
            .filter_map(|step| find(existing, step))
            .filter(|pane| pane.current.live)
            .map(|pane| pane.row.clone())
            .collect();
        services.panes.stop_all(&unwanted, GRACE_MS).await?;
    }
    Ok(())
}

fn find<'a>(existing: &'a [ExistingPane], step: &Step) -> Option<&'a ExistingPane> {
    let of_team = existing
        .iter()
        .find(|pane| pane.current.wanted.as_ref().is_some_and(|wanted| wanted.name == step.pane));
    of_team.or_else(|| existing.iter().find(|pane| pane.current.name == step.pane))
}

/// Returns the panes to start, in the order of the description.
fn pane_starts(
    existing: &[ExistingPane],
    steps: &[Step],
    request: &UpRequest,
    session: SessionId,
    wanted: &[WantedPane],
) -> Vec<PaneStart> {
    let start = |pane: &WantedPane| {
        let step = steps.iter().find(|step| step.pane == pane.name)?;
        let action = match step.action {
            Action::Create | Action::Change => {
                StartAction::Create(launch_request(&request.run, session, pane))
            }
            Action::Restore => StartAction::Restore(find(existing, step)?.row.clone()),
            Action::Keep | Action::Remove => return None,
        };
        Some(PaneStart { pane: pane.clone(), action })
    };
    wanted.iter().filter_map(start).collect()
}
