//! Showing what belongs to no pane, and dealing with it when asked to.

use std::sync::Arc;

use host::usage;
use protocol::control::Response;
use protocol::gc::{Collected, GcAction, GcItem};

use super::Failure;
use crate::supervisor::{Supervisor, run_blocking};
use crate::sweep::{Fate, Finding, Outcome};
use crate::trash::Due;

impl Supervisor {
    /// Says what belongs to no pane and what it takes; unless this is a dry run, does with it what
    /// the sweep would do.
    pub(super) async fn gc(
        self: &Arc<Self>,
        dry_run: bool,
        empty_trash: bool,
    ) -> Result<Response, Failure> {
        let wishes = self.config().await?.cleanup;
        let _alone = if dry_run { None } else { Some(self.tidying.lock().await) };
        let due = if empty_trash { Due::All } else { Due::After(wishes.retention) };
        let findings = self.survey(wishes, due).await?;
        let (findings, sizes) = run_blocking(move || {
            let sizes: Vec<u64> = findings.iter().map(|found| usage::bytes(&found.path)).collect();
            (findings, sizes)
        })
        .await;
        let next_due = findings.iter().filter_map(|found| found.until).min();
        let outcomes = if dry_run {
            vec![Outcome::Done; findings.len()]
        } else {
            self.deal_with(&findings, wishes.orphan_age).await
        };
        let items = findings.into_iter().zip(sizes).zip(outcomes);
        let items = items.map(|((found, bytes), outcome)| item(found, bytes, outcome)).collect();
        let panes = self.usage().await;
        Ok(Response::Gc(Collected { items, panes, next_due }))
    }
}

fn item(found: Finding, bytes: u64, outcome: Outcome) -> GcItem {
    let Finding { path, kind, why, fate, .. } = found;
    let (action, why) = match (fate, outcome) {
        (Fate::Stay, _) => (GcAction::Keep, why),
        (_, Outcome::Failed(failure)) => (GcAction::Failed, failure),
        (_, Outcome::Spared) => (GcAction::Keep, format!("{why}, but something has come up")),
        (Fate::Trash, Outcome::Done) => (GcAction::Trash, why),
        (Fate::Delete | Fate::DeleteFile, Outcome::Done) => (GcAction::Delete, why),
    };
    GcItem { path: path.to_string_lossy().into_owned(), kind, why, bytes, action }
}
