//! Reports and removes files and directories that belong to no pane.

use std::sync::Arc;

use host::config::ConfigError;
use host::disk_usage;
use host::store::StoreError;
use model::authority::{Access, Caller};
use protocol::gc::{GcAction, GcItem, GcReport};

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::any_of;
use crate::housekeeping::finding::{SweepAction, SweepFinding, SweepOutcome};
use crate::housekeeping::trash_survey::TrashSelection;
use crate::panes::usage;
use crate::runtime::run_blocking;

any_of! {
    /// Why garbage was not collected.
    pub(crate) enum GcError {
        Denied(AccessDenied),
        Config(ConfigError),
        Store(StoreError),
    }
}

/// Reports what belongs to no pane, with its size. Unless this is a dry run, also performs the
/// actions of the periodic sweep on it.
pub(crate) async fn gc(
    services: &Arc<Services>,
    caller: &Caller,
    dry_run: bool,
    empty_trash: bool,
) -> Result<GcReport, GcError> {
    let access = if dry_run { Access::Read } else { Access::Administer };
    authorize(services, caller, access, None).await?;
    if !dry_run {
        services.housekeeping.release_reserve_if_full().await;
    }
    let cleanup = services.runtime.config().await?.cleanup;
    let _guard = if dry_run { None } else { Some(services.housekeeping.cleanup_lock.lock().await) };
    let selection = if empty_trash {
        TrashSelection::All
    } else {
        TrashSelection::OlderThan(cleanup.retention)
    };
    let findings = services.housekeeping.survey(cleanup, selection).await?;
    let (findings, sizes) = run_blocking(move || {
        let sizes: Vec<u64> =
            findings.iter().map(|finding| disk_usage::bytes(&finding.path)).collect();
        (findings, sizes)
    })
    .await;
    let next_due = findings.iter().filter_map(|finding| finding.delete_after).min();
    let outcomes = if dry_run {
        vec![SweepOutcome::Done; findings.len()]
    } else {
        let outcomes = services.housekeeping.apply(&findings, cleanup.orphan_age).await;
        services.housekeeping.replenish_reserve().await;
        outcomes
    };
    let items = findings.into_iter().zip(sizes).zip(outcomes);
    let items = items.map(|((finding, bytes), outcome)| item(finding, bytes, outcome)).collect();
    let panes = usage::of_panes(services.runtime.root.clone(), services.panes.all()).await;
    Ok(GcReport { items, panes, next_due })
}

fn item(finding: SweepFinding, bytes: u64, outcome: SweepOutcome) -> GcItem {
    let SweepFinding { path, kind, why, planned, .. } = finding;
    let (action, why) = match (planned, outcome) {
        (SweepAction::Keep, _) => (GcAction::Keep, why),
        (_, SweepOutcome::Failed(failure)) => (GcAction::Failed, failure),
        (_, SweepOutcome::Skipped) => (GcAction::Keep, format!("{why}, but it is in use now")),
        (SweepAction::MoveToTrash, SweepOutcome::Done) => (GcAction::Trash, why),
        (SweepAction::DeleteTree | SweepAction::DeleteFile, SweepOutcome::Done) => {
            (GcAction::Delete, why)
        }
    };
    GcItem { path: path.to_string_lossy().into_owned(), kind, why, bytes, action }
}
