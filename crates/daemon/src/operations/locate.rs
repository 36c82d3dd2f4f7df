//! Finds the keeper of a live pane.

use host::store::{PaneRow, StoreError};
use model::authority::{Access, Caller};
use model::resolve::Unresolved;

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::{Advice, Description, Fault, FaultKind, any_of};
use crate::panes::error::NotLive;
use crate::registry::{PaneOrSessionRow, Rows, TargetError};

any_of! {
    /// Why no live pane was found.
    pub(crate) enum LocateError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        NotLive(NotLive),
        NoneRunning(NoPaneRunning),
    }
}

/// The error of a target without any running pane.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPaneRunning {
    #[error("no pane is running")]
    Anywhere,
    #[error("no pane of session {session} is running")]
    InSession { session: String },
}

impl Fault for NoPaneRunning {
    fn describe(&self) -> Description {
        FaultKind::NotFound.advise(match self {
            Self::Anywhere => Advice::StartAnyPane,
            Self::InSession { session } => Advice::StartPane { session: session.clone() },
        })
    }
}

/// A live pane and the directory of its keeper's socket.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) pane: PaneRow,
    pub(crate) dir: String,
    /// Which limits it exceeds, as a phrase.
    pub(crate) over_limit: Option<String>,
}

/// Finds a live pane (default: the newest) and the directory of its keeper's socket.
pub(crate) async fn locate(
    services: &Services,
    caller: &Caller,
    target: Option<&str>,
) -> Result<Located, LocateError> {
    let rows = services.panes.rows().await?;
    let is_live = |row: &&PaneRow| services.panes.is_live(row.id);
    let found = match target.map(|text| rows.find(text).map(|row| (text, row))) {
        None => rows.panes.iter().rev().find(is_live).cloned().ok_or(NoPaneRunning::Anywhere)?,
        Some(resolved) => match resolved? {
            (_, PaneOrSessionRow::Pane(pane)) => pane,
            (text, PaneOrSessionRow::Session(session)) => {
                let live: Vec<&PaneRow> =
                    rows.panes_of(session.record.id).filter(is_live).collect();
                single_pane(text, &live, &rows)?
            }
        },
    };
    authorize(services, caller, Access::Control, Some(found.session)).await?;
    let (pane, status) = services.panes.live_pane(&found)?;
    let dir = pane.dir.to_string_lossy().into_owned();
    Ok(Located { pane: found, dir, over_limit: status.over_limit.map(|over| over.why) })
}

fn single_pane(text: &str, live: &[&PaneRow], rows: &Rows) -> Result<PaneRow, LocateError> {
    match live {
        [pane] => Ok((*pane).clone()),
        [] => Err(NoPaneRunning::InSession { session: text.to_owned() }.into()),
        several => {
            let several: Vec<_> = several.iter().map(|pane| rows.pane_candidate(pane)).collect();
            Err(TargetError::new("pane", text, Unresolved::Ambiguous(several)).into())
        }
    }
}
