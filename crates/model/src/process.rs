//! What makes a process that very process.

use serde::{Deserialize, Serialize};

/// A process, told apart from every other one that had or will have its number.
///
/// Numbers are reused within one boot, and start times repeat across boots; the three together
/// are not reused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The number.
    pub pid: u32,
    /// When it started, in clock ticks since boot, as the kernel counts them.
    pub start: u64,
    /// The boot during which it ran.
    pub boot: String,
}
