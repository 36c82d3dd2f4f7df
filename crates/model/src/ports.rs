//! Ports: each pane has a block of them, and no two panes the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::PortsConfig;
use crate::ids::PaneId;

/// Neighbouring ports that belong to one pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortBlock {
    /// The first.
    pub base: u16,
    /// How many.
    pub count: u16,
}

impl PortBlock {
    /// The last.
    #[must_use]
    pub fn last(self) -> u16 {
        self.base.saturating_add(self.count.saturating_sub(1))
    }

    /// Every port of it.
    pub fn ports(self) -> impl Iterator<Item = u16> {
        self.base..=self.last()
    }

    /// Whether a port is in both.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.base <= other.last() && other.base <= self.last()
    }
}

/// Which pane has which ports.
///
/// # Invariant
///
/// What [`Leases::candidates`] offers overlaps with no block that is held, so whoever holds one of
/// them before anybody else is asked has ports that no other pane has.
#[derive(Clone, Debug, Default)]
pub struct Leases(BTreeMap<PaneId, PortBlock>);

impl Leases {
    /// Remembers whose a block is, in place of the one that the pane had.
    pub fn hold(&mut self, pane: PaneId, block: PortBlock) {
        self.0.insert(pane, block);
    }

    /// Forgets what a pane had.
    pub fn release(&mut self, pane: PaneId) {
        self.0.remove(&pane);
    }

    /// Blocks that no pane has, in the order in which to try them.
    ///
    /// `kernel` are the ports that the kernel gives to whoever asks for none in particular: what is
    /// free among them now may be somebody's in a moment. `first` says where in the range to
    /// begin, so that the daemons of several users do not all begin at the same place.
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
                let offset = u16::try_from(offset).expect("it lies within the range of ports");
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
    fn blocks_are_offered_once_around_without_those_of_others_and_of_the_kernel() {
        let mut leases = Leases::default();
        assert_eq!(bases(&leases, None, 3), [20_030, 20_040, 20_000, 20_010, 20_020]);

        leases.hold(PaneId::from_random([1; 16]), PortBlock { base: 20_005, count: 10 });
        assert_eq!(bases(&leases, None, 0), [20_020, 20_030, 20_040], "of another size");
        assert_eq!(bases(&leases, Some((20_039, 60_999)), 0), [20_020]);

        leases.release(PaneId::from_random([1; 16]));
        assert_eq!(bases(&leases, None, 0).len(), 5);
    }

    #[test]
    fn a_range_without_room_offers_nothing() {
        let leases = Leases::default();
        let none = |base, end, count| {
            leases.candidates(PortsConfig { base, end, count }, None, 7).next().is_none()
        };
        assert!(none(20_000, 20_008, 10) && none(20_001, 20_000, 1) && none(20_000, 29_999, 0));
        let last = PortsConfig { base: 65_000, end: 65_535, count: 10 };
        assert!(leases.candidates(last, None, 9).all(|block| block.last() > block.base));
    }

    proptest! {
        /// However panes come and go and the configuration changes, no port has two panes.
        #[test]
        fn no_port_is_ever_two_panes(
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
