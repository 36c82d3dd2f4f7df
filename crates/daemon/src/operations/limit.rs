//! Shows and changes the limits of a pane.

use std::sync::Arc;

use host::file::FileError;
use host::store::StoreError;
use model::Name;
use model::authority::{Access, Caller};
use model::limits::LimitOverrides;
use protocol::limits::{LimitsView, PaneLimits};

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::{Description, Fault, FaultKind, any_of};
use crate::panes::error::KeeperFault;
use crate::panes::limits::ask_limits;
use crate::registry::TargetError;
use crate::runtime::run_blocking;

any_of! {
    /// Why limits were not shown or changed.
    pub(crate) enum LimitError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        Record(LaunchRecordLost),
        Keeper(KeeperFault),
        File(FileError),
    }
}

/// The launch record of a pane, which holds the requested value, is lost.
#[derive(Debug, thiserror::Error)]
#[error("the {what} of pane {pane} is unknown: its launch record is lost")]
pub(crate) struct LaunchRecordLost {
    pub(crate) what: &'static str,
    pub(crate) pane: Name,
}

impl Fault for LaunchRecordLost {
    fn describe(&self) -> Description {
        FaultKind::Failed.plain()
    }
}

/// Applies `overrides` to a pane, if there are any, and returns its limits and usage.
pub(crate) async fn limit(
    services: &Arc<Services>,
    caller: &Caller,
    target: &str,
    overrides: &LimitOverrides,
) -> Result<PaneLimits, LimitError> {
    let row = services.panes.rows().await?.find_pane(target)?;
    let access = if overrides.0.is_empty() { Access::Read } else { Access::Control };
    authorize(services, caller, access, Some(row.session)).await?;
    let lost = || LaunchRecordLost { what: "limit set", pane: row.name.clone() };
    let pane = services.panes.get(row.id).ok_or_else(lost)?;
    let limits = pane.launch().ok_or_else(lost)?.limits.with(overrides);
    let view = if pane.status().state.is_live() {
        ask_limits(&pane, limits, !overrides.0.is_empty()).await?
    } else {
        LimitsView::of_stopped_pane(&limits)
    };
    if !overrides.0.is_empty() {
        let target = Arc::clone(&pane);
        let overrides = overrides.clone();
        // Applied to the current record, so that concurrent changes of other limits are kept.
        let changed = run_blocking(move || {
            target.change_launch(|launch| launch.limits = launch.limits.with(&overrides))
        });
        changed.await?;
    }
    Ok(PaneLimits { pane: row.id, name: row.name, view })
}
