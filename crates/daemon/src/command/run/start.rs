//! Starting several panes at once, each when those before it are ready.

use std::collections::BTreeMap;
use std::sync::Arc;

use host::store::PaneRow;
use model::team::WantedPane;
use model::{LaunchRequest, Name, PaneId};
use protocol::{ErrorBody, ErrorCode};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::supervisor::{Supervisor, point};

/// How many panes are being started at once.
const AT_ONCE: usize = 8;

/// A pane that is to run.
pub(super) struct Item {
    pub(super) pane: WantedPane,
    pub(super) how: How,
}

/// What has to be done for that.
pub(super) enum How {
    /// Make it.
    Create(Box<LaunchRequest>),
    /// Start it again.
    Restore(PaneRow),
}

/// Why not all panes run, and which were made nevertheless.
pub(super) struct NotAll {
    pub(super) why: ErrorBody,
    pub(super) made: Vec<PaneId>,
}

/// What all who start panes of one team share.
struct Order {
    /// Whether each is ready.
    gates: BTreeMap<Name, watch::Sender<bool>>,
    permits: Semaphore,
    /// One has failed: nothing more is begun.
    failed: CancellationToken,
}

/// What came of one pane.
struct Outcome {
    made: Option<PaneId>,
    /// What was not done that somebody may have expected; none if another one failed first.
    result: Result<Vec<String>, Option<ErrorBody>>,
}

impl Supervisor {
    /// Starts all of them; what was not done that somebody may have expected.
    ///
    /// # Errors
    ///
    /// Why the first did not start that did not, once no other is being started.
    pub(super) async fn start_all(
        self: &Arc<Self>,
        items: Vec<Item>,
    ) -> Result<Vec<String>, NotAll> {
        let gates =
            items.iter().map(|item| (item.pane.name.clone(), watch::channel(false).0)).collect();
        let order = Arc::new(Order {
            gates,
            permits: Semaphore::new(AT_ONCE),
            failed: CancellationToken::new(),
        });
        let starts: Vec<_> = items
            .into_iter()
            .map(|item| {
                let (this, order) = (Arc::clone(self), Arc::clone(&order));
                self.tasks.spawn(async move { this.start_in_order(&order, item).await })
            })
            .collect();
        let (mut made, mut warnings, mut why) = (Vec::new(), Vec::new(), None);
        for start in starts {
            let outcome = start.await.unwrap_or_else(|failed| {
                order.failed.cancel();
                let message = format!("a pane was not started: {failed}");
                let body = ErrorBody::new(ErrorCode::Failed, message);
                Outcome { made: None, result: Err(Some(body)) }
            });
            made.extend(outcome.made);
            match outcome.result {
                Ok(said) => warnings.extend(said),
                Err(failed) => why = why.or(failed),
            }
        }
        match why {
            None => Ok(warnings),
            Some(why) => Err(NotAll { why, made }),
        }
    }

    async fn start_in_order(self: &Arc<Self>, order: &Order, item: Item) -> Outcome {
        let Item { pane, how } = item;
        let is_new = matches!(how, How::Create(_));
        let mut started_as = None;
        let result = tokio::select! {
            biased;
            () = order.failed.cancelled() => Err(None),
            permit = order.turn_of(&pane) => {
                // From here on it is carried out to its end.
                let started = self.start_one(how).await;
                drop(permit);
                point("run.pane").await;
                match started {
                    Ok((id, warnings)) => {
                        started_as = Some(id);
                        tokio::select! {
                            ready = self.await_ready(&pane, id) => {
                                ready.map(|()| warnings).map_err(Some)
                            }
                            () = order.failed.cancelled() => Err(None),
                        }
                    }
                    Err(body) => Err(Some(body)),
                }
            }
        };
        match &result {
            Ok(_) => drop(order.gates.get(&pane.name).map(|gate| gate.send_replace(true))),
            Err(_) => order.failed.cancel(),
        }
        let named = |body: ErrorBody| ErrorBody {
            message: format!("pane {}: {}", pane.name, body.message),
            ..body
        };
        let made = started_as.filter(|_| is_new);
        Outcome { made, result: result.map_err(|failed| failed.map(named)) }
    }

    async fn start_one(self: &Arc<Self>, how: How) -> Result<(PaneId, Vec<String>), ErrorBody> {
        match how {
            How::Create(request) => {
                let answer = Box::pin(self.launch(*request)).await?;
                Ok((answer.pane.id, answer.warnings))
            }
            How::Restore(row) => {
                Box::pin(self.restore_pane(&row)).await?;
                Ok((row.id, Vec::new()))
            }
        }
    }
}

impl Order {
    /// Waits until everything before this pane is ready, and not too many are being started.
    async fn turn_of(&self, pane: &WantedPane) -> tokio::sync::SemaphorePermit<'_> {
        for gate in pane.after.iter().filter_map(|name| self.gates.get(name)) {
            gate.subscribe().wait_for(|ready| *ready).await.expect("we hold the sender");
        }
        self.permits.acquire().await.expect("nobody closes it")
    }
}
