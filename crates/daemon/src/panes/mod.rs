//! Panes: started, watched, restored, stopped and retired.
//!
//! ```text
//!  launch ----> spawn ----> keeper process        restore does the same from the launch record
//!     |                         |
//!     v                         v
//!  Panes (all known panes) <-- reap (one task per live pane waits for its keeper to exit)
//!     |
//!     +-- conversations   which pane has which conversation
//!     +-- ports           port blocks, leased for the lifetime of a pane
//!     +-- workspaces      directories that panes work in
//!     +-- probes          versions and abilities of the installed agent programs
//! ```
//!
//! Whether a pane is live is derived from its keeper process and never stored. Other services learn
//! about the life of panes through [`crate::lifecycle`].

pub(crate) mod conversation;
pub(crate) mod conversation_files;
pub(crate) mod error;
mod follow;
mod hook_files;
pub(crate) mod keepers;
pub(crate) mod launch;
pub(crate) mod limits;
pub(crate) mod pane;
mod ports;
pub(crate) mod probe;
mod reap;
pub(crate) mod removal;
pub(crate) mod replay;
mod restore;
pub(crate) mod retire;
mod spawn;
pub(crate) mod state_check;
pub(crate) mod stop;
pub(crate) mod usage;
pub(crate) mod view;
pub(crate) mod workspace;

use std::collections::HashMap;
use std::sync::Arc;

use host::pane_dirs::DigestCache;
use host::store::StoreError;
use model::PaneId;
use parking_lot::Mutex;

pub(crate) use self::conversation::{Conversations, Tracking};
pub(crate) use self::follow::AgentUpdates;
use self::keepers::Keepers;
pub(crate) use self::pane::{Keeper, Life, Pane, PaneStatus, log_dir};
use self::ports::Ports;
use self::probe::Probes;
use self::workspace::Workspaces;
use crate::lifecycle::Lifecycle;
use crate::registry::{Registry, Rows};
use crate::runtime::Runtime;
use crate::sessions::Sessions;

/// The service that starts, watches, restores and removes panes.
pub(crate) struct Panes {
    runtime: Arc<Runtime>,
    registry: Registry,
    lifecycle: Lifecycle,
    sessions: Arc<Sessions>,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) ports: Ports,
    pub(crate) probes: Arc<Probes>,
    pub(crate) workspaces: Workspaces,
    pub(crate) keepers: Keepers,
    known: Mutex<HashMap<PaneId, Arc<Pane>>>,
    /// DigestCache of the user's files that were copied into panes.
    digests: Arc<DigestCache>,
    /// Serialises the handling of limit reports, so that each is recorded once.
    limit_reports: tokio::sync::Mutex<()>,
}

impl Panes {
    /// Creates the service without panes. Also returns the receiver for [`Panes::follow_agents`].
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        registry: Registry,
        lifecycle: Lifecycle,
        sessions: Arc<Sessions>,
    ) -> (Self, AgentUpdates) {
        let (conversations, changes) =
            Conversations::new(Arc::clone(&runtime), registry.clone(), lifecycle.clone());
        let panes = Self {
            conversations: Arc::new(conversations),
            ports: Ports::new(runtime.root.clone(), registry.clone()),
            probes: Arc::new(Probes::new(Arc::clone(&runtime))),
            workspaces: Workspaces::new(Arc::clone(&runtime), registry.clone()),
            keepers: Keepers::default(),
            known: Mutex::default(),
            digests: Arc::default(),
            limit_reports: tokio::sync::Mutex::default(),
            runtime,
            registry,
            lifecycle,
            sessions,
        };
        (panes, changes)
    }

    /// Returns the pane with this id, if the daemon knows it.
    pub(crate) fn get(&self, id: PaneId) -> Option<Arc<Pane>> {
        self.known.lock().get(&id).cloned()
    }

    /// Makes a pane known.
    pub(crate) fn add(&self, pane: Arc<Pane>) {
        self.known.lock().insert(pane.id, pane);
    }

    /// Forgets a removed pane and releases its ports.
    pub(crate) fn forget(&self, id: PaneId) {
        self.known.lock().remove(&id);
        self.ports.release(id);
    }

    /// Returns every known pane, live or not.
    pub(crate) fn all(&self) -> Vec<Arc<Pane>> {
        self.known.lock().values().cloned().collect()
    }

    /// Returns whether this is a known pane and live. Blocks.
    pub(crate) fn is_live(&self, id: PaneId) -> bool {
        self.get(id).is_some_and(|pane| pane.status().state.is_live())
    }

    /// Returns the number of live panes. Blocks.
    pub(crate) fn count_live(&self) -> usize {
        self.all().iter().filter(|pane| pane.status().state.is_live()).count()
    }

    /// Reads all sessions and panes that are visible to clients.
    pub(crate) async fn rows(&self) -> Result<Rows, StoreError> {
        let mut rows = self.registry.rows().await?;
        // A creation that failed leaves its entry if the registry could not be written.
        rows.panes.retain(|pane| pane.announced || self.get(pane.id).is_some());
        Ok(rows)
    }
}
