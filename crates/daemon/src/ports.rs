//! Ports of panes: leased when a pane is made, kept over its restores, free again when it is gone.
//!
//! The launch records say which pane has which; this is what they say, in memory, from recovery on.
//! A block is held here before anybody else is asked, so two panes that are made at the same time
//! cannot get the same.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use host::ports;
use model::PaneId;
use model::config::PortsConfig;
use model::event::Happening;
use model::launch::Unplannable;
use model::ports::{Leases, PortBlock};
use tracing::warn;

use crate::pane::Pane;
use crate::supervisor::{Supervisor, run_blocking};

/// Which pane has which ports.
#[derive(Debug, Default)]
pub(crate) struct Ports(Mutex<Leases>);

impl Ports {
    fn lock(&self) -> MutexGuard<'_, Leases> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pane that was found has these.
    pub(crate) fn hold(&self, pane: PaneId, block: PortBlock) {
        self.lock().hold(pane, block);
    }

    /// A pane is gone.
    pub(crate) fn release(&self, pane: PaneId) {
        self.lock().release(pane);
    }
}

impl Supervisor {
    /// Ports for a new pane on which nobody listens, unless the user wants none. Blocks.
    ///
    /// # Errors
    ///
    /// [`Unplannable::NoPorts`] if every block is held or in use.
    pub(crate) fn lease_ports(
        &self,
        pane: PaneId,
        config: PortsConfig,
    ) -> Result<Option<PortBlock>, Unplannable> {
        if config.count == 0 {
            return Ok(None);
        }
        let mut first = DefaultHasher::new();
        self.root.path().hash(&mut first);
        let mut leases = self.ports.lock();
        let find = |kernel| {
            let mut blocks = leases.candidates(config, kernel, first.finish());
            blocks.find(|block| ports::is_block_free(*block))
        };
        // On some machines the kernel gives away nearly all of them. Those are better than none.
        let found = find(ports::given_away()).or_else(|| find(None));
        let block = found.ok_or(Unplannable::NoPorts(config))?;
        leases.hold(pane, block);
        Ok(Some(block))
    }

    /// Tells if somebody took ports of a pane while it was down. They stay the pane's: what it
    /// was told must not change, and who took them may be gone again before it asks for them.
    pub(crate) async fn check_ports(&self, pane: &Pane) {
        let Some(block) = pane.launch().and_then(|launch| launch.ports) else { return };
        let taken = run_blocking(move || ports::taken(block)).await;
        if taken.is_empty() {
            return;
        }
        warn!(pane = %pane.id, ?taken, "somebody else listens on its ports");
        let told = Happening::PortsTaken { pane: pane.id, ports: taken };
        if let Err(error) = self.registry.change(move |change| change.emit(told)).await {
            warn!(%error, "an event is not recorded");
        }
    }
}
