//! Waits until a pane ends or shows a text.

use std::sync::Arc;
use std::time::Duration;

use host::store::{PaneRow, StoreError};
use model::authority::{Access, Caller};
use model::{Ending, Name, PaneId};
use protocol::pane_io::Until;
use regex::Regex;
use tokio::time::timeout;

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::{Advice, Description, Fault, FaultKind, ShuttingDown, any_of};
use crate::panes::error::{KeeperFault, NotLive, ended_text};
use crate::panes::replay::{self, OutputMatcher};
use crate::panes::{Life, Pane, log_dir};
use crate::registry::TargetError;
use crate::runtime::run_blocking;
use crate::wire::keeper::{KeeperConnection, KeeperError, KeeperMessage, read_only_attach};

any_of! {
    /// Why a wait ended before its condition was met.
    pub(crate) enum WaitError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        NotLive(NotLive),
        Keeper(KeeperFault),
        Unmet(Unmet),
        Shutdown(ShuttingDown),
    }
}

/// A wait condition that is invalid or was not met.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unmet {
    #[error("invalid regular expression: {0}")]
    Pattern(#[from] regex::Error),
    #[error("pane {name} did not end within {timeout:?}")]
    NotEnded { name: Name, timeout: Duration },
    #[error("pane {name} did not show {pattern:?} within {timeout:?}")]
    NotShown { name: Name, pattern: String, timeout: Duration },
    #[error("{}, and never showed {pattern:?}", ended_text(name, ending.as_ref()))]
    Ended { pane: PaneId, name: Name, ending: Option<Ending>, pattern: String },
}

impl Fault for Unmet {
    fn describe(&self) -> Description {
        match self {
            Self::Pattern(_) => FaultKind::Invalid.plain(),
            Self::NotEnded { .. } | Self::NotShown { .. } => FaultKind::TimedOut.plain(),
            Self::Ended { pane, .. } => {
                FaultKind::Conflict.advise(Advice::ReadOutput { pane: pane.short() })
            }
        }
    }
}

/// The number of lines of an ended pane that are searched.
const SEARCHED_LINES: usize = 5000;

/// The number of attempts to connect to a keeper whose connection breaks.
const MAX_ATTEMPTS: usize = 3;

/// The delay between attempts.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Waits until a pane ends or shows a text.
pub(crate) async fn wait(
    services: &Arc<Services>,
    caller: &Caller,
    target: &str,
    until: Until,
    timeout_ms: Option<u64>,
) -> Result<Waited, WaitError> {
    let condition = Condition::parse(until)?;
    let row = services.panes.rows().await?.find_pane(target)?;
    authorize(services, caller, Access::Read, Some(row.session)).await?;
    let gone = || NotLive::Gone(row.name.clone());
    let pane = services.panes.get(row.id).ok_or_else(gone)?;
    let waited = async {
        match &condition {
            Condition::Exit => Ok(Waited { line: None, ending: pane.ended().await }),
            Condition::Text(pattern) => wait_for_text(&pane, &row, pattern).await,
        }
    };
    let limit = timeout_ms.map_or(Duration::MAX, Duration::from_millis);
    tokio::select! {
        waited = timeout(limit, waited) => match waited {
            Ok(result) => Ok(result?),
            Err(_) => Err(timed_out(&row, &condition, limit).into()),
        },
        () = services.runtime.stopping.cancelled() => Err(ShuttingDown.into()),
    }
}

/// The result of a wait.
#[derive(Debug)]
pub(crate) struct Waited {
    /// The line that matched.
    pub(crate) line: Option<String>,
    /// How the pane ended, if it did.
    pub(crate) ending: Option<Ending>,
}

enum Condition {
    Exit,
    Text(Regex),
}

impl Condition {
    fn parse(until: Until) -> Result<Self, Unmet> {
        match until {
            Until::Exit => Ok(Self::Exit),
            Until::Text(pattern) => Ok(Self::Text(Regex::new(&pattern)?)),
        }
    }
}

