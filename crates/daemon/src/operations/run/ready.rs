//! Readiness of the panes of a team, on which other panes may depend.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use host::clock;
use host::store::StoreError;
use model::PaneId;
use model::team::{READY_WITHIN, Ready, WantedPane};
use protocol::pane::{Request as KeeperRequest, Response as KeeperResponse};
use regex::Regex;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::fault::{Advice, Description, Details, Fault, FaultKind, ShuttingDown};
use crate::operations::Services;
use crate::operations::wait::{WaitError, wait_for_text};
use crate::panes::Pane;
use crate::wire::keeper;

/// The interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The timeout of one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a pane must write nothing to be idle, in milliseconds.
const IDLE_MS: i64 = 1000;

/// Why a pane did not become ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("not ready after {timeout:?}: {condition}")]
    TimedOut { timeout: Duration, condition: String },
    #[error("{ending} before it was ready: {condition}")]
    Ended { ending: String, condition: String },
    #[error("invalid regular expression: {0}")]
    Pattern(#[from] regex::Error),
    #[error("the pane has no ports to listen on")]
    NoPorts,
    #[error(transparent)]
    Text(#[from] Box<WaitError>),
    #[error(transparent)]
    Shutdown(#[from] ShuttingDown),
}

impl Fault for ReadyError {
    fn describe(&self) -> Description {
        match self {
            Self::Store(error) => error.describe(),
            Self::TimedOut { .. } => FaultKind::TimedOut.advise(Advice::text(
                "increase `timeout` in `ready`, or start the pane alone to see why",
            )),
            Self::Ended { .. } => {
                let why = self.to_string();
                FaultKind::NotStarted.plain().with_details(Details::NotStarted { why })
            }
            Self::Pattern(_) => FaultKind::Invalid.plain(),
            Self::NoPorts => FaultKind::Invalid
                .advise(Advice::text("give panes ports with `count` in [ports] of ccmux.toml")),
            Self::Text(error) => error.describe(),
            Self::Shutdown(error) => error.describe(),
        }
    }
}

/// Waits until a started pane is ready. A pane without a readiness condition is ready immediately.
pub(crate) async fn await_ready(
    services: &Arc<Services>,
    wanted: &WantedPane,
    id: PaneId,
) -> Result<(), ReadyError> {
    let Some(ready) = &wanted.ready else { return Ok(()) };
    let pane = services.panes.get(id).ok_or(StoreError::Gone)?;
    let limit = Duration::from_secs(ready.timeout.unwrap_or(READY_WITHIN).into());
    let waited = tokio::select! {
        waited = timeout(limit, become_ready(services, &pane, ready)) => waited,
        () = services.runtime.stopping.cancelled() => {
            return Err(ShuttingDown.into());
        }
    };
    waited.unwrap_or_else(|_| {
        Err(ReadyError::TimedOut { timeout: limit, condition: condition_text(ready) })
    })
}

async fn become_ready(
    services: &Services,
    pane: &Arc<Pane>,
    ready: &Ready,
) -> Result<(), ReadyError> {
    if let Some(pattern) = &ready.text {
        let pattern = Regex::new(pattern)?;
        let id = pane.id;
        let row = services.registry.read(move |change| change.pane(id)).await;
        wait_for_text(pane, &row?, &pattern).await.map_err(Box::new)?;
        return Ok(());
    }
    let checked =
        async { if ready.port { wait_for_port(pane).await } else { wait_until_idle(pane).await } };
    tokio::select! {
        checked = checked => checked,
        ending = pane.ended() => {
            let ending = ending.map_or_else(|| "ended".to_owned(), |ending| ending.to_string());
            let condition = condition_text(ready);
            Err(ReadyError::Ended { ending, condition })
        }
    }
}

fn condition_text(ready: &Ready) -> String {
    match &ready.text {
        Some(pattern) => format!("it shows {pattern:?}"),
        None if ready.port => "something listens on its port".to_owned(),
        None => "it writes nothing for a second".to_owned(),
    }
}

/// Waits until a program listens on the first port of the pane.
async fn wait_for_port(pane: &Pane) -> Result<(), ReadyError> {
    let ports = pane.launch().and_then(|launch| launch.ports);
    let Some(port) = ports.map(|ports| ports.base) else {
        return Err(ReadyError::NoPorts);
    };
    let addresses: [SocketAddr; 2] =
        [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    loop {
        for address in addresses {
            if let Ok(Ok(_)) = timeout(CHECK_TIMEOUT, TcpStream::connect(address)).await {
                return Ok(());
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Waits until the pane has written nothing for [`IDLE_MS`].
async fn wait_until_idle(pane: &Pane) -> Result<(), ReadyError> {
    let started = clock::now();
    loop {
        let response = keeper::ask(&pane.dir, &KeeperRequest::Status, CHECK_TIMEOUT).await;
        if let Ok(KeeperResponse::Status(live)) = response {
            let last = live.last_output.unwrap_or(started).max(started);
            if clock::now().0.saturating_sub(last.0) >= IDLE_MS {
                return Ok(());
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}
