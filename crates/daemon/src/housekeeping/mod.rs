//! Housekeeping: the trash, orphaned directories, and the files derived from the registry.

pub(crate) mod finding;
mod saved_state;
mod session_index;
mod sweep;
pub(crate) mod trash_survey;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use model::PaneId;
use parking_lot::Mutex;

use self::saved_state::{PendingSaves, Urgency};
use crate::coordination::Coordination;
use crate::lifecycle::Observer;
use crate::panes::Panes;
use crate::registry::Registry;
use crate::runtime::Runtime;
use crate::sessions::Sessions;

/// Removes directories that are no longer needed, and keeps derived files up to date.
pub(crate) struct Housekeeping {
    runtime: Arc<Runtime>,
    registry: Registry,
    sessions: Arc<Sessions>,
    panes: Arc<Panes>,
    coordination: Arc<Coordination>,
    /// Held while directories in the state root are moved or deleted.
    pub(crate) cleanup_lock: tokio::sync::Mutex<()>,
    /// Paths that could not be removed and were already reported.
    reported: Mutex<HashSet<PathBuf>>,
    /// Panes whose saved state is out of date.
    pending_saves: PendingSaves,
}

impl Housekeeping {
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        registry: Registry,
        sessions: Arc<Sessions>,
        panes: Arc<Panes>,
        coordination: Arc<Coordination>,
    ) -> Self {
        Self {
            runtime,
            registry,
            sessions,
            panes,
            coordination,
            cleanup_lock: tokio::sync::Mutex::default(),
            reported: Mutex::default(),
            pending_saves: PendingSaves::default(),
        }
    }
}

impl Observer for Housekeeping {
    fn pane_transitioned(&self, pane: PaneId) {
        self.pending_saves.add(pane, Urgency::Immediate);
    }

    fn pane_changed(&self, pane: PaneId) {
        self.pending_saves.add(pane, Urgency::Deferred);
    }
}