fn timed_out(row: &PaneRow, condition: &Condition, timeout: Duration) -> Unmet {
    let name = row.name.clone();
    match condition {
        Condition::Exit => Unmet::NotEnded { name, timeout },
        Condition::Text(pattern) => {
            Unmet::NotShown { name, pattern: pattern.as_str().to_owned(), timeout }
        }
    }
}

/// Waits until a pane shows a text that matches `pattern`.
pub(crate) async fn wait_for_text(
    pane: &Pane,
    row: &PaneRow,
    pattern: &Regex,
) -> Result<Waited, WaitError> {
    let mut life = pane.watch();
    drop(life.wait_for(|life| !matches!(life, Life::Starting)).await);
    for _ in 0..MAX_ATTEMPTS {
        let Life::Live(keeper) = pane.life() else { break };
        if let Some(why) = keeper.incompatible() {
            return Err(KeeperFault::Unusable { name: row.name.clone(), why }.into());
        }
        match follow(pane, pattern).await {
            Ok(Followed::Matched(line)) => {
                return Ok(Waited { line: Some(line), ending: None });
            }
            Ok(Followed::Ended) => break,
            Err(KeeperError::Remote(body)) => return Err(KeeperFault::Remote(body).into()),
            // The pane may have ended; its supervisor is about to publish that.
            Err(_) => {
                let _ignored = timeout(RETRY_DELAY, pane.ended()).await;
            }
        }
    }
    if matches!(pane.life(), Life::Live(_)) && pane.status().state.is_live() {
        let why = "the connection to its keeper was lost repeatedly".to_owned();
        return Err(KeeperFault::Unusable { name: row.name.clone(), why }.into());
    }
    let ending = pane.ended().await;
    search_log(pane, row, pattern, ending.as_ref()).await
}

/// The result of following the output of a pane.
enum Followed {
    Matched(String),
    Ended,
}

/// Follows the output of a live pane until a line matches `pattern`.
async fn follow(pane: &Pane, pattern: &Regex) -> Result<Followed, KeeperError> {
    let mut connection = KeeperConnection::open(&pane.dir).await?;
    let size = connection.follow(&read_only_attach(None)).await?.size;
    let mut matcher = OutputMatcher::new(size, pattern.clone());
    loop {
        let matched = match connection.next_message().await? {
            Some(KeeperMessage::Snapshot(_, snapshot)) => matcher.reset(&snapshot),
            Some(KeeperMessage::Output(_, output)) => matcher.feed(&output),
            Some(KeeperMessage::Resized(size)) => {
                matcher.resize(size);
                None
            }
            Some(KeeperMessage::Reply(_)) => None,
            Some(KeeperMessage::Ended) => return Ok(Followed::Ended),
            None => return Err(KeeperError::Broken("its keeper closed the connection".to_owned())),
        };
        if let Some(line) = matched {
            return Ok(Followed::Matched(line));
        }
        // Terminal emulation is CPU-bound; let other tasks run.
        tokio::task::yield_now().await;
    }
}

/// Searches the log of an ended pane.
async fn search_log(
    pane: &Pane,
    row: &PaneRow,
    pattern: &Regex,
    ending: Option<&Ending>,
) -> Result<Waited, WaitError> {
    let (log, pattern) = (log_dir(&pane.dir), pattern.clone());
    let sought = pattern.as_str().to_owned();
    let matched = run_blocking(move || {
        let replayed = replay::lines(&log, SEARCHED_LINES).ok()?;
        replay::first_match(&replayed.text, &pattern)
    });
    match matched.await {
        Some(line) => Ok(Waited { line: Some(line), ending: ending.cloned() }),
        None => {
            let (pane, name) = (row.id, row.name.clone());
            Err(Unmet::Ended { pane, name, ending: ending.cloned(), pattern: sought }.into())
        }
    }
}
