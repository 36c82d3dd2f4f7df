//! Whether a pane is ready for those that come after it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use host::clock;
use host::store::StoreError;
use model::PaneId;
use model::team::{READY_WITHIN, Ready, WantedPane};
use protocol::pane::{Request as KeeperRequest, Response as KeeperResponse};
use protocol::{ErrorBody, ErrorCode};
use regex::Regex;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::command::Failure;
use crate::command::wait::wait_for_text;
use crate::keeper;
use crate::pane::Pane;
use crate::supervisor::Supervisor;

/// How often it is looked again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long one look may take.
const LOOK: Duration = Duration::from_secs(1);

/// Who writes nothing for this long is idle, in milliseconds.
const IDLE: i64 = 1000;

impl Supervisor {
    /// Waits until a pane that was started is ready; one that says nothing about it is at once.
    pub(super) async fn await_ready(
        self: &Arc<Self>,
        wanted: &WantedPane,
        id: PaneId,
    ) -> Result<(), ErrorBody> {
        let Some(ready) = &wanted.ready else { return Ok(()) };
        let gone = || Failure::from(StoreError::Gone).into_body();
        let pane = self.pane(id).ok_or_else(gone)?;
        let patience = Duration::from_secs(ready.timeout.unwrap_or(READY_WITHIN).into());
        let waited = tokio::select! {
            waited = timeout(patience, self.become_ready(&pane, ready)) => waited,
            () = self.stopping.cancelled() => {
                return Err(ErrorBody::new(ErrorCode::Unreachable, "the daemon is being stopped"));
            }
        };
        waited.unwrap_or_else(|_| {
            let message = format!("it was not ready after {patience:?}: {}", what(ready));
            Err(ErrorBody::new(ErrorCode::TimedOut, message)
                .hint("give it longer with `timeout` in `ready`, or look why with `ccmux new`"))
        })
    }

    async fn become_ready(&self, pane: &Arc<Pane>, ready: &Ready) -> Result<(), ErrorBody> {
        if let Some(pattern) = &ready.text {
            let pattern = Regex::new(pattern).map_err(|error| {
                ErrorBody::new(ErrorCode::Usage, format!("not a regular expression: {error}"))
            })?;
            let id = pane.id;
            let row = self.registry.read(move |change| change.pane(id)).await;
            let row = row.map_err(|error: StoreError| Failure::from(error).into_body())?;
            return wait_for_text(pane, &row, &pattern).await.map(drop);
        }
        let looked = async { if ready.port { listens(pane).await } else { is_idle(pane).await } };
        tokio::select! {
            looked = looked => looked,
            ending = pane.ended() => {
                let how = ending.map_or_else(|| "ended".to_owned(), |ending| ending.to_string());
                let message = format!("it has {how} before it was ready: {}", what(ready));
                let details = serde_json::json!({ "not_started": message });
                Err(ErrorBody::new(ErrorCode::Failed, message).details(&details))
            }
        }
    }
}

fn what(ready: &Ready) -> String {
    match &ready.text {
        Some(pattern) => format!("it shows {pattern:?}"),
        None if ready.port => "something listens on its port".to_owned(),
        None => "it writes nothing for a second".to_owned(),
    }
}

/// Waits until something listens on the first of its ports.
async fn listens(pane: &Pane) -> Result<(), ErrorBody> {
    let ports = pane.launch().and_then(|launch| launch.ports);
    let Some(port) = ports.map(|ports| ports.base) else {
        let message = "it has no ports, so nothing can listen on one";
        return Err(ErrorBody::new(ErrorCode::Usage, message)
            .hint("give panes ports with `count` in [ports] of ccmux.toml"));
    };
    let here: [SocketAddr; 2] =
        [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    loop {
        for address in here {
            if let Ok(Ok(_)) = timeout(LOOK, TcpStream::connect(address)).await {
                return Ok(());
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Waits until it has written nothing for a while.
async fn is_idle(pane: &Pane) -> Result<(), ErrorBody> {
    let begun = clock::now();
    loop {
        let asked = keeper::ask(&pane.dir, &KeeperRequest::Status, LOOK).await;
        if let Ok(KeeperResponse::Status(live)) = asked {
            let last = live.last_output.unwrap_or(begun).max(begun);
            if clock::now().0.saturating_sub(last.0) >= IDLE {
                return Ok(());
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
