//! Conflict events: all detectors record them here; `show` and `doctor` read them here.

use std::path::PathBuf;

use host::file::Durability;
use host::store::StoreError;
use model::PaneId;
use model::conflict::{Attribution, ConflictOutcome};
use model::event::{Event, EventBody};
use model::health::{Finding, Severity};
use protocol::locks::LockView;
use tracing::warn;

use super::Coordination;

/// How many of the last events are searched for conflicts.
const RECENT_EVENTS: u32 = 2000;

/// Maximum number of conflicts that are returned.
const MAX_RETURNED: usize = 5;

/// A write to a file that another pane holds, or had just changed.
#[derive(Debug)]
pub(super) struct ForeignWrite {
    pub(super) path: PathBuf,
    /// The pane that wrote, if known.
    pub(super) writer: Option<PaneId>,
    pub(super) holder: PaneId,
    pub(super) outcome: ConflictOutcome,
    pub(super) evidence: Attribution,
}

impl Coordination {
    /// Records that a pane was refused the lock of a file that it wanted to edit. Returns the name
    /// of the holder.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub(crate) async fn record_refused_edit(
        &self,
        pane: PaneId,
        path: &str,
        holder: Option<&LockView>,
    ) -> Result<String, StoreError> {
        let held_by = holder.map_or_else(|| "an unknown owner".to_owned(), LockView::holder);
        let conflict = EventBody::Conflict {
            path: path.to_owned(),
            pane: Some(pane),
            name: self.registry.pane_name(pane).await,
            holder: holder.and_then(|holder| holder.pane),
            held_by: held_by.clone(),
            outcome: ConflictOutcome::Refused,
            evidence: Attribution::Asked,
        };
        self.record_conflict(conflict).await?;
        Ok(held_by)
    }

    /// Records a write that was observed. A failure is logged: there is no caller to report it to.
    pub(super) async fn record_foreign_write(&self, write: ForeignWrite) {
        let ForeignWrite { path, writer, holder, outcome, evidence } = write;
        let name = match writer {
            Some(writer) => self.registry.pane_name(writer).await,
            None => None,
        };
        let held_by = match self.registry.pane_name(holder).await {
            Some(name) => format!("pane {name}"),
            None => format!("pane {}", holder.short()),
        };
        let conflict = EventBody::Conflict {
            path: path.to_string_lossy().into_owned(),
            pane: writer,
            name,
            holder: Some(holder),
            held_by,
            outcome,
            evidence,
        };
        if let Err(error) = self.record_conflict(conflict).await {
            warn!(path = %path.display(), pane = %holder, %error, "conflict not recorded");
        }
    }

    async fn record_conflict(&self, conflict: EventBody) -> Result<(), StoreError> {
        self.registry.apply(Durability::ProcessCrash, move |change| change.emit(conflict)).await
    }

    /// Returns the recent conflicts of a pane, oldest first.
    pub(crate) async fn conflicts_of(&self, id: PaneId) -> Vec<Event> {
        let concerns = move |what: &EventBody| {
            matches!(what, EventBody::Conflict { pane, holder, .. }
                if *pane == Some(id) || *holder == Some(id))
        };
        self.recent_conflicts(concerns).await
    }

    /// Returns a finding for each recent change of a file that another pane held or had just
    /// changed.
    pub(crate) async fn conflict_findings(&self) -> Vec<Finding> {
        let is_change = |what: &EventBody| {
            matches!(
                what,
                EventBody::Conflict {
                    outcome: ConflictOutcome::Changed | ConflictOutcome::ChangedToo,
                    ..
                }
            )
        };
        let found = self.recent_conflicts(is_change).await;
        found.iter().filter_map(|event| finding(&event.what)).collect()
    }

    async fn recent_conflicts(
        &self,
        matches: impl Fn(&EventBody) -> bool + Send + 'static,
    ) -> Vec<Event> {
        let read = self.registry.read(move |change| {
            let last = change.last_event()?;
            let after = last.saturating_sub(RECENT_EVENTS.into());
            let mut recent = change.events(after, RECENT_EVENTS)?;
            recent.retain(|event| matches(&event.what));
            Ok::<_, StoreError>(recent.split_off(recent.len().saturating_sub(MAX_RETURNED)))
        });
        read.await.unwrap_or_default()
    }
}

fn finding(what: &EventBody) -> Option<Finding> {
    let EventBody::Conflict { path, name, held_by, outcome, .. } = what else { return None };
    let what = match outcome {
        ConflictOutcome::Refused | ConflictOutcome::Changed => {
            "a file that it had locked was changed by another process"
        }
        ConflictOutcome::ChangedToo => {
            "a file that it had just changed was changed by another process"
        }
    };
    let writer = name
        .as_ref()
        .map_or_else(|| "an unknown process".to_owned(), |name| format!("pane {name}"));
    Some(Finding {
        severity: Severity::Info,
        subject: held_by.clone(),
        what: what.to_owned(),
        evidence: format!("{writer} changed `{path}`"),
        remedy: "check the file; panes with their own workspaces cannot change each other's files"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_names_the_writer_if_it_is_known() {
        let conflict = |name: Option<&str>, outcome| EventBody::Conflict {
            path: "/file".to_owned(),
            pane: None,
            name: name.map(|name| name.parse().unwrap()),
            holder: None,
            held_by: "pane dev1".to_owned(),
            outcome,
            evidence: Attribution::Nothing,
        };
        #[rustfmt::skip]
        let table = [
            (Some("ops"), ConflictOutcome::Changed,    "had locked",       "pane ops changed `/file`"),
            (None,        ConflictOutcome::ChangedToo, "had just changed", "an unknown process changed `/file`"),
        ];

        for (name, outcome, what, evidence) in table {
            let found = finding(&conflict(name, outcome)).unwrap();
            assert!(found.what.contains(what), "{found:?}");
            assert_eq!((found.subject.as_str(), found.evidence.as_str()), ("pane dev1", evidence));
        }
        let other = EventBody::PaneClosed { pane: PaneId::from_random([1; 16]) };
        assert!(finding(&other).is_none());
    }
}
