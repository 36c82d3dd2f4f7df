//! Ports: each pane has a block of them, and no two panes the same.

use serde::{Deserialize, Serialize};

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
