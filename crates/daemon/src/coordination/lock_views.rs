//! Locks as clients see them.

use std::collections::HashMap;

use host::clock;
use host::store::StoreError;
use model::lock::table::Table;
use model::lock::{Held, Moment, Owner};
use model::{Name, PaneId, Timestamp};
use protocol::locks::LockView;

use super::Coordination;
use crate::panes::Life;

/// The names of panes.
pub(crate) type Names = HashMap<PaneId, Name>;

impl Coordination {
    /// Returns all locks.
    pub(crate) async fn all_locks(&self) -> Result<Vec<LockView>, StoreError> {
        let held = self.locks.apply(|table, _| {
            table.held().map(|held| (held.clone(), table.waiting_for(held))).collect()
        });
        Ok(self.lock_views(held.await?))
    }

    /// Returns the locks of a pane, without the number of waiting requests.
    pub(crate) async fn locks_of(&self, pane: PaneId) -> Vec<LockView> {
        let held = self.locks.of_pane(pane).await.into_iter().map(|held| (held, 0)).collect();
        self.lock_views(held)
    }

    /// Releases the locks of panes that ended while no daemon ran.
    pub(crate) async fn release_locks_of_ended_panes(&self) {
        let owners = self.locks.apply(|table, _| {
            table.held().filter_map(|held| held.owner.pane).collect::<Vec<PaneId>>()
        });
        for pane in owners.await.unwrap_or_default() {
            let life = self.panes.get(pane).map(|pane| pane.life());
            // The locks of a pane that is still ending are released when it has ended.
            if matches!(life, None | Some(Life::Ended(_) | Life::Gone(_))) {
                self.locks.pane_ended(pane).await;
            }
        }
    }

    /// Returns the views of locks, each given with the number of requests that wait for it.
    pub(crate) fn lock_views(&self, locks: Vec<(Held, usize)>) -> Vec<LockView> {
        let names = self.pane_names(locks.iter().map(|(held, _)| &held.owner));
        let (moment, wall) = (clock::moment(), clock::now());
        let view = |(held, waiting): (Held, usize)| LockView {
            waiting,
            ..lock_view(&held, &names, moment, wall)
        };
        locks.into_iter().map(view).collect()
    }

    /// Returns the names of the panes among the owners. They are read from memory, so that lock
    /// requests do not wait for the registry.
    pub(crate) fn pane_names<'a>(&self, owners: impl Iterator<Item = &'a Owner>) -> Names {
        let named = |id| Some((id, self.panes.get(id)?.launch()?.name.clone()));
        owners.filter_map(|owner| owner.pane).filter_map(named).collect()
    }
}

/// Pairs a lock with the number of requests that wait for it.
pub(crate) fn with_waiting(table: &Table, held: Held) -> (Held, usize) {
    let waiting = table.waiting_for(&held);
    (held, waiting)
}

fn lock_view(held: &Held, names: &Names, moment: Moment, wall: Timestamp) -> LockView {
    let remaining = i128::from(held.lease.until.0) - i128::from(moment.0);
    let expires = wall.0.saturating_add(i64::try_from(remaining).unwrap_or(i64::MAX));
    LockView {
        id: held.id,
        path: held.path.shown.clone(),
        tree: held.path.tree,
        mode: held.mode,
        pane: held.owner.pane,
        name: held.owner.pane.and_then(|pane| names.get(&pane).cloned()),
        process: held.owner.process.pid,
        token: held.token,
        acquired: held.lease.acquired,
        expires: Timestamp(expires),
        automatic: held.lease.automatic,
        tag: held.tag.clone(),
        waiting: 0,
        turn: held.turn,
    }
}

/// Returns a description of a lock's owner for messages.
pub(crate) fn owner_name(owner: &Owner, names: &Names) -> String {
    match owner.pane {
        Some(pane) => match names.get(&pane) {
            Some(name) => format!("pane {name}"),
            None => format!("pane {}", pane.short()),
        },
        None => format!("process {}", owner.process.pid),
    }
}

#[cfg(test)]
mod tests {
    use model::ProcessIdentity;

    use super::*;

    #[test]
    fn owner_is_named_by_pane_name_then_pane_id_then_process() {
        let pane = PaneId::from_random([1; 16]);
        let process = ProcessIdentity { pid: 7, start: 0, boot: String::new() };
        let names = Names::from([(pane, "dev1".parse().unwrap())]);
        let in_pane = Owner { pane: Some(pane), process: process.clone() };

        assert_eq!(owner_name(&in_pane, &names), "pane dev1");
        assert_eq!(owner_name(&in_pane, &Names::new()), format!("pane {}", pane.short()));
        assert_eq!(owner_name(&Owner { pane: None, process }, &names), "process 7");
    }
}
