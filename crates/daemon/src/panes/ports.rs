//! Ports of panes: leased when a pane is created, kept across restores, released when it is removed.
//!
//! The launch records store the leases; this is their copy in memory, filled by recovery. A lease is
//! taken under a lock, so two panes that are created at the same time cannot get the same block.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use host::{StateRoot, ports};
use model::PaneId;
use model::config::PortsConfig;
use model::event::EventBody;
use model::launch::LaunchError;
use model::ports::{Leases, PortBlock};
use parking_lot::Mutex;
use tracing::warn;

use super::pane::Pane;
use crate::registry::Registry;
use crate::runtime::run_blocking;

/// The port leases of all panes.
pub(crate) struct Ports {
    root: StateRoot,
    registry: Registry,
    leases: Mutex<Leases>,
}

impl Ports {
    pub(super) fn new(root: StateRoot, registry: Registry) -> Self {
        Self { root, registry, leases: Mutex::default() }
    }

    /// Registers the block of a pane that recovery found.
    pub(crate) fn hold(&self, pane: PaneId, block: PortBlock) {
        self.leases.lock().hold(pane, block);
    }

    /// Releases the block of a removed pane.
    pub(crate) fn release(&self, pane: PaneId) {
        self.leases.lock().release(pane);
    }

    /// Leases a block of unused ports for a new pane. Returns `None` if ports are disabled. Blocks.
    ///
    /// # Errors
    ///
    /// [`LaunchError::NoPorts`] if every block is leased or in use.
    pub(crate) fn lease(
        &self,
        pane: PaneId,
        config: PortsConfig,
    ) -> Result<Option<PortBlock>, LaunchError> {
        if config.count == 0 {
            return Ok(None);
        }
        // Different state roots start their search at different blocks.
        let mut hasher = DefaultHasher::new();
        self.root.path().hash(&mut hasher);
        let mut leases = self.leases.lock();
        let find = |ephemeral| {
            let mut blocks = leases.candidates(config, ephemeral, hasher.finish());
            blocks.find(|block| ports::is_block_free(*block))
        };
        // Ports of the ephemeral range are a fallback: on some machines it covers nearly all ports.
        let found = find(ports::ephemeral_range()).or_else(|| find(None));
        let block = found.ok_or(LaunchError::NoPorts(config))?;
        leases.hold(pane, block);
        Ok(Some(block))
    }

    /// Records an event if another process listens on the ports of an ended pane. The lease does not
    /// change: the pane's environment names these ports, and the other process may exit before the
    /// pane uses them.
    pub(crate) async fn check(&self, pane: &Pane) {
        let Some(block) = pane.launch().and_then(|launch| launch.ports) else { return };
        let taken = run_blocking(move || ports::taken(block)).await;
        if taken.is_empty() {
            return;
        }
        warn!(pane = %pane.id, ?taken, "ports in use by another process");
        let event = EventBody::PortsTaken { pane: pane.id, ports: taken };
        self.registry.record(event).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lease_never_returns_a_block_of_another_pane() {
        let home = tempfile::tempdir().unwrap();
        let (runtime, registry) = crate::runtime::testing::empty(&home.path().join("home"));
        let ports = Ports::new(runtime.root.clone(), registry);
        let [first, second] = [1, 2].map(|n| PaneId::from_random([n; 16]));
        let config = PortsConfig::default();

        let block = ports.lease(first, config).unwrap().unwrap();
        let other = ports.lease(second, config).unwrap().unwrap();
        ports.release(first);
        let again = ports.lease(first, config).unwrap().unwrap();

        assert_ne!(block, other);
        assert_ne!(again, other);
        let disabled = PortsConfig { count: 0, ..config };
        assert_eq!(ports.lease(second, disabled).unwrap(), None);
    }
}
