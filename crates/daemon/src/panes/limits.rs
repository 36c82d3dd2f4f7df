//! Resource limits of panes: queries, changes, and the reports of keepers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host::{cgroup, record};
use model::event::EventBody;
use model::limits::{LimitEvent, Limits};
use protocol::limits::LimitsView;
use protocol::pane::{GROUPS, NEWS, Request as KeeperRequest, Response as KeeperResponse};
use tracing::warn;

use super::Panes;
use super::error::KeeperFault;
use super::pane::Pane;
use crate::runtime::run_blocking;
use crate::wire::keeper::{self, KeeperError};

/// Timeout for a keeper to change the limits of its pane, which may involve every process.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

impl Panes {
    /// Records, in a background task, the limit reports that a keeper wrote while no daemon was
    /// running.
    pub(crate) fn report_limits_soon(self: &Arc<Self>, pane: &Arc<Pane>) {
        let (this, pane) = (Arc::clone(self), Arc::clone(pane));
        self.runtime.tasks.spawn(async move { this.report_limits(&pane).await });
    }

    /// Records the limit reports of a keeper as events, and removes the files.
    pub(crate) async fn report_limits(&self, pane: &Pane) {
        let _guard = self.limit_reports.lock().await;
        let (id, dir) = (pane.id, pane.dir.clone());
        let reports = run_blocking(move || read_reports(&dir)).await;
        for (path, report) in reports {
            let event = EventBody::of_limits(id, report);
            if let Err(error) = self.registry.change(move |change| change.emit(event)).await {
                // The files stay for the next attempt.
                return warn!(pane = %id, %error, "limit report not recorded");
            }
            let _missing = fs::remove_file(path);
        }
    }
}

/// Asks the keeper of a live pane for its limits and usage, or sets its limits.
pub(crate) async fn ask_limits(
    pane: &Pane,
    limits: Limits,
    change: bool,
) -> Result<LimitsView, KeeperFault> {
    let request = if change { KeeperRequest::SetLimits(limits) } else { KeeperRequest::Status };
    match keeper::ask(&pane.dir, &request, PATIENCE).await {
        Ok(KeeperResponse::Limits(view)) => Ok(view),
        Ok(KeeperResponse::Status(live)) => {
            Ok(live.limits.unwrap_or_else(|| LimitsView::of_stopped_pane(&limits)))
        }
        Ok(KeeperResponse::Screen(_) | KeeperResponse::WasTyped { .. } | KeeperResponse::Done) => {
            Err(KeeperFault::NoAnswer(KeeperError::Broken("unexpected kind of answer".to_owned())))
        }
        Err(error) => Err(KeeperFault::NoAnswer(error)),
    }
}

/// Reads the limit reports in a pane's directory, oldest first.
fn read_reports(dir: &Path) -> Vec<(PathBuf, LimitEvent)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_report = |name: &str| name.starts_with(NEWS) && name.ends_with(".json");
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_report))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
        .into_iter()
        .filter_map(|path| Some((record::read(&path).ok()?, path)))
        .map(|(report, path)| (path, report))
        .collect()
}

/// Removes the control groups of a pane whose keeper has exited. Blocks.
pub(crate) fn remove_groups(dir: &Path) {
    let Ok(groups) = record::read::<Vec<String>>(&dir.join(GROUPS)) else { return };
    for group in groups {
        if !cgroup::remove(Path::new(&group)) {
            warn!(group, "control group not removed");
        }
    }
    let _missing = fs::remove_file(dir.join(GROUPS));
}

#[cfg(test)]
mod tests {
    use host::file::Durability;
    use model::limits::Resource;

    use super::*;

    #[test]
    fn read_reports_returns_valid_reports_in_order_of_names() {
        let dir = tempfile::tempdir().unwrap();
        let report = |used| LimitEvent::Near { resource: Resource::Memory, used, limit: 9 };
        for (name, used) in [("news-2.json", 2), ("news-1.json", 1), ("other.json", 3)] {
            record::write(&dir.path().join(name), &report(used), Durability::ProcessCrash).unwrap();
        }
        fs::create_dir(dir.path().join("news-0.json")).unwrap();

        let reports: Vec<_> = read_reports(dir.path()).into_iter().map(|found| found.1).collect();

        assert_eq!(reports, [report(1), report(2)]);
    }
}
