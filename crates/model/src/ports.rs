//! Ports: each pane has its own block.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::PaneId;

/// The port range for panes (`[ports]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortsConfig {
    /// The first port of the range.
    pub base: u16,
    /// The last port of the range.
    pub end: u16,
    /// The number of ports per pane; 0 for none.
    pub count: u16,
}

impl Default for PortsConfig {
    /// Below the usual ephemeral ports of the kernel (32768 and up) and above most services.
    fn default() -> Self {
        Self { base: 20_000, end: 32_767, count: 10 }
    }
}

/// A block of consecutive ports that belongs to one pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortBlock {
    /// The first port.
    pub base: u16,
    /// The number of ports.
    pub count: u16,
}

impl PortBlock {
    /// Returns the last port.
    #[must_use]
    pub fn last(self) -> u16 {
        self.base.saturating_add(self.count.saturating_sub(1))
    }

    /// Returns all ports.
    pub fn ports(self) -> impl Iterator<Item = u16> {
        self.base..=self.last()
    }

    /// Returns true if the blocks have a port in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.base <= other.last() && other.base <= self.last()
    }
}

/// The assignment of port blocks to panes.
///
/// # Invariant
///
/// [`Leases::candidates`] never returns a block that overlaps with a held one. If the caller holds
/// a candidate before the next call, no two panes share a port.
#[derive(Clone, Debug, Default)]
pub struct Leases(BTreeMap<PaneId, PortBlock>);

impl Leases {
    /// Assigns a block to a pane, replacing the pane's previous one.
    pub fn hold(&mut self, pane: PaneId, block: PortBlock) {
        self.0.insert(pane, block);
    }

    /// Releases the block of a pane.
    pub fn release(&mut self, pane: PaneId) {
        self.0.remove(&pane);
    }

    /// Returns the blocks that no pane holds, in the order in which to try them.
    ///
    /// `kernel` is the range of ephemeral ports, which are skipped because a free one may be taken
    /// at any time. `first` rotates the order, so that the daemons of several users do not all
    /// start with the same block.
    pub fn candidates(
        &self,
        config: PortsConfig,
        kernel: Option<(u16, u16)>,
        first: u64,
    ) -> impl Iterator<Item = PortBlock> {
        let PortsConfig { base, end, count } = config;
        let room = u64::from(end.saturating_sub(base)) + u64::from(end >= base);
        let blocks = room.checked_div(u64::from(count)).unwrap_or(0);
        let kernel = kernel.map(|(from, to)| PortBlock {
            base: from,
            count: to.saturating_sub(from).saturating_add(1),
        });
        (0..blocks)
            .map(move |n| {
                let offset = (first.wrapping_add(n) % blocks) * u64::from(count);
                let offset = u16::try_from(offset).expect("the offset is within the port range");
                PortBlock { base: base + offset, count }
            })
            .filter(move |block| kernel.is_none_or(|kernel| !kernel.overlaps(*block)))
            .filter(|block| !self.0.values().any(|held| held.overlaps(*block)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONFIG: PortsConfig = PortsConfig { base: 20_000, end: 20_049, count: 10 };

    fn bases(leases: &Leases, kernel: Option<(u16, u16)>, first: u64) -> Vec<u16> {
        leases.candidates(CONFIG, kernel, first).map(|block| block.base).collect()
    }

    #[test]
    fn candidates_rotate_and_skip_held_and_ephemeral_blocks() {
        let mut leases = Leases::default();
        assert_eq!(bases(&leases, None, 3), [20_030, 20_040, 20_000, 20_010, 20_020]);

        leases.hold(PaneId::from_random([1; 16]), PortBlock { base: 20_005, count: 10 });
        assert_eq!(bases(&leases, None, 0), [20_020, 20_030, 20_040], "held block is not aligned");
        assert_eq!(bases(&leases, Some((20_039, 60_999)), 0), [20_020]);

        leases.release(PaneId::from_random([1; 16]));
        assert_eq!(bases(&leases, None, 0).len(), 5);
    }

    #[test]
    fn candidates_of_a_range_without_room_are_empty() {
        let leases = Leases::default();
        let none = |base, end, count| {
            leases.candidates(PortsConfig { base, end, count }, None, 7).next().is_none()
        };
        assert!(none(20_000, 20_008, 10) && none(20_001, 20_000, 1) && none(20_000, 29_999, 0));
        let last = PortsConfig { base: 65_000, end: 65_535, count: 10 };
        assert!(leases.candidates(last, None, 9).all(|block| block.last() > block.base));
    }

    proptest! {
        /// Panes come and go and the configuration changes.
        #[test]
        fn no_two_panes_share_a_port(
            steps in proptest::collection::vec((0_u8..12, 1_u16..12, any::<u64>()), 1..60)
        ) {
            let mut leases = Leases::default();
            for (n, count, first) in steps {
                let pane = PaneId::from_random([n; 16]);
                leases.release(pane);
                let config = PortsConfig { count, ..CONFIG };
                if let Some(block) = { leases.candidates(config, None, first).next() } {
                    leases.hold(pane, block);
                }
                let mut ports: Vec<u16> = leases.0.values().flat_map(|block| block.ports()).collect();
                let all = ports.len();
                ports.sort_unstable();
                ports.dedup();
                prop_assert_eq!(ports.len(), all);
            }
        }
    }
}
