//! The keeper processes of panes, by pid: how a client is recognised as a process of a pane.
//!
//! A keeper is known from the moment it is spawned, because its pane's program may connect before
//! the keeper reports that it is ready.

use std::collections::HashMap;

use host::file::FileError;
use host::process;
use model::{PaneId, ProcessIdentity};
use parking_lot::Mutex;

use super::spawn::StartingKeeper;

/// A keeper process, and the first process of its pane once that is known.
#[derive(Clone, Copy, Debug)]
struct Known {
    pane: PaneId,
    /// Start time of the keeper, so that a reused pid is not mistaken for it.
    start: u64,
    /// The pid of the pane's first process, which is also the id of its terminal session.
    head: Option<u32>,
}

/// The index of keepers.
#[derive(Debug, Default)]
pub(crate) struct Keepers(Mutex<HashMap<u32, Known>>);

impl Keepers {
    /// Starts a keeper and adds it. Look-ups wait meanwhile, so that the program of the pane is never
    /// seen without its keeper.
    ///
    /// # Errors
    ///
    /// That of `start`.
    pub(super) fn start(
        &self,
        pane: PaneId,
        start: impl FnOnce() -> Result<StartingKeeper, FileError>,
    ) -> Result<StartingKeeper, FileError> {
        let mut known = self.0.lock();
        let starting = start()?;
        if let Some(stat) = process::stat(starting.pid()) {
            known.insert(stat.pid, Known { pane, start: stat.start, head: None });
        }
        Ok(starting)
    }

    /// Adds a keeper that is ready or was adopted.
    pub(crate) fn ready(&self, pane: PaneId, keeper: &ProcessIdentity, head: &ProcessIdentity) {
        let known = Known { pane, start: keeper.start, head: Some(head.pid) };
        self.0.lock().insert(keeper.pid, known);
    }

    /// Removes the keepers of a pane that has ended.
    pub(super) fn ended(&self, pane: PaneId) {
        self.0.lock().retain(|_, known| known.pane != pane);
    }

    /// Returns the pane whose keeper has this pid and start time.
    pub(crate) fn pane_of_keeper(&self, pid: u32, start: u64) -> Option<PaneId> {
        self.0.lock().get(&pid).filter(|known| known.start == start).map(|known| known.pane)
    }

    /// Returns the pane whose terminal session has this id.
    pub(crate) fn pane_of_session(&self, session: u32) -> Option<PaneId> {
        let known = self.0.lock();
        known.values().find(|known| known.head == Some(session)).map(|known| known.pane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeper_with_another_start_time_is_not_recognised() {
        let (keepers, pane) = (Keepers::default(), PaneId::from_random([1; 16]));
        let identity = |pid, start| ProcessIdentity { boot: "b".to_owned(), pid, start };
        keepers.ready(pane, &identity(7, 100), &identity(8, 101));

        assert_eq!(keepers.pane_of_keeper(7, 100), Some(pane));
        assert_eq!(keepers.pane_of_keeper(7, 99), None, "the pid was reused");
        assert_eq!(keepers.pane_of_session(8), Some(pane));

        keepers.ended(pane);
        assert_eq!(keepers.pane_of_keeper(7, 100), None);
    }
}
