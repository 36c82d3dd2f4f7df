//! Waiting for something to be true of a pane.

use std::sync::Arc;
use std::time::Duration;

use host::store::PaneRow;
use model::Ending;
use protocol::control::Response;
use protocol::look::Until;
use protocol::{ErrorBody, ErrorCode};
use regex::Regex;
use tokio::time::timeout;

use super::Failure;
use super::look::how_it_is;
use super::send::unusable;
use crate::keeper::{Link, Sent, Silent, looking_on};
use crate::pane::{Life, Pane, log_dir};
use crate::replay::{self, Lookout};
use crate::supervisor::{Supervisor, run_blocking};

/// How many lines of an ended pane are looked at.
const LINES: usize = 5000;

/// How often a keeper that broke off is asked again before that is an error.
const TRIES: usize = 3;

/// How long to wait before that.
const TRY_AGAIN: Duration = Duration::from_millis(100);

impl Supervisor {
    pub(super) async fn wait(
        self: &Arc<Self>,
        target: &str,
        until: Until,
        timeout_ms: Option<u64>,
    ) -> Result<Response, Failure> {
        let what = What::parse(until)?;
        let row = self.rows().await?.find_pane(target)?;
        let gone = || ErrorBody::new(ErrorCode::NotFound, format!("pane {} is gone", row.name));
        let pane = self.pane(row.id).ok_or_else(gone)?;
        let waited = async {
            match &what {
                What::Exit => Ok(Response::Waited { line: None, ending: pane.ended().await }),
                What::Text(pattern) => wait_for_text(&pane, &row, pattern).await,
            }
        };
        let patience = timeout_ms.map_or(Duration::MAX, Duration::from_millis);
        tokio::select! {
            waited = timeout(patience, waited) => match waited {
                Ok(result) => Ok(result?),
                Err(_) => Err(too_late(&row, &what, patience).into()),
            },
            () = self.stopping.cancelled() => Err(stopping().into()),
        }
    }
}

enum What {
    Exit,
    Text(Regex),
}

impl What {
    fn parse(until: Until) -> Result<Self, ErrorBody> {
        match until {
            Until::Exit => Ok(Self::Exit),
            Until::Text(pattern) => Regex::new(&pattern).map(Self::Text).map_err(|error| {
                ErrorBody::new(ErrorCode::Usage, format!("not a regular expression: {error}"))
            }),
        }
    }
}

fn too_late(row: &PaneRow, what: &What, patience: Duration) -> ErrorBody {
    let message = match what {
        What::Exit => format!("pane {} has not ended after {patience:?}", row.name),
        What::Text(pattern) => {
            format!("pane {} has not shown {:?} within {patience:?}", row.name, pattern.as_str())
        }
    };
    ErrorBody::new(ErrorCode::TimedOut, message)
}

pub(super) fn stopping() -> ErrorBody {
    ErrorBody::new(ErrorCode::Unreachable, "the daemon is being stopped")
        .hint("ask again: the next command starts another one")
}

pub(super) async fn wait_for_text(
    pane: &Pane,
    row: &PaneRow,
    pattern: &Regex,
) -> Result<Response, ErrorBody> {
    let mut life = pane.watch();
    drop(life.wait_for(|life| !matches!(life, Life::Starting)).await);
    for _ in 0..TRIES {
        let Life::Live(keeper) = pane.life() else { break };
        if let Some(why) = keeper.incompatible() {
            return Err(unusable(&row.name, &why));
        }
        match follow(pane, pattern).await {
            Ok(Followed::Seen(line)) => {
                return Ok(Response::Waited { line: Some(line), ending: None });
            }
            Ok(Followed::Ended) => break,
            Err(Silent::Answer(body)) => return Err(body),
            // The pane may have ended, which its watcher will say in a moment.
            Err(_) => {
                let _ended = timeout(TRY_AGAIN, pane.ended()).await;
            }
        }
    }
    if matches!(pane.life(), Life::Live(_)) && pane.look().state.is_live() {
        return Err(unusable(&row.name, "its keeper breaks off"));
    }
    let ending = pane.ended().await;
    look_back(pane, row, pattern, ending.as_ref()).await
}

/// How following the output ended.
enum Followed {
    Seen(String),
    Ended,
}

async fn follow(pane: &Pane, pattern: &Regex) -> Result<Followed, Silent> {
    let mut link = Link::open(&pane.dir).await?;
    let size = link.follow(&looking_on(None)).await?.size;
    let mut lookout = Lookout::new(size, pattern.clone());
    loop {
        let seen = match link.sent().await? {
            Some(Sent::Snapshot(_, snapshot)) => lookout.begin(&snapshot),
            Some(Sent::Output(_, output)) => lookout.feed(&output),
            Some(Sent::Resized(size)) => {
                lookout.resize(size);
                None
            }
            Some(Sent::Answer(_)) => None,
            Some(Sent::Ended) => return Ok(Followed::Ended),
            None => return Err(Silent::Broken("its keeper let go".to_owned())),
        };
        if let Some(line) = seen {
            return Ok(Followed::Seen(line));
        }
        // The emulator is work; others have some too.
        tokio::task::yield_now().await;
    }
}

/// Looks once at what an ended pane has left.
async fn look_back(
    pane: &Pane,
    row: &PaneRow,
    pattern: &Regex,
    ending: Option<&Ending>,
) -> Result<Response, ErrorBody> {
    let (log, pattern) = (log_dir(&pane.dir), pattern.clone());
    let sought = pattern.as_str().to_owned();
    let seen = run_blocking(move || {
        let left = replay::lines(&log, LINES).ok()?;
        replay::first_match(&left.text, &pattern)
    });
    match seen.await {
        Some(line) => Ok(Response::Waited { line: Some(line), ending: ending.cloned() }),
        None => {
            let message = format!("{}, and never showed {sought:?}", how_it_is(&row.name, ending));
            Err(ErrorBody::new(ErrorCode::Conflict, message)
                .hint(format!("see its output with `ccmux read {} --lines 50`", row.id.short())))
        }
    }
}
