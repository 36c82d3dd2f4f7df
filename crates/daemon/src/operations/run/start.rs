//! Starts the panes of a team concurrently, each after the panes it depends on are ready.

use std::collections::BTreeMap;
use std::sync::Arc;

use host::store::PaneRow;
use model::team::WantedPane;
use model::{LaunchRequest, Name, PaneId};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::ready::await_ready;
use super::{InPane, PaneFailure, RunError};
use crate::fault::TaskFailed;
use crate::operations::Services;
use crate::operations::launch::launch;
use crate::registry::inherit_caller;
use crate::runtime::point;

/// The maximum number of panes that are started concurrently.
const MAX_CONCURRENT: usize = 8;

/// A pane to start.
pub(super) struct PaneStart {
    pub(super) pane: WantedPane,
    pub(super) action: StartAction,
}

/// StartAction a pane is started.
pub(super) enum StartAction {
    /// As a new pane.
    Create(Box<LaunchRequest>),
    /// As an existing pane that has ended.
    Restore(PaneRow),
}

/// Why not all panes were started, and the panes that were created before the failure.
pub(super) struct StartAllError {
    pub(super) why: RunError,
    pub(super) created: Vec<PaneId>,
}

/// The state that the tasks starting the panes of one team share.
struct StartOrder {
    /// Whether each pane is ready.
    gates: BTreeMap<Name, watch::Sender<bool>>,
    permits: Semaphore,
    /// Cancelled when a pane fails: no other pane is started.
    failed: CancellationToken,
}

/// The outcome for one pane.
struct Outcome {
    created: Option<PaneId>,
    /// Warnings, or the error (`None` if cancelled because another pane failed).
    result: Result<Vec<String>, Option<RunError>>,
}

/// Starts all panes and returns their warnings.
///
/// # Errors
///
/// The first failure, returned when no other pane is being started any more.
pub(crate) async fn start_all(
    services: &Arc<Services>,
    starts: Vec<PaneStart>,
) -> Result<Vec<String>, StartAllError> {
    let gates =
        starts.iter().map(|start| (start.pane.name.clone(), watch::channel(false).0)).collect();
    let order = Arc::new(StartOrder {
        gates,
        permits: Semaphore::new(MAX_CONCURRENT),
        failed: CancellationToken::new(),
    });
    let tasks: Vec<_> = starts
        .into_iter()
        .map(|start| {
            let (this, order) = (Arc::clone(services), Arc::clone(&order));
            services
                .runtime
                .tasks
                .spawn(inherit_caller(async move { start_in_order(&this, &order, start).await }))
        })
        .collect();
    let (mut created, mut warnings, mut why) = (Vec::new(), Vec::new(), None);
    for task in tasks {
        let outcome = task.await.unwrap_or_else(|failed| {
            order.failed.cancel();
            let failed = TaskFailed { what: "starting a pane", why: failed.to_string() };
            Outcome { created: None, result: Err(Some(failed.into())) }
        });
        created.extend(outcome.created);
        match outcome.result {
            Ok(reported) => warnings.extend(reported),
            Err(failed) => why = why.or(failed),
        }
    }
    match why {
        None => Ok(warnings),
        Some(why) => Err(StartAllError { why, created }),
    }
}

async fn start_in_order(services: &Arc<Services>, order: &StartOrder, start: PaneStart) -> Outcome {
    let PaneStart { pane, action } = start;
    let is_new = matches!(action, StartAction::Create(_));
    let mut started_as = None;
    let result = tokio::select! {
        biased;
        () = order.failed.cancelled() => Err(None),
        permit = order.permit_for(&pane) => {
            // Not cancelled from here on: the pane is started completely or rolled back.
            let started = start_one(services, action).await;
            drop(permit);
            point("run.pane").await;
            match started {
                Ok((id, warnings)) => {
                    started_as = Some(id);
                    tokio::select! {
                        ready = await_ready(services, &pane, id) => {
                            ready.map(|()| warnings).map_err(|error| Some(error.into()))
                        }
                        () = order.failed.cancelled() => Err(None),
                    }
                }
                Err(failure) => Err(Some(failure)),
            }
        }
    };
    match &result {
        Ok(_) => drop(order.gates.get(&pane.name).map(|gate| gate.send_replace(true))),
        Err(_) => order.failed.cancel(),
    }
    let in_pane = |why: PaneFailure| InPane { pane: pane.name.clone(), why }.into();
    let created = started_as.filter(|_| is_new);
    Outcome { created, result: result.map_err(|failed| failed.map(in_pane)) }
}

async fn start_one(
    services: &Arc<Services>,
    action: StartAction,
) -> Result<(PaneId, Vec<String>), PaneFailure> {
    match action {
        StartAction::Create(request) => {
            let answer = Box::pin(launch(services, *request)).await.map_err(Box::new)?;
            Ok((answer.pane.id, answer.warnings))
        }
        StartAction::Restore(row) => {
            Box::pin(services.panes.restore_pane(&row)).await.map_err(Box::new)?;
            Ok((row.id, Vec::new()))
        }
    }
}

impl StartOrder {
    /// Waits until the dependencies of a pane are ready and a start permit is available.
    async fn permit_for(&self, pane: &WantedPane) -> tokio::sync::SemaphorePermit<'_> {
        for gate in pane.after.iter().filter_map(|name| self.gates.get(name)) {
            gate.subscribe().wait_for(|ready| *ready).await.expect("the sender is held in `gates`");
        }
        self.permits.acquire().await.expect("the semaphore is never closed")
    }
}
